"""What was said of one thing over time: the facts of a key, whatever became of them."""

from datetime import datetime

from tulving.domain.model import Fact
from tulving.domain.scope import Filter
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.rows import SELECTED, to_item


def of_key(
    conn: Connection, tenant_id: str, wanted: Filter, subject: str, predicate: str, now: datetime, limit: int
) -> list[Fact]:
    """Oldest first; when there are more than the limit, the newest of them."""
    where, params = visible(conn, "fact", tenant_id, wanted, now)
    rows = conn.fetch_all(
        f"SELECT {SELECTED['fact']} FROM facts AS m WHERE {where} AND m.subject = :subject AND m.predicate = :predicate"
        " ORDER BY m.created_at DESC, m.id DESC LIMIT :limit",
        {**params, "subject": subject, "predicate": predicate, "limit": limit},
    )
    facts = [to_item("fact", row) for row in reversed(rows)]
    return [fact for fact in facts if isinstance(fact, Fact)]
