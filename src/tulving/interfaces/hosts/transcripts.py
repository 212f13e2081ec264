"""The transcripts that hosts keep of a session, read as turns: what the person asked, and what the agent answered last.

What the agent says between two uses of a tool is left out, as are the tools' calls and results, thoughts, the turns of
helpers, and whatever a host or Tulving itself put into a prompt.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from tulving.domain.echo import without_injected

BLOCK = "tulving-memory"
"""The tag around what Tulving puts into a prompt."""
_INJECTED = re.compile(
    rf"<({BLOCK}|system-reminder|hook_context|command-\w+|local-command-\w+|bash-\w+|ide_\w+|task-notification"
    r"|environment_context|user_instructions|session_context)\b[^>]*>.*?(?:</\1>|\Z)",
    re.DOTALL,
)
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]*\]")


class Said(NamedTuple):
    """One side of a turn: whether the person said it, what, and when."""

    by_person: bool
    text: str
    at: datetime


def read(host: str, path: Path) -> list[Said]:
    """What was said in a session, in order: each prompt, and the last answer to it."""
    said: list[Said] = []
    for each in _spoken(READERS[host](path)):
        if said and not each.by_person and not said[-1].by_person:
            said.pop()
        if not said or said[-1][:2] != each[:2]:
            said.append(each)
    return said


def _spoken(entries: Iterable[tuple[bool, object, object]]) -> Iterator[Said]:
    """Entries that have words and a time, without what was injected."""
    for by_person, content, time in entries:
        text = without_injected(_INTERRUPTED.sub("", _INJECTED.sub("", _text(content)))).strip()
        if text and (at := _moment(time)):
            yield Said(by_person, text, at)


def _text(content: object) -> str:
    """The words of a message: a text, or a list of parts of which some are texts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else [content]
    return "\n".join(
        part if isinstance(part, str) else part["text"]
        for part in parts
        if isinstance(part, str)
        or (
            isinstance(part, dict)
            and isinstance(part.get("text"), str)
            and part.get("type", "text") in ("text", "Text")
        )
    )


def _moment(time: object) -> datetime | None:
    if not isinstance(time, str):
        return None
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _records(path: Path, whole: bool = False) -> Iterator[dict[str, Any]]:
    """The object that a file is as a `whole`, or those on its lines. What is being written just now is none yet."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for text in [file.read()] if whole else file:
            with suppress(ValueError, RecursionError):
                if isinstance(record := json.loads(text), dict):
                    yield record


Entries = Iterator[tuple[bool, object, object]]


def _claude_code(path: Path) -> Entries:
    for entry in _records(path):
        message = entry.get("message")
        own = not any(entry.get(mark) for mark in ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage"))
        if entry.get("type") in ("user", "assistant") and isinstance(message, dict) and own:
            yield entry["type"] == "user", message.get("content"), entry.get("timestamp")


def _codex(path: Path) -> Entries:
    """A rollout. Its events have the words alone, the items for the model also what Codex adds to a prompt. Older
    versions have events of other names."""
    for entry in _records(path):
        payload = entry.get("payload")
        if entry.get("type") != "event_msg" or not isinstance(payload, dict):
            continue
        item = payload.get("item")
        said = item if isinstance(item, dict) else payload
        if (kind := str(said.get("type"))) in _CODEX:
            yield _CODEX[kind], said.get("content") or said.get("message"), entry.get("timestamp")


_CODEX = {"UserMessage": True, "user_message": True, "AgentMessage": False, "agent_message": False}


def _gemini(path: Path) -> Entries:
    """One object with all messages, or a log of them: a message that is there again has been completed, and `$set` has
    those that were kept when the session was compressed or resumed."""
    messages: dict[str, dict[str, Any]] = {}
    for record in _records(path, whole=path.suffix == ".json"):
        kept = record.get("$set", record)
        for each in kept["messages"] if isinstance(kept, dict) and isinstance(kept.get("messages"), list) else [record]:
            if isinstance(each, dict) and each.get("type") in ("user", "gemini"):
                messages[str(each.get("id", len(messages)))] = each
    for each in messages.values():
        yield each["type"] == "user", each.get("displayContent") or each.get("content"), each.get("timestamp")


READERS: dict[str, Callable[[Path], Entries]] = {"claude-code": _claude_code, "codex": _codex, "gemini": _gemini}
