"""The archive of episodes and the bridge, as lines for a person."""

from collections.abc import Iterator, Mapping

from tulving.interfaces.cli.layers import duration
from tulving.interfaces.cli.terminal import Line
from tulving.interfaces.wording import counted
from tulving.services.bridge import BridgeStatus
from tulving.services.timeline import Rotated

BECAME = {
    "ingested": "became facts",
    "duplicates": "known already",
    "skipped": "not important enough, or gone",
    "unwanted": "forgotten as facts before",
    "failed": "failed",
}
FATES = {
    "demoted": "believed half",
    "forgotten": "forgotten",
    "deleted": "deleted",
    "kept": "kept for other evidence",
}


def rotated(result: Rotated, dry_run: bool) -> Iterator[Line]:
    """What was archived, merged and deleted, or would be."""
    archived, deleted = ("would archive", "would delete") if dry_run else ("archived", "deleted")
    segments = counted(result["segments"], "segment")
    done = {
        "archived": f"{archived} {counted(result['archived'], 'episode')} in {segments}",
        "merged": f"merged {counted(result['merged'], 'small segment')}",
        "pruned": f"{deleted} {counted(result['pruned'], 'episode')} past the retention",
    }
    yield 0, "; ".join(said for name, said in done.items() if result[name]) or "nothing to archive"
    if result["damaged"]:
        yield 0, (f"{counted(result['damaged'], 'segment')} can't be read; `tulving health` says more", "yellow")


def bridged(status: BridgeStatus) -> Iterator[Line]:
    """Whether the bridge works, what waits for it, and what came of the events so far."""
    state = "on", "green"
    if not status.enabled:
        state = "off; the setting bridge.enabled switches it on", ""
    elif status.suspended:
        state = f"suspended until the timeline is well again: {status.suspended}", "yellow"
    yield 0, ("bridge   ", "dim"), state
    since = f", the oldest for {duration(status.timeline_lag_ms)}" if status.waiting else ""
    yield 0, ("waiting  ", "dim"), f"{counted(status.waiting, 'event')}{since}"
    yield 0, ("handled  ", "dim"), counted(status.handled, "event"), _each(status, BECAME)
    if gone := _each(status, FATES):
        yield 0, ("gone     ", "dim"), f"facts of episodes that are gone{gone}"


def _each(status: BridgeStatus, names: Mapping[str, str]) -> str:
    said = ", ".join(f"{count:,} {word}" for name, word in names.items() if (count := getattr(status, name)))
    return f": {said}" if said else ""
