"""`tulving evict`: room in a file that has reached its limit."""

from typing import Annotated

import typer

from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import progress, report, size, warn
from tulving.interfaces.wire import wire
from tulving.services.eviction import Evicted


def evict(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be evicted")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the least recently used episodes of a file that has reached `max_size_bytes`; SQLite only.

    Facts, rules, decisions and the episodes of active sessions stay. The job index_maintenance does this every hour.
    """
    with progress("evict:") as tell:
        found: Evicted = context.obj.administer(lambda store: store.evict(dry_run, tell))
    report(wire(found), as_json, *_told(found, dry_run))
    if found.warning:
        warn(found.warning)


def _told(found: Evicted, dry_run: bool) -> list[str]:
    if found.bytes_before is None or found.bytes_after is None:
        return ["nothing   PostgreSQL has no size limit here"]
    if found.limit is None:
        return [f"nothing   {size(found.bytes_before)} are in use, without a limit"]
    if found.protected is None:
        return [f"nothing   {size(found.bytes_before)} of {size(found.limit)} are in use"]
    would, about = ("would go", "about ") if dry_run else ("evicted ", "")
    return [
        f"{would}  {found.evicted} episodes, {found.unlearned} of them not learned from yet",
        f"in use    {size(found.bytes_before)} before, {about}{size(found.bytes_after)} after;"
        f" the limit is {size(found.limit)}",
        f"protected {found.protected} episodes: decisions, and those of active sessions",
    ]
