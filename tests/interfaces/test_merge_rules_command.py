"""`tulving merge-rules`, as a person uses it."""

import io
import json
from pathlib import Path

import pytest

WORK = {
    "name": "work",
    "priority": 10,
    "conditions": {"source": ["User", "skill"], "importance_range": {"min": 0.5}},
    "arbitration": {"allow_merge": False, "weights": {"recency": 0.5}},
}


@pytest.mark.scenario("000-037", "000-038", "000-039", "000-042")
def test_rules_from_the_first_to_the_last(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    heading, rule = cli("merge-rules").out.splitlines()
    assert (heading.split()[:3], rule.split()) == (
        ["name", "priority", "state"],
        ["default", "0", "on", "for", "all", "other", "facts"],
    )
    added = cli("merge-rules", "add", json.dumps(WORK))
    assert (added.code, added.out, added.err) == (0, "added work\n", "")
    (tmp_path / "ann.json").write_text('{"name": "ann", "extends": "work", "conditions": {"user_id": "ann"}}')
    assert json.loads(cli("merge-rules", "add", "ann.json", "--json").out)["arbitration"]["allow_merge"] is False
    monkeypatch.setattr("sys.stdin", io.StringIO('{"enabled": false, "merge": {"keywords": "intersection"}}'))
    updated = cli("merge-rules", "update", "ann", "-")
    assert updated.out == "updated ann, now version 2\n"
    assert cli("merge-rules").out.splitlines() == [
        "name     priority  state  extends  what it says itself",
        "work     10        on              conditions.source user or skill, conditions.importance_range.min 0.5,"
        " arbitration.allow_merge false, arbitration.weights.recency 0.5",
        "ann      10        off    work     conditions.user_id ann, merge.keywords intersection",
        "default  0         on              for all other facts",
    ]
    listed = json.loads(cli("merge-rules", "--json").out)["merge_rules"]
    assert [(rule["name"], rule["priority"], rule["version"]) for rule in listed] == [
        ("work", 10, 1),
        ("ann", 10, 2),
        ("default", 0, 1),
    ]
    shown = [line.split(maxsplit=2) for line in cli("merge-rules", "show", "ann").out.splitlines()[1:]]
    assert shown[0] == ["version", "2"] and ["arbitration.weights.importance", "0.4", "built in"] in shown
    assert ["enabled", "false", "ann"] in shown and ["priority", "10", "work"] in shown
    assert ["conditions.user_id", "ann", "ann"] in shown and ["arbitration.weights.recency", "0.5", "work"] in shown
    assert (
        "arbitration.weights.importance              0.4             built in" in cli("merge-rules", "show", "ann").out
    )
    assert json.loads(cli("merge-rules", "show", "ann", "--json").out) == listed[1]

    exported = cli("merge-rules", "export").out
    assert [rule["name"] for rule in json.loads(exported)] == ["default", "work", "ann"]
    (tmp_path / "rules.json").write_text(exported)
    assert cli("merge-rules", "load", "rules.json").out == "loaded 3 rules, 0 of them new or changed\n"
    assert cli("merge-rules", "delete", "ann").out == "deleted ann\n"
    assert json.loads(cli("merge-rules", "delete", "work", "--json").out) == {"deleted": "work"}
    assert json.loads(cli("merge-rules", "load", "rules.json", "--json").out) == {"rules": 3, "changed": 2}
    assert cli("merge-rules", "export").out == exported
    assert [line.split()[0] for line in cli("--tenant", "other", "merge-rules").out.splitlines()] == ["name", "default"]


def test_what_is_refused_says_why(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cli("merge-rules", "load", '[{"name": "a"}, {"name": "b", "extends": "a"}]')
    before = cli("merge-rules", "export").out
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe4"}')
    for arguments, code, said in (
        (("show", "nothing"), 3, "Rule not found: nothing"),
        (("update", "nothing", "{}"), 3, "Rule not found: nothing"),
        (("delete", "nothing"), 3, "Rule not found: nothing"),
        (("delete", "default"), 2, "Cannot delete default rule"),
        (("delete", "a"), 2, "a is extended by b"),
        (("add", "{}"), 2, "Rule name is required"),
        (("add", '{"name": "a"}'), 2, "there is a rule a already; allowed: a new name, or an update of that rule"),
        (("add", '{"name": '), 2, "rule: is not JSON"),
        (("add", "[" * 100_000), 2, "rule: is not JSON"),
        (("add", "latin.json"), 2, "rule: is not JSON"),
        (("add", "nowhere.json"), 1, "nowhere.json: No such file"),
        (("update", "a", '{"extends": "b"}'), 2, "a extends b extends a, which is a circle"),
        (
            ("update", "a", '{"merge": {"boost_amount": NaN}}'),
            2,
            "merge.boost_amount: is nan; allowed: a number",
        ),
        (("update", "a", '{"merge": {"boost": 1}}'), 2, "merge: 'boost' is not known; allowed: boost_amount, "),
        (("load", '{"name": "c"}'), 2, "rules: must be a list, not dict"),
        (("load", '[{"name": "c"}, {"name": "d", "priority": "x"}]'), 2, "rules[1].priority: must be a whole number"),
    ):
        ran = cli("merge-rules", *arguments)
        assert (ran.code, ran.out) == (code, ""), (arguments, ran)
        assert said in ran.err
    assert cli("merge-rules", "export").out == before
    assert cli("merge-rules", "add").code == 2
    assert "Commands:" in cli("merge-rules", "--help").out
    monkeypatch.delenv("TULVING_URL")
    assert [cli("merge-rules", *verb).code for verb in ((), ("export",), ("delete", "a"))] == [2, 2, 2]
    assert cli("merge-rules", "add", '{"name": "a"}').code == 0, "which makes the store"
