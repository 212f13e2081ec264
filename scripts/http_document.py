"""Writes the OpenAPI document of the HTTP API (docs/openapi.json), with recorded examples.

The calls of `STORY` are sent to a real service in this process. Every operation is called at least once, and its last
call becomes its example. The examples are written next to the code that generates the document, and shipped with it.

With --check only tells whether the files are current.
"""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
from starlette.applications import Starlette

from tulving import Memory, open_memory
from tulving.bootstrap import Served
from tulving.interfaces.calls import open_lazily
from tulving.interfaces.http import api, openapi
from tulving.interfaces.http.application import application
from tulving.interfaces.http.arguments import IN_QUERY
from tulving.interfaces.http.authentication import Access
from tulving.interfaces.http.batches import batched
from tulving.interfaces.http.hosts import Endpoint
from tulving.services.administration import Administration
from tulving.services.operations import OPERATIONS, Operation
from tulving.services.tokens import Authentication
from tulving.settings import ConflictsConfig, LearningConfig, MemoryModuleConfig
from tulving.testing import ManualClock, ScriptedLlm, SequentialIds, WordEmbedder

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "openapi.json"
EXAMPLES = ROOT / "src" / "tulving" / "interfaces" / "http" / "examples.json"
_FIGURES = re.compile(r'"note": "[^"]*\d[^"]*')
"""Notes with figures, in which the health of a service describes the machine that it runs on."""
KEY = "tulving_" + "0" * 43
SECRET = "tulving_" + "1" * 43
CONVERSATION = "User: I have moved to Lisbon and work as a bookbinder now.\nAssistant: Congratulations!"
LEARNED = {
    "facts": [{"content": "Ada lives in Lisbon", "category": "context", "confidence": 0.9}],
    "user": {"work": {"summary": "Bookbinder in Lisbon", "shouldUpdate": True}},
}
CONSOLIDATED = {"new_rules": [{"content": "Book window seats for Ada"}, {"content": "Call Ada a Countess"}]}
CAUTIOUS = MemoryModuleConfig(conflicts=ConflictsConfig(review_below=0.9), learning=LearningConfig(review_rules=True))
"""Conflicts, and rules that a model proposes, are held for a person to decide."""
FACT = {"memory_type": "fact", "memory_id": "$store_fact.id"}
NOTE = {"memory_type": "fact", "memory_id": "$save_semantic.id"}
EPISODE = {"memory_type": "episode", "memory_id": "$store_episode.id"}
RULE = {"rule_id": "$store_rule.id"}

STORY: list[tuple[str, dict[str, Any]]] = [
    ("start_session", {"project": "travel", "butler": "planner"}),
    (
        "store_episode",
        {"content": "Ada asked for a window seat on the train to Lisbon", "butler": "planner", "title": "Seat"},
    ),
    (
        "store_episodes",
        {
            "items": [
                {"content": "The train was late by an hour", "butler": "planner"},
                {"content": "Ada liked the hotel by the river", "butler": "planner", "importance": 7},
            ]
        },
    ),
    (
        "record_event",
        {"content": "Ada booked a train to Lisbon", "event_type": "task", "user_id": "ada", "source": "calendar"},
    ),
    (
        "record_events",
        {
            "items": [
                {"content": "Ada paid for the train", "event_type": "task", "timestamp": "2026-01-01T09:00:00Z"},
                {"content": "Ada packed a suitcase", "event_type": "task", "timestamp": "2026-01-01T20:00:00Z"},
            ],
            "user_id": "ada",
        },
    ),
    ("store_fact", {"subject": "Ada", "predicate": "home", "content": "Berlin"}),
    ("store_fact", {"subject": "Ada", "predicate": "home", "content": "Lisbon", "importance": 8, "tags": ["travel"]}),
    (
        "store_facts",
        {
            "items": [
                {"subject": "Ada", "predicate": "seat", "content": "by the window"},
                {"subject": "Ada", "predicate": "work", "content": "bookbinder", "source": "conversation"},
            ]
        },
    ),
    ("store_note", {"content": "Ada drinks green tea in the morning", "category": "preference"}),
    ("save_semantic", {"content": "Ada grows roses on the balcony", "user_id": "ada"}),
    ("store_rule", {"content": "Ask before you book anything"}),
    ("store_rules", {"items": [{"content": "Offer the train first"}, {"content": "Quote prices in euros"}]}),
    ("mark_harmful", {**RULE, "reason": "It was only a question about the weather"}),
    ("mark_helpful", {**RULE, "circumstances": {"destination": "Lisbon"}}),
    ("search", {"query": "green tea", "limit": 1}),
    ("search_similar", {"query": "a train to Lisbon", "min_similarity": 0.5, "limit": 1}),
    ("search_compact", {"query": "train", "limit": 2}),
    ("recall", {"topic": "the home of Ada", "limit": 1}),
    ("context", {"trigger_prompt": "Plan a trip for Ada", "butler": "planner"}),
    ("get", FACT),
    ("list_memories", {"memory_type": "fact", "limit": 2}),
    ("facts", {"subject": "Ada", "limit": 2}),
    ("episodes", {"since": "2026-01-01T00:00:00Z", "query": "train", "limit": 1}),
    ("history", {"subject": "Ada", "predicate": "home"}),
    ("query_window", {"since": "2026-01-01T00:00:00Z", "user_id": "ada", "top_k": 2}),
    ("timeline", {**EPISODE, "window": 1}),
    ("details", {"ids": ["$store_fact.id"]}),
    ("edit", {**FACT, "content": "Lisbon, by the river", "importance": 9}),
    ("revisions", FACT),
    ("events", FACT),
    (
        "create_link",
        {
            "source_type": "fact",
            "source_id": "$store_fact.id",
            "target_type": "episode",
            "target_id": "$store_episode.id",
            "relation": "derived_from",
        },
    ),
    ("get_links", FACT),
    ("derived", EPISODE),
    ("confirm", FACT),
    ("store_note", {"content": "Ada does not drink green tea in the morning", "category": "preference"}),
    ("conflicts", {"status": "held"}),
    ("accept_conflict", {"conflict_id": "$conflicts.conflicts.0.settlement.id"}),
    ("conflict", {"conflict_id": "$conflicts.conflicts.0.settlement.id"}),
    ("revert_conflict", {"conflict_id": "$conflicts.conflicts.0.settlement.id"}),
    ("store_note", {"content": "Ada does not drink any green tea in the morning", "category": "preference"}),
    ("conflicts", {"limit": 1}),
    ("dismiss_conflict", {"conflict_id": "$conflicts.conflicts.0.settlement.id"}),
    ("register_merge_rule", {"config": {"name": "travel", "priority": 5, "merge": {"deduplicate": False}}}),
    ("update_merge_rule", {"name": "travel", "updates": {"enabled": False}}),
    ("merge_rule", {"name": "travel"}),
    ("merge_rules", {}),
    ("delete_merge_rule", {"name": "travel"}),
    ("create_entity", {"canonical_name": "Ada Lovelace", "entity_type": "person", "aliases": ["Countess"]}),
    ("get_entity", {"entity_id": "$create_entity.entity_id"}),
    ("update_entity", {"entity_id": "$get_entity.entity.id", "aliases": ["Ada", "Countess"]}),
    ("create_entity", {"canonical_name": "Augusta Ada King", "entity_type": "person", "aliases": ["A. A. L."]}),
    ("resolve_entity", {"name": "countess"}),
    ("list_entities", {"name": "ada", "entity_type": "person"}),
    (
        "preview_merge",
        {"source_entity_id": "$create_entity.entity_id", "target_entity_id": "$get_entity.entity.id"},
    ),
    (
        "merge_entities",
        {"source_entity_id": "$create_entity.entity_id", "target_entity_id": "$get_entity.entity.id"},
    ),
    ("set_profile", {"block": "work", "content": "Ada is a bookbinder"}),
    ("profile", {}),
    ("profile_block", {"block": "work"}),
    ("profile_versions", {"block": "work"}),
    ("profile_owners", {}),
    ("delete_profile", {"block": "work"}),
    ("learn", {"conversation": CONVERSATION}),
    ("run_consolidation", {"butler": "planner"}),
    ("proposals", {}),
    ("accept", {"ids": ["$proposals.proposals.0.id"]}),
    ("reject", {"ids": ["$proposals.proposals.1.id"]}),
    ("learn_prompt", {"conversation": CONVERSATION}),
    ("learn_apply", {"answer": json.dumps(LEARNED), "lease": "$learn_prompt.lease"}),
    ("runs", {"limit": 1}),
    ("undo", {"run_id": "$learn.run_id"}),
    ("run_episode_cleanup", {}),
    ("rotate_timeline", {"dry_run": True}),
    ("bridge_status", {}),
    ("audit", {"event_type": "rule", "limit": 2}),
    ("list_tenants", {}),
    ("create_token", {"name": "laptop", "actor": "claude", "rights": ["read", "write"], "days": 90}),
    ("list_tokens", {}),
    ("revoke_token", {"token_id": "$create_token.id"}),
    ("run_job", {"job": "decay_sweep"}),
    ("list_jobs", {}),
    ("verify", {}),
    ("stats", {}),
    ("growth", {"days": 2}),
    ("fading", {"days": 2, "limit": 1}),
    ("health", {}),
    ("forget", {"memory_type": "rule", "memory_id": "$store_rule.id"}),
    ("delete", NOTE),
    ("sessions", {"limit": 1}),
    ("end_session", {"session_id": "$start_session.id", "summary": "The trip to Lisbon is booked"}),
]
"""Operation ids with arguments. `$id.path` stands for a part of the last answer of an earlier operation."""


@dataclass(frozen=True)
class Said:
    """A call with its answer."""

    name: str
    arguments: dict[str, Any]
    status: int
    answer: Any


def operations() -> dict[str, Operation]:
    """Every operation, including batches, by its operation id."""
    single = {each.name: each for each in OPERATIONS.values()}
    return single | {batch.name: batch for batch in map(batched, (each for each in single.values() if each.batch))}


@asynccontextmanager
async def service(memory: Memory) -> AsyncIterator[Starlette]:
    """The application on a memory, with a key that has every right."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Served]:
        env, caller = memory._env, memory.caller
        yield Served(memory, Authentication(env, caller), Administration(env, caller))

    async with open_lazily(opened) as served:
        access, at = Access(served, key=KEY), Endpoint("127.0.0.1", 8321)
        yield application(memory.config, served, at, access, api.routes(memory.config, access), ids=SequentialIds())


async def call(web: httpx2.AsyncClient, operation: Operation, arguments: Mapping[str, Any]) -> httpx2.Response:
    """Call an operation: each argument where it belongs."""
    method, path = operation.http.split()
    named = re.findall(r"{(\w+)}", path)
    for name in named:
        path = path.replace(f"{{{name}}}", str(arguments[name]))
    rest = {name: value for name, value in arguments.items() if name not in named}
    if method not in IN_QUERY:
        return await web.request(method, path, json=rest)
    return await web.request(method, path, params=in_query(rest))


def in_query(arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Arguments as query parameters; those of lists are repeated."""
    return [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, given in arguments.items()
        for value in (given if isinstance(given, list) else [given])
    ]


@asynccontextmanager
async def memory_of(url: str) -> AsyncIterator[tuple[Memory, ManualClock]]:
    """A deterministic memory with an empty store."""
    clock = ManualClock()
    llm = ScriptedLlm(_answered, forever=True)
    given = {"embedder": WordEmbedder(), "clock": clock, "ids": SequentialIds(), "llm": llm, "background": False}
    async with open_memory(url, config=CAUTIOUS, **given) as memory:
        memory._env.new_secret = lambda: SECRET
        yield memory, clock


def _answered(prompt: str) -> str:
    return json.dumps(LEARNED if prompt.startswith("# Learn about a person") else CONSOLIDATED)


async def tell(memory: Memory, clock: ManualClock) -> list[Said]:
    """Send the calls of `STORY` to the service of a memory."""
    known, said, answers = operations(), list[Said](), dict[str, Any]()
    async with service(memory) as app:
        transport, headers = httpx2.ASGITransport(app), {"Authorization": f"Bearer {KEY}"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8321", headers=headers) as web:
            for name, arguments in STORY:
                filled = _filled(arguments, answers)
                answered = await call(web, known[name], filled)
                if not answered.is_success:
                    raise ValueError(f"{name} {filled}: {answered.status_code} {answered.text}")
                answers[name] = answered.json()
                said.append(Said(name, filled, answered.status_code, answers[name]))
                await memory.settle()
                clock.advance(minutes=20)
    return said


async def examples(url: str) -> dict[str, Any]:
    """The last call of each operation with its status and answer, without what depends on the machine."""
    async with memory_of(url) as (memory, clock):
        said = await tell(memory, clock)
    return {
        each.name: {
            "arguments": each.arguments,
            "status": each.status,
            "answer": json.loads(_FIGURES.sub('"note": "', json.dumps(each.answer)), parse_float=_rounded),
        }
        for each in said
    }


def _filled(value: Any, answers: Mapping[str, Any]) -> Any:
    match value:
        case dict():
            return {name: _filled(each, answers) for name, each in value.items()}
        case list():
            return [_filled(each, answers) for each in value]
        case str() if value.startswith("$"):
            name, *path = value[1:].split(".")
            found = answers[name]
            for step in path:
                found = found[int(step) if step.isdigit() else step]
            return found
    return value


def _rounded(text: str) -> float:
    """Similarities differ a little from processor to processor."""
    return round(float(text), 3)


def written() -> dict[Path, str]:
    """The current content of each file."""
    with TemporaryDirectory() as folder:
        carried_out = asyncio.run(examples(f"{folder}/memory.db"))
    document = openapi.document(MemoryModuleConfig(), carried_out)
    return {EXAMPLES: _text(carried_out), DOCUMENT: _text(document)}


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check whether the files are current")
    check = parser.parse_args().check
    stale = [file for file, text in written().items() if not file.exists() or file.read_text() != text]
    if not check:
        for file, text in written().items():
            file.write_text(text)
    sys.exit(f"not current: {', '.join(file.name for file in stale)}" if check and stale else None)
