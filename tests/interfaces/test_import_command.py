"""`tulving import` of other programs' memories, as a person types it."""

import json
from pathlib import Path

import pytest

MEMORY = [
    {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["is a vet", "likes tea"]},
    {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works_at"},
]


def lines(path: Path, *values: object) -> str:
    path.write_text("\n".join(value if isinstance(value, str) else json.dumps(value) for value in values))
    return str(path)


def talk(number: int, messages: int = 3) -> dict[str, object]:
    said = [
        {"uuid": f"{number}-{place}", "sender": "human", "text": f"message {place} of talk {number}"}
        for place in range(messages)
    ]
    return {"uuid": str(number), "name": "Talk", "created_at": "2025-01-02T03:04:05Z", "chat_messages": said}


def episodes(cli) -> int:
    return json.loads(cli("stats", "--json").out)["episodes"]["total"]


def test_a_file_is_recognised_and_taken_once(cli, path: Path, tmp_path: Path):
    file = lines(tmp_path / "memory.json", *MEMORY)
    assert cli("import", file, "--dry-run").out == "server-memory: would add 4 facts\n"
    assert cli("list", "fact").out == "no facts\n"
    assert cli("import", file).out == "server-memory: added 4 facts\n"
    assert cli("import", file).out == "server-memory: added nothing; 4 facts known already\n"
    assert "likes tea" in cli("recall", "What does Ann drink, tea?").out
    [item, *_] = json.loads(cli("list", "fact", "--json").out)["items"]
    assert '"imported": {"from": "server-memory"' in cli("show", item["id"]).out


def test_from_standard_input_with_a_mapping(process, path: Path):
    stdin = '{"text": "hello", "at": 1700000000}\n{"text": ""}\n'
    mapping = ("--map", "content=text", "--map", "occurred_at=at")
    ran = process("import", "-", "--from", "jsonl", *mapping, "--json", stdin=stdin)
    assert ran.code == 1
    answer = json.loads(ran.out)
    assert (answer["added"], answer["refused"]) == ({"episodes": 1}, 1)
    [problem] = answer["problems"]
    assert problem["place"].endswith("line 2") and "content" in problem["problem"]


def test_bad_records_are_named_and_counted(cli, path: Path, tmp_path: Path):
    file = lines(tmp_path / "memory.json", MEMORY[0], *["nonsense"] * 12)
    ran = cli("import", file)
    assert (ran.code, ran.out) == (1, "server-memory: added 3 facts\n")
    assert ran.err.count("warning: memory.json, line ") == 10
    assert "warning: refused 12 records, of which the first 10 are shown" in ran.err
    strict = cli("import", "--strict", lines(tmp_path / "other.json", MEMORY[1], "nonsense"))
    assert strict.code == 2 and "other.json, line 2" in strict.err


def test_secrets_are_redacted_or_refused(cli, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = lines(
        tmp_path / "log.jsonl", {"content": "my password is hunter2"}, {"content": "tea", "password": "hunter2"}
    )
    taken = cli("import", "--from", "jsonl", file)
    assert (taken.code, taken.out) == (0, "jsonl: added 2 episodes\n")
    assert "warning: redacted what looks like a secret in 2 records" in taken.err
    monkeypatch.setenv("TULVING_SECRETS__POLICY", "refuse")
    refused = cli("import", "--from", "jsonl", file)
    assert refused.code == 1 and "log.jsonl, line 2: metadata.password: holds what looks like a secret" in refused.err
    assert "hunter2" not in taken.err + refused.err + cli("list", "episode", "--json").out


def test_an_import_that_broke_off_goes_on(cli, path: Path, tmp_path: Path):
    """Nothing is lost and nothing doubled, wherever the first attempt ended."""
    whole = json.dumps([talk(number) for number in range(200)])
    file = tmp_path / "conversations.json"
    file.write_text(whole[: len(whole) * 3 // 4])
    ran = cli("import", str(file))
    assert ran.code == 2 and "conversations.json, character" in ran.err
    before = episodes(cli)
    assert 0 < before < 600
    file.write_text(whole)
    assert cli("import", str(file)).out == f"claude: added {600 - before} episodes; {before} episodes known already\n"
    assert episodes(cli) == 600


def test_an_interrupted_import_says_what_it_leaves(cli, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tulving.interfaces.cli.interruption import BATCHES, LEFT
    from tulving.interfaces.cli.options import Chosen

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    file = lines(tmp_path / "memory.json", *MEMORY)
    monkeypatch.setattr(Chosen, "open", interrupted)
    for options, left in (([], BATCHES), (["--dry-run"], LEFT["import"])):
        ran = cli("import", file, *options)
        assert (ran.code, ran.out, ran.err) == (130, "", f"interrupted: {left}\n")


def test_several_files(cli, path: Path, tmp_path: Path):
    files = [lines(tmp_path / f"{number}.json", [talk(number)]) for number in (1, 2)]
    assert cli("import", "--from", "claude", *files).out == "claude: added 6 episodes\n"


def test_a_dry_run_makes_no_store(cli, path: Path, tmp_path: Path):
    file = lines(tmp_path / "memory.json", *MEMORY)
    assert cli("--url", "new.db", "import", file, "--dry-run").out == "server-memory: would add 4 facts\n"
    assert not Path("new.db").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--from", "mem1", "a.csv"], "'mem1' is no format"),
        (["a.csv"], "a.csv is not a Tulving export"),
        (["nowhere.json"], "nowhere.json"),
        (["--from", "csv", "nowhere.csv"], "nowhere.csv"),
        (["--from", "csv", "--map", "content", "a.csv"], "'content' maps nothing"),
        (["--from", "csv", "--map", "colour=x", "a.csv"], "an imported episode has no 'colour'"),
        (["--from", "csv", "--kind", "thing", "a.csv"], "'thing' is not known"),
        (["--from", "mem0", "--map", "content=x", "a.csv"], "mem0 needs none"),
        (["--from", "csv", "--all-tenants", "a.csv"], "is for an export of Tulving"),
        (["export.jsonl", "--dry-run"], "which is read as a whole"),
        (["export.jsonl", "export.jsonl"], "one at a time"),
    ],
)
def test_what_is_refused(cli, path: Path, tmp_path: Path, options: list[str], problem: str):
    (tmp_path / "a.csv").write_text("text\nhello\n")
    cli("export", "export.jsonl")
    ran = cli("import", *options)
    assert (ran.code, ran.out) == (2, "")
    assert problem in ran.err


def test_an_empty_export_says_that_nothing_changed(cli, path: Path):
    cli("export", "export.jsonl")
    assert cli("--url", "other.db", "import", "export.jsonl").out == "nothing was changed: the export is empty\n"
