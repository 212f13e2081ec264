"""Notes of basic-memory: Markdown with a heading of settings, observations and relations."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tulving.domain.model import NewFact
from tulving.errors import InvalidInput
from tulving.integrations.importers import Mapped, Record, graph, refusing
from tulving.integrations.importers.files import Meter, opened, size
from tulving.integrations.importers.values import label

LARGEST_NOTE = 16 << 20
_HEADING = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_SETTING = re.compile(r"([\w-]+):[ \t]*(.*?)[ \t]*")
_OBSERVATION = re.compile(r"\s*[-*]\s+\[([^\]\[()]+)\]\s+(\S.*?)\s*")
_RELATION = re.compile(r"\s*[-*]\s+(?:(\S[^\[\]]*?)\s+)?\[\[([^\[\]]+)\]\]\s*(?:\(([^()]*)\))?\s*")
_NO_CATEGORY = re.compile(r"[\s\d:.,-]*\d[\s\d:.,-]*|\s*[xX\W]?\s*")
"""A time in a transcript, or the box of a task."""
_CONTEXT = re.compile(r"\s*\(([^()]*)\)$")
_TAG = re.compile(r"(?:^|\s)#([\w/-]+)")
_FENCE = re.compile(r"\s*(```|~~~)")


def read(path: Path, meter: Meter, mapped: Mapped) -> Iterator[Record]:
    """A note becomes an entity, with a fact for its text and for each observation and relation."""
    root = path if path.is_dir() else path.parent
    notes = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    notes = [note for note in notes if not any(part.startswith(".") for part in note.relative_to(root).parts)]
    notes = [note for note in notes if note.is_file()]  # and no folder or pipe of such a name
    if not notes:
        raise InvalidInput("file", f"{path} holds no Markdown notes", "a folder of basic-memory")
    meter.total += size(notes)
    for note in notes:
        yield from refusing(str(note.relative_to(root)), partial(_note, note, root, meter))


def _note(path: Path, root: Path, meter: Meter) -> Sequence[Record]:
    place = str(path.relative_to(root))
    if not path.resolve().is_relative_to(root.resolve()):
        raise InvalidInput("note", "is a link that leads out of the folder", "notes of this folder")
    with opened(path) as file:
        data = file.read(LARGEST_NOTE + 1)
    meter.done += len(data)
    if len(data) > LARGEST_NOTE:
        raise InvalidInput("note", "is too long", f"at most {LARGEST_NOTE:,} bytes")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInput("note", f"is not UTF-8 text ({error.reason})", "UTF-8 text") from error
    settings, body = _settings(text)
    title = label(settings.get("title")) or path.stem
    kind = label(settings.get("type")) or "note"
    tags = _tags(settings.get("tags"))
    origin = {"file": place, **({"permalink": settings["permalink"]} if settings.get("permalink") else {})}
    records: list[Record] = [graph.imported(graph.node(title, kind, tags=tags), kind, place, **origin)]
    prose: list[str] = []
    fenced = False
    for number, line in enumerate(body.split("\n"), text[: len(text) - len(body)].count("\n") + 1):
        fenced ^= _FENCE.match(line) is not None
        fact = None if fenced else _observation(title, line, tags) or _relation(title, line)
        if fact is None:
            prose.append(line)
        else:
            records.append(graph.imported(fact, kind, f"{place}, line {number}", **origin))
    if written := _without_empty_sections("\n".join(prose)):
        note = NewFact(subject=title, predicate="note", content=written, permanence="permanent", tags=tags)
        records.append(graph.imported(note, kind, place, **origin))
    return records


def _settings(text: str) -> tuple[dict[str, str], str]:
    """The settings at the head of a note and the rest. Of YAML only plain values and lists are read; a list becomes
    its entries separated by commas."""
    found = _HEADING.match(text)
    if found is None:
        return {}, text
    settings: dict[str, str] = {}
    name = None
    for line in found[1].split("\n"):
        if setting := _SETTING.fullmatch(line):
            name = setting[1]
            settings[name] = setting[2].strip("[]").strip() if setting[2].startswith("[") else setting[2].strip("\"'")
        elif name and (entry := re.fullmatch(r"\s*-\s+(.*?)\s*", line)):
            settings[name] = ", ".join(filter(None, (settings[name], entry[1].strip("\"'"))))
    return settings, text[found.end() :]


def _tags(value: str | None) -> list[str]:
    return [tag for each in (value or "").split(",") if (tag := each.strip().strip("\"'#"))]


def _observation(title: str, line: str, tags: Sequence[str]) -> NewFact | None:
    found = _OBSERVATION.fullmatch(line)
    if found is None or _NO_CATEGORY.fullmatch(found[1]):
        return None
    category, content = found[1].strip(), found[2]
    context = _CONTEXT.search(content)
    own = [*tags, *_TAG.findall(content)]
    details = {"category": category, **({"context": context[1]} if context else {})}
    return graph.observation(
        title, content[: context.start()] if context else content, category, tags=own, metadata=details
    )


def _relation(title: str, line: str) -> NewFact | None:
    found = _RELATION.fullmatch(line)
    if found is None:
        return None
    details = {"context": found[3]} if found[3] else None
    return graph.relation(title, (found[1] or "links_to").strip(), found[2].split("|")[0].strip(), metadata=details)


def _without_empty_sections(text: str) -> str:
    """The prose of a note, without headings that have nothing below them."""
    kept: list[str] = []
    for line in reversed(text.strip().split("\n")):
        level = len(line) - len(line.lstrip("#")) if re.match(r"#{1,6}\s", line) else 0
        below = next((each for each in reversed(kept) if each.strip()), None)
        lower = below is not None and below.startswith("#") and len(below) - len(below.lstrip("#")) <= level
        if not level or (below is not None and not lower):
            kept.append(line)
    return "\n".join(reversed(kept)).strip()
