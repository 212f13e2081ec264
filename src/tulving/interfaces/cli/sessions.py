"""`tulving sessions`: which stretches of work there were, what was made in them, and starting and ending one."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tulving.domain.model import SESSION_STATUSES, Page, Session
from tulving.domain.text import shortened
from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.cli.options import AsJson, Cursor
from tulving.interfaces.cli.terminal import Line, lines, moment, more, print_json
from tulving.interfaces.wire import wire
from tulving.services.memory import Memory
from tulving.services.sessions import SessionReport

LONGEST_SUMMARY = 400
STYLES = {"active": "green", "completed": "cyan", "abandoned": "yellow"}
ALLOWED = "list, start, show ID, end ID"


def sessions(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="list|start|show ID|end ID", help="What to do [default: list], and with which one"),
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="|".join(SESSION_STATUSES), help="List only these")] = None,
    project: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Start one of this project, or list only its")
    ] = None,
    butler: Annotated[str | None, typer.Option(metavar="TEXT", help="Start one of this agent")] = None,
    summary: Annotated[str | None, typer.Option(metavar="TEXT", help="End it with this: what was done")] = None,
    tool_calls: Annotated[
        str | None, typer.Option(metavar="NUMBER|JSON", help='End it with these: a number, or {"edit": 3}')
    ] = None,
    limit: Annotated[int, typer.Option(metavar="NUMBER", help="How many are listed, the newest first")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions of agents and what was made in them; start, show or end one. Pass the id of a session that you
    start here to the commands that store, as --session-id."""
    match words or ["list"]:
        case ["list"]:
            found = context.obj.run(lambda memory: memory.sessions(status, project, limit, cursor))
            if as_json:
                print_json({"sessions": wire(found.items), "next_cursor": found.next_cursor})
            else:
                lines(listed(found))
        case ["start"]:
            started = context.obj.run(lambda memory: memory.start_session(project, butler), stores=True)
            _told(started, as_json, "started")
        case ["end", id_]:
            calls = _calls(tool_calls)

            async def end(memory: Memory) -> Session:
                _, whole = await memory.complete_id(id_, ("session",))
                return await memory.end_session(whole, summary, calls)

            _told(context.obj.run(end), as_json, "ended")
        case ["show", id_]:
            report = context.obj.run(lambda memory: _find(memory, id_))
            if as_json:
                print_json(wire(report))
            else:
                lines(_shown(report))
        case other:
            raise InvalidInput("sessions", f"{' '.join(other)!r:.80} is not known", ALLOWED)


async def _find(memory: Memory, id_: str) -> SessionReport:
    _, whole = await memory.complete_id(id_, ("session",))
    if (report := await memory.get_session(whole)) is None:
        raise NotFound(f"there is no session {id_}")
    return report


def _calls(given: str | None) -> Any:
    try:
        return None if given is None else json.loads(given)
    except (ValueError, RecursionError):
        raise InvalidInput("tool_calls", f"{given!r:.80} is not known", 'a number, or {"edit": 3}') from None


def _told(session: Session, as_json: bool, done: str) -> None:
    if as_json:
        print_json(wire(session))
    else:
        lines([(0, (done, "green"), f" session {session.id}")])


def listed(found: Page[SessionReport]) -> Iterator[Line]:
    """Each session: when it was, what came of it, and how many memories of each kind were made in it."""
    for report in found:
        session = report.session
        about = " · ".join(filter(None, (session.project, session.butler)))
        status = session.status, STYLES[session.status]
        yield 0, (moment(session.started_at), "dim"), "  ", status, f"  {about}" if about else ""
        if session.summary:
            yield 2, shortened(" ".join(session.summary.split()), LONGEST_SUMMARY)
        yield 2, (f"{_made(report)} · {session.id}", "dim")
    if not found:
        yield 0, "no sessions"
    yield from more(found.next_cursor)


def _shown(report: SessionReport) -> Iterator[Line]:
    session = report.session
    yield 0, ("session", "bold"), "  ", (str(session.id), "bold"), "  ", (session.status, STYLES[session.status])
    if session.summary:
        yield 2, session.summary
    by_tool = session.metadata.get("tool_calls")
    counts = sorted(by_tool.items()) if isinstance(by_tool, dict) else ()
    each = f" ({', '.join(f'{tool} {calls}' for tool, calls in counts)})" if counts else ""
    for name, value in (
        ("project", session.project),
        ("butler", session.butler),
        ("started", moment(session.started_at)),
        ("ended", session.ended_at and moment(session.ended_at)),
        ("made", _made(report)),
        ("tool calls", f"{session.tool_calls}{each}" if session.tool_calls else None),
    ):
        if value:
            yield 2, (name.ljust(12), "dim"), value


def _made(report: SessionReport) -> str:
    made = [f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in report.memories.items() if count]
    return ", ".join(made) or "no memories"
