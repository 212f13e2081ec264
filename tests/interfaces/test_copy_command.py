"""`tulving copy`, as a person uses it."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from raw_sql import run_sql


@pytest.fixture
def database(postgres) -> Iterator[str]:
    """A database with nothing in it."""
    url = asyncio.run(postgres.create_database())
    yield url
    asyncio.run(postgres.drop_database(url))


@pytest.fixture
def filled(cli, environ, path) -> str:
    """A memory of two tenants in a file."""
    for arguments in (("user", "likes", "tea"), ("user", "likes", "strong coffee")):
        assert cli("store", "fact", *arguments).code == 0
    assert cli("--tenant", "anna", "store", "note", "trains are nice").code == 0
    assert environ["TULVING_URL"] == str(path)
    return str(path)


def test_there_and_back(process, cli, filled, database, tmp_path):
    ran = process("copy", filled, database)
    assert (ran.code, ran.err) == (0, "")
    assert "facts              3 in the source  3 copied  0 there before  3 the same\n" in ran.out
    assert "\nverified: all 8 rows are in the target, sha256 " in ran.out
    assert "strong coffee" in cli("--url", database, "search", "coffee").out
    back = str(tmp_path / "back.db")
    ran = cli("copy", database, f"sqlite:///{back}", "--json")
    done = json.loads(ran.out)
    assert (ran.code, ran.err, done["ok"], done["differences"]) == (0, "", True, [])
    assert done["tables"]["facts"] == {"source": 3, "copied": 3, "present": 0, "verified": 3}
    assert (done["target"], len(done["digest"])) == (back, 64)
    assert "trains are nice" in cli("--url", back, "--tenant", "anna", "search", "trains").out


def test_again_and_compare(cli, filled, database):
    assert cli("copy", filled, database, "--verify-only").code == 2, "there is nothing to compare with"
    assert cli("--tenant", "anna", "copy", filled, database).code == 0
    ran = cli("copy", filled, database, "--verify-only")
    assert ran.code == 1
    assert "error: facts: 2 are not in the target: " in ran.err
    assert "verified:" not in ran.out
    ran = cli("copy", filled, database, "--json")
    assert json.loads(ran.out)["tables"]["facts"] == {"source": 3, "copied": 2, "present": 1, "verified": 3}
    assert cli("copy", filled, database, "--verify-only").code == 0


def test_differences_are_named(cli, filled, database):
    cli("copy", filled, database)
    run_sql(database, "UPDATE facts SET content = 'changed' WHERE content = 'strong coffee'")
    (fact,) = run_sql(database, "SELECT id FROM facts WHERE content = 'changed'")
    ran = cli("copy", filled, database)
    assert ran.code == 1
    said = "facts: 1 are not the same in the target, where they were left as they are"
    assert f"error: {said}: {fact['id']} of default\n" == ran.err
    done = json.loads(cli("copy", filled, database, "--json").out)
    assert (done["ok"], done["differences"]) == (
        False,
        [{"table": "facts", "problem": "different", "rows": 1, "named": [["default", str(fact["id"])]]}],
    )


def test_what_is_only_in_the_target_is_a_warning(cli, filled, tmp_path):
    target = str(tmp_path / "target.db")
    cli("copy", filled, target)
    cli("--url", target, "store", "note", "something new")
    ran = cli("copy", filled, target)
    assert ran.code == 0
    assert "warning: facts: 1 are only in the target; they were left as they are: " in ran.err
    assert "verified: all 8 rows" in ran.out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("copy", "{source}", "{source}"), 2, "target: {source} is the source itself"),
        (("copy", "missing.db", "{source}"), 2, "source: there is no memory at "),
        (("copy", "{source}", "mysql://host/db"), 2, "the scheme 'mysql' is not supported"),
        (("copy", "{source}"), 2, "Missing argument 'TARGET'"),
        (("--tenant", "nobody", "copy", "{source}", "new.db"), 2, "tenant: the source holds nothing of 'nobody'"),
        (("--tenant", "", "copy", "{source}", "new.db"), 2, "tenant_id: is empty"),
        (("copy", "{source}", "postgresql://me:secret@127.0.0.1:1/db"), 1, "can't reach PostgreSQL"),
        (("copy", "text.txt", "new.db"), 1, "does not have the header of an SQLite database"),
        (("copy", "{source}", "text.txt"), 1, "does not have the header of an SQLite database"),
    ],
)
def test_refusals(cli, filled, arguments, code, said):
    Path("text.txt").write_text("no database, but long enough to be looked at as if it were one" * 3)
    ran = cli(*(argument.format(source=filled) for argument in arguments))
    assert (ran.code, ran.out) == (code, "")
    assert said.format(source=filled) in ran.err
    assert "secret" not in ran.err and "Traceback" not in ran.err
    assert not Path("missing.db").exists()


def test_the_help_says_what_stays_behind(cli, path):
    said = " ".join(cli("copy", "--help").out.split())
    assert "Access tokens are not copied" in said
    assert "goes on when it is run again" in said
    assert "copy " in cli("--help").out
