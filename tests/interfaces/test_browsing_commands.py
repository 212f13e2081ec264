"""The commands that list by page and by day, and the audit trail."""

import json
import re

import pytest

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine


def stored(cli, *words: str) -> str:
    ran = cli("store", *words, "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["id"]


def test_the_audit_trail_says_what_was_changed_to_which_memory(cli):
    first, second = stored(cli, "rule", "Ask first"), stored(cli, "rule", "Ask twice")
    shown = cli("audit", "--limit", "1").out
    assert "rule_created" in shown and f"rule {second}" in shown and first not in shown
    cursor = re.findall(r"--cursor (\S+)", shown)
    assert f"rule {first}" in cli("audit", "--cursor", *cursor).out
    assert f"rule {first}" in cli("audit", "--item", first).out
    assert f"rule {first}" in cli("audit", "--item", first[:-1]).out
    assert cli("audit", "--event-type", "fact").out == "no events\n"
    cli("set-profile", "work", "Bookbinder")
    assert len(cli("audit", "--event-type", "profile").out.splitlines()) == 1


def test_a_block_of_the_profile_that_was_never_written(cli):
    ran = cli("profile-block", "work")
    assert (ran.code, ran.out) == (0, "no block\n")
    assert json.loads(cli("profile-block", "work", "--json").out) == {"block": None}
    assert cli("profile-versions", "work").out == "never written\n"
    cli("set-profile", "work", "Bookbinder")
    assert "Bookbinder" in cli("profile-block", "work").out
    assert cli("profiles").out == "everybody  1 block\n"


def test_entities_and_a_preview_of_their_merge(cli):
    assert cli("entity", "list").out == "no entities\n"
    ada, augusta = (
        json.loads(cli("entity", "create", name, "person", "--json").out)["entity_id"] for name in ("Ada", "Augusta")
    )
    stored(cli, "fact", "Ada", "home", "Lisbon", "--entity-id", ada)
    assert [line for line in cli("entity", "list").out.splitlines() if line[0] != " "] == [
        "Ada  person  1 fact",
        "Augusta  person  0 facts",
    ]
    assert cli("entity", "preview", ada, augusta).out.startswith("1 fact would move from Ada to Augusta\n")


def test_what_was_stored_on_a_day_and_what_will_fade(cli):
    stored(cli, "fact", "Ada", "home", "Lisbon")
    assert "1 facts" in cli("growth", "--days", "1").out
    assert len(cli("fading", "--days", "3").out.splitlines()) == 3
    assert "Ada · home: Lisbon" in cli("facts", "--subject", "ada").out
    assert cli("episodes").out == "no episodes\n"
