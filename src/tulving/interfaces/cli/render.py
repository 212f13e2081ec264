"""Answers as lines for a person, by their type."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tulving.domain import model
from tulving.domain.editing import Revision
from tulving.domain.events import Event, Trail
from tulving.domain.layers import CompactFound, Detail, TimelineEntry
from tulving.domain.model import KIND_OF, Episode, Fact, Found, Item, Link, Page, Rule, Stored
from tulving.domain.profile import Block, ProfileOwner
from tulving.domain.relevance import SIGNALS, why
from tulving.domain.statistics import Fading, Growth, Overview, Statistics
from tulving.domain.validity import start
from tulving.domain.windows import Window
from tulving.interfaces.cli import browsing, conflicts, layers, lessons, timeline
from tulving.interfaces.cli.terminal import KIND_STYLES, Line, Part, block, columns, is_terminal, lines, moment, more
from tulving.interfaces.parameters import returned
from tulving.interfaces.wire import wire
from tulving.services.bridge import BridgeStatus
from tulving.services.learning import Consolidated
from tulving.services.lessons import Learned
from tulving.services.operations import Operation
from tulving.services.reviewing import RunReport
from tulving.services.search import POOL
from tulving.services.timeline import Rotated
from tulving.storage.undoing import Undone

CLIP = 400
BAR = 30
ENTITY_STYLE = "blue"
LANES = frozenset({"similarity", "rank", "semantic_rank", "keyword_rank", "rrf_score"})
OUTCOMES = {
    "stored": "stored",
    "superseded": "stored",
    "confirmed": "known already, so confirmed:",
    "duplicate": "known already:",
    "outdated": "kept as history:",
    "kept": "a known note won:",
    "merged": "merged with a known note:",
    "rejected": "rejected for a known note:",
    "held": "stored beside a known note, with which it is in conflict:",
}


def answer(operation: Operation, arguments: Mapping[str, Any], result: Any, explain: bool = False) -> None:
    """Print what an operation answered: by the type of the result or, where that is a plain list or dict, by the type
    that the operation declares. A type without a renderer is shown field by field."""
    match result:
        case None:
            lines([(0, f"no {operation.answer}")])
        case str():
            block(result)
        case Found():
            lines(hits(result, explain))
        case bool():
            lines([_verdict(str(operation.answer), arguments, result)])
        case Stored():
            lines(_stored((operation.command or operation.tool).split()[-1], result))
        case Page(items=[]) if returned(operation) == Page[Item]:
            lines([(0, f"no {arguments.get('memory_type', operation.name[:-1])}s")])
        case Page(items=[]) if returned(operation) == Page[Fact] and not arguments.get("cursor"):
            lines([(0, f"nothing was ever stored for {arguments['subject']} · {arguments['predicate']}")])
        case _ if returned(operation) is Rotated:
            lines(timeline.rotated(result, arguments.get("dry_run", False)))
        case _:
            renderer = RENDERERS.get(type(result)) or RENDERERS.get(returned(operation), _fields)
            lines(renderer(result))


def hits(found: Found, explain: bool = False) -> Iterator[Line]:
    """Each hit: its score, what it says, the parts of the score, its id; and why it was found, if that is asked."""
    for hit in found.hits:
        yield 0, (f"{hit.score:.3f}", "bold cyan"), "  ", *headline(hit.item)
        yield 7, (" · ".join(_parts(hit)), "dim")
        if hit.newer:
            yield 7, (f"a newer memory says something similar: {hit.newer}", "yellow")
        if explain:
            yield from _why(hit)
        yield 7, (str(hit.item.id), "dim")
    if not found.hits:
        yield from _nothing(found)


def _nothing(found: Found) -> Iterator[Line]:
    """What was looked at, and what came closest and why it was left out."""
    left_out = [
        f"{count} {reason}"
        for count, reason in (
            (found.below_confidence, "believed too little"),
            (found.below_relevance, "not relevant enough"),
            *((count, reason.replace("_", " ")) for reason, count in getattr(found, "filtered", {}).items()),
        )
        if count
    ]
    looked = f"; looked at {found.candidates} ({', '.join(left_out)})" if left_out else ""
    yield 0, f"nothing found{looked}"
    if found.closest:
        yield 2, "closest: ", *headline(found.closest.item)
        yield from _why(found.closest)


def _why(hit: model.Hit) -> Iterator[Line]:
    for name, reason in why(hit.parts).items():
        yield 9, (f"{name} {hit.parts[name]:.2f}".ljust(16), "cyan"), (reason, "dim")


def memory(item: Item) -> Iterator[Line]:
    """One memory with all that is known of it."""
    kind = KIND_OF[type(item)]
    yield 0, (kind, KIND_STYLES[kind]), "  ", (str(item.id), "bold")
    yield 2, item.content
    yield (0,)
    yield from _details(item, leave_out=("id", "content"))


def details(found: Sequence[Detail]) -> Iterator[Line]:
    for place, detail in enumerate(found):
        if place:
            yield (0,)
        yield from memory(detail.memory)
    if not found:
        yield 0, "nothing found"


def links(found: Sequence[Link]) -> Iterator[Line]:
    for link in found:
        source, target = f"{link.source_type} {link.source_id}", f"{link.target_type} {link.target_id}"
        yield 0, source, (f"  {link.relation}  ", "cyan"), target
    if not found:
        yield 0, "no links"


def events(found: Sequence[Event]) -> Iterator[Line]:
    for event in found:
        payload = " · ".join(
            f"{name} {_cell(value)}" for name, value in wire(event.payload).items() if value is not None
        )
        by = f"  by {event.actor}" if event.actor else ""
        yield 0, (moment(event.occurred_at), "dim"), "  ", (event.event_type, "cyan"), by, (f"  {payload}", "dim")
    if not found:
        yield 0, "no events"


def _parts(hit: model.Hit) -> Iterator[str]:
    """What made the score. A lane that did not find the memory has a rank too, but nothing to show for it."""
    if hit.weak:
        yield "weak"
    for name, value in hit.parts.items():
        if name not in LANES and name not in SIGNALS:
            yield f"{name} {value:.2f}"
    if "similarity" in hit.parts:
        place = f" (no. {hit.parts['semantic_rank']})" if hit.parts.get("semantic_rank", POOL + 1) <= POOL else ""
        yield f"similarity {hit.parts['similarity']:.2f}{place}"
    if "rank" in hit.parts:
        yield "words match" + (f" (no. {hit.parts['keyword_rank']})" if "keyword_rank" in hit.parts else "")


def _items(items: Sequence[Item]) -> Iterator[Line]:
    for item in items:
        yield 0, *headline(item)
        details = [str(item.id), _state(item), moment(item.created_at), *(f"#{tag}" for tag in item.tags)]
        yield 2, (" · ".join(filter(None, details)), "dim")


def derived(items: Sequence[Item]) -> Iterator[Line]:
    yield from _items(items) if items else [(0, "nothing was learned from it alone")]


def _page(page: Page[Item]) -> Iterator[Line]:
    yield from _items(page)
    yield from more(page.next_cursor)


def _window(window: Window) -> Iterator[Line]:
    for event in window:
        yield 0, (moment(start(event)), "dim"), "  ", (event.type or "", "cyan"), "  ", *_said(event)
        details = [str(event.id), f"importance {event.importance:g}", *(f"#{tag}" for tag in event.tags)]
        yield 22, (" · ".join(details), "dim")
    counts = window.diagnostics
    dropped = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in counts.dropped.items() if count)
    yield 0, (f"{counts.returned:,} of {counts.scanned:,} episodes" + (f" ({dropped})" if dropped else ""), "dim")


def _state(item: Item) -> str | None:
    if isinstance(item, Fact):
        return item.state
    return "forgotten" if item.forgotten else item.maturity if isinstance(item, Rule) else item.type


def headline(item: Item) -> Iterator[Part]:
    """The memory in one line: its kind, what it is about, what it says."""
    kind = KIND_OF[type(item)]
    yield kind, KIND_STYLES[kind]
    yield "  "
    yield from _said(item)


def _said(item: Item) -> Iterator[Part]:
    about = ""
    if isinstance(item, Fact):
        about = f"{item.subject} · {item.predicate}" if item.keyed else item.predicate
    elif isinstance(item, Episode):
        about = ", ".join(filter(None, (item.title, item.source)))
    content = " ".join(item.content.split())
    if len(content) > CLIP:
        content = f"{content[: CLIP - 1]}… ({len(item.content):,} characters)"
    yield f"{about}: " if about else "", "bold"
    yield content


def _stored(noun: str, stored: Stored) -> Iterator[Line]:
    ref = f" ({stored.ref})" if stored.ref else ""
    old = f", which supersedes {stored.superseded_id}" if stored.superseded_id else ""
    old += f", since {stored.superseded_by} is newer" if stored.superseded_by else ""
    end = f", expires {moment(stored.expires_at)}" if stored.expires_at else ""
    outcome = OUTCOMES.get(stored.outcome, f"{stored.outcome}:")
    yield 0, (outcome, "green"), f" {noun} {stored.id}{ref}{old}", (end, "dim")
    if stored.conflict is not None:
        yield from conflicts.explained(stored.conflict)


def _entity(entity: model.Entity) -> Iterator[Line]:
    yield 0, (entity.entity_type, ENTITY_STYLE), "  ", (str(entity.id), "bold")
    yield 2, entity.canonical_name
    yield (0,)
    yield from _details(entity, leave_out=("id", "canonical_name", "entity_type"))


def _candidates(candidates: Sequence[model.EntityCandidate]) -> Iterator[Line]:
    for each in candidates:
        score, kind = (f"{each.score:7.3f}", "bold cyan"), (each.entity_type, ENTITY_STYLE)
        yield 0, score, "  ", kind, "  ", (each.canonical_name, "bold")
        likeness = f" ({each.similarity:.2f})" if each.name_match == "fuzzy" else ""
        also = f" · also {', '.join(each.aliases)}" if each.aliases else ""
        yield 9, (f"{each.name_match}{likeness}{also}", "dim")
        yield 9, (str(each.entity_id), "dim")
    if not candidates:
        yield 0, "no entity is known by that name"


def _details(record: Any, leave_out: Sequence[str]) -> Iterator[Line]:
    shown = {name: value for name, value in wire(record).items() if name not in leave_out}
    shown = {name: value for name, value in shown.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        yield 2, (name.ljust(width), "dim"), "  ", _cell(value)


def _statistics(counts: Overview) -> Iterator[Line]:
    """Each state with its share of the kind as a bar; states without memories are left out."""
    bar = min(BAR, columns() - 34) if is_terminal() else BAR
    for kind, states in {"episodes": counts.episodes, "facts": counts.facts, "rules": counts.rules}.items():
        states = states.to_dict()
        total, style = states["total"], KIND_STYLES[kind.removesuffix("s")]
        yield 0, (kind, style), "  ", (f"{total:,}", "bold")
        for state, count in states.items():
            name = state.replace("_", " ").ljust(17), "dim"
            if state == "backlog_age_hours" and count is not None:
                yield 2, name, f"{count:12,.1f}"
            elif isinstance(count, int) and count and state != "total":
                yield 2, name, f"{count:12,}  ", ("█" * max(1, round(bar * count / total)), style)
    yield from lessons.overview(counts.learning)
    yield from conflicts.waiting(counts.conflicts["held"])
    yield from tool_texts(counts.tool_text)


def tool_texts(counts: Mapping[str, Mapping[str, Any]]) -> Iterator[Line]:
    """How models' texts were read for tool calls, and why not as ABP; nothing where there were none."""
    if any(counted["texts"] for counted in counts.values()):
        yield 0, ("tool calls in text", "cyan")
    for protocol, counted in counts.items():
        if counted["texts"]:
            why = ", ".join(f"{reason}: {texts:,}" for reason, texts in counted["fallbacks"].items())
            yield 2, (protocol.ljust(17), "dim"), f"{counted['texts']:12,}", (f"  {why}" if why else "", "dim")


def _revisions(revisions: Sequence[Revision]) -> Iterator[Line]:
    for revision in revisions:
        yield 0, (str(revision.number), "bold"), f"  until {moment(revision.created_at)}"
        yield 3, revision.content
    if not revisions:
        yield 0, "never edited"


def _history(facts: Page[Fact]) -> Iterator[Line]:
    """What was said of one thing, oldest first, with what became of each."""
    for fact in facts:
        state = fact.state.ljust(10), "green" if fact.state == "active" else "dim"
        scope = f"  ({fact.scope})" if fact.scope != "global" else ""
        yield 0, (moment(start(fact)), "dim"), "  ", state, f"  {fact.content}", (scope, "dim")
        yield 22, (str(fact.id), "dim")
    yield from more(facts.next_cursor)


def _verdict(word: str, arguments: Mapping[str, Any], positive: bool) -> Line:
    ends = ("source", "target") if "relation" in arguments else ("memory",)
    named = [f"{arguments[f'{end}_type']} {arguments[f'{end}_id']}" for end in ends if f"{end}_id" in arguments]
    named += [f"profile {arguments[name]}" for name in ("block",) if name in arguments]
    about = f" {arguments.get('relation')} ".join(named)
    return 0, (word if positive else "was there already:", "green"), f" {about}"


def _versions(deleted: int) -> Iterator[Line]:
    yield 0, ("deleted", "green"), f" {deleted} version{'' if deleted == 1 else 's'}"


def _fields(record: Any) -> Iterator[Line]:
    shown = {name.replace("_", " "): value for name, value in wire(record).items()}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        yield 0, (name.ljust(width), "dim"), "  ", _cell(value)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)


def _trail(trail: Trail) -> Iterator[Line]:
    """Each event, what it is about, and the run of a model in which it happened."""
    for event in trail:
        yield from events([event])
        ids = ((event.entity_type, event.entity_id), ("run", event.run_id))
        if about := " · ".join(f"{what} {id_}" for what, id_ in ids if id_):
            yield 2, (about, "dim")
    if not trail:
        yield from events([])
    yield from more(trail.next_cursor)


RENDERERS: dict[Any, Callable[[Any], Iterator[Line]]] = {
    Page[Item]: _page,
    **dict.fromkeys((Episode, Fact, Rule), memory),
    Window: _window,
    int: _versions,
    model.Entity: _entity,
    Page[model.EntityReport]: browsing.entities,
    model.MergePreview: browsing.preview,
    Growth: browsing.growth,
    Fading: browsing.fading,
    Page[ProfileOwner]: browsing.owners,
    list[Block]: browsing.versions,
    Statistics: _statistics,
    list[model.EntityCandidate]: _candidates,
    list[Event]: events,
    Trail: _trail,
    Page[Fact]: _history,
    list[Item]: derived,
    list[Link]: links,
    list[Revision]: _revisions,
    Consolidated: lessons.consolidated,
    Learned: lessons.learned,
    Page[RunReport]: lessons.runs,
    CompactFound: layers.compact,
    list[TimelineEntry]: layers.timeline,
    list[Detail]: details,
    Undone: lessons.undone,
    BridgeStatus: timeline.bridged,
}
