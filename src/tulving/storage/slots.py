"""Keyed facts in the order of their slots: by subject, and then by predicate."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tulving.domain import claims
from tulving.domain.model import Fact
from tulving.domain.scope import Filter
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND

# As in the index ix_facts_slot.
_SUBJECT, _PREDICATE = (f"COALESCE(m.folded_{name}, m.{name})" for name in ("subject", "predicate"))


def listing(
    conn: Connection,
    tenant_id: str,
    wanted: Filter,
    subject: str | None,
    now: datetime,
    limit: int,
    after: Sequence[Any] | None,
) -> list[Fact]:
    """One page of keyed facts in the order of `claims.place`; `after` is the place of the last one of the previous
    page."""
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    if subject is not None:
        where += f" AND {_SUBJECT} IN (:folded_subject, :subject)"
        params |= {"subject": subject, "folded_subject": claims.folded(subject)}
    if after is not None:  # not `behind`: for a row of expressions SQLite does not use the index
        where += (
            f" AND {_SUBJECT} >= :after_subject AND ({_SUBJECT} > :after_subject OR {_PREDICATE} > :after_predicate"
            f" OR {_PREDICATE} = :after_predicate AND m.id > :after_id)"
        )
        params |= dict(zip(("after_subject", "after_predicate", "after_id"), after, strict=True))
    rows = conn.fetch_all(
        f"{KIND['fact'].select} WHERE {where} AND m.keyed ORDER BY {_SUBJECT}, {_PREDICATE}, m.id LIMIT :limit",
        {**params, "limit": limit},
    )
    return [Fact(**row) for row in rows]
