"""Calls as every surface makes them: lazily opened, shared, failing open where the operation says so."""

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tulving import DamagedStore, InvalidInput, Memory, NotFound, StoreUnavailable
from tulving.interfaces.calls import invoke, open_lazily
from tulving.interfaces.parameters import accept, parameters
from tulving.interfaces.wire import answer
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig, RetrievalConfig


async def call(memory, operation, arguments):
    return answer(operation, await invoke(memory, operation, arguments))


class Failing:
    """Stands for a memory that can't be opened, because of an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def __call__(self) -> Memory:
        raise self.error


ARGUMENTS = {
    "memory_context": {"trigger_prompt": "colours", "butler": "me"},
    "memory_store_episode": {"content": "x", "butler": "me"},
    "memory_search": {"query": "x"},
    "memory_recall": {"topic": "x"},
}


@pytest.mark.scenario("001-099")
async def test_a_context_fails_open_to_its_header_and_a_warning(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR, "tulving"):
        answered = await call(
            Failing(StoreUnavailable("the disk\nis gone")), OPERATIONS["memory_context"], ARGUMENTS["memory_context"]
        )
    assert answered["context"].startswith("# Memory Context\n")
    assert "the disk is gone" in answered["context"]
    assert any(record.exc_info for record in caplog.records)


@pytest.mark.scenario("001-100")
async def test_an_episode_that_is_not_stored_never_looks_stored(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR, "tulving"):
        answered = await call(
            Failing(StoreUnavailable("no room")), OPERATIONS["memory_store_episode"], ARGUMENTS["memory_store_episode"]
        )
    assert answered == {"stored": False, "warning": "the episode was not stored: no room"}
    assert "no room" in caplog.text


@pytest.mark.parametrize("tool", ["memory_search", "memory_recall"])
async def test_a_search_fails_open_with_a_warning(tool: str):
    answered = await call(Failing(RuntimeError("odd")), OPERATIONS[tool], ARGUMENTS[tool])
    assert answered["results"] == []
    assert "odd" in answered["warning"]


@pytest.mark.parametrize("error", [InvalidInput("a", "b"), NotFound("c"), DamagedStore("d")])
@pytest.mark.parametrize("tool", list(ARGUMENTS))
async def test_what_must_be_corrected_and_damage_always_rise(tool: str, error: Exception):
    with pytest.raises(type(error)):
        await call(Failing(error), OPERATIONS[tool], ARGUMENTS[tool])


async def test_operations_without_a_fallback_rise():
    with pytest.raises(StoreUnavailable):
        await call(Failing(StoreUnavailable("gone")), OPERATIONS["memory_confirm"], {})


async def test_the_memory_is_opened_once_and_again_only_after_a_failure():
    opened, closed = [], []

    @asynccontextmanager
    async def opener():
        opened.append(1)
        await asyncio.sleep(0)
        if len(opened) == 1:
            raise StoreUnavailable("not yet")
        yield "memory"
        closed.append(1)

    async with open_lazily(opener) as memory:
        with pytest.raises(StoreUnavailable):
            await memory()
        assert await asyncio.gather(memory(), memory(), memory()) == ["memory"] * 3
        assert len(opened) == 2
    assert closed == [1]


async def test_a_caller_that_gives_up_leaves_the_opening_to_the_others():
    gate = asyncio.Event()
    closed = []

    @asynccontextmanager
    async def opener():
        await gate.wait()
        yield "memory"
        closed.append(1)

    async with open_lazily(opener) as memory:
        impatient, patient = asyncio.create_task(memory()), asyncio.create_task(memory())
        await asyncio.sleep(0)
        impatient.cancel()
        gate.set()
        assert await patient == "memory"
    assert closed == [1]


def test_a_memory_that_was_never_needed_is_never_opened(tmp_path: Path):
    async def idle() -> None:
        async with open_lazily(lambda: pytest.fail("opened")):
            pass

    asyncio.run(idle())


def test_arguments_are_read_as_the_method_takes_them():
    read = accept(
        OPERATIONS["memory_store_episode"],
        {
            "content": "5",
            "butler": "me",
            "importance": "7.5",
            "tags": '["a", "b"]',
            "metadata": '{"k": [1]}',
            "occurred_at": "2026-03-01T12:00:00Z",
            "title": None,
        },
    )
    assert read == {
        "content": "5",
        "butler": "me",
        "importance": 7.5,
        "tags": ["a", "b"],
        "metadata": {"k": [1]},
        "occurred_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({}, "query", "What to look for"),
        ({"query": 5}, "query", "text"),
        ({"query": "x", "limit": "many"}, "limit", "a whole number"),
        ({"query": "x", "limit": 2.5}, "limit", "a whole number"),
        ({"query": "x", "limit": True}, "limit", "a whole number"),
        ({"query": "x", "min_confidence": "NaN"}, "min_confidence", "a number"),
        ({"query": "x", "min_confidence": "-Infinity"}, "min_confidence", "a number"),
        ({"query": "x", "types": 5}, "types", "episode, fact, rule"),
        ({"query": "x", "types": [5]}, "types", "episode, fact, rule"),
        ({"query": "x", "since": "soon"}, "since", "ISO 8601"),
        ({"query": "x", "since": 5}, "since", "ISO 8601"),
        ({"query": "x", "tenant_id": "other"}, "tenant_id", "query, types, scope"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: dict, field: str, allowed: str):
    with pytest.raises(InvalidInput) as refused:
        accept(OPERATIONS["memory_search"], given)
    assert refused.value.field == field
    assert allowed in str(refused.value)


def test_a_number_too_large_for_a_float_is_left_to_the_verb():
    assert accept(OPERATIONS["memory_search"], {"query": "x", "min_confidence": 10**400})["min_confidence"] == 10**400


def test_a_whole_number_may_come_as_a_float():
    assert accept(OPERATIONS["memory_search"], {"query": "x", "limit": 3.0}) == {"query": "x", "limit": 3}


def test_configured_defaults_are_shown():
    retrieval = RetrievalConfig(default_limit=30, default_mode="keyword", context_token_budget=500)
    settings = MemoryModuleConfig(retrieval=retrieval, episode_max_entries=0)
    shown = {each.name: each.default for each in parameters(OPERATIONS["memory_search"], settings)}
    assert (shown["limit"], shown["mode"]) == (30, "keyword")
    budget = {each.name: each.default for each in parameters(OPERATIONS["memory_context"], settings)}
    assert budget["token_budget"] == 500
    [most, *_] = parameters(OPERATIONS["memory_run_episode_cleanup"], settings)
    assert (most.name, most.default) == ("max_entries", 0), "none is a number too"
