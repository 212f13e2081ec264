"""What the beginning of an id may stand for, among what a connection may read."""

from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

from tulving.domain.model import KINDS
from tulving.domain.scope import Bound
from tulving.storage import runs
from tulving.storage.connection import Connection
from tulving.storage.filters import of_tenant, reach
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

_LAST = 32


def find(
    conn: Connection, tenant_id: str, bound: Bound, nouns: Sequence[str], start: str, limit: int
) -> list[tuple[str, UUID]]:
    """The ids that begin with these hex digits, of things that are called by these nouns; at most so many of each. It
    is a range of the primary key, on both engines."""
    ends = {"low": UUID(start.ljust(_LAST, "0")), "high": UUID(start.ljust(_LAST, "f")), "limit": limit}
    found: list[tuple[str, UUID]] = []
    for noun in nouns:
        table, condition = PLACES[noun]
        where, params = condition(tenant_id, bound)
        rows = conn.fetch_all(
            f"SELECT m.id FROM {table} AS m WHERE {where} AND m.id BETWEEN :low AND :high ORDER BY m.id LIMIT :limit",
            {**params, **ends},
        )
        found += [(noun, row["id"]) for row in rows]
    return found


def _of_run(tenant_id: str, bound: Bound, column: str = "m.id") -> tuple[str, Row]:
    """A run or what it proposes is reached as `runs.reach` says."""
    condition, params = runs.reach(bound)
    mine = f"{column} IN (SELECT id FROM learning_runs WHERE tenant_id = :tenant_id AND {condition})"
    return f"m.tenant_id = :tenant_id AND {mine}" if params else "m.tenant_id = :tenant_id", {
        "tenant_id": tenant_id,
        **params,
    }


PLACES: dict[str, tuple[str, Callable[[str, Bound], tuple[str, Row]]]] = {
    **{kind: (KIND[kind].table, partial(reach, kind)) for kind in KINDS},
    "entity": ("entities", lambda tenant_id, bound: of_tenant(tenant_id, "TRUE")),
    "conflict": ("settlements", partial(reach, "fact")),
    "session": ("sessions", partial(reach, "episode")),
    "run": ("learning_runs", _of_run),
    "proposal": ("proposals", partial(_of_run, column="m.run_id")),
}
"""The table of each noun, and which of its rows a connection may read."""
