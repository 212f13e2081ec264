"""`tulving conflicts`, as a person uses it: who won, why, and taking it back."""

import json

import pytest

TEA, NO_TEA = "The user drinks green tea in the morning", "The user does not drink green tea in the morning"
UNKNOWN = "00000000-0000-0000-0000-000000000000"


def stored(cli, note, *options):
    ran = cli("store", "note", note, "--json", *options)
    assert ran.code == 0, ran.err
    return json.loads(ran.out)


def listed(cli, *options):
    return json.loads(cli("conflicts", "--json", *options).out)["conflicts"]


def hold(monkeypatch):
    monkeypatch.setenv("TULVING_CONFLICTS__REVIEW_BELOW", "1.0")


@pytest.mark.scenario("000-027")
def test_a_person_sees_who_won_and_takes_it_back(cli):
    assert cli("conflicts").out == "no conflicts\n"
    old = stored(cli, TEA, "--occurred-at", "2026-01-01T00:00:00Z")
    ran = cli("store", "note", NO_TEA, "--occurred-at", "2026-01-01T12:00:00Z")
    first, why, back = ran.out.splitlines()
    assert first.startswith("stored note ") and first.endswith(f", which supersedes {old['id']}")
    assert why == "  why: newer by 12 hours (confidence 0.50)"
    [report] = listed(cli)
    settlement = report["settlement"]
    id_, new = settlement["id"], report["candidate"]["id"]
    assert back == f"  take it back: tulving conflicts revert {id_}"
    headline, *rest = cli("conflicts").out.splitlines()
    assert headline.endswith(" UTC  the new note won")
    kinds = ", ".join(f"{each['kind']} {each['score']:.2f}" for each in settlement["signals"])
    assert rest == [
        f"  new    {NO_TEA}",
        f"  known  {TEA}  (superseded)",
        "  why    newer by 12 hours",
        f"         {kinds} · confidence 0.50 · rule default",
        f"  take it back: tulving conflicts revert {id_}",
    ]
    assert (settlement["winner_id"], settlement["loser_id"]) == (new, old["id"])
    assert not {"owner", "content_hash"} & {*settlement, *report["candidate"]}
    shown = cli("show", old["id"])
    assert f"fact {new}  supersedes  fact {old['id']}" in shown.out
    assert f"superseded_by {new}" in shown.out
    assert cli("--tenant", "other", "conflicts").out == "no conflicts\n"
    assert cli("--tenant", "other", "conflicts", "revert", id_).code == 3

    assert cli("conflicts", "revert", id_).out == f"reverted conflict {id_}: both notes are in use\n"
    headline, *rest = cli("conflicts").out.splitlines()
    assert headline.endswith("  the new note won, but that was reverted")
    assert f"  known  {TEA}" in rest and "revert" not in "".join(rest)
    again = cli("conflicts", "revert", id_)
    assert (again.code, again.out) == (2, "")
    assert (
        f"conflict_id: the conflict {id_} can't be changed: it is reverted; allowed: one that is applied" in again.err
    )


@pytest.mark.usefixtures("path")  # whatever the engine
def test_outcomes_are_told_in_words(cli):
    full = stored(cli, TEA, "--importance", "9")
    lost = cli("store", "note", NO_TEA).out.splitlines()
    assert lost[0].startswith(f"a known note won: note {full['id']} ({full['ref']})")
    assert lost[1] == "  why: importance 0.5 of the new fact against 0.9 of the known one (confidence 0.80)"
    assert "  the known note won\n" in cli("conflicts").out
    same_time = ("--occurred-at", "2026-01-01T00:00:00Z")
    stored(cli, "Plays the cello", *same_time)
    merged = cli("store", "note", "Does not play the cello", *same_time)
    assert merged.out.startswith("merged with a known note: note ")
    shown = cli("conflicts", "--limit", "1").out
    assert "  both notes were merged\n" in shown and "\n  made   " in shown
    rule = {"arbitration": {"allow_merge": False, "default_strategy": "reject"}}
    assert cli("merge-rules", "update", "default", json.dumps(rule)).code == 0
    stored(cli, "Rides a red bicycle", *same_time)
    rejected = cli("store", "note", "Does not ride a red bicycle", *same_time)
    assert rejected.out.startswith("rejected for a known note: note ")
    assert "  the new note was rejected\n" in cli("conflicts", "--limit", "1").out
    assert "(retracted)" in cli("conflicts", "--limit", "1").out
    assert [len(listed(cli, "--limit", "2")), len(listed(cli))] == [2, 3]
    cursor = json.loads(cli("conflicts", "--limit", "2", "--json").out)["next_cursor"]
    assert cli("conflicts", "--limit", "2").out.endswith(f"\nmore: --cursor {cursor}\n")
    assert listed(cli, "--cursor", cursor) == listed(cli)[2:]
    assert "more:" not in cli("conflicts", "--cursor", cursor).out


@pytest.mark.usefixtures("path")  # whatever the engine
def test_what_is_held_is_seen_accepted_and_dismissed(cli, monkeypatch):
    hold(monkeypatch)
    assert json.loads(cli("review", "--json").out) == {
        "proposals": [],
        "next_cursor": None,
        "conflicts_held": 0,
    }
    assert json.loads(cli("stats", "--json").out)["conflicts"] == {"held": 0}
    stored(cli, TEA)
    first, why, accept, dismiss = cli("store", "note", NO_TEA).out.splitlines()
    assert first.startswith("stored beside a known note, with which it is in conflict: note ")
    assert why.startswith("  why: the new note would win: newer by ")
    [report] = listed(cli, "--status", "held")
    id_ = report["settlement"]["id"]
    assert accept == f"  do so: tulving conflicts accept {id_}"
    assert dismiss == f"  keep both notes: tulving conflicts dismiss {id_}"
    stored(cli, "Plays the cello", "--importance", "9")
    stored(cli, "Does not play the cello", "--importance", "8")
    shown = cli("conflicts", "--status", "held").out
    assert "  waits for you: the new note would win\n" in shown and accept in shown and dismiss in shown
    assert "  waits for you: the known note would win\n" in shown
    assert cli("review").out == "held conflicts: 2, see: tulving conflicts --status held\n"
    assert "held for you     2, see: tulving conflicts --status held" in cli("stats").out
    other = listed(cli, "--limit", "1")[0]["settlement"]["id"]
    assert cli("conflicts", "dismiss", other).out == f"dismissed conflict {other}: both notes are in use\n"
    assert "  dismissed: both notes stayed in use\n" in cli("conflicts", "--status", "dismissed").out
    accepted = cli("conflicts", "accept", id_, UNKNOWN)
    assert (accepted.code, accepted.out) == (3, f"settled conflict {id_}: the new note won\n")
    assert f"there is no conflict {UNKNOWN}" in accepted.err
    assert cli("review").out == "nothing waits for your decision\n"
    assert cli("conflicts", "--status", "held").out == "no conflicts\n"
    reverted = json.loads(cli("conflicts", "revert", id_, "--json").out)["conflicts"]
    assert [(each["id"], each["status"]) for each in reverted] == [(id_, "reverted")]


@pytest.mark.usefixtures("path")  # whatever the engine
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["burn"], 2, "'burn' is not known; allowed: list, revert ID, accept ID, dismiss ID"),
        (["revert"], 2, "revert needs the id of a conflict"),
        (["list", UNKNOWN], 2, "list takes no ids"),
        (["revert", "x"], 2, "conflict_id: 'x' is not an id"),
        (["accept", UNKNOWN], 3, f"there is no conflict {UNKNOWN}"),
        (["--status", "open"], 2, "status: 'open' is not known; allowed: applied, dismissed, held, reverted"),
        (["--limit", "0"], 2, "limit: is 0; allowed: a whole number from 1 to 1000"),
        (["--limit", "1001"], 2, "limit: is 1001"),
    ],
)
def test_what_is_refused_says_why(cli, words, code, said):
    ran = cli("conflicts", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_long_or_hostile_note_does_not_take_over_the_terminal(cli, monkeypatch):
    hold(monkeypatch)
    stored(cli, f"{TEA} \x1b[2J" + "a" * 1000)
    stored(cli, f"{NO_TEA} \x1b[2J" + "a" * 1000)
    shown = cli("conflicts").out
    assert shown.count("characters in all]") == 2 and len(max(shown.splitlines(), key=len)) < 430
    assert "\x1b" not in shown


@pytest.mark.usefixtures("path")  # whatever the engine
def test_a_run_names_its_conflicts_and_what_it_rewrote(cli, environ, monkeypatch, tmp_path):
    """The model learns a note that contradicts another one of the same conversation."""
    lines = [json.dumps({"content": note, "category": "knowledge", "confidence": 0.9}) for note in (TEA, NO_TEA)]
    (tmp_path / "answer.json").write_text(f'{{"facts": [{", ".join(lines)}]}}')
    (tmp_path / "chat.txt").write_text("User: I changed my mind about tea")
    monkeypatch.setenv("TULVING_LLM__COMMAND", f"cat {tmp_path / 'answer.json'}")
    learned = cli("learn", "chat.txt")
    assert learned.out.startswith("learned 2 new facts\n"), learned.err
    assert "held conflicts: 1, see: tulving conflicts --status held" in learned.out
    assert "held conflicts: 1" in cli("runs").out
    [report] = listed(cli)
    run = report["settlement"]["run_id"]
    assert f"by run {run}" in cli("conflicts").out and "both notes would be merged" in cli("conflicts").out
    assert cli("undo", run).code == 0
    assert "held conflicts" not in cli("runs").out
    assert [each["settlement"]["status"] for each in listed(cli)] == ["dismissed"]

    rule = {"merge": {"content_strategy": "summarize", "summarize_with": "model"}}
    assert cli("merge-rules", "update", "default", json.dumps(rule)).code == 0
    (tmp_path / "answer.json").write_text("Drinks tea now and then")
    same_time = ("--occurred-at", "2026-01-01T00:00:00Z")
    stored(cli, TEA, *same_time)
    assert stored(cli, NO_TEA, *same_time)["outcome"] == "merged"
    assert "  merging  done  1 rewritten note\n" in cli("runs", "--limit", "1").out
    assert "\n  made   Drinks tea now and then\n" in cli("conflicts", "--limit", "1").out
