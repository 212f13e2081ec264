"""Short references of unkeyed facts, such as fact_1a2b3c4d: unique in a tenant."""

from collections.abc import Callable, Container, Sequence
from uuid import UUID

from tulving.domain.model import Fact
from tulving.storage.connection import Connection

_BY_REF = "SELECT id, ref FROM facts WHERE tenant_id = :tenant_id AND ref = :ref"


def id_of(conn: Connection, tenant_id: str, ref: str) -> UUID | None:
    """The id behind a short reference."""
    row = conn.fetch_one(_BY_REF, {"tenant_id": tenant_id, "ref": ref})
    return row["id"] if row else None


def taken(conn: Connection, facts: Sequence[Fact]) -> set[str]:
    """Which references of new facts are in use already."""
    asked = [{"tenant_id": fact.tenant_id, "ref": fact.ref} for fact in facts if fact.ref is not None]
    return {row["ref"] for row in conn.fetch_for_each(_BY_REF, asked)} if asked else set()


def free(conn: Connection, fact: Fact, taken: Container[str], new_id: Callable[[], UUID]) -> str:
    """Eight hex digits collide now and then: try others until the reference is free."""
    ref = fact.ref or ""
    while ref in taken or (ref != fact.ref and id_of(conn, fact.tenant_id, ref) is not None):
        ref = f"fact_{new_id().hex[-8:]}"
    return ref
