"""`tulving migrate` and `tulving reindex`, as a person sees them."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres_server import Server

from tulving.storage.schema import HEAD, REVISIONS


@pytest.fixture
def empty(environ: dict[str, str], postgres: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database without any of our tables."""
    url = asyncio.run(postgres.create_database())
    monkeypatch.setenv("TULVING_URL", url)
    yield url
    asyncio.run(postgres.drop_database(url))


def test_what_is_missing_is_shown_and_applied(path: Path, empty: str, cli: Callable):
    shown = cli("migrate", "--dry-run")
    assert shown.code == 0
    assert [line.split() for line in shown.out.splitlines()][1:] == [
        ["schema", "none", "yet"],
        *(["missing", revision] for revision in REVISIONS),
    ]
    assert json.loads(cli("migrate", "--dry-run", "--json").out)["before"] is None, "nothing was applied"
    assert cli("migrate").out.splitlines()[2:] == [f"applied   {revision}" for revision in REVISIONS]
    done = cli("migrate")
    assert (done.code, done.out.splitlines()[1:]) == (0, [f"schema    {HEAD}", "up to date"])
    assert cli("store", "note", "works").code == 0


def test_a_file_is_migrated_too_but_not_made(path: Path, cli: Callable):
    new = path.with_name("new.db")
    assert json.loads(cli("--url", str(new), "migrate", "--dry-run", "--json").out) == {
        "store": str(new),
        "before": None,
        "applied": list(REVISIONS),
    }
    refused = cli("--url", str(new), "migrate")
    assert (refused.code, f"there is no memory at {new}" in refused.err) == (2, True)
    assert not new.exists()
    assert json.loads(cli("migrate", "--json").out)["applied"] == []


def test_row_security_is_for_postgres_and_no_trial(path: Path, cli: Callable):
    assert "row_security" in cli("migrate", "--row-security").err
    tried = cli("migrate", "--row-security", "--dry-run")
    assert (tried.code, tried.out) == (2, "")


def test_indexes_are_built_anew(engine: str, cli: Callable):
    for number in range(3):
        cli("store", "note", f"note {number}")
    assert cli("reindex").out == "indexed   episodes, facts, rules\n"
    refused = cli("reindex", "--method", "btree")
    assert refused.code == 2
    assert "method" in refused.err
    chosen = cli("reindex", "--method", "hnsw", "--json")
    if engine == "postgres":
        assert json.loads(chosen.out) == {"reindexed": ["episodes", "facts", "rules"]}
    else:
        assert (chosen.code, "PostgreSQL" in chosen.err) == (2, True)
    assert len(json.loads(cli("search", "note", "--json").out)["results"]) == 3
    assert cli("verify").code == 0


def test_passwords_are_not_shown(path: Path, cli: Callable):
    url = "postgresql://me:geheim@127.0.0.1:1/memory"
    for command in (("config",), ("verify",), ("migrate",), ("recall", "x"), ("store", "note", "x")):
        ran = cli("--url", url, *command)
        assert "geheim" not in ran.out + ran.err
    assert "postgresql://me@127.0.0.1:1/memory" in cli("--url", url, "config").out
