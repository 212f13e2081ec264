"""`tulving demo`: half a minute with a memory, on a story that is made up."""

import shlex
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import typer

from tulving.domain.model import Found, NewEpisode, NewFact, NewRule
from tulving.interfaces.cli import render
from tulving.interfaces.cli.options import Chosen
from tulving.interfaces.cli.terminal import block, lines, warn
from tulving.providers import EMBEDDERS
from tulving.services.memory import Memory

SCOPE = "demo"
BEFORE = [
    NewFact(subject=subject, predicate=predicate, content=content, scope=SCOPE, **details)
    for subject, predicate, content, details in (
        ("Mira", "home", "lives in Lisbon", {}),
        ("Mira", "allergy", "is allergic to peanuts", {"importance": 9.5, "permanence": "permanent"}),
        ("Mira", "style", "likes short answers with an example", {}),
        ("Friday dinner", "guests", "eight people, two of them vegetarian", {}),
        ("booking service", "database", "PostgreSQL, backed up every night", {}),
    )
]
EPISODES = [
    NewEpisode(content="I moved to Porto last week. Still unpacking!", butler=SCOPE, source="Mira"),
    NewEpisode(content="We are cooking for eight on Friday. I want something Thai.", butler=SCOPE, source="Mira"),
    NewEpisode(content="The deployment broke because nobody had run the tests.", butler=SCOPE, source="Jon"),
]
RULES = [
    NewRule(content="Check every recipe for nuts before suggesting it to Mira.", scope=SCOPE),
    NewRule(content="Run the tests before deploying the booking service.", scope=SCOPE),
]
AFTER = NewFact(subject="Mira", predicate="home", content="lives in Porto", scope=SCOPE)

PLACE = "Which city does Mira live in now?"
WISH = "What kind of food does Mira want on Friday?"
ADVICE = "What must I know before I cook for Mira?"
MEANING = "Could a snack with nuts hurt anybody?"
SESSION = "Plan a Thai dinner for Mira and her guests on Friday"


def demo(context: typer.Context) -> None:
    """See a memory at work: made-up memories are stored, recalled and made into a prompt.

    They go into a file of their own, or into the store that --url names before the command.
    """
    from tulving.location import store_name

    chosen: Chosen = context.obj
    if chosen.url is None:  # not the configured store, which holds memories that are not made up
        chosen = replace(chosen, url=str(Path(tempfile.mkdtemp(prefix="tulving-demo-")) / "memory.db"))
    by_meaning = EMBEDDERS[chosen.config().embedder].by_meaning
    chosen.run(lambda memory: _demonstrate(memory, by_meaning), create="file")
    url = shlex.quote(store_name(chosen.url))
    typer.echo(f"\nLook around:  tulving --url {url} list facts --state any\nYour own:     tulving init")


async def _demonstrate(memory: Memory, by_meaning: bool) -> None:
    await _store(memory)
    await memory.search(PLACE, scope=SCOPE)  # loads what is loaded once, so that the times below are a search's own
    if memory.warning:
        warn(f"memories are found by their words only. {memory.warning}")
    how = "by words" if memory.warning else "by words and by meaning"
    await _ask(f"Search, {how}", PLACE, memory.search(PLACE, ["fact"], SCOPE, limit=2))
    if by_meaning and not memory.warning:
        await _ask("Search, without a word in common", MEANING, memory.search(MEANING, ["fact"], SCOPE, limit=1))
    await _ask("Search, in what was said", WISH, memory.search(WISH, scope=SCOPE, limit=1))
    await _ask("Recall, where importance and recency count too", ADVICE, memory.recall(ADVICE, SCOPE, limit=3))
    _heading("Context, for the prompt of an agent", SESSION)
    block(await memory.context(SESSION, butler=SCOPE))


async def _store(memory: Memory) -> None:
    """Tell the story, unless this store has heard it."""
    if (await memory.list_memories("rule", scope=SCOPE)).items:
        _heading("This store knows the story already")
        return
    _heading("A conversation, and what is learned from it")
    await memory.store_episodes(EPISODES)
    lines((2, f"{episode.source}: {episode.content}") for episode in EPISODES)
    await memory.store_facts(BEFORE)
    await memory.store_rules(RULES)
    [moved] = await memory.store_facts([AFTER])
    lines([(0,), (2, f"{len(EPISODES)} episodes, {len(BEFORE)} facts and {len(RULES)} rules stored.")])
    if moved.superseded_id is not None:
        lines([(2, f"Mira · home: {AFTER.content} replaces {BEFORE[0].content} (kept as superseded)")])


async def _ask(what: str, question: str, finding: Awaitable[Found]) -> None:
    start = time.perf_counter()
    found = await finding
    _heading(f"{what} ({(time.perf_counter() - start) * 1000:.1f} ms)", question)
    lines(render.hits(found))


def _heading(text: str, question: str = "") -> None:
    lines([(0, (f"\n{text}", "bold"))])
    if question:
        lines([(0, (f"{question}\n", "cyan"))])
