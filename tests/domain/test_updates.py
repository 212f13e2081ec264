from datetime import UTC, datetime, timedelta

import pytest

from tulving.domain.updates import AS_RELEVANT, LATER, Statement, newer

START = datetime(2026, 6, 1, tzinfo=UTC)
ANNA, BOB = frozenset({"anna"}), frozenset({"bob"})


def statement(words, days=0.0, about=ANNA, relevance=0.6, kind="episode"):
    return Statement(kind, about, START + timedelta(days=days), relevance, lambda: words)


def test_a_later_similar_statement_of_the_same_speaker_is_newer():
    found = {
        "old": statement("my favourite drink is green tea"),
        "new": statement("my favourite drink is black coffee", days=3),
        "other": statement("the garden needs water", days=4),
    }
    assert newer(found) == {"old": "new"}


def test_the_latest_one_is_named():
    found = {n: statement(f"my favourite drink is number {n}", days=n) for n in (2, 0, 3, 1)}
    assert newer(found) == {0: 3, 1: 3, 2: 3}
    assert newer(dict(reversed(found.items()))) == newer(found), "whatever the order"


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (statement("my favourite drink is coffee", days=2, about=BOB), "another speaker"),
        (statement("my favourite drink is coffee", days=2, kind="rule"), "another kind"),
        (statement("the cat sleeps", days=2), "about something else"),
        (statement("my favourite drink is coffee", days=-2), "it is older"),
        (statement("my favourite drink is coffee", days=2, relevance=0.1), "it does not answer the question"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_what_is_not_newer(later, reason):
    found = {"old": statement("my favourite drink is tea"), "later": later}
    assert newer(found).get("old") is None, reason


def test_what_follows_at_once_belongs_to_the_same_conversation():
    for apart, outdated in ((LATER - timedelta(seconds=1), {}), (LATER, {"old": "new"})):
        found = {
            "old": statement("my favourite drink is tea"),
            "new": statement("my favourite drink is coffee", days=apart / timedelta(days=1)),
        }
        assert newer(found) == outdated


def test_a_newer_one_is_about_as_relevant():
    for relevance, outdated in ((AS_RELEVANT * 0.6, {"old": "new"}), (AS_RELEVANT * 0.6 - 0.001, {})):
        found = {
            "old": statement("my favourite drink is tea"),
            "new": statement("my favourite drink is coffee", days=1, relevance=relevance),
        }
        assert newer(found) == outdated


def test_another_fact_of_the_same_subject_is_not_newer():
    found = {
        "home": statement("anna lives in berlin", kind="fact"),
        "work": statement("anna works at a bakery", days=1, kind="fact"),
        "drink": statement("anna favourite drink tea", days=2, kind="fact"),
        "drink again": statement("anna favourite hot drink coffee", days=3, kind="fact"),
    }
    assert newer(found) == {"drink": "drink again"}


def test_similar_rules_hold_beside_each_other():
    rules = {n: statement("never tell a customer the price", days=n, about=frozenset(), kind="rule") for n in range(3)}
    assert newer(rules) == {}


@pytest.mark.parametrize("kind", ["episode", "fact", "rule"])
def test_nothing_one_and_empty_texts(kind):
    assert newer({}) == {}
    assert newer({1: statement("tea", kind=kind)}) == {}
    assert newer({1: statement("", kind=kind), 2: statement("the of and", days=2, kind=kind)}) == {}
