"""Counts of memories by day."""

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from string import ascii_lowercase

from tulving.domain.days import DAY
from tulving.domain.model import KINDS, Kind
from tulving.domain.scope import Bound, Filter
from tulving.storage.connection import Connection
from tulving.storage.filters import reach, visible
from tulving.storage.kinds import KIND
from tulving.storage.rows import Row

MOST_A_DAY = 10_000
"""At most so many are counted per day, so that a chart of many days does not read every memory."""


def stored(conn: Connection, tenant_id: str, bound: Bound, days: Sequence[datetime]) -> list[dict[Kind, int]]:
    """How many memories of each kind were stored on each day, in any state."""
    counts: dict[Kind, list[int]] = {}
    for kind in KINDS:
        where, params = reach(kind, tenant_id, bound)
        counts[kind] = between(conn, kind, where, "m.created_at", params, ends(days))
    return [{kind: counts[kind][number] for kind in KINDS} for number in range(len(days))]


def happened(conn: Connection, tenant_id: str, wanted: Filter, days: Sequence[datetime], now: datetime) -> list[int]:
    """How many episodes are dated on each day."""
    where, params = visible(conn, "episode", tenant_id, wanted, now)
    return between(conn, "episode", where, KIND["episode"].dated_by, params, ends(days))


def ends(days: Sequence[datetime]) -> list[datetime]:
    """The beginnings of days, and the end of the last one."""
    return [*days, days[-1] + DAY]


def between(
    conn: Connection, kind: Kind, where: str, at: str, params: Row, times: Sequence[datetime], index: str = ""
) -> list[int]:
    """How many memories have a time, `at`, between each of these times and the next one; at most `MOST_A_DAY`."""
    # The names of parameters have no digits.
    names = [f"time_{ascii_lowercase[number // 26]}{ascii_lowercase[number % 26]}" for number in range(len(times))]
    counts = [
        f"(SELECT COUNT(*) FROM (SELECT 1 FROM {KIND[kind].table} AS m{index} WHERE {where} AND {at} >= :{begin}"
        f" AND {at} < :{end} LIMIT {MOST_A_DAY}) AS of_day) AS {begin}"
        for begin, end in pairwise(names)
    ]
    row = conn.fetch_one(f"SELECT {', '.join(counts)}", {**params, **dict(zip(names, times, strict=True))})
    assert row is not None
    return [row[name] for name in names[:-1]]
