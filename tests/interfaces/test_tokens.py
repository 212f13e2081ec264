"""`tulving token`, as a person uses it."""

import json
import os
from pathlib import Path
from uuid import UUID

import pytest

from tulving.domain.access import ALL_RIGHTS

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine


def created(cli, *options: str, before: tuple[str, ...] = ()) -> dict:
    ran = cli(*before, "token", "create", *options, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def test_create_shows_the_secret_and_how_to_use_it(cli):
    ran = cli("--tenant", "anna", "token", "create", "--name", "laptop", "--rights", "read, write", "--expires", "30")
    assert ran.code == 0, ran.err
    [secret] = [line.strip() for line in ran.out.splitlines() if line.startswith("  tulving_")]
    assert len(secret) == len("tulving_") + 43
    assert f'--header "Authorization: Bearer {secret}"' in ran.out
    assert "for the tenant anna: read, write, until 20" in ran.out
    listed = cli("token", "list").out
    assert "anna" in listed and "laptop" in listed and "read, write" in listed and "active" in listed
    assert secret not in listed


def test_the_help_names_every_right(cli):
    assert ", ".join(ALL_RIGHTS) in " ".join(cli("token", "create", "--help").out.split())


def test_two_secrets_are_never_the_same(cli):
    secrets = {created(cli)["secret"] for _ in range(5)}
    assert len(secrets) == 5


def test_list_and_revoke(cli):
    assert cli("token", "list").out == "no tokens\n"
    mine, theirs = created(cli, "--actor", "me"), created(cli, before=("--tenant", "anna"))
    tokens = json.loads(cli("token", "list", "--json").out)["tokens"]
    assert [(token["tenant_id"], token["actor"], token["state"]) for token in tokens] == [
        ("default", "me", "active"),
        ("anna", None, "active"),
    ]
    assert all("secret" not in token and "hash" not in token for token in tokens)
    assert [token["id"] for token in json.loads(cli("--tenant", "anna", "token", "list", "--json").out)["tokens"]] == [
        theirs["id"]
    ]
    ran = cli("token", "revoke", mine["id"])
    assert (ran.code, ran.out) == (0, f"revoked token {mine['id']}\n")
    assert cli("token", "revoke", mine["id"]).code == 0
    assert json.loads(cli("token", "revoke", theirs["id"][:-1], "--json").out)["revoked_at"]
    assert {token["state"] for token in json.loads(cli("token", "list", "--json").out)["tokens"]} == {"revoked"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--rights", "read,fly"), "rights: 'fly' is not known; allowed: read, write, destroy"),
        (("--rights", ""), "rights: '' is not known"),
        (("--name", "n" * 201), "name: has 201 characters"),
        (("--name", "a\x00b"), "name: holds the character U+0000"),
        (("--actor", "a\x1bb"), "actor: holds the character U+001B"),
        (("--expires", "0"), "days: is 0"),
        (("--expires", "-3"), "days: is -3"),
        (("--expires", "soon"), "'--expires'"),
    ],
)
def test_bad_input_is_refused(cli, options: tuple[str, ...], said: str):
    ran = cli("token", "create", *options)
    assert ran.code == 2
    assert said in ran.err
    assert cli("token", "list").out == "no tokens\n"


def test_a_bad_tenant_is_refused(cli):
    assert cli("--tenant", "t" * 201, "token", "create").code == 2
    assert cli("--tenant", "a\x00", "token", "create").code == 2


def test_ids_that_lead_nowhere(cli):
    created(cli)
    assert cli("token", "revoke", "ffff").code == 3
    assert cli("token", "revoke", str(UUID(int=7))).code == 3
    assert cli("token", "revoke", "0").code == 2
    assert cli("token", "revoke").code == 2
    assert "Usage" in cli("token").out


def test_tokens_can_be_seen_and_revoked_whatever_the_embedder(cli):
    """Somebody who must shut a door now is not asked to convert a store first."""
    token = created(cli)
    assert cli("--embedder", "minilm", "search", "x").code == 1
    assert cli("--embedder", "minilm", "token", "revoke", token["id"]).code == 0


def test_the_secret_is_in_no_file(cli, environ: dict[str, str], tmp_path: Path):
    if "://" in environ["TULVING_URL"]:
        pytest.skip("looks into the files of a SQLite store")
    secret = created(cli, "--name", "laptop")["secret"]
    cli("export", "--all-tenants", "everything.jsonl")
    files = [Path(folder) / name for folder, _, names in os.walk(tmp_path) for name in names]
    assert {"memory.db", "everything.jsonl"} <= {file.name for file in files}
    for file in files:
        assert secret.encode() not in file.read_bytes(), file
        assert secret.removeprefix("tulving_").encode() not in file.read_bytes(), file
