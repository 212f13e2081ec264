"""`tulving verify`: whether everything in the store agrees with everything else."""

from typing import TYPE_CHECKING

import typer

from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import FAILED, print_json, table, warn
from tulving.interfaces.wire import wire

if TYPE_CHECKING:
    from tulving.services.maintenance import Verification
    from tulving.services.memory import Memory


def verify(context: typer.Context, as_json: AsJson = False) -> None:
    """Check the database, its keyword index and its vectors against the memories, and the embedder's weights."""
    verification, warning = context.obj.administer(_verify)
    if as_json:
        print_json({"ok": verification.ok, **wire(verification)})
    else:
        rows = [(finding.check, problem) for finding in verification.findings for problem in finding.problems or ["ok"]]
        table(rows, ("check", "result"), {problem: "green" if problem == "ok" else "red" for _, problem in rows})
        warn_of_pending(verification.pending, warning)
    if not verification.ok:
        raise typer.Exit(FAILED)


async def _verify(memory: "Memory") -> "tuple[Verification, str | None]":
    return await memory.verify(), memory.warning


def warn_of_pending(pending: int, reason: str | None) -> None:
    """Say how many memories have no vector yet, and why or what to do."""
    if pending:
        warn(f"{pending} memories wait for their vectors. {reason or 'Run `tulving reembed`.'}")
