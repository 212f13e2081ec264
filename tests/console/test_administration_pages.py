"""The pages for administrators: tenants, tokens, settings and workers."""

from datetime import timedelta

import pytest
from administration import administer, authentication
from learned_parts import token_of

from tulving import Caller, Memory
from tulving.domain.access import RIGHTS
from tulving.settings import LlmConfig, MemoryModuleConfig, ScheduleConfig
from tulving.workers.jobs import JOBS
from tulving.workers.schedule import Schedule
from tulving.workers.scheduler import Scheduler

PLACES = ("/console/tenants", "/console/tokens", "/console/settings", "/console/workers")
PASSWORD = "hunter-2-hunter"


@pytest.fixture
def config(url: str) -> MemoryModuleConfig:
    command = ["ask", f"--url=https://me:{PASSWORD}@models.example/v1?api_key={PASSWORD}"]
    llm = LlmConfig(command=command, tokens_per_day=1234)
    return MemoryModuleConfig(url=url, schedule=ScheduleConfig(timeline_rotation=None), llm=llm)


# -- who may -----------------------------------------------------------------------------------------------------


async def test_they_are_for_those_with_the_right_to_administer(entered, memory: Memory):
    person = await entered("read", "write", "destroy", "review")
    assert not {*PLACES} & {*person.links()}
    token = token_of(person)
    for path in PLACES:
        await person.open(path)
        assert person.status == 403
        assert "This needs the right to admin" in person.text
    kept = await administer(memory).create_token(name="kept")
    for path in ("/tokens/new", f"/tokens/{kept.id}/revoke", "/workers/decay_sweep/run"):
        await person.send("POST", f"/console{path}", data={"_token": token, "_sure": "1", "rights": "admin"})
        assert person.status == 403
    names = {each.name for each in await administer(memory).list_tokens()}
    assert names == {"kept", "Vera"} and await authentication(memory).authenticate(kept.secret)


async def test_administrators_find_them(entered):
    boss = await entered("read", "admin")
    assert {*PLACES} <= {*boss.links()}
    for path in PLACES:
        await boss.open(path)
        assert boss.status == 200


# -- tenants -----------------------------------------------------------------------------------------------------


async def test_tenants_with_their_counts(visitor, memory: Memory):
    anna = memory.bind(caller=Caller("anna & co"))
    await anna.store_fact("Anna", "drink", "tea")
    await anna.store_rule("Ask first")
    await visitor.open("/console/tenants")
    row = next(each for each in visitor.tree.all("tr") if "anna & co" in each.text)
    assert row.text.split() == "anna & co 0 1 1 just now 0".split()
    assert "default yours" in visitor.text
    await visitor.follow("0 tokens of anna & co")
    assert visitor.path == "/console/tokens?tenant=anna+%26+co"
    assert "Only tokens of anna & co" in visitor.text


async def test_many_tenants_are_shown_page_by_page(visitor, memory: Memory):
    for number in range(60):
        await memory.bind(caller=Caller(f"tenant {number:02}")).store_rule("Ask first")
    await visitor.open("/console/tenants")
    assert "tenant 48" in visitor.text and "tenant 49" not in visitor.text
    await visitor.follow("Next page")
    assert "tenant 59" in visitor.text


# -- tokens ------------------------------------------------------------------------------------------------------


async def test_a_token_is_made_and_its_secret_shown_once(visitor, memory: Memory, clock):
    await visitor.open("/console/tokens")
    box = {"read": True, "write": None, "destroy": None}
    assert {*box} <= {each["value"] for each in visitor.tree.all("input") if each["name"] == "rights"}
    data = {"_token": token_of(visitor), "name": "laptop", "tenant": "anna", "days": "7", "rights": ["read", "write"]}
    data |= {"requests_per_minute": "30"}
    await visitor.send("POST", "/console/tokens/new", data=data)
    assert "It is shown only this once" in visitor.text
    secret = visitor.tree.one("pre").text
    found = await authentication(memory).authenticate(secret)
    assert found is not None
    assert (found.tenant_id, found.name, found.actor, found.rights) == ("anna", "laptop", "laptop", ("read", "write"))
    assert (found.requests_per_minute, found.model_tokens_per_day) == (30, None)
    assert found.expires_at == clock() + timedelta(days=7)
    await visitor.follow("Done")
    assert secret not in visitor.page and "laptop" in visitor.text
    trail = await memory.bind(caller=Caller("anna")).audit()
    assert [(event.event_type, event.actor) for event in trail] == [("token_created", "Vera")]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"rights": []}, "Rights: is empty"),
        ({"rights": ["fly"]}, "Rights: 'fly' is not known"),
        ({"days": "-1"}, "Days: is -1"),
        ({"days": "soon"}, "Days: 'soon' is not a number"),
        ({"days": "nan"}, "Days: is nan"),
        ({"requests_per_minute": "many"}, "Requests per minute: 'many' is not a whole number"),
        ({"requests_per_minute": "0"}, "Requests per minute: is 0"),
        ({"name": "n" * 201}, "Name: has 201 characters"),
        ({"tenant": "t" * 201}, "Tenant id: has 201 characters"),
    ],
)
async def test_what_can_not_be_is_said_beside_the_form(visitor, memory: Memory, given, problem):
    await visitor.open("/console/tokens")
    asked = {"name": "laptop", "tenant": "anna", "days": "7", "rights": ["read"]} | given
    await visitor.send("POST", "/console/tokens/new", data={"_token": token_of(visitor), **asked})
    assert visitor.status == 422 and problem in visitor.text
    assert "shown only this once" not in visitor.text
    assert len(await administer(memory).list_tokens()) == 1  # the visitor's


async def test_a_token_is_revoked_after_a_question(visitor, memory: Memory):
    made = await administer(memory.bind(caller=Caller("anna"))).create_token(name="old laptop", rights=RIGHTS)
    await visitor.open("/console/tokens")
    await visitor.press("Revoke", near="old laptop")
    assert "Revoke the token “old laptop” of anna?" in visitor.text
    assert await authentication(memory).authenticate(made.secret)
    await visitor.press("Yes, do it")
    assert "Revoked old laptop." in visitor.text
    assert await authentication(memory).authenticate(made.secret) is None
    row = next(each.text for each in visitor.tree.all("tr") if "old laptop" in each.text)
    assert row.count("revoked") == 2, "in the place of the time when it expires"


# -- settings ----------------------------------------------------------------------------------------------------


async def test_settings_with_their_origin_and_without_secrets(visitor, monkeypatch):
    await visitor.open("/console/settings")
    assert PASSWORD not in visitor.page
    row = next(each for each in visitor.tree.all("tr") if each.text.startswith("tokens_per_day"))
    assert row.text == "tokens_per_day 1234 option"
    assert "models.example" in visitor.text and "[llm]" in visitor.text
    await visitor.follow("Only changed ones")
    assert "tokens_per_day" in visitor.text and "max_output_tokens" not in visitor.text
    assert "timeline_rotation none option" in visitor.text


# -- workers -----------------------------------------------------------------------------------------------------


def scheduler(memory: Memory) -> Scheduler:
    schedule = Schedule(memory._env.store, memory._env.clock, "worker-7", memory.config.schedule)
    return Scheduler(schedule, administer(memory), JOBS)


async def test_jobs_before_the_first_run(visitor):
    await visitor.open("/console/workers")
    assert visitor.text.count("never ran") == 4
    assert "switched off" in visitor.text
    assert visitor.buttons().count("Run now") == 4


async def test_jobs_with_their_last_and_next_run(visitor, memory: Memory, monkeypatch):
    await memory.store_rule("Ask first")
    await scheduler(memory).once("episode_cleanup")

    async def fail(*_, **__):
        raise RuntimeError("a disk is gone")

    monkeypatch.setattr(type(administer(memory)), "run_decay_sweep", fail)
    await scheduler(memory).once("decay_sweep")
    await visitor.open("/console/workers")
    sections = {each.one("h2").text: each.text for each in visitor.tree.all("article")}
    assert "ok" in sections["Episode cleanup"] and "in 4 h" in sections["Episode cleanup"]
    assert "The last run failed: RuntimeError: a disk is gone" in sections["Decay sweep"]


async def test_a_job_is_asked_for_after_a_question(visitor, memory: Memory):
    await visitor.open("/console/workers")
    await visitor.press("Run now", near="Decay sweep")
    assert "Run decay sweep now, for all tenants?" in visitor.text
    await visitor.press("Yes, do it")
    assert "Requested decay sweep" in visitor.text and "at the next poll" in visitor.text
    assert [run.name for run in await scheduler(memory).look()][:1] == ["decay_sweep"]
    await visitor.open("/console/workers")
    assert "as soon as a worker looks" not in visitor.text


async def test_what_is_switched_off_or_unknown_can_not_be_run(visitor):
    await visitor.open("/console/workers")
    token = token_of(visitor)
    for job in ("timeline_rotation", "unknown"):
        await visitor.send("POST", f"/console/workers/{job}/run", data={"_token": token, "_sure": "1"})
        assert visitor.status == 422
