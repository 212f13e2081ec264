"""What was stored, asked or answered is in no span, no metric and no line of a log, by whichever door it came: batches,
exports, imports, streams, forms of the console, and the jobs of a worker."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from bus_parts import START
from http_parts import bearer, new_token
from raw_sql import run_sql
from test_tracing import CANARY, canary, leaks, logged
from watched_service import WatchedService, watched

from tulving.domain.access import ALL_RIGHTS
from tulving.interfaces.console.navigation import all_pages
from tulving.interfaces.http.batches import of_an_item
from tulving.services.operations import OPERATIONS
from tulving.settings import ConflictsConfig, HttpConfig, LearningConfig, MemoryModuleConfig
from tulving.testing import ManualClock, ScriptedLlm
from tulving.workers.jobs import JOBS
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler

CONFIG = MemoryModuleConfig(
    http=HttpConfig(failures_per_minute=100_000),
    conflicts=ConflictsConfig(review_below=1.0),
    learning=LearningConfig(review_rules=True),
)
LINES = {"content-type": "application/x-ndjson"}
FORM = {
    **{name: f"{CANARY} {name}" for name in "subject predicate content value tags reason name actor scope".split()},
    "canonical_name": f"{CANARY} Name",
    "aliases": f"{CANARY} alias",
    "entity_type": "person",
    "what": "fact",
    "block": "work",
    "outcome": "harmful",
    "rights": "read",
    "tenant": "default",
    "days": "7",
    "_sure": "1",
}
"""What is sent with every form of the console; each takes what it knows."""
TABLES = ("episodes", "rules", "memory_links")


def learned(prompt: str) -> str:
    """The answer of a model to whatever it is asked: what it learned from the episodes that it was shown."""
    evidence = re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", prompt)[:1]
    fact = {"subject": "Anna", "predicate": "pet", "content": f"{CANARY} learned", "evidence": evidence}
    rule = {"content": f"{CANARY} rule that was learned", "evidence": evidence}
    return json.dumps({"new_facts": [fact], "new_rules": [rule]})


async def batches(service: WatchedService) -> set[int]:
    statuses = set()
    for operation in OPERATIONS.values():
        if not operation.batch:
            continue
        _, path = operation.http.split()
        taken = of_an_item(operation)
        required = {each.name: canary(each, operation.tool) for each in taken if each.required}
        for item in (required, {each.name: canary(each, operation.tool) for each in taken}, {CANARY: CANARY}):
            statuses.add((await service.post(f"{path}/batch", items=[item, item])).status_code)
    return statuses


async def moved(service: WatchedService) -> str:
    """What is exported, after it was imported elsewhere, and imported in a form that is refused."""
    export = (await service.web.get("/v1/export")).text
    elsewhere = bearer(await new_token(service.memory, "elsewhere", rights=ALL_RIGHTS)) | LINES
    broken = export.replace('"facts"', f'"{CANARY}"'), f"{export}{CANARY}\n", CANARY
    for content, status in ((export, 200), *((each, 422) for each in broken)):
        answered = await service.web.post("/v1/import", content=content.encode(), headers=elsewhere)
        assert answered.status_code == status, answered.text
    return export


async def streamed(service: WatchedService, path: str) -> str:
    """What a stream says until it has told of a content."""
    said, told = bytearray(), asyncio.Event()
    begun = False

    async def receive() -> dict[str, Any]:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "http.request"}
        await told.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        said.extend(message.get("body", b""))
        if CANARY.encode() in said or message.get("status", 200) != 200:
            told.set()

    place, _, query = path.partition("?")
    headers = bearer(service.secret) | {"host": str(service.address), "sec-fetch-site": "same-origin"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": place,
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 4321),
        "server": (service.address.host, service.address.port),
    }
    async with asyncio.timeout(20):
        await service.web._transport.app(scope, receive, send)  # pyright: ignore
    return said.decode()


async def forms(service: WatchedService) -> dict[str, int]:
    """Every form of the console, and every page with words in its address."""
    memory = service.memory
    fact = await memory.store_fact("Anna", "drink", f"{CANARY} tea")
    rule = await memory.store_rule(f"{CANARY} rule")
    entity = (await memory.create_entity(f"{CANARY} Anna", "person")).entity_id
    [conflict, *_] = await memory.conflicts(status="held")
    ids = {
        "/memory": {"kind": "fact", "id": fact.id, "number": 1},
        "/rules": {"rule_id": rule.id},
        "/entities": {"entity_id": entity},
        "/conflicts": {"id": conflict.settlement.id},
        "/runs": {"id": (await memory.runs()).items[0].run.id},
        "/workers": {"job": "decay_sweep"},
        "/tokens": {"id": fact.id},
    }
    shown = (await service.web.get("/console")).text
    own = re.search(r'<meta name="form-token" content="(\w+)">', shown)
    assert own, shown[:2_000]
    sent = FORM | {"_token": own[1], "ids": str((await memory.proposals()).items[0].id)}
    statuses = {}
    for page in all_pages():
        known = next((given for place, given in ids.items() if page.path.startswith(place)), {})
        path = "/console" + re.sub(r"{(\w+)}", lambda found, known=known: str(known[found[1]]), page.path)
        if "POST" in page.methods:
            statuses[page.path] = (await service.web.post(path, data=sent)).status_code
        else:
            asked = {name: f"{CANARY} {name}" for name in ("q", "text", "subject", "user", "name", "item")}
            await service.web.get(path)
            await service.web.get(path, params=asked)
    return statuses


async def test_no_door_lets_contents_into_what_is_watched(url, traces, exporter):
    with logged() as text:
        clock, llm = ManualClock(), ScriptedLlm(learned, forever=True)
        async with watched(url, CONFIG, traces, clock=clock, llm=llm) as service:
            memory = service.memory
            await memory.store_note(f"The {CANARY} sign is green today")
            await memory.store_note(f"The {CANARY} sign is not green today")
            assert {201, 422} <= await batches(service)
            await memory.store_episode(f"{CANARY} was said to the cook", butler="chef")
            clock.advance(days=1)
            env = memory._env
            schedule = Schedule(env.store, clock, "here", env.config.schedule, env.observer)
            scheduler = Scheduler(schedule, service.administration, JOBS)
            for job in JOBS:
                done, pieces = await scheduler.once(job)
                assert done.error is None and not any(each.error for each in pieces), job
            assert any(CANARY in each.offer["content"] for each in await memory.proposals())
            statuses = await forms(service)
            assert sum(status in (200, 303) for status in statuses.values()) > len(statuses) * 2 / 3, statuses
            assert CANARY in await moved(service)
            for path in (f"/v1/events?after={START}", f"/console/live?after={START}"):
                assert CANARY in await streamed(service, path)
            for table in TABLES:
                run_sql(url, f"ALTER TABLE {table} RENAME TO {table}_gone")
            failed = [(await scheduler.once(job))[0].error for job in JOBS]
            await batches(service)
            secret, figures = service.secret, service.metrics.text().decode()
    assert sum(each is not None for each in failed) > 1, failed
    spans = exporter.get_finished_spans()
    names = {span.name for span in spans}
    assert {"model", "embedding", "GET /v1/export", "POST /v1/import", "GET /v1/events"} <= names
    assert {f"job {job}" for job in JOBS} <= names
    [asked, *_] = [span for span in spans if span.name == "model"]
    assert asked.attributes["tulving.input_tokens"] > 0 and asked.attributes["tulving.output_tokens"] > 0
    assert not leaks([*(span.to_json() for span in spans), figures, *text], secret)
