"""Both engines get the same calls and must give the same answers. What is the same is said in `congruence_twins`."""

import json
import math
import pprint
import struct
import time
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from administration import administer
from congruence_programs import FAMILY, FORMS, NOBODY, TENANTS, Call, Ref, program
from congruence_twins import Raised, Side, Twins
from postgres_stores import Stores

from tulving import NewRule, open_memory
from tulving.domain.model import Found, Item, Kind
from tulving.domain.text import words
from tulving.storage import embeddings
from tulving.testing import WordEmbedder

NewTwins = Callable[[], Any]


@pytest.fixture
def new_twins(tmp_path: Path, postgres_stores: Stores, monkeypatch: pytest.MonkeyPatch) -> NewTwins:
    """Two empty stores, gone when they are left."""
    made = 0
    monkeypatch.setattr(embeddings, "pending", in_fixed_order(embeddings.pending))

    @asynccontextmanager
    async def new() -> AsyncIterator[Twins]:
        nonlocal made
        made += 1
        folder = tmp_path / str(made)
        folder.mkdir()
        url = postgres_stores.take()
        twins = Twins({"sqlite": str(folder / "memory.db"), "postgres": url}, folder)
        try:
            await twins.open()
            yield twins
        finally:
            await twins.close()
            postgres_stores.give_back(url)

    return new


def in_fixed_order(pending: Callable[..., list[tuple[Kind, Item]]]) -> Callable[..., list[tuple[Kind, Item]]]:
    def ordered(conn: Any, tenant_id: str | None, limit: int) -> list[tuple[Kind, Item]]:
        return sorted(pending(conn, tenant_id, 100_000), key=lambda found: (found[1].tenant_id, found[1].id))[:limit]

    return ordered


async def find_difference(new_twins: NewTwins, calls: list[Call]) -> str | None:
    async with new_twins() as twins:
        try:
            await twins.run(calls)
        except AssertionError as difference:
            return str(difference)
    return None


async def explain(new_twins: NewTwins, calls: list[Call], told: str) -> str:
    """The difference again, from as few calls and arguments as still show it, ready to be pasted as a test."""
    size, deadline = len(calls), time.monotonic() + 60
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(calls):
            fewer = calls[:at] + calls[at + size :]
            if message := await find_difference(new_twins, fewer):
                calls, told = fewer, message
            else:
                at += size
        size //= 2
    at = 0
    while at < len(calls) and time.monotonic() < deadline:
        who, verb, args = calls[at]
        for simpler in _simpler(args):
            fewer = [*calls[:at], (who, verb, simpler), *calls[at + 1 :]]
            with suppress(TypeError, KeyError):  # it was needed
                if message := await find_difference(new_twins, fewer):
                    calls, told = fewer, message
                    break
        else:
            at += 1
    shown = pprint.pformat(calls, sort_dicts=False)
    shown = shown.replace("datetime.datetime(", "datetime(").replace("datetime.timezone.utc", "UTC")
    return f"{told}\n\nAn entry for ONCE_DIFFERENT:\n\n{shown}"


def _simpler(args: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Without one of the arguments, or one of the offers, or one of the arguments of an offer."""
    for name in args:
        yield {key: value for key, value in args.items() if key != name}
    offers = args.get("offers", [])
    for at, offer in enumerate(offers):
        yield {"offers": offers[:at] + offers[at + 1 :]}
        for simpler in _simpler(offer):
            yield {"offers": [*offers[:at], simpler, *offers[at + 1 :]]}


async def drive(new_twins: NewTwins, seed: int, steps: int, learning: bool = False) -> None:
    calls = program(seed, steps, learning)
    if told := await find_difference(new_twins, calls):
        pytest.fail(f"seed {seed}: {await explain(new_twins, calls, told)}", pytrace=False)


@pytest.mark.usefixtures("fuzzy")
@pytest.mark.parametrize("seed", range(3))
async def test_the_engines_agree(new_twins: NewTwins, seed: int) -> None:
    await drive(new_twins, seed, 100)


@pytest.mark.usefixtures("fuzzy")
@pytest.mark.parametrize("seed", range(2))
async def test_the_engines_learn_alike(new_twins: NewTwins, seed: int) -> None:
    await drive(new_twins, seed, 70, learning=True)


async def test_a_program_that_learns_does_what_a_run_can_do(new_twins: NewTwins) -> None:
    done: Counter[str] = Counter()
    async with new_twins() as twins:
        for seed in range(2):
            await twins.run(program(seed, 70, learning=True))
        for tenant in TENANTS:
            for row in await twins.sides[0].rows(tenant, "learning_runs"):
                done.update({**row["counts"], row["job"]: 1, row["status"]: 1})
    wanted = "facts_created confirmations_made episodes_consolidated held extraction consolidation undone done"
    assert not [name for name in wanted.split() if not done[name]], done


@pytest.mark.usefixtures("fuzzy")
async def test_most_calls_of_a_program_do_something(new_twins: NewTwins) -> None:
    """If all were refused, the engines would agree too."""
    calls = program(0, 100)
    async with new_twins() as twins:
        await twins.run(calls)
        assert twins.refused < len(calls) / 4


@pytest.mark.soak
@pytest.mark.usefixtures("fuzzy")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(1000, 1060))
async def test_the_engines_agree_for_long(new_twins: NewTwins, seed: int) -> None:
    await drive(new_twins, seed, 200, learning=seed % 3 == 0)


async def test_the_vocabulary_is_agreed(new_twins: NewTwins) -> None:
    """Each word is found by each of its forms, and by no other word."""
    async with new_twins() as twins:
        for side in twins.sides:
            stored = await side.memory.store_rules([NewRule(content=form) for form in FORMS])
            numbers = [stored_.id for stored_ in stored]
            for form in FORMS:
                found = await side.memory.search(form, mode="keyword", types=["rule"], limit=1000)
                family = FAMILY[words(form)[0]]
                expected = {id_ for id_, other in zip(numbers, FORMS, strict=True) if FAMILY[words(other)[0]] == family}
                assert {hit.item.id for hit in found} == expected, (side.name, form)


CROWD = [{"content": "same words"}] * 30
LONG = "".join(map(chr, Random(0).sample(range(0x4E00, 0x9FFF), 1000)))
ONCE_DIFFERENT: dict[str, list[Call]] = {
    "which of many equals the limit leaves": [
        ("acme", "store_rules", {"offers": CROWD}),
        *(("acme", "search", {"query": "same", "mode": "keyword", "limit": n, "types": ["rule"]}) for n in (1, 5, 29)),
    ],
    "numbers that JSON writes in several ways": [
        ("acme", "store_rule", {"content": "tea", "metadata": {"a": 1e23, "b": [1.5e300, "1e+5"], "c": 10**40}}),
    ],
    "the ends of time": [
        ("acme", "store_episode", {"content": "tea", "butler": "b", "occurred_at": datetime.max}),
        ("acme", "store_episode", {"content": "tea", "butler": "b", "occurred_at": datetime.min}),
        ("acme", "all_pages", {"memory_type": "episode", "since": datetime.min, "until": datetime.max}),
        ("acme", "search", {"query": "tea", "since": datetime.min, "until": datetime.max}),
    ],
    "keys too long for an index": [
        ("acme", "store_fact", {"subject": LONG, "predicate": "p", "content": "tea"}),
        ("acme", "store_fact", {"subject": "s", "predicate": "p", "content": "tea", "scope": LONG}),
        ("acme", "store_rule", {"content": "tea", "scope": LONG}),
        ("acme", "store_episode", {"content": "tea", "butler": LONG}),
        ("acme", "store_fact", {"subject": LONG[:400], "predicate": LONG[:400], "content": "tea"}),
    ],
    "what was deleted and is imported again": [
        ("acme", "store_facts", {"offers": [{"content": "tea"}]}),
        ("acme", "carry", {"to": "bolt"}),
        ("acme", "delete", {"memory_type": "fact", "memory_id": Ref("fact", 0)}),
        ("acme", "search", {"query": "tea", "mode": "semantic"}),
        ("bolt", "carry", {"to": "acme"}),
        ("acme", "search", {"query": "tea", "mode": "semantic"}),
    ],
}


@pytest.mark.parametrize("calls", ONCE_DIFFERENT.values(), ids=ONCE_DIFFERENT)
async def test_what_once_differed(new_twins: NewTwins, calls: list[Call]) -> None:
    async with new_twins() as twins:
        await twins.run(calls)


DAMAGED: dict[str, Any] = {
    "content": ["a\x00b", "a\ud800b", None, 5],
    "metadata": [{"a": "\x00"}, {"\x00": 1}, {"a": ["\udfff"]}, {"a": math.inf}, [1], "{}"],
    "tags": [{"a": 1}, ["\x00"], "a"],
    "reference_count": [1.5, 1.0, True, 2**40, -1, "1"],
    "confidence": [2, math.nan, True, "1"],
    "created_at": ["yesterday", "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00", None, 5],
    "embedding": ["AAAA", "?", b64encode(struct.pack("<64f", *[math.nan] * 64)).decode()],
    "source_episode_id": [str(NOBODY), "tea"],
    "maturity": ["ripe"],
    "status": ["gone"],
    "id": [None, "tea"],
}


@pytest.mark.parametrize("column", DAMAGED)
async def test_what_no_store_can_hold_is_refused_by_both(new_twins: NewTwins, column: str) -> None:
    """And nothing has changed afterwards."""
    async with new_twins() as twins:
        await twins.step("acme", "store_rule", {"content": "tea", "metadata": {"a": "b"}})
        path, _ = await twins.exported("acme")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        (row,) = (line["row"] for line in lines if line.get("table") == "rules")
        for wrong in DAMAGED[column]:
            right, row[column] = row[column], wrong
            path.write_text("\n".join(map(json.dumps, lines)))
            row[column] = right
            refused = await twins.both(lambda side: side.bound("bolt").import_(path))
            assert isinstance(refused, Raised), (column, wrong)
        await twins.finish()


async def test_one_who_slept_while_the_store_was_reembedded(new_twins: NewTwins) -> None:
    """It may not search by vectors or write any, but all else it may; what it exports names the right embedder."""
    async with new_twins() as twins:
        await twins.step("acme", "store_rules", {"offers": [{"content": "tea"}, {"content": "box"}]})
        await twins.exported("acme")
        for side in twins.sides:
            awake = WordEmbedder(32, version="2")
            async with open_memory(
                side.url, embedder=awake, clock=twins.clock, ids=side.ids, may_reembed=True
            ) as other:
                await administer(other).reembed()
        paths = await twins.exported("acme")
        assert json.loads(paths[1].read_text().splitlines()[0])["embedder"] == ["words", "2", 32]
        for verb, args, fine in (
            ("search", {"query": "tea"}, False),
            ("search", {"query": "tea", "mode": "keyword"}, True),
            ("store_rule", {"content": "late"}, False),
            ("list_memories", {"memory_type": "rule"}, True),
            ("forget", {"memory_type": "rule", "memory_id": Ref("rule", 0)}, True),
            ("embed_pending", {}, True),
        ):
            answer = await twins.both(partial(_only_ids, verb, twins.resolved("acme", args)))
            assert isinstance(answer, Raised) != fine, (verb, answer)
        await twins.compare_state("acme")


async def _only_ids(verb: str, args: dict[str, Any], side: Side) -> Any:
    answer = await getattr(side.bound("acme"), verb)(**args)
    return [hit.item.id for hit in answer] if isinstance(answer, Found) else answer
