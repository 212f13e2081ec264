"""Sessions: how long one may be idle, and how many tool calls it took."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tulving.domain import intake

MOST_CALLS = 2**31 - 1


def idle_since(as_of: datetime, hours: float) -> datetime:
    """A session with nothing new since this time has been idle for so many hours."""
    try:
        return as_of - timedelta(hours=hours)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def counted(calls: Mapping[str, int] | int) -> tuple[int, dict[str, int]]:
    """The number of tool calls, and that of each tool if it is known."""
    if not isinstance(calls, Mapping):
        return intake.whole("tool_calls", calls, 0, MOST_CALLS), {}
    by_tool = {
        intake.name("tool_calls", tool, most=200): intake.whole("tool_calls", number, 0, MOST_CALLS)
        for tool, number in calls.items()
    }
    return intake.whole("tool_calls", sum(by_tool.values()), 0, MOST_CALLS), by_tool
