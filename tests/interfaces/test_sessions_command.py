"""Sessions and search in layers as a person and a model use them."""

import json
import re
from uuid import UUID

import pytest
from tool_text_parts import abp

from tulving import ToolRunner, open_memory, open_memory_sync
from tulving.testing import WordEmbedder

UNKNOWN = str(UUID(int=404))


@pytest.mark.scenario("002-015")
def test_a_person_starts_looks_at_and_ends_a_session(cli):
    assert cli("sessions").out == "no sessions\n"
    started = cli("sessions", "start", "--project", "website", "--butler", "coder")
    id_ = re.fullmatch(r"started session (\S+)\n", started.out)[1]  # pyright: ignore
    for words in (("episode", "Fixed the login"), ("note", "The page is at /login"), ("rule", "Test first")):
        assert cli("store", *words, "--session-id", id_).code == 0
    headline, made = cli("sessions", "list", "--status", "active", "--project", "website").out.splitlines()
    assert headline.endswith(" UTC  active  website · coder")
    assert made == f"  1 episode, 1 fact, 1 rule · {id_}"
    assert cli("sessions", "--project", "other").out == "no sessions\n"
    assert cli("--tenant", "other", "sessions", "show", id_).code == 3
    ended = cli("sessions", "end", id_, "--summary", "Fixed\nthe login", "--tool-calls", '{"edit": 3, "run": 2}')
    assert (ended.code, ended.out) == (0, f"ended session {id_}\n")
    again = cli("sessions", "end", id_)
    assert (again.code, again.out) == (2, "") and f"the session {id_} was ended before" in again.err
    shown = cli("sessions", "show", id_).out
    assert shown.startswith(f"session  {id_}  completed\n  Fixed\nthe login\n  project     website\n")
    assert shown.endswith("  made        1 episode, 1 fact, 1 rule\n  tool calls  5 (edit 3, run 2)\n")
    assert "\n  Fixed the login\n" in cli("sessions").out
    report = json.loads(cli("sessions", "show", id_, "--json").out)
    assert (report["session"]["tool_calls"], report["memories"]["fact"]) == (5, 1)
    assert "owner" not in report["session"]
    [listed] = json.loads(cli("sessions", "--json").out)["sessions"]
    assert listed == report
    other = json.loads(cli("sessions", "start", "--json").out)["id"]
    assert json.loads(cli("sessions", "end", other, "--tool-calls", "7", "--json").out)["tool_calls"] == 7
    assert "tool calls  7\n" in cli("sessions", "show", other).out
    first = json.loads(cli("sessions", "--limit", "1", "--json").out)
    assert [each["session"]["id"] for each in first["sessions"]] == [other]
    assert cli("sessions", "--limit", "1").out.endswith(f"\nmore: --cursor {first['next_cursor']}\n")
    rest = json.loads(cli("sessions", "--cursor", first["next_cursor"], "--json").out)
    assert (rest["sessions"], rest["next_cursor"]) == ([report], None)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["dance"], 2, "'dance' is not known; allowed: list, start, show ID, end ID"),
        (["end"], 2, "'end' is not known"),
        (["list", UNKNOWN], 2, "is not known"),
        (["end", UNKNOWN], 3, f"there is no session {UNKNOWN}"),
        (["show", UNKNOWN], 3, f"there is no session {UNKNOWN}"),
        (["show", "x"], 2, "session_id: 'x' is not an id"),
        (["end", UNKNOWN, "--tool-calls", "many"], 2, "tool_calls: 'many' is not known"),
        (["--status", "ended"], 2, "status: 'ended' is not known; allowed: abandoned, active, completed"),
        (["--limit", "0"], 2, "limit"),
        (["--cursor", "x"], 2, "cursor: is not valid; allowed: the next_cursor of the previous page"),
    ],
)
def test_what_is_wrong_is_said(cli, path, words, code, problem):
    ran = cli("sessions", *words)
    assert (ran.code, ran.out) == (code, "")
    assert problem in ran.err


@pytest.mark.scenario("002-012")
def test_a_person_searches_in_layers(cli, path):
    assert cli("search-compact", "harbour").out == "nothing found\n"
    ids = []
    for content, when in (("The harbour opened", "2026-01-01"), ("A storm came", "2026-01-02"), ("Calm", "2026-01-09")):
        ran = cli("store", "episode", content, "--occurred-at", f"{when}T00:00:00Z", "--json")
        ids.append(json.loads(ran.out)["id"])
    hit = cli("search-compact", "harbour").out
    assert re.fullmatch(rf"\d\.\d\d\d  episode  The harbour opened  observation · .* UTC · {ids[0]}\n", hit)
    assert cli("timeline", ids[1]).out.splitlines() == [
        f"  -1.0 d  episode  The harbour opened  observation · 2026-01-01 00:00 UTC · {ids[0]}",
        f"  anchor  episode  A storm came  observation · 2026-01-02 00:00 UTC · {ids[1]}",
        f"  +7.0 d  episode  Calm  observation · 2026-01-09 00:00 UTC · {ids[2]}",
    ]
    assert cli("timeline", UNKNOWN).out == cli("details", UNKNOWN).out == "nothing found\n"
    first, second = cli("details", ids[2], ids[0]).out.split("\n\nepisode")
    assert first.startswith(f"episode  {ids[2]}\n  Calm\n") and second.startswith(f"  {ids[0]}\n  The harbour opened\n")
    memory = json.loads(cli("get", "episode", ids[0], "--json").out)["memory"]
    assert memory["reference_count"] == 0, "a person only looks"


@pytest.mark.scenario("002-015")
async def test_a_model_works_in_a_session_and_its_calls_are_counted(connect, path):
    async def ask(client, tool, **arguments):
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content[0].text
        return result.structured_content

    async with connect(TULVING_TOOLS="all") as client:
        await ask(client, "memory_stats")
        started = await ask(client, "memory_session_start", project="website")
        episode = await ask(client, "memory_store_episode", content="Fixed the login", butler="coder")
        rule = await ask(client, "memory_store_rule", content="Test first")
        assert (await client.call_tool("memory_store_rule", {"content": ""})).is_error
        refused = await client.call_tool("memory_session_end", {"tool_calls": 5})
        assert refused.is_error and "tool_calls: 5 is not a JSON object" in refused.content[0].text
        [report] = (await ask(client, "memory_sessions", status="active"))["sessions"]
        assert report["memories"] == {"episode": 1, "fact": 0, "rule": 1}
        found = await ask(client, "memory_search_compact", query="login")
        [hit] = found["results"]
        assert hit["id"] == episode["id"] and "content" not in hit
        [entry] = (await ask(client, "memory_timeline", memory_id=hit["id"]))["entries"]
        assert entry["position"] == "anchor"
        details = (await ask(client, "memory_details", ids=[rule["id"], hit["id"]]))["memories"]
        assert [each["memory"]["session_id"] for each in details] == [started["id"]] * 2
        ended = await ask(client, "memory_session_end", summary="Fixed it")
        assert (ended["id"], ended["status"], ended["summary"]) == (started["id"], "completed", "Fixed it")
        counted = ended["metadata"]["tool_calls"]
        assert counted.pop("memory_store_rule") == 2, "one of them was refused"
        assert counted == dict.fromkeys(
            "memory_store_episode memory_sessions memory_search_compact memory_timeline memory_details".split(), 1
        )
        assert ended["tool_calls"] == 7
        assert (await client.call_tool("memory_session_end", {})).is_error, "none is current"
        again = await ask(client, "memory_session_start")
        assert (await ask(client, "memory_session_end"))["metadata"] == {} and again["id"] != started["id"]


async def test_calls_in_text_are_counted_too(path):
    async with open_memory(path, embedder=WordEmbedder(), background=False) as memory:
        runner = ToolRunner(memory, tools="all")
        await runner.run(abp("memory_session_start") + abp("memory_store_note", content="Of another session"))
        await runner.run(abp("memory_session_start") + abp("memory_store_note", content="a") + abp("memory_stats"))
        assert memory._session.calls == {"memory_store_note": 1, "memory_stats": 1}
        answer = await runner.run(abp("memory_session_end", summary="done"))
        assert answer.results[0].value["tool_calls"] == 2


def test_a_block_of_plain_calls_is_a_session(path):
    with open_memory_sync(path, embedder=WordEmbedder(), background=False) as memory:
        with memory.session("web") as work:
            note = work.store_note("Made inside the block")
            assert memory.session_id is None
        [report] = memory.sessions()
        assert (report.session.status, report.session.project, report.memories["fact"]) == ("completed", "web", 1)
        assert memory.look("fact", note.id).session_id == report.session.id
        with pytest.raises(KeyError), memory.session():
            raise KeyError
        assert memory.sessions()[0].session.summary == "ended by KeyError"
