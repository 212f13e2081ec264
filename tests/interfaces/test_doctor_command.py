"""`tulving doctor` and `tulving status`: what is wrong, what to do about it, and an exit code."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from raw_sql import run_sql

from tulving import __version__
from tulving.interfaces.cli.doctor import EXTRAS
from tulving.location import is_postgres
from tulving.storage.schema import HEAD

ONE_ENGINE = pytest.mark.usefixtures("path")


def test_a_healthy_memory_fits_one_screen(cli: Callable, url: str):
    cli("store", "note", "likes tea")
    cli("worker", "--once", "decay_sweep")
    ran = cli("doctor")
    assert (ran.code, ran.err) == (0, "")
    first, *rest = ran.out.splitlines()
    assert len(rest) < 24
    assert first.startswith(f"fine  tulving {__version__} · ")
    assert first.endswith(" · 0 episodes, 1 fact, 0 rules")
    said = json.loads(cli("doctor", "--json").out)
    assert (said["ok"], said["problems"], said["schema"], said["pending"]) == (True, [], HEAD, 0)
    assert said["embedder"] == {"name": "hashing", "model": "hashing-256", "version": "idf-en-1", "verified": True}
    assert said["extras"].keys() == EXTRAS.keys() == {"mcp", "postgres", "hnsw", "onnx"}
    assert {"python", "sqlite", "onnxruntime"} <= said["versions"].keys()
    assert (said["telemetry"], said["model"]) == ("off", None)
    [job] = [each for each in said["jobs"] if each["last_run"]]
    assert (job["job"], job["state"]) == ("decay_sweep", "ok")
    if is_postgres(url):
        assert said["store"]["engine"].startswith("PostgreSQL 1")
        assert said["store"]["pgvector"].startswith("0.")
        assert said["store"]["row_security"] is False
        assert "row-level security off" in ran.out
        assert "password" not in ran.out
    else:
        assert said["store"]["engine"].startswith("SQLite 3.")
        assert (said["store"]["location"], said["store"]["journal"]) == (url, "wal")
        assert said["store"]["bytes"] > 0 and said["store"]["disk_free_bytes"] > 0


def test_status_is_the_first_line_of_doctor(cli: Callable):
    assert cli("status").out.splitlines() == cli("doctor").out.splitlines()[:1]
    said = json.loads(cli("status", "--json").out)
    assert (said["ok"], said["version"]) == (True, __version__)
    assert said["status"] == json.loads(cli("doctor", "--json").out)["status"]


def test_what_waits_for_its_vector_is_counted(cli: Callable):
    cli("--embedder", "minilm", "store", "note", "x")
    ran = cli("--embedder", "minilm", "doctor")
    assert (ran.code, "1 memories wait for theirs" in ran.out) == (1, True)
    assert "tulving init" in ran.out


@ONE_ENGINE
def test_a_store_that_cannot_be_opened_is_a_problem_with_a_remedy(cli: Callable, path: Path):
    path.with_name("foreign.db").write_bytes(b"\x01" * 9000)
    newer = path.with_name("newer.db")
    assert cli("--url", str(newer), "init").code == 0
    run_sql(str(newer), "UPDATE alembic_version SET version_num = 'mem_999'")
    for place, problem, do in (
        ("missing.db", "there is no memory", "tulving init"),
        ("foreign.db", "not a Tulving store", "tulving restore"),
        ("newer.db", "mem_999", "pip install --upgrade"),
        ("mysql://x/y", "scheme", "sqlite:///"),
    ):
        ran = cli("--url", place, "doctor")
        assert (ran.code, ran.err) == (1, "")
        assert ran.out.startswith("wrong  ")
        said = json.loads(cli("--url", place, "doctor", "--json").out)
        assert said["ok"] is False
        assert problem in said["problems"][0]["problem"] and do in said["problems"][0]["do"]
        assert said["versions"] and said["extras"], "what is known all the same"
        status = cli("--url", place, "status")
        assert (status.code, status.out.count("\n"), problem in status.out) == (1, 1, True)
    assert not Path("missing.db").exists()


@ONE_ENGINE
def test_a_wrong_setting_is_a_problem_too(cli: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TULVING_TENNANT", "x")
    ran = cli("doctor")
    assert (ran.code, "did you mean TULVING_TENANT" in ran.out) == (1, True)
    monkeypatch.delenv("TULVING_TENNANT")
    told = cli("--url", "mysql://x", "status").out  # once, and not again for the store
    assert told == "wrong  settings: url: the scheme 'mysql' is not supported · tulving doctor says more\n"


@ONE_ENGINE
def test_a_job_that_failed_is_a_problem(cli: Callable, url: str):
    cli("worker", "--once", "decay_sweep")
    run_sql(url, "UPDATE jobs SET last_error = 'odd' WHERE name = 'decay_sweep'")
    for command in ("status", "doctor"):
        ran = cli(command)
        assert (ran.code, "decay_sweep failed" in ran.out) == (1, True)
    assert "tulving worker --list" in ran.out


@ONE_ENGINE
def test_what_is_ignored_of_an_untrusted_folder_is_a_warning(cli: Callable, path: Path):
    path.with_name("tulving.toml").write_text("tenant = 'theirs'\n")
    said = json.loads(cli("doctor", "--json").out)
    assert said["ok"] is True
    assert [each["settings"] for each in said["project"]["ignored"]] == [["tenant"]]
    assert "tulving trust" in said["warnings"][0]


@ONE_ENGINE
def test_a_full_disk_is_a_warning(cli: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tulving.interfaces.cli.doctor.LEAST_FREE", 10**18)
    ran = cli("doctor")
    assert (ran.code, "are free on the disk" in ran.out) == (0, True)


@ONE_ENGINE
def test_status_loads_nothing_heavy(environ: dict[str, str]):
    script = "import sys; from tulving.interfaces.cli import run; run(['status']); print('loaded', *sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    said, loaded = ran.stdout.split("loaded ")
    assert said.startswith("fine")
    assert not {"onnxruntime", "sqlalchemy", "alembic", "mcp", "rich"} & set(loaded.split())
