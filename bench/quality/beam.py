"""BEAM: long chats with an assistant. One memory is one exchange; the evidence of a question are messages."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.quality.samples import Asked, Sample, read, session
from tulving import NewEpisode

FILE = "dev/beam100k_chats01-13.json"
LEFT_OUT = "summarization"
"""Its evidence is a good part of the chat, which no short list can hold."""
UNANSWERABLE = "abstention"
APART = "new statement"


def samples(data: Path, *, replies: bool = True) -> list[Sample]:
    """The chats, with the assistant's replies or the user's messages only."""
    return [_sample(chat, replies) for chat in read(data / FILE)]


def _sample(chat: Mapping[str, Any], replies: bool) -> Sample:
    name = f"chat-{chat['id']}"
    exchanges = list(_exchanges(chat["msgs"]))
    exchange_of = {message["id"]: str(at) for at, exchange in enumerate(exchanges) for message in exchange}
    episodes = {
        str(at): NewEpisode(
            content="\n\n".join(f"{each['role'].capitalize()}: {each['text']}" for each in exchange)
            if replies
            else exchange[0]["text"],
            butler="beam",
            session_id=session(name),
            occurred_at=datetime.strptime(exchange[0]["time"], "%B-%d-%Y").replace(tzinfo=UTC),
        )
        for at, exchange in enumerate(exchanges)
    }
    return Sample(name, episodes, [asked for row in chat["qs"] for asked in _asked(row, exchange_of)])


def _exchanges(messages: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """A user's message with all that follows until the next one."""
    exchange: list[Mapping[str, Any]] = []
    for message in messages:
        if message["role"] == "user" and exchange:
            yield exchange
            exchange = []
        exchange.append(message)
    if exchange:
        yield exchange


def _asked(row: Mapping[str, Any], exchange_of: Mapping[int, str]) -> Iterator[Asked]:
    """A question; one about an update is asked again, to see whether the new statement stands above the old one."""
    if row["cat"] == UNANSWERABLE:
        yield Asked(text=row["q"], category=row["cat"], answerable=False)
    elif row["gold"] and row["cat"] != LEFT_OUT:
        yield Asked(text=row["q"], gold=_keys(row["gold"], exchange_of), category=row["cat"])
    if row["cat"] == "knowledge_update":
        old, new = (_keys(row["src"][part], exchange_of) for part in ("original_info", "updated_info"))
        if old and new and not set(old) & set(new):
            yield Asked(text=row["q"], gold=new, outdated=old, category=APART)


def _keys(messages: Sequence[int], exchange_of: Mapping[int, str]) -> list[str]:
    return list(dict.fromkeys(exchange_of[message] for message in messages))
