"""The metrics of a server: what is counted and measured, who may read it, and that nothing grows without bound."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from http_parts import bearer
from service_parts import service_process
from watched_service import samples, watched

from tulving import Caller
from tulving.errors import ModelUnavailable, StoreUnavailable
from tulving.interfaces.http import metrics_route
from tulving.interfaces.http.busiest import OTHERS, Busiest
from tulving.interfaces.http.families import FAMILIES
from tulving.interfaces.http.hosts import Endpoint
from tulving.interfaces.http.metrics import Metrics
from tulving.ports import UNOBSERVED, Completion
from tulving.services.model import LanguageModel
from tulving.settings import MemoryModuleConfig, MetricsConfig
from tulving.storage.backpressure import BoundedWrites
from tulving.testing import ScriptedLlm, WordEmbedder
from tulving.workers.jobs import Job
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler

DOCUMENT = Path(__file__).parents[2] / "docs" / "observability.md"


async def test_operations_are_measured_by_their_outcome(url):
    async with watched(url) as service:
        assert (await service.post("/v1/facts", subject="Anna", predicate="drink", content="tea")).status_code == 201
        assert (await service.post("/v1/recall", topic="tea")).status_code == 200
        assert (await service.post("/v1/recall", topic="tea", limit=0)).status_code == 422
        figures = await service.figures()
        name = "tulving_operation_duration_seconds_count"
        assert figures[name, (("operation", "memory_store_fact"), ("outcome", "ok"))] == 1
        assert figures[name, (("operation", "memory_recall"), ("outcome", "ok"))] == 1
        assert figures[name, (("operation", "memory_recall"), ("outcome", "refused"))] == 1
        assert figures["tulving_tenant_calls_total", (("tenant", "default"),)] == 3
        spent = sum(value for (each, _), value in figures.items() if each == "tulving_operation_duration_seconds_sum")
        assert 0 < figures["tulving_tenant_seconds_total", (("tenant", "default"),)] == pytest.approx(spent)
        transactions = "tulving_transaction_duration_seconds_count"
        assert {dict(labels)["mode"] for name, labels in figures if name == transactions} == {"read", "write"}
        assert figures["tulving_store_up", ()] == 1
        assert figures["tulving_vectors_pending", ()] == 0


async def test_a_verb_that_fails_open_counts_as_failed(url):
    async with watched(url) as service:
        await service.memory._env.store.close()
        answered = await service.post("/v1/recall", topic="tea")
        assert answered.status_code >= 500
        # The token can't be checked either, so the operation is called without the service.
        from tulving.interfaces.calls import invoke
        from tulving.services.operations import OPERATIONS

        async def memory():
            return service.memory

        found = await invoke(memory, OPERATIONS["memory_recall"], {"topic": "tea"})
        assert found.warning
        counted = samples(service.metrics.text().decode())
        labels = (("operation", "memory_recall"), ("outcome", "failed"))
        assert counted["tulving_operation_duration_seconds_count", labels] == 1


async def test_requests_are_counted_by_the_template_of_their_route(url):
    async with watched(url) as service:
        stored = (await service.post("/v1/facts", subject="Anna", predicate="drink", content="tea")).json()
        await service.web.get(f"/v1/memories/fact/{stored['id']}")
        await service.web.get("/nowhere/at/all")
        await service.web.request("BREW", "/v1/facts")
        figures = await service.figures()
        told = {labels for name, labels in figures if name == "tulving_http_requests_total"}
        assert (("method", "POST"), ("route", "/v1/facts"), ("status", "201")) in told
        place = "/v1/memories/{memory_type}/{memory_id}"
        assert (("method", "GET"), ("route", place), ("status", "200")) in told
        assert (("method", "GET"), ("route", "other"), ("status", "404")) in told
        assert any(dict(labels)["method"] == "other" for labels in told)
        assert not any(stored["id"] in value for labels in told for _, value in labels)
        assert figures["tulving_http_requests_in_flight", ()] == 1, "the one that asks"


@pytest.mark.usefixtures("path")
async def test_streams_of_events_are_counted_while_they_are_open(environ, token):
    secret = token()["secret"]
    with service_process() as served:
        place = f"http://127.0.0.1:{served.port}"
        async with httpx2.AsyncClient(base_url=place) as web:

            async def figures() -> dict[Any, float]:
                return samples((await web.get("/metrics")).text)

            assert (await figures())["tulving_event_streams", ()] == 0
            async with web.stream("GET", "/v1/events", headers=bearer(secret)) as stream:
                assert stream.status_code == 200
                told = await figures()
                assert told["tulving_event_streams", ()] == 1
                assert told["tulving_http_requests_in_flight", ()] == 2
            while (told := await figures())["tulving_event_streams", ()]:
                await asyncio.sleep(0.05)
            route = ("method", "GET"), ("route", "/v1/events")
            assert told["tulving_http_requests_total", (*route, ("status", "200"))] == 1
            assert ("tulving_http_request_duration_seconds_count", route) not in told, (
                "how long it was open says nothing"
            )


async def test_the_caches_and_the_embedder_are_counted(url, engine):
    async with watched(url) as service:
        await service.post("/v1/facts", subject="Anna", predicate="drink", content="tea")
        for _ in range(3):
            await service.post("/v1/search", query="tea")
        figures = await service.figures()
        lookups = "tulving_cache_lookups_total"
        assert figures[lookups, (("cache", "queries"), ("result", "miss"))] == 1
        assert figures[lookups, (("cache", "queries"), ("result", "hit"))] == 2
        assert figures["tulving_embedded_texts_total", (("purpose", "store"),)] == 1
        assert figures["tulving_embedding_duration_seconds_count", (("outcome", "ok"), ("purpose", "query"))] == 1
        if engine == "sqlite":
            assert figures[lookups, (("cache", "vectors"), ("result", "miss"))] == 1
            assert figures[lookups, (("cache", "vectors"), ("result", "hit"))] == 2


async def test_a_search_whose_floor_leaves_nothing_is_counted(url):
    async with watched(url) as service:
        await service.post("/v1/facts", subject="Anna", predicate="drink", content="green tea from Japan")
        found = (await service.post("/v1/recall", topic="tea", min_relevance=1.0)).json()
        assert found["results"] == []
        await service.post("/v1/recall", topic="tea")
        assert await service.figure("tulving_recall_floor_misses_total") == 1


async def test_writes_that_share_a_commit_are_a_group(path):
    async with watched(str(path)) as service:
        before = await service.figures()
        stored = [service.post("/v1/facts", subject=f"Person {n}", predicate="drink", content="tea") for n in range(40)]
        await asyncio.gather(*stored)
        after = await service.figures()
        commits = after["tulving_commit_group_size_count", ()] - before["tulving_commit_group_size_count", ()]
        writes = after["tulving_commit_group_size_sum", ()] - before["tulving_commit_group_size_sum", ()]
        assert writes >= 40
        assert commits < writes


async def test_what_waits_for_its_vector_is_counted_in_all_tenants(url):
    embedder = WordEmbedder()
    async with watched(url, embedder=embedder) as service:
        embedder.problem = "not now"
        for tenant in ("anna", "ben"):
            await service.memory.bind(caller=Caller(tenant)).store_rule("Ask first")
        assert await service.figure("tulving_vectors_pending") == 2


async def test_what_waits_is_told(url, monkeypatch):
    """Requests for their turn, writes for a slot and in the queue, and references to be written."""
    async with watched(url) as service:
        store = service.memory._env.store._store  # pyright: ignore
        assert isinstance(store, BoundedWrites)
        assert store.queue == {"inside": 0, "outside": 0, "allowed": 10_000}
        monkeypatch.setattr(BoundedWrites, "queue", {"inside": 3, "outside": 2, "allowed": 7})
        service.access.queue.waiting = 5
        await service.post("/v1/facts", subject="Anna", predicate="drink", content="tea")
        await service.post("/v1/recall", topic="tea")
        figures = await service.figures()
        assert figures["tulving_writes_waiting", (("where", "inside"),)] == 3
        assert figures["tulving_writes_waiting", (("where", "outside"),)] == 2
        assert figures["tulving_writes_allowed", ()] == 7
        assert figures["tulving_http_requests_waiting", ()] == 5
        assert figures["tulving_references_waiting", ()] == 1


async def test_jobs_are_measured_and_their_last_success_is_told(url, clock):
    async def work(memory, as_of, key="", dry_run=False):
        return {"done": 1}

    async def fail(memory, as_of, key="", dry_run=False):
        raise ValueError("no luck")

    async with watched(url, clock=clock) as service:
        env = service.memory._env
        schedule = Schedule(env.store, clock, "here", env.config.schedule, env.observer)
        jobs = {"decay_sweep": Job("decay_sweep", work), "episode_cleanup": Job("episode_cleanup", fail)}
        scheduler = Scheduler(schedule, service.administration, jobs)
        for name in jobs:
            await scheduler.once(name)
        figures = await service.figures()
        runs = "tulving_job_duration_seconds_count"
        assert figures[runs, (("job_name", "decay_sweep"), ("outcome", "ok"))] == 1
        assert figures[runs, (("job_name", "episode_cleanup"), ("outcome", "failed"))] == 1
        success = "tulving_job_last_success_timestamp_seconds"
        assert figures[success, (("job_name", "decay_sweep"),)] == clock().timestamp()
        assert (success, (("job_name", "episode_cleanup"),)) not in figures
        due = "tulving_job_due_timestamp_seconds"
        assert all(figures[due, (("job_name", name),)] > clock().timestamp() for name in jobs)
        assert figures["tulving_job_failing", (("job_name", "episode_cleanup"),)] == 1
        assert figures["tulving_job_failing", (("job_name", "decay_sweep"),)] == 0


async def test_calls_of_a_model_are_counted_with_their_tokens():
    metrics = Metrics()
    llm = ScriptedLlm(ModelUnavailable("busy", passing=True), Completion("an answer", False, 120, 7))

    async def at_once(seconds):
        pass

    model = LanguageModel(llm, retries=1, max_tokens=50, jitter=lambda: 0.0, sleep=at_once, observer=metrics)
    await model.ask("a question")
    figures = samples(metrics.text().decode())
    assert figures["tulving_model_duration_seconds_count", (("outcome", "failed"),)] == 1
    assert figures["tulving_model_duration_seconds_count", (("outcome", "ok"),)] == 1
    assert figures["tulving_model_tokens_total", (("direction", "in"),)] == 120
    assert figures["tulving_model_tokens_total", (("direction", "out"),)] == 7


async def test_a_store_that_can_not_be_reached_is_told():
    metrics = Metrics()
    metrics.look(None)
    assert samples(metrics.text().decode())["tulving_store_up", ()] == 0


@pytest.mark.parametrize(("seconds", "looked"), [(0.0, [1, 0, 0, 1]), (60.0, [1, 1, 1, 1])])
async def test_the_store_is_looked_at_again_after_a_while(path, monkeypatch, seconds, looked):
    """While it is down the metrics say so, instead of failing."""

    async def down(memory):
        raise StoreUnavailable("it is gone")

    monkeypatch.setattr(metrics_route, "LOOK_EVERY", seconds)
    async with watched(str(path)) as service:
        told = [await service.figure("tulving_store_up")]
        with monkeypatch.context() as patch:
            patch.setattr(metrics_route, "read_vitals", down)
            told += [await service.figure("tulving_store_up") for _ in range(2)]
        assert [*told, await service.figure("tulving_store_up")] == looked


LOOPBACK, ELSEWHERE = Endpoint("127.0.0.1", 8765), Endpoint("0.0.0.0", 8765, False, frozenset({"memory.example.com"}))
NAMED = Endpoint("127.0.0.1", 8765, True, frozenset({"memory.example.com"}))


@pytest.mark.parametrize(
    ("address", "is_open", "headers", "status"),
    [
        (LOOPBACK, False, {}, 200),
        (LOOPBACK, False, {"x-forwarded-for": "10.0.0.1"}, 401),
        (LOOPBACK, False, {"x-forwarded-proto": "https"}, 401),
        (LOOPBACK, False, {"authorization": "Bearer nonsense"}, 401),
        (NAMED, False, {}, 401),
        (ELSEWHERE, False, {}, 401),
        (ELSEWHERE, True, {}, 200),
    ],
)
async def test_who_reaches_the_server_from_elsewhere_needs_a_token(path, address, is_open, headers, status):
    config = MemoryModuleConfig(metrics=MetricsConfig(open=is_open))
    async with watched(str(path), config, address=address) as service:
        transport = service.web._transport
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as stranger:
            assert (await stranger.get("/metrics", headers=headers)).status_code == status


async def test_the_token_needs_the_right_to_administer(path):
    from tulving.bootstrap import new_secret

    async with watched(str(path), address=ELSEWHERE) as service:
        weak = new_secret()
        await service.administration.create_token(weak, rights=["read", "write"])
        answered = await service.web.get("/metrics", headers={"authorization": f"Bearer {weak}"})
        assert answered.status_code == 403
        assert (await service.web.get("/metrics")).status_code == 200


def test_only_the_tenants_with_the_most_calls_have_figures_of_their_own():
    busiest, before, figures = Busiest(3), 0, {}
    for round_ in range(50):
        for number in range(1000):
            busiest.add(f"small {number}", 0.001)
        for big in ("a", "b", "c"):
            for _ in range(200):
                busiest.add(big, 0.002)
        figures = busiest.figures()
        assert len(figures) == 4
        calls = sum(each.calls for each in figures.values())
        assert round_ == 0 or calls == before + 1600, "each call counts once"
        before = calls
    assert {*figures} == {"a", "b", "c", OTHERS}
    assert len(busiest._counts) <= 30


def test_no_figure_of_a_tenant_ever_decreases():
    busiest, before = Busiest(2), {}
    for number in range(2000):
        busiest.add(f"tenant {number * number % 7}", 0.5)
        if number % 100 == 0:
            now = {name: each.calls for name, each in busiest.figures().items()}
            assert all(now[name] >= calls for name, calls in before.items() if name in now)
            before = now


def test_no_tenant_is_shown_where_none_is_wanted():
    busiest = Busiest(0)
    busiest.add("a", 1.0)
    assert {name: each.calls for name, each in busiest.figures().items()} == {OTHERS: 1}


def test_a_tenant_called_other_does_not_hide_the_others():
    busiest = Busiest(1)
    for name in (OTHERS, "a", "b"):
        busiest.add(name, 1.0)
    assert busiest.figures()[OTHERS].calls == 3


def test_nothing_observed_shares_one_object():
    with UNOBSERVED.during("operation", operation="x") as observed:
        observed.tell(anything=1)
    assert observed is UNOBSERVED


def test_the_document_lists_every_metric_as_it_is():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `tulving_")]
    labels = [", ".join(f"`{label}`" for label in family.labels) for family in FAMILIES]
    assert rows == [
        f"| `{family.shown}` | {family.kind} | {named} | {family.help} |"
        for family, named in zip(FAMILIES, labels, strict=True)
    ]
