"""Episodes in the order in which they happened."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tulving.domain.model import Episode
from tulving.domain.scope import Filter
from tulving.storage import timeline
from tulving.storage.connection import Connection
from tulving.storage.filters import visible
from tulving.storage.kinds import KIND

_DATED = KIND["episode"].dated_by


def listing(
    conn: Connection, tenant_id: str, wanted: Filter, now: datetime, limit: int, after: Sequence[Any] | None
) -> list[Episode]:
    """One page of episodes, the latest first; `after` is the place of the last one of the previous page."""
    where, params = visible(conn, "episode", tenant_id, wanted, now)
    if after is not None:
        where += f" AND {_DATED} <= :after_time AND ({_DATED} < :after_time OR m.id > :after_id)"
        params |= dict(zip(("after_time", "after_id"), after, strict=True))
    rows = conn.fetch_all(
        f"{KIND['episode'].select} WHERE {where} ORDER BY {_DATED} DESC, m.id LIMIT :limit", {**params, "limit": limit}
    )
    return [Episode(**row) for row in timeline.restored(conn, rows)]
