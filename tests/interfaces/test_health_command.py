"""`tulving health`: one screen, and an exit code for a monitor."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_sql import run_sql

from tulving import __version__
from tulving.location import is_postgres
from tulving.ports import Finding
from tulving.providers.hashing import Hashing
from tulving.storage.backpressure import BoundedWrites
from tulving.storage.schema import HEAD


def test_a_healthy_memory_is_one_screen_and_code_0(cli: Callable, url: str):
    ran = cli("health")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.split()[:2] == ["state", "ready"]
    assert __version__ in ran.out
    assert HEAD in ran.out
    assert is_postgres(url) or url in ran.out
    assert ran.out.count("\n") <= 24
    said = json.loads(cli("health", "--json").out)
    assert (said["ok"], said["version"], said["pending"], said["ignored"]) == (True, __version__, 0, [])
    assert all(each["problems"] == [] for each in said["findings"])


def test_jobs_that_ran_are_listed(cli: Callable):
    assert cli("worker", "--once", "decay_sweep").code == 0
    [job] = [each for each in json.loads(cli("health", "--json").out)["jobs"] if each["job"] == "decay_sweep"]
    assert job["state"] == "ok"
    assert "job decay_sweep" in cli("health").out


def test_an_embedder_without_weights_is_code_1_and_says_what_to_do(cli: Callable):
    cli("--embedder", "minilm", "store", "note", "x")
    ran = cli("--embedder", "minilm", "health")
    assert ran.code == 1
    assert "tulving init" in ran.out
    assert "1 memories wait for their vectors" in ran.out


def test_what_waits_is_counted_for_the_whole_store(cli: Callable):
    cli("--embedder", "minilm", "--tenant", "other", "store", "note", "x")
    assert json.loads(cli("--embedder", "minilm", "health", "--json").out)["pending"] == 1


def test_a_missing_or_foreign_store_is_a_finding(cli: Callable, path: Path):
    foreign = path.with_name("foreign.db")
    foreign.write_bytes(b"\x01" * 9000)
    newer = path.with_name("newer.db")
    assert cli("--url", str(newer), "init").code == 0
    run_sql(str(newer), "UPDATE alembic_version SET version_num = 'mem_999'")
    for place, problem in (
        ("missing.db", "there is no memory"),
        ("foreign.db", "not a Tulving store"),
        ("newer.db", "mem_999"),
    ):
        ran = cli("--url", place, "health")
        assert (ran.code, problem in ran.out) == (1, True)
        said = json.loads(cli("--url", place, "health", "--json").out)
        assert (said["ok"], said["state"], said["schema"], said["jobs"]) == (False, "degraded", None, None)
        opening, embedder = said["findings"]
        assert problem in opening["problems"][0]
        assert embedder == {"check": "embedder", "problems": [], "note": "", "warming": ""}
    assert not Path("missing.db").exists()


def test_what_warms_is_told_and_no_failure(cli: Callable, monkeypatch: pytest.MonkeyPatch):
    async def health(self: BoundedWrites) -> list[Finding]:
        return [Finding("vector index", warming="2 of 5 partitions", note="a note")]

    monkeypatch.setattr(BoundedWrites, "health", health)
    ran = cli("health")
    assert (ran.code, ran.out.split()[:2]) == (0, ["state", "warming"])
    assert "vector index  2 of 5 partitions" in ran.out
    said = json.loads(cli("health", "--json").out)
    assert (said["state"], said["reasons"]) == ("warming", ["vector index: 2 of 5 partitions"])


def test_what_is_ignored_of_an_untrusted_folder_is_told(cli: Callable, path: Path):
    path.with_name("tulving.toml").write_text("tenant = 'theirs'\n")
    ran = cli("health")
    assert ran.code == 0
    assert "ignored" in ran.out
    assert [each["settings"] for each in json.loads(cli("health", "--json").out)["ignored"]] == [["tenant"]]


def test_config_tells_the_truth_about_an_embedder_that_says_it_is_ready(
    cli: Callable, path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert json.loads(cli("config", "--json").out)["embedder"] == "ready"

    def fail(self: Hashing, text: str | None) -> list[float]:
        raise RuntimeError("a byte is wrong")

    monkeypatch.setattr(Hashing, "embed", fail)
    assert "fails: a byte is wrong" in json.loads(cli("config", "--json").out)["embedder"]
    assert "a byte is wrong" in cli("health").out


@pytest.mark.parametrize("tools", ["standard", "all"])
async def test_it_is_a_tool_of_the_larger_set_only(connect: Callable, path: Path, tools: str):
    async with connect(TULVING_TOOLS=tools) as client:
        offered = {tool.name for tool in (await client.list_tools()).tools}
        assert ("memory_health" in offered) is (tools == "all")
        if tools == "all":
            answer = await client.call_tool("memory_health", {})
            assert (answer.structured_content["ok"], answer.structured_content["state"]) == (True, "ready")
