"""What becomes of secrets in arguments and offers, by policy."""

import pytest

from tulving import InvalidInput, NewFact
from tulving.domain.screening import Finding, Screen

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
MARK = "[redacted: GitHub token]"


def test_every_text_is_reached_and_its_place_is_named():
    given = {
        "content": f"use {TOKEN}",
        "importance": 5.0,
        "tags": ["a", TOKEN],
        "metadata": {"deep": [{"password": "hunter2"}], TOKEN: 1},
        "embedding": (0.1, 0.2),
    }
    said, found = Screen().arguments(given)
    assert said == {
        "content": f"use {MARK}",
        "importance": 5.0,
        "tags": ["a", MARK],
        "metadata": {"deep": [{"password": "[redacted: password]"}], MARK: 1},
        "embedding": [0.1, 0.2],
    }
    places = ["content", "tags[1]", "metadata.deep[0].password", "metadata"]
    assert [each.place for each in found] == places
    assert TOKEN not in repr(found)


def test_what_holds_no_secret_is_passed_on_as_it_is():
    given = {"content": "the password is in the vault", "metadata": {"a": ["b"]}}
    assert Screen().arguments(given) == (given, [])
    offer = NewFact(content="likes tea")
    assert Screen().offer(offer)[0] is offer


def test_offers_are_screened_one_by_one():
    offers = [NewFact(content="fine"), NewFact(content=TOKEN), {"content": TOKEN}, 7]
    said, found = Screen().arguments({"offers": iter(offers)})
    assert said["offers"] == [offers[0], NewFact(content=MARK), {"content": MARK}, 7]
    assert found == [Finding("content", "GitHub token", 1), Finding("content", "GitHub token", 2)]
    with pytest.raises(
        InvalidInput, match=r"^offers\[1\]\.content: holds what looks like a secret \(GitHub token, char"
    ):
        Screen("refuse").arguments({"offers": offers})


def test_a_number_may_be_a_password():
    details = {"password": 12345678, "input_tokens": 12345678, "max_tokens": 4096, "ok": True, "ids": [10**30]}
    said, found = Screen().arguments({"metadata": details})
    assert said["metadata"] == details | {"password": "[redacted: password]"}
    assert found == [Finding("metadata.password", "password")]
    assert Screen("warn").arguments({"metadata": details})[0] == {"metadata": details}
    assert Screen().arguments({"metadata": {"password": 10**5000}})[0] is not None


def test_a_predicate_tells_what_the_content_is():
    said, found = Screen().arguments({"subject": "router", "predicate": "wifi_password", "content": "hunter2"})
    assert (said["content"], found) == ("[redacted: password]", [Finding("content", "password")])


@pytest.mark.parametrize("field", ["project", "scope", "butler", "user_id"])
def test_what_says_whose_a_memory_is_is_refused_and_never_changed(field):
    for policy in ("redact", "refuse"):
        with pytest.raises(InvalidInput, match=f"^{field}: ") as refused:
            Screen(policy).arguments({field: TOKEN})
        assert TOKEN not in str(refused.value)
    assert Screen().arguments({"metadata": {field: TOKEN}})[0] == {"metadata": {field: MARK}}


def test_the_other_policies_change_nothing():
    given = {"content": TOKEN, "scope": TOKEN}
    assert Screen("off").arguments(given) == (given, [])
    said, found = Screen("warn").arguments(given)
    assert said == given and len(found) == 2
    assert (
        Screen("warn").warning(found) == "stored what looks like a secret: content (GitHub token), scope (GitHub token)"
    )


def test_a_refusal_names_the_place_and_never_the_secret():
    with pytest.raises(InvalidInput) as refused:
        Screen("refuse").arguments({"metadata": {TOKEN: {"key": f"x {TOKEN}"}}})
    assert refused.value.field == "metadata" and TOKEN not in str(refused.value)
    with pytest.raises(InvalidInput, match=r"characters 3 to 42") as refused:
        Screen("refuse").arguments({"metadata": {"a": {"key": f"x {TOKEN}"}}})
    assert refused.value.field == "metadata.a.key"


def test_private_text_hides_no_secret_and_builds_none():
    split = TOKEN[:3] + "<private>x</private>" + TOKEN[3:]
    assert Screen().arguments({"content": split})[0] == {"content": MARK}
    assert Screen().arguments({"content": TOKEN.replace("_", "\0_")})[0] == {"content": MARK}
    hidden = {"content": f"a <private>{TOKEN}</private>"}
    assert Screen("refuse").arguments(hidden) == (hidden, [])


def test_a_long_list_of_findings_is_shortened():
    found = [Finding(f"tags[{at}]", "password") for at in range(9)]
    assert str(Screen().warning(found)).endswith("tags[4] (password) and 4 more")
    assert Screen().warning([]) is None


def test_endless_arguments_are_refused():
    endless: list = []
    endless += [endless, endless]
    with pytest.raises(InvalidInput, match="nested too deeply"):
        Screen().arguments({"metadata": {"a": endless}})


def test_what_is_allowed_is_let_through():
    given = {"content": f"{TOKEN} and password: hunter2"}
    assert Screen(allow=["ghp_.+"]).arguments(given)[0] == {"content": f"{TOKEN} and password: [redacted: password]"}
