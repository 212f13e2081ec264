"""Two memories side by side, one on each engine: what is done with one is done with the other, and compared.

What is compared, and how strictly:

* Outcomes, ids, errors (their type; their words too where they are ours), links, pages: equal.
* After every call that may change something: all memories of the tenant in every state, its entities and what models
  have learned, field by field, and the events since, field by field and in order. (Which of several waiting memories
  gets its vector first is nobody's promise; here it is fixed, so that their events can be compared too.)
* Language models: the same prompts, to which the same answers are given, and so the same runs, proposals and profiles.
* Semantic search: the same hits in the same order, similarities equal within `CLOSE`, all else equal.
* Keyword search: BM25 and ts_rank weigh differently, so the order is an engine's own. What is found is not: on the
  agreed vocabulary (words that Porter's and the English Snowball stemmer cut alike) the hits are the same whenever the
  limit cuts nothing off, and so is which of them have all the words. Where any sensible rank gives the same order
  (`determined`), order and cut are compared too.
* Hybrid search, recall and context: an engine's rank is no evidence, so as long as no lane was cut, the same hits in
  the same order, with all the evidence, outdated ones and those left out. The keyword ranks follow the rule above, and
  the reported fusion must be that of the engine's own ranks. Recall counts references, so of a tenant with more
  memories than a lane is deep it is asked without a limit, and context not at all.
"""

import json
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

from administration import administer
from congruence_programs import FAMILY, NOBODY, START, TENANTS, WHO, Call, Ref, Vector, answer

from tulving import NewEpisode, NewFact, NewRule, open_memory
from tulving.domain.model import KINDS, Found, Hit, Item, Kind
from tulving.domain.ranking import rrf_score
from tulving.domain.scope import Caller
from tulving.domain.text import found_by, lookup_terms, words
from tulving.errors import EmbedderMismatch, EmbedderUnavailable, IntegrityError, StoreUnavailable
from tulving.services.memory import Memory
from tulving.services.search import POOL
from tulving.storage.moving import MOVED
from tulving.testing import CLOSE, ManualClock, ScriptedLlm, SequentialIds, WordEmbedder

OFFERS: dict[str, Any] = {"store_facts": NewFact, "store_episodes": NewEpisode, "store_rules": NewRule}
READING = {"search", "search_similar", "all_pages", "get", "get_links", "events", "history", "revisions", "stats"}
READING |= {"get_entity", "resolve_entity", "profile", "derived", "merge_rules"}
BESIDE = ("entities", "learning_runs", "proposals", "profile_blocks", "settlements", "merge_rules")
"""Tables of which a tenant's rows are compared as they are."""


class Difference(AssertionError):
    """The engines disagree."""


@dataclass(frozen=True)
class Raised:
    """An error as a caller tells errors apart. What a database says in its own words is not compared."""

    kind: type
    words: str


def raised(error: Exception) -> Raised:
    for kind in (EmbedderMismatch, IntegrityError, StoreUnavailable):
        if isinstance(error, kind):
            return Raised(kind, "")
    return Raised(type(error), str(error))


class Side:
    """One engine's memory, which may be closed and opened again."""

    def __init__(self, name: str, url: str, clock: ManualClock) -> None:
        self.name, self.url, self.clock = name, url, clock
        self.ids = SequentialIds()
        self.seen = 0
        self.request = "request"
        self.llm = ScriptedLlm(answer, forever=True)
        self._stack = AsyncExitStack()
        self.memory: Memory

    async def open(self, embedder: WordEmbedder) -> None:
        await self._stack.aclose()
        parts: dict[str, Any] = {"embedder": embedder, "llm": self.llm, "clock": self.clock, "ids": self.ids}
        self.memory = await self._stack.enter_async_context(
            open_memory(self.url, background=False, may_reembed=True, **parts)
        )

    async def close(self) -> None:
        await self._stack.aclose()

    def bound(self, who: str) -> Memory:
        tenant, owner = WHO[who]
        return self.memory.bind(caller=Caller(tenant, "tester", self.request, idempotency_key=self.request), **owner)

    async def items(self, tenant: str) -> dict[Kind, list[Item]]:
        memory = self.memory.bind(caller=Caller(tenant))
        return {kind: (await memory.list_memories(kind, state="any", limit=1000)).items for kind in KINDS}

    async def rows(self, tenant: str, table: str) -> list[dict[str, Any]]:
        statement = f"SELECT * FROM {table} WHERE tenant_id = :tenant_id"
        rows = await administer(self.memory)._read(lambda conn: conn.fetch_all(statement, {"tenant_id": tenant}))
        return sorted(rows, key=lambda row: [str(row[name]) for name in MOVED[table].key])

    async def new_events(self) -> list[dict[str, Any]]:
        statement = "SELECT * FROM memory_events WHERE seq > :seen ORDER BY seq"
        events = await administer(self.memory)._read(lambda conn: conn.fetch_all(statement, {"seen": self.seen}))
        for event in events:
            self.seen = event.pop("seq")
            event.pop("transaction_id", None)  # which only PostgreSQL has
            _without_number(event["payload"])
        return events


class Twins:
    """A memory on each engine. `run` gives both the same calls and raises at the first difference."""

    def __init__(self, urls: dict[str, str], folder: Path) -> None:
        self.clock = ManualClock(START)
        self.embedder = WordEmbedder()
        self.sides = [Side(name, url, self.clock) for name, url in urls.items()]
        self._folder = folder
        self._known: dict[tuple[str, str], dict[UUID, Any]] = {}
        self._steps = 0
        self._last: tuple[int, Call] | None = None
        self.refused = 0
        self._texts: dict[str, dict[Kind, list[Item]]] = {tenant: {kind: [] for kind in KINDS} for tenant in TENANTS}

    async def open(self) -> None:
        for side in self.sides:
            await side.open(self.embedder)

    async def close(self) -> None:
        for side in self.sides:
            await side.close()

    async def run(self, calls: list[Call]) -> None:
        for call in calls:
            await self.step(*call)
        await self.finish()

    async def step(self, who: str, verb: str, args: dict[str, Any]) -> None:
        """One call, under an idempotency key of its own; or `again` the last one that may have changed something."""
        if verb != "again":
            self._steps += 1
            call = who, verb, self.resolved(who, args)
            if verb not in READING:
                self._last = self._steps, call
            await self._call(self._steps, *call)
        elif self._last:
            await self._call(self._last[0], *self._last[1])

    async def _call(self, number: int, who: str, verb: str, args: dict[str, Any]) -> None:
        for side in self.sides:
            side.request = f"request {number}"
        if offered := OFFERS.get(verb):
            args = {"offers": [offered(**offer) for offer in args["offers"]]}
        special = getattr(self, f"do_{verb}", None)
        if special is not None:
            await special(who, **args)
        elif verb in ("search", "search_similar", "recall", "context"):
            await self._found(who, verb, args)
        else:
            await self.both(lambda side: getattr(side.bound(who), verb)(**args))
        for side in self.sides:
            await side.memory.settle()  # what was referred to when decides the order of what is recalled next
        if verb not in READING:
            await self.compare_state(WHO[who][0])

    async def finish(self) -> None:
        for tenant in TENANTS:
            await self.compare_state(tenant)
        for side in self.sides:
            verified = await administer(side.memory).verify()
            assert verified.ok, (side.name, verified.findings)
        await self.both(lambda side: side.memory.count_pending())
        await self.exported(None)

    async def both(self, do: Callable[[Side], Awaitable[Any]]) -> Any:
        first, second = [await _outcome(do, side) for side in self.sides]
        same("the answer", first, second)
        if isinstance(first, Raised):
            self.refused += 1
            used = max(side.ids._next for side in self.sides)  # PostgreSQL may have tried several times
            for side in self.sides:
                side.ids._next = used
        return first

    def resolved(self, who: str, value: Any) -> Any:
        if isinstance(value, Vector):
            return WordEmbedder(self.embedder.dimension).embed(value.text)
        if isinstance(value, list):
            return [self.resolved(who, part) for part in value]
        if isinstance(value, dict):
            return {name: self.resolved(who, part) for name, part in value.items()}
        if not isinstance(value, Ref):
            return value
        known = list(self._known.get((WHO[value.of or who][0], value.kind), {}).items())
        if value.short:
            known = [(id_, item) for id_, item in known if getattr(item, "ref", None)]
        if not known:
            return NOBODY
        id_, item = known[value.n % len(known)]
        return item.ref if value.short else id_

    # -- calls that are more than one verb

    async def do_advance(self, who: str, **duration: float) -> None:
        self.clock.advance(**duration)

    async def do_of_all_tenants(self, who: str, verb: str, **args: Any) -> None:
        await self.both(lambda side: getattr(administer(side.memory), verb)(**args))

    async def do_unready(self, who: str) -> None:
        self.embedder.problem = "no weights yet"

    async def do_failing(self, who: str) -> None:
        self.embedder.error = EmbedderUnavailable("out of order")

    async def do_ready(self, who: str) -> None:
        self.embedder.problem = self.embedder.error = None

    async def do_change_embedder(self, who: str, dimension: int, version: str) -> None:
        self.embedder = WordEmbedder(dimension, version=version)
        for side in self.sides:
            await side.open(self.embedder)
        await self.both(lambda side: administer(side.memory).reembed())

    async def do_forced(self, who: str) -> None:
        await self.both(lambda side: administer(side.memory).reembed(force=True))

    async def do_reopen(self, who: str) -> None:
        for side in self.sides:
            await side.open(self.embedder)

    async def do_prompted(self, who: str, answered: bool, named: bool, **args: Any) -> None:
        asked = await self.both(lambda side: side.bound(who).learn_prompt(**args))
        if answered and not isinstance(asked, Raised) and asked.lease is not None:
            lease = {"lease": asked.lease} if named else {}
            await self.both(lambda side: side.bound(who).learn_apply(answer(asked.prompt), **lease))

    async def do_on_run(self, who: str, verb: str, n: int) -> None:
        runs = await self.both(lambda side: side.bound(who).runs(limit=1000))
        if runs:
            await self.both(lambda side: getattr(side.bound(who), verb)(runs[n % len(runs)].run.id))

    async def do_on_proposal(self, who: str, verb: str, n: int, whole: bool) -> None:
        held = await self.both(lambda side: side.bound(who).proposals(limit=1000))
        if held:
            chosen = held[n % len(held)]
            await self.both(lambda side: getattr(side.bound(who), verb)(chosen.run_id if whole else chosen.id))

    async def do_on_conflict(self, who: str, verb: str, n: int) -> None:
        settled = await self.both(lambda side: side.bound(who).conflicts(limit=1000))
        if settled:
            chosen = settled[n % len(settled)].settlement
            await self.both(lambda side: getattr(side.bound(who), verb)(chosen.id))

    async def do_events(self, who: str, **args: Any) -> None:
        """Numbers of changes have gaps, which are an engine's own."""

        async def events(side: Side) -> list[Any]:
            return [replace(event, seq=None) for event in await side.bound(who).events(**args)]

        await self.both(events)

    async def do_all_pages(self, who: str, **args: Any) -> None:
        cursor = None
        for _ in range(1000):
            page = await self.both(lambda side: side.bound(who).list_memories(cursor=cursor, **args))
            if isinstance(page, Raised) or (cursor := page.next_cursor) is None:
                return

    async def do_carry(self, who: str, to: str) -> None:
        """What one tenant has becomes another's too; each engine reads what the other one wrote."""
        paths = await self.exported(who)
        await self.both(lambda side: side.bound(to).import_(paths[side is self.sides[0]]))
        await self.compare_state(WHO[to][0])

    async def exported(self, who: str | None) -> list[Path]:
        """One tenant's memory, or (None) the whole store."""
        paths = [self._folder / f"{side.name}.jsonl" for side in self.sides]

        def export(side: Side) -> Awaitable[Any]:
            exporting = administer(side.memory) if who is None else side.bound(who)
            return exporting.export(paths[side is not self.sides[0]])

        await self.both(export)
        first, second = ([json.loads(line) for line in path.read_text().splitlines()] for path in paths)
        same("the export", _unordered(first), _unordered(second))
        return paths

    # -- finding

    async def _found(self, who: str, verb: str, args: dict[str, Any]) -> None:
        query = args.get("query") or args.get("topic") or args.get("trigger_prompt")
        kinds = args.get("types") or KINDS
        texts = self._texts[WHO[who][0]]
        whole = all(len(texts[kind]) < POOL for kind in kinds if kind in KINDS)
        if not whole and verb == "recall":
            args, whole = {**args, "limit": 1000}, True
        if not whole and verb == "context":
            return
        first, second = [
            await _outcome(lambda side: getattr(side.bound(who), verb)(**args), side) for side in self.sides
        ]
        if not isinstance(first, Found) or not isinstance(second, Found):
            same("the answer", first, second)
            return
        mode = "semantic" if verb == "search_similar" else args.get("mode") or "hybrid"
        determined = isinstance(query, str) and self._determined(WHO[who][0], query, kinds)
        for found in (first, second):
            _check_own_order(found)
        compare_found(first, second, args.get("limit") or 10, mode, whole, determined)

    def _determined(self, tenant: str, query: str, kinds: Sequence[Kind]) -> bool:
        """Whether every sensible rank puts the matches of a query in the same order: all are of one kind, and of each
        two, one has each word at least as often and is no longer."""
        wanted = {FAMILY.get(word, word) for word in lookup_terms(query)}
        matches = []
        for kind in kinds if all(kind in KINDS for kind in kinds) else ():
            for item in self._texts[tenant][kind]:
                has = [FAMILY.get(word, word) for word in words(found_by(item))]
                if wanted & set(has):
                    matches.append((kind, len(has), [has.count(word) for word in wanted]))
        matches.sort(key=lambda match: (-sum(match[2]), match[1]))
        return len({kind for kind, _, _ in matches}) <= 1 and all(
            short <= long and all(a >= b for a, b in zip(many, few, strict=True))
            for (_, short, many), (_, long, few) in pairwise(matches)
        )

    # -- state

    async def compare_state(self, tenant: str) -> None:
        first, second = [await side.items(tenant) for side in self.sides]
        for kind in KINDS:
            same(f"the {kind}s of {tenant}", first[kind], second[kind])
            known = self._known.setdefault((tenant, kind), {})
            known |= {item.id: item for item in sorted(first[kind], key=lambda item: item.id)}
        self._texts[tenant] = first
        for table in BESIDE:
            rows, others = [await side.rows(tenant, table) for side in self.sides]
            same(f"the {table} of {tenant}", rows, others)
            if table == "entities":
                self._known.setdefault((tenant, "entity"), {}).update({entity["id"]: entity for entity in rows})
        same("the prompts", *[side.llm.prompts for side in self.sides])
        same("the events", *[await side.new_events() for side in self.sides])


async def _outcome(do: Callable[[Side], Awaitable[Any]], side: Side) -> Any:
    try:
        return await do(side)
    except Exception as error:
        return raised(error)


def _without_number(row: dict[str, Any]) -> None:
    """The numbers of embedders may have gaps, which are an engine's own."""
    if row.get("embedding_version") is not None:
        row["embedding_version"] = "some"
    if isinstance(row.get("payload"), dict):
        _without_number(row["payload"])


def _unordered(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of an export by table; the order of tenants is that of a database's own alphabet."""
    header, *rows = lines
    result = [header]
    for table, group in groupby(rows, key=lambda line: line["table"]):
        found = [line["row"] for line in group]
        for row in found:
            _without_number(row)
        if table != "memory_events":
            found.sort(key=lambda row: json.dumps(row, sort_keys=True))
        result.extend({table: row} for row in found)
    return result


# -- what is the same --------------------------------------------------------------------------------------------------


def same(what: str, first: Any, second: Any) -> None:
    if first == second:
        return
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for at, (one, other) in enumerate(zip(first, second, strict=True)):
            same(f"{what}[{at}]", one, other)
    if isinstance(first, dict) and isinstance(second, dict):
        for key in first.keys() | second.keys():
            same(f"{what}[{key!r}]", first.get(key), second.get(key))
    raise Difference(f"{what} differs\n  sqlite:   {first!r:.2000}\n  postgres: {second!r:.2000}")


OWN = {"rank", "keyword_rank", "rrf_score"}
"""What an engine's own ranks decide."""


def compare_found(first: Found, second: Found, limit: int, mode: str, whole: bool, determined: bool) -> None:
    """By the rules at the top of this file. `whole`: no lane can have been cut."""
    same("the mode", (first.mode, first.warning), (second.mode, second.warning))
    certain = {"semantic": True, "hybrid": whole, "keyword": determined}[mode]
    if certain or whole:
        counts = [(found.candidates, found.below_confidence, found.below_relevance) for found in (first, second)]
        same("the counts", *counts)
    if certain:
        same("the hits", *([(_key(hit), hit.weak, hit.newer) for hit in found] for found in (first, second)))
        same("the closest", *(found.closest and _key(found.closest) for found in (first, second)))
    hits, others = ({_key(hit): hit for hit in found} for found in (first, second))
    if whole and first.candidates <= limit:
        same("what is found", sorted(hits), sorted(others))
    for key in hits.keys() & others.keys():
        one, other = hits[key], others[key]
        same("the item", one.item, other.item)
        compared = one.parts.keys() | other.parts.keys() if certain or whole else {"confidence", "similarity"}
        for part in compared - OWN:
            close(f"{part} of {key}", one.parts.get(part), other.parts.get(part))
        if certain or whole:
            every = [hit.parts.get("rank") and math.floor(hit.parts["rank"]) for hit in (one, other)]
            same(f"having all words of {key}", *every)
        if certain and mode != "keyword":
            close(f"score of {key}", one.score, other.score)
        if whole and determined:
            for part in OWN - {"rank"}:
                same(f"{part} of {key}", one.parts.get(part), other.parts.get(part))


def _key(hit: Hit) -> tuple[Kind, UUID]:
    return hit.memory_type, hit.item.id


def close(what: str, one: float | None, other: float | None) -> None:
    """Equal, apart from what sums of similarities may differ by."""
    if one is None or other is None or abs(one - other) > CLOSE:
        same(what, one, other)


def _check_own_order(found: Found) -> None:
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    for hit in found:
        if "rrf_score" in hit.parts:
            assert hit.parts["rrf_score"] == rrf_score(int(hit.parts["semantic_rank"]), int(hit.parts["keyword_rank"]))
            assert "recency" in hit.parts or hit.score == hit.parts["relevance"]
        assert 0 < hit.parts.get("rank", 1) < 2
