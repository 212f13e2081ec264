"""What a language model is shown when it learns: a template, and then stored text that can't leave its place.

Stored text is data, whoever wrote it. What could begin a tag is escaped, so that no text closes the block it is in.
Outside a block a text stays on one line; inside, every line but a label's is quoted with `> `, so that none can pass
for a heading, a fence or a turn of ours: neither can begin within a quote.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from tulving.domain import intake
from tulving.domain.model import Episode, Fact, Rule
from tulving.domain.text import escape_markup, shortened
from tulving.errors import InvalidInput

LONGEST_TEXT = 4_000
"""Characters that are shown of one episode or message."""
LONGEST_KNOWN = 300
"""Characters that are shown of what is known already, and of a name."""
MOST_FACTS = 100
KNOWN_SHARE = 1 / 3
"""Of the characters that a prompt may have, for what is known already."""
ROLES = {"user": "User", "human": "User", "assistant": "Assistant", "ai": "Assistant"}
"""Whose words are learned from, and how they are shown. Other roles, such as system and tool, are not persons."""

_EPISODES, _FACTS, _RULES = "## Episodes to Process", "## Existing Facts (for dedup)", "## Existing Rules (for dedup)"
_NO_EPISODES = "_No episodes to process._"
_GAP = "\n\n"
_TURN = re.compile(rf"^[ \t]*({'|'.join(ROLES)})[ \t]*:[ \t]*", re.IGNORECASE | re.MULTILINE)
_SHAPES = 'text, or a list of messages {"role": ..., "content": ...}'


def consolidation(
    template: str, butler: str, episodes: Sequence[Episode], facts: Sequence[Fact], rules: Sequence[Rule]
) -> str:
    """001-044, 001-047: the template, then an agent's episodes and what is known, so that it is not learned twice."""
    return _GAP.join(
        (
            template.strip(),
            "---",
            f"## Consolidation Context — {_line(butler)}",
            _EPISODES,
            *(map(_episode, range(1, len(episodes) + 1), episodes) if episodes else (_NO_EPISODES,)),
            _FACTS,
            "\n".join(map(_fact, facts)) or "_No existing facts._",
            _RULES,
            "\n".join(map(_rule, rules)) or "_No existing rules._",
        )
    )


def fit(
    template: str,
    butler: str,
    episodes: Sequence[Episode],
    facts: Sequence[Fact],
    rules: Sequence[Rule],
    characters: int,
) -> tuple[Sequence[Episode], Sequence[Fact], Sequence[Rule]]:
    """What of all this a prompt of so many characters has room for, from the front; always one episode.

    Rules and facts get a share at most, so that a small model is not shown what it knows and nothing new.
    """
    share = int(characters * KNOWN_SHARE)
    shown_rules, left = _fitting(map(_rule, rules), 1, share // 2)
    shown_facts, _ = _fitting(map(_fact, facts), 1, share - share // 2 + left)
    facts, rules = facts[:shown_facts], rules[:shown_rules]
    rest = consolidation(template, butler, (), facts, rules)
    room = characters - len(rest) + len(_NO_EPISODES) + len(_GAP)
    shown, _ = _fitting(map(_episode, range(1, len(episodes) + 1), episodes), len(_GAP), room)
    return episodes[: max(1, shown)], facts, rules


def next_extraction(
    template: str,
    conversation: Sequence[tuple[str, str]],
    blocks: Mapping[str, str],
    facts: Sequence[Fact],
    characters: int,
) -> tuple[str, Sequence[tuple[str, str]]]:
    """A prompt of so many characters, and the turns that it has no room for. It shows at least one turn, and what is
    known takes a share at most."""
    known, _ = _fitting(map(_known, facts), 1, int(characters * KNOWN_SHARE))
    room = characters - len(extraction(template, (), blocks, facts[:known]))
    shown, _ = _fitting(map(_turn, conversation), 1, room)
    shown = max(1, shown)
    return extraction(template, conversation[:shown], blocks, facts[:known]), conversation[shown:]


def extraction(
    template: str, conversation: Sequence[tuple[str, str]], blocks: Mapping[str, str], facts: Sequence[Fact]
) -> str:
    """003-001: the template, then what is known about a person and the turns of a conversation (see `turns`)."""
    profile = "\n".join(
        f"- {_line(block)}: {_line(text, LONGEST_TEXT)}" for block, text in blocks.items() if text.strip()
    )
    known = "\n".join(map(_known, facts[:MOST_FACTS]))
    said = "\n".join(_turn(turn) for turn in conversation if turn[0] in ROLES)
    return _GAP.join(
        (
            template.strip(),
            "---",
            "## Current Profile",
            profile or "_Nothing is known yet._",
            "## Known Facts (for dedup)",
            known or "_No known facts._",
            "## Conversation",
            f"<conversation>\n{said}\n</conversation>",
        )
    )


def merging(template: str, first: Fact, second: Fact) -> str:
    """000-032: the template, then two notes of which one is to be made."""
    notes = (f"<note>\n{_quoted(fact.content)}\n</note>" for fact in (first, second))
    return _GAP.join((template.strip(), "---", *notes))


def turns(conversation: str | Sequence[Mapping[str, object]]) -> list[tuple[str, str]]:
    """The turns of a conversation as role and text: from text with labels such as `User:`, or from messages.

    Text without labels is one turn of the user. Private text is removed, and a turn that is empty then is left out.
    """
    if isinstance(conversation, str):
        given = _labelled(intake.public(conversation))
    elif isinstance(conversation, Sequence):
        given = [_message(message) for message in conversation]
    else:
        raise InvalidInput("conversation", f"must not be of type {type(conversation).__name__}", _SHAPES)
    found = [(role, text.strip()) for role, text in given if role in ROLES and text.strip()]
    if not found:
        raise InvalidInput("conversation", "says nothing once private text is removed", _SHAPES)
    return found


def _labelled(text: str) -> list[tuple[str, str]]:
    before, *parts = _TURN.split(text)
    return [("user", before), *((role.casefold(), said) for role, said in zip(parts[::2], parts[1::2], strict=True))]


def _message(message: object) -> tuple[str, str]:
    if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
        raise InvalidInput("conversation", "holds a message without a role", _SHAPES)
    content = message.get("content")
    if content is None:  # a message that only calls a tool
        content = ""
    elif (
        not isinstance(content, str) and isinstance(content, Sequence) and all(isinstance(p, Mapping) for p in content)
    ):
        said = (part.get("text") for part in content if part.get("type") == "text")
        content = "\n".join(text for text in said if isinstance(text, str))
    if not isinstance(content, str):
        raise InvalidInput("conversation", "holds a message whose content is not text", _SHAPES)
    return message["role"].strip().casefold(), intake.public(content)


def _episode(number: int, episode: Episode) -> str:
    about = {
        "title": episode.title,
        "speaker": episode.source,
        "happened": episode.occurred_at and f"{episode.occurred_at.date()}",
    }
    told = "; ".join(f"{label}: {_line(value)}" for label, value in about.items() if value)
    return (
        f"### Episode {number}  ({_line(episode.butler)}, {episode.created_at.isoformat(' ', 'minutes')})"
        f"  [importance={episode.importance:g}]\n"
        f"id: {episode.id}\n"
        f"<episode_content>\n{f'> ({told}){chr(10)}' if told else ''}{_quoted(episode.content)}\n</episode_content>"
    )


def _known(fact: Fact) -> str:
    return f"- [{_line(fact.predicate)}] {_line(fact.content)}"


def _turn(turn: tuple[str, str]) -> str:
    role, text = turn
    return f"{ROLES[role]}: {_quoted(text)[2:]}"


def _fact(fact: Fact) -> str:
    names = f"{_line(fact.subject)} — {_line(fact.predicate)}"
    return f"- **{fact.id}**: [{_line(fact.permanence)}] {names} — {_line(fact.content)}"


def _rule(rule: Rule) -> str:
    return f"- **{rule.id}**: [{_line(rule.maturity)}] {_line(rule.content)}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in escape_markup(shortened(text, LONGEST_TEXT)).splitlines())


def _line(text: str, most: int = LONGEST_KNOWN) -> str:
    return escape_markup(shortened(" ".join(text.split()), most))


def _fitting(texts: Iterable[str], gap: int, room: int) -> tuple[int, int]:
    """How many of the texts, from the front, have room, and the room they leave."""
    number = 0
    for number, text in enumerate(texts, 1):
        if (size := len(text) + gap) > room:
            return number - 1, room
        room -= size
    return number, room
