"""`tulving learn`: facts from a conversation, with the configured model or, by pipe, with any other."""

import json
from contextlib import suppress
from typing import Annotated, Any

import typer

from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.cli import lessons
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import NOTHING, block, complain, lines, moment, print_json, read_text, remark
from tulving.interfaces.wire import wire
from tulving.interfaces.wording import counted
from tulving.services.lessons import Learned
from tulving.services.memory import Memory
from tulving.services.reviewing import RunChange


def learn(
    context: typer.Context,
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="What was said, or the answer to apply; - for standard input")
    ] = None,
    butler: Annotated[str | None, typer.Option(metavar="NAME", help="The agent that the facts are for")] = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Only print the prompt, for a model of your own")] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Learn from the answer of a model to such a prompt")] = False,
    again: Annotated[bool, typer.Option("--again", help="With --prompt: also what you have not answered yet")] = False,
    lease: Annotated[
        str | None, typer.Option(metavar="ID", help="With --apply: of which prompt [default: the newest]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn facts and the profile of a person from a conversation: lines such as `User: I moved to Berlin`, or a JSON
    list of messages.

    No key is needed where a model can be reached by pipe: tulving learn --prompt | any-model | tulving learn --apply.
    Without a FILE, that prompt is about the episodes that wait to be learned from.
    """
    if prompt and apply:
        raise InvalidInput("learn", "can't do both", "--prompt or --apply")
    if lease is not None and not apply:
        raise InvalidInput("lease", "is for an answer", "--apply --lease ID")
    if prompt:
        _print_prompt(context, _conversation(file) if file else None, butler, again, as_json)
        return
    # All parts of a pipe start at once: what the prompt was is known only when the answer has arrived.
    given = read_text(file) if apply else _conversation(file)

    async def teach(memory: Memory) -> tuple[Learned, list[RunChange]]:
        if apply:
            learned = await memory.learn_apply(given, lease=lease)
        else:
            learned = await memory.learn(given, butler=butler)
        [report] = await memory.runs(learned.run_id)
        return learned, report.changes

    learned, changes = context.obj.run(teach, stores=True)
    if as_json:
        print_json({**wire(learned), "changes": wire(changes)})
    else:
        lines(lessons.learned(learned, changes))


def _print_prompt(context: typer.Context, conversation: Any, butler: str | None, again: bool, as_json: bool) -> None:
    offered = context.obj.run(lambda memory: memory.learn_prompt(conversation, butler, again), stores=True)
    if as_json:
        print_json(wire(offered))
    elif offered.lease is not None:
        block(offered.prompt)
        about = counted(offered.episodes, "episode") if conversation is None else "the conversation"
        until = f" until {moment(offered.expires_at)}" if offered.expires_at else ""
        remark(f"a prompt about {about}; its answer is taken{until} under the lease {offered.lease}")
    if offered.lease is None:
        complain(
            NotFound(
                f"the answer to another prompt about {counted(offered.episodes, 'episode')} is awaited until"
                f" {moment(offered.expires_at)}; --again hands it out anew if it was yours"
                if offered.expires_at
                else "there is nothing to learn from: no episode waits"
            )
        )
        raise typer.Exit(NOTHING)


def _conversation(file: str | None) -> Any:
    """What was said: text, or the messages of a JSON list."""
    text = read_text(file)
    if text.lstrip().startswith("["):
        with suppress(ValueError):
            return json.loads(text)
    return text
