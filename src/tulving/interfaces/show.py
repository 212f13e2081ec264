"""Answers for a person: coloured and fitted to the width on a terminal, plain lines where they are piped."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tulving.domain.forecast import Forecast
from tulving.interfaces import chart
from tulving.interfaces.terminal import visible
from tulving.services.operations import Operation

CLIP = 400
BAR = 30
KIND_STYLES = {"episode": "yellow", "fact": "green", "rule": "magenta"}
ENTITY_STYLE = "blue"
OUTCOMES = {
    "stored": "stored",
    "superseded": "stored",
    "confirmed": "known already, so confirmed:",
    "duplicate": "known already:",
}

Line = tuple[int, Text]


def answer(operation: Operation, arguments: Mapping[str, Any], value: Mapping[str, Any]) -> None:
    """Print what an operation answered, by the shape of the answer."""
    if operation.answer and isinstance(value[operation.answer], str):
        block(value[operation.answer])
    else:
        lines(_answer(operation, arguments, value))


def block(text: str) -> None:
    """Text as it is; on a terminal, what would control the terminal is made visible."""
    console = Console()
    print(visible(text) if console.is_terminal else text, end="" if text.endswith("\n") else "\n")


def lines(content: Iterator[Line] | Sequence[Line]) -> None:
    """Print lines, each indented by so many columns."""
    console = Console(highlight=False)
    for indent, text in content:
        if console.is_terminal:
            console.print(Padding(text, (0, 0, 0, indent), expand=False))
        else:
            print(" " * indent + text.plain)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], styles: Mapping[str, str] | None = None) -> None:
    """Print a table; a cell that is a key of `styles` gets that style."""
    console = Console(highlight=False)
    if console.is_terminal:
        grid = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), show_header=any(headers))
        for place, header in enumerate(headers):
            grid.add_column(header, no_wrap=place == 0, overflow="fold")
        for row in rows:
            grid.add_row(*(Text(visible(cell), style=(styles or {}).get(cell, "")) for cell in row))
        console.print(grid)
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@contextmanager
def progress(label: str, of_bytes: bool = False) -> Iterator[Callable[..., None]]:
    """A bar on the terminal while something is done; told how much is done, of how much, and optionally what."""
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counter = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counter, TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    task = bar.add_task(label, total=None)

    def tell(done: int, total: int, what: str = "") -> None:
        bar.start()
        bar.update(task, completed=done, total=total, description=f"{label} {what}".rstrip())

    try:
        yield tell
    finally:
        bar.stop()


def _answer(operation: Operation, arguments: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[Line]:
    if "results" in value:
        yield from hits(value)
    elif "items" in value:
        yield from _page(str(arguments.get("memory_type")), value)
    elif "outcome" in value:
        yield 0, _stored((operation.command or operation.tool).split()[-1], value)
    elif isinstance(value.get("memory"), Mapping):
        yield from _memory(str(arguments.get("memory_type")), value["memory"])
    elif "maturity" in value:
        yield from _memory("rule", value)
    elif value.keys() >= {"episodes", "facts", "rules"}:
        yield from _statistics(value)
    elif "revisions" in value:
        yield from _revisions(value["revisions"])
    elif isinstance(value.get("candidates"), list):
        yield from _candidates(value["candidates"])
    elif isinstance(value.get("entity"), Mapping):
        yield from _entity(value["entity"])
    elif "links" in value:
        yield from _links(value["links"])
    elif "events" in value:
        yield from _events(value["events"])
    elif isinstance(value.get("facts"), list):
        yield from _changes(value["facts"])
    elif operation.answer and isinstance(value[operation.answer], bool):
        yield 0, _verdict(operation.answer, arguments, value[operation.answer])
    else:
        yield from _tree(value)


def hits(found: Mapping[str, Any]) -> Iterator[Line]:
    """Each hit: its score, what it says, the parts of the score, its id."""
    for hit in found["results"]:
        kind = hit["memory_type"]
        yield 0, Text.assemble((f"{hit['score']:.3f}", "bold cyan"), "  ", _headline(kind, hit))
        yield 7, Text(" · ".join(_parts(hit)), style="dim")
        yield 7, Text(hit["id"], style="dim")
    if not found["results"]:
        left_out = found.get("below_confidence", 0)
        yield 0, Text("nothing found" + (f"; {left_out} are believed too little" if left_out else ""))


def _parts(hit: Mapping[str, Any]) -> Iterator[str]:
    """What made the score. A lane that did not find the memory has a rank too, but nothing to show for it."""
    parts = hit["parts"]
    for name, value in parts.items():
        if name not in _LANES:
            yield f"{name} {value:.2f}"
    if "similarity" in parts:
        place = f" (no. {parts['semantic_rank']})" if "semantic_rank" in parts else ""
        yield f"similarity {parts['similarity']:.2f}{place}"
    if "rank" in parts:
        yield f"words match (no. {parts['keyword_rank']})" if "keyword_rank" in parts else "words match"


_LANES = frozenset({"similarity", "rank", "semantic_rank", "keyword_rank", "rrf_score"})


def _page(kind: str, page: Mapping[str, Any]) -> Iterator[Line]:
    for item in page["items"]:
        yield 0, _headline(kind, item)
        details = [item["id"], _state(item), _moment(item["created_at"]), *(f"#{tag}" for tag in item["tags"])]
        yield 2, Text(visible(" · ".join(filter(None, details))), style="dim")
    if not page["items"]:
        yield 0, Text(f"no {kind}s")
    elif page["next_cursor"]:
        yield 0, Text(f"more: --cursor {page['next_cursor']}", style="dim")


def _state(item: Mapping[str, Any]) -> str:
    known = item.get("state") or item.get("maturity") or item.get("type") or ""
    return "forgotten" if item.get("forgotten") else known


def _headline(kind: str, item: Mapping[str, Any]) -> Text:
    """The memory in one line: its kind, what it is about, what it says."""
    about = ""
    if kind == "fact":
        about = f"{item['subject']} · {item['predicate']}" if item["keyed"] else str(item["predicate"])
    elif kind == "episode":
        about = ", ".join(filter(None, (item.get("title"), item.get("source"))))
    content = " ".join(item["content"].split())
    if len(content) > CLIP:
        content = f"{content[: CLIP - 1]}… ({item.get('content_length', len(content)):,} characters)"
    return Text.assemble(
        (kind, KIND_STYLES.get(kind, "")),
        "  ",
        (visible(f"{about}: "), "bold") if about else "",
        visible(content),
    )


def _stored(noun: str, value: Mapping[str, Any]) -> Text:
    words = OUTCOMES.get(value["outcome"], f"{value['outcome']}:")
    text = Text.assemble((words, "green"), f" {noun} {value['id']}")
    if value.get("ref"):
        text.append(f" ({value['ref']})")
    if value.get("superseded_id"):
        text.append(f", which supersedes {value['superseded_id']}")
    if value.get("expires_at"):
        text.append(f", expires {_moment(value['expires_at'])}", style="dim")
    return text


def _memory(kind: str, item: Mapping[str, Any]) -> Iterator[Line]:
    yield 0, Text.assemble((kind, KIND_STYLES.get(kind, "")), "  ", (item["id"], "bold"))
    yield 2, Text(visible(item["content"]))
    yield 0, Text()
    yield from _details(item, leave_out=("id", "content"))


def _entity(entity: Mapping[str, Any]) -> Iterator[Line]:
    yield 0, Text.assemble((entity["entity_type"], ENTITY_STYLE), "  ", (entity["id"], "bold"))
    yield 2, Text(visible(entity["canonical_name"]))
    yield 0, Text()
    yield from _details(entity, leave_out=("id", "canonical_name", "entity_type"))


def _candidates(candidates: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for each in candidates:
        name = Text.assemble((each["entity_type"], ENTITY_STYLE), "  ", (visible(each["canonical_name"]), "bold"))
        yield 0, Text.assemble((f"{each['score']:7.3f}", "bold cyan"), "  ", name)
        likeness = f" ({each['similarity']:.2f})" if each["name_match"] == "fuzzy" else ""
        also = f" · also {', '.join(each['aliases'])}" if each["aliases"] else ""
        yield 9, Text(visible(f"{each['name_match']}{likeness}{also}"), style="dim")
        yield 9, Text(each["entity_id"], style="dim")
    if not candidates:
        yield 0, Text("nobody and nothing is known by that name")


def _details(record: Mapping[str, Any], leave_out: Sequence[str]) -> Iterator[Line]:
    shown = {name: value for name, value in record.items() if name not in leave_out}
    shown = {name: value for name, value in shown.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        yield 2, Text.assemble((name.ljust(width), "dim"), "  ", visible(_cell(value)))


def _statistics(counts: Mapping[str, Mapping[str, Any]]) -> Iterator[Line]:
    """Each state with its share of the kind as a bar; what there is none of is left out."""
    for kind, states in counts.items():
        total = states["total"]
        yield 0, Text.assemble((kind, KIND_STYLES.get(kind.removesuffix("s"), "")), "  ", (f"{total:,}", "bold"))
        for state, count in states.items():
            name = state.replace("_", " ").ljust(17)
            if state == "backlog_age_hours" and count is not None:
                yield 2, Text.assemble((name, "dim"), f"{count:12,.1f}")
            elif isinstance(count, int) and count and state != "total":
                bar = "█" * max(1, round(BAR * count / total))
                yield (
                    2,
                    Text.assemble((name, "dim"), f"{count:12,}  ", (bar, KIND_STYLES.get(kind.removesuffix("s"), ""))),
                )


def _revisions(revisions: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for revision in revisions:
        yield 0, Text.assemble((f"{revision['number']}", "bold"), "  until ", _moment(revision["created_at"]))
        yield 3, Text(visible(revision["content"]))
    if not revisions:
        yield 0, Text("never edited")


def view(
    kind: str,
    item: Mapping[str, Any],
    ahead: Forecast | None,
    links: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
) -> Iterator[Line]:
    """One memory with its future, its relations and its past."""
    yield from _memory(kind, item)
    if ahead is not None:
        yield 0, Text("\nhow it will fade, if nothing confirms it", style="bold")
        yield from _forecast(ahead)
    if links:
        yield 0, Text("\nwhere it belongs", style="bold")
        yield from ((2, line) for _, line in _links(links))
    yield 0, Text("\nwhat happened", style="bold")
    yield from ((2, line) for _, line in _events(events))


def _forecast(ahead: Forecast) -> Iterator[Line]:
    rows = chart.area(ahead.values, 4)
    for place, row in enumerate(rows):
        label = {0: "1.0", len(rows) - 1: "0.0"}.get(place, "")
        yield 2, Text.assemble((label.rjust(3), "dim"), " ", (row, "green"))
    end = ahead.expires_at.isoformat()[:10]
    yield 2, Text("    now" + end.rjust(len(ahead.values) - 3), style="dim")
    yield 2, Text(f"    fading from {ahead.fading_at.isoformat()[:10]}, expired from {end}", style="dim")


def _changes(facts: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """What was said of one thing, oldest first, with what became of each."""
    for fact in facts:
        state = fact["state"] if "state" in fact else fact["validity"]
        yield (
            0,
            Text.assemble(
                (_moment(fact["created_at"]), "dim"),
                "  ",
                (state.ljust(10), "green" if state == "active" else "dim"),
                "  ",
                visible(fact["content"]),
                (f"  ({fact['scope']})" if fact["scope"] != "global" else "", "dim"),
            ),
        )
        yield 22, Text(fact["id"], style="dim")


def _links(links: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for link in links:
        ends = [f"{link[f'{end}_type']} {link[f'{end}_id']}" for end in ("source", "target")]
        yield 0, Text.assemble(ends[0], (f"  {link['relation']}  ", "cyan"), ends[1])
    if not links:
        yield 0, Text("no links")


def _events(events: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    for event in events:
        yield (
            0,
            Text.assemble(
                (_moment(event["occurred_at"]), "dim"),
                "  ",
                (event["event_type"], "cyan"),
                f"  by {event['actor']}" if event["actor"] else "",
                (f"  {_told(event['payload'])}", "dim"),
            ),
        )
    if not events:
        yield 0, Text("no events")


def _told(payload: Mapping[str, Any]) -> str:
    return " · ".join(f"{name} {_cell(value)}" for name, value in payload.items() if value is not None)


def _verdict(word: str, arguments: Mapping[str, Any], positive: bool) -> Text:
    if "relation" in arguments:
        ends = [f"{arguments[f'{end}_type']} {arguments[f'{end}_id']}" for end in ("source", "target")]
        about = f" {arguments['relation']} ".join(ends)
    else:
        about = f"{arguments.get('memory_type', '')} {arguments.get('memory_id', '')}".strip()
    return Text.assemble((word if positive else "was there already:", "green"), f" {about}")


def _tree(value: Any, indent: int = 0) -> Iterator[Line]:
    """An answer of any other shape."""
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield indent, Text(visible(str(name)), style="bold")
            yield from _tree(inner, indent + 2)
        else:
            yield indent, Text.assemble((f"{visible(str(name))}  ", "dim"), visible(_cell(inner)))


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)


def _moment(time: str) -> str:
    return f"{time[:10]} {time[11:16]} UTC"
