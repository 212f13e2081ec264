"""The profile and the changes of a fact on the command line."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine


def test_a_profile_by_hand(cli):
    assert (cli("profile").code, cli("profile").out) == (0, "\n")
    assert cli("set-profile", "work", "baker").out == "updated profile work\n"
    assert cli("set-profile", "work", "baker").out == "was there already: profile work\n"
    assert cli("set-profile", "recent", "Oslo", "--json").out == '{\n  "updated": true\n}\n'
    cli("store", "note", "likes tea", "--category", "preference", "--confidence", "0.6")
    assert cli("profile").out == (
        "User Context:\n- Work: baker\n\nHistory:\n- Recent: Oslo\n\nFacts:\n- [preference | 0.60] likes tea\n"
    )
    assert cli("profile", "--max-tokens", "10").out == "User Context:\n- Work: baker\n\nHistory\n...\n"
    assert cli("context", "tea").out.startswith("# Memory Context\n\n## Profile\n- Work: baker\n- Recent: Oslo\n")
    refused = cli("set-profile", "hobby", "rowing")
    assert (refused.code, refused.out) == (2, "")
    assert "block: 'hobby' is not known; allowed: background, earlier, personal, recent, topOfMind, work" in refused.err
    assert cli("delete-profile", "work", "--yes").out == "deleted 1 version\n"
    assert json.loads(cli("delete-profile", "--yes", "--json").out) == {"deleted": 1}
    assert cli("delete-profile", "--yes").out == "deleted 0 versions\n"
    assert cli("profile").out == "Facts:\n- [preference | 0.60] likes tea\n"


def test_a_fact_gets_another_category_and_confidence(cli):
    stored = json.loads(cli("store", "note", "wants to row", "--json").out)
    ran = cli("edit", "fact", stored["ref"], "--category", "goal", "--confidence", "0.8", "--json")
    changed = json.loads(ran.out)["memory"]
    assert (ran.code, changed["type"], changed["confidence"], changed["content"]) == (0, "goal", 0.8, "wants to row")
    for option, wrong in (("category", "gossip"), ("confidence", "1.1"), ("confidence", "high"), ("confidence", "nan")):
        refused = cli("edit", "fact", stored["ref"], f"--{option}", wrong)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"error: {option}: ")
    assert cli("edit", "fact", "fact_00000000", "--category", "goal").code == 3
    assert cli("profile").out == "Facts:\n- [goal | 0.80] wants to row\n"
