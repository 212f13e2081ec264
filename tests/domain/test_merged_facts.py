import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.intake import MAX_TAGS
from tulving.domain.merging import MergePolicy, MergeResult, content_strategy, merge
from tulving.domain.model import Fact

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)


def fact(content: str = "Likes tea.", **values: Any) -> Fact:
    known = {"tenant_id": "t", "id": UUID(int=1), "subject": "user", "predicate": "preference", "keyed": False}
    dates = {"created_at": NOW, "updated_at": NOW, "content_hash": None}
    return Fact(content=content, **{**known, **dates, **values})


def merged(first: str | dict[str, Any], second: str | dict[str, Any], **policy: Any) -> MergeResult:
    ours, theirs = (fact(side) if isinstance(side, str) else fact(**side) for side in (first, second))
    return merge(ours, theirs, MergePolicy(**policy))


def text(first: str, second: str, strategy: str, **policy: Any) -> str:
    return merged(first, second, content_strategy=strategy, **policy).content


@pytest.mark.scenario("000-032")
def test_texts_are_concatenated_with_a_newline() -> None:
    assert text("Likes tea.", "Has a dog.", "concatenate") == "Likes tea.\nHas a dog."
    assert text("Likes tea.\n", "\nHas a dog.\n", "concatenate") == "Likes tea.\nHas a dog."
    assert text(" a.\n", " A.\n", "concatenate", deduplicate=False) == " a.\n\n A.\n"


@pytest.mark.scenario("000-032")
def test_the_second_text_replaces_the_first() -> None:
    result = merged({"content": "Likes tea.", "importance": 9.0}, "Tea. Tea.", content_strategy="replace")
    assert (result.content, result.strategy, result.deduplicated_count) == ("Tea. Tea.", "replace", 0)


@pytest.mark.scenario("000-032")
@pytest.mark.parametrize(
    ("first", "second", "summary"),
    [
        ("The cat likes warm milk.", "Cats like milk.", "The cat likes warm milk."),
        ("Cats like milk.", "The cat likes warm milk.", "The cat likes warm milk."),
        ("Likes tea. Has a dog.", "Likes green tea. Lives in Rome.", "Has a dog.\nLikes green tea. Lives in Rome."),
        ("Has a dog. Lives in the old town of Rome.", "Sings.", "Has a dog. Lives in the old town of Rome.\nSings."),
        ("Has a cat.\nHas a dog.", "Has the dog!", "Has a cat.\nHas a dog."),
        ("Anna manages Bob.", "Bob manages Anna.", "Anna manages Bob.\nBob manages Anna."),
        ("Eats meat.", "Does not eat meat.", "Eats meat.\nDoes not eat meat."),
        ("She does not eat red meat.", "She eats meat.", "She does not eat red meat.\nShe eats meat."),
        ("她喜欢绿茶。她有猫。", "她很喜欢绿茶。", "她有猫。\n她很喜欢绿茶。"),
        ("To be.", "Or not to be.", "To be.\nOr not to be."),
        ("!!!", "...", "!!!"),
    ],
)
def test_a_summary_has_every_key_sentence_once(first: str, second: str, summary: str) -> None:
    result = merged(first, second, content_strategy="summarize")
    assert result.content == summary
    assert result.strategy == "summarize"


def test_of_equal_sentences_a_summary_takes_that_of_the_primary_fact() -> None:
    small, great = {"content": "likes TEA"}, {"content": "Likes tea", "importance": 8.0}
    assert merged(small, great, content_strategy="summarize").content == "Likes tea"
    assert merged(great, small, content_strategy="summarize").content == "Likes tea"
    assert merged(small, great | {"importance": 5.0}, content_strategy="summarize").content == "likes TEA"
    assert merged(small, great | {"importance": 5.0, "occurred_at": LATER}, content_strategy="summarize").content == (
        "Likes tea"
    )


@pytest.mark.scenario("000-032")
def test_a_summary_may_come_from_a_model() -> None:
    ours, theirs = fact("Likes tea."), fact("Likes green tea.")
    policy = MergePolicy(content_strategy="summarize")
    result = merge(ours, theirs, policy, summary=" Likes\x00 tea, \ud800green too.\n")
    assert (result.content, result.deduplicated_count) == ("Likes tea, green too.", 0)
    for blank in (None, "", " \n", "\x00"):
        assert merge(ours, theirs, policy, summary=blank).content == "Likes green tea."
    concatenated = merge(ours, theirs, MergePolicy(content_strategy="concatenate"), summary="Tea.")
    assert concatenated.content == "Likes tea.\nLikes green tea."


@pytest.mark.scenario("000-032")
@pytest.mark.parametrize(
    ("similarity", "strategy"),
    [
        (0.7, "concatenate"),
        (0.701, "summarize"),
        (0.0, "concatenate"),
        (1.0, "summarize"),
        (float("nan"), "concatenate"),
    ],
)
def test_smart_summarizes_what_is_similar(similarity: float, strategy: str) -> None:
    ours, theirs = fact("Likes tea"), fact("Has a dog")
    assert merge(ours, theirs, MergePolicy(), similarity=similarity).strategy == strategy
    assert content_strategy(ours, theirs, MergePolicy(), similarity) == strategy
    assert content_strategy(ours, theirs, MergePolicy(content_strategy="replace"), similarity) == "replace"
    assert content_strategy(ours, theirs, MergePolicy(similarity_threshold=1), similarity) == "concatenate"


@pytest.mark.parametrize(
    ("first", "second", "strategy"),
    [
        ("one two three four", "the one two three five", "summarize"),
        ("w1 w2 w3 w4 w5 w6 w7 w8 w9 w10", "w1 w2 w3 w4 w5 w6 w7 x8 x9 x10", "concatenate"),
        ("w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11", "w1 w2 w3", "summarize"),
        ("w1 w2 w3", "w1. w2. w3. w4", "summarize"),
        ("...", "!!!", "concatenate"),
    ],
)
def test_without_vectors_common_keywords_tell_how_similar_texts_are(first: str, second: str, strategy: str) -> None:
    assert merged(first, second).strategy == strategy


@pytest.mark.scenario("000-033")
@pytest.mark.scenario("000-034")
@pytest.mark.parametrize(
    ("first", "second", "policy", "importance", "delta"),
    [
        (7.0, 8.0, {}, 9.0, 0.1),
        (8.0, 7.0, {"boost_amount": 0.15}, 9.5, 0.15),
        (9.5, 3.0, {}, 10.0, 0.05),
        (10.0, 3.0, {}, 10.0, 0.0),
        (7.0, 8.0, {"importance": "max"}, 8.0, 0.0),
        (6.0, 8.0, {"importance": "average"}, 7.0, -0.1),
    ],
)
def test_importance(first: float, second: float, policy: dict[str, Any], importance: float, delta: float) -> None:
    result = merged({"importance": first}, {"importance": second}, **policy)
    assert result.importance == pytest.approx(importance)
    assert result.importance_delta == pytest.approx(delta)


@pytest.mark.scenario("000-033")
def test_time() -> None:
    ours, theirs = {"occurred_at": LATER}, {"created_at": NOW}
    assert merged(ours, theirs).occurred_at == merged(theirs, ours).occurred_at == LATER
    assert merged(ours, theirs, timestamp="min").occurred_at == NOW


@pytest.mark.scenario("000-033")
def test_tags() -> None:
    ours, theirs = {"tags": ["b", "a"]}, {"tags": ["c", "a", "b"]}
    union = merged(ours, theirs)
    assert (union.tags, union.keywords_count) == (("b", "a", "c"), 3)
    common = merged(ours, theirs, keywords="intersection")
    assert (common.tags, common.keywords_count) == (("b", "a"), 2)
    many = [f"{number}" for number in range(MAX_TAGS)]
    assert merged({"tags": many}, ours).tags == tuple(many)


@pytest.mark.scenario("000-033")
def test_source() -> None:
    user, skill, model = {"source": "User"}, {"source": "skill"}, {"run_id": UUID(int=9)}
    assert merged(skill, user).source == merged(user, skill).source == "User"
    assert merged(model, skill).source == "skill"
    assert merged(model, model).source == "inferred"
    assert merged(model, {}).source == merged({"source": " "}, model).source == "user"
    assert merged(user, skill, source="second").source == merged(skill, user, source="first").source == "skill"
    priorities = {"skill": 5.0}
    assert merge(fact(**user), fact(**skill), MergePolicy(), source_priorities=priorities).source == "skill"
    elsewhere = {"source": "mail", "importance": 8.0}
    assert merged({"source": "web"}, elsewhere).source == merged(elsewhere, {"source": "web"}).source == "mail"


def test_certainty_permanence_and_category() -> None:
    ours = {"type": "goal", "predicate": "goal", "confidence": 0.4, "permanence": "stable", "decay_rate": 0.002}
    theirs = {"type": "context", "confidence": 0.9, "importance": 6.0}
    for first, second in ((ours, theirs), (theirs, ours)):
        result = merged(first, second)
        assert (result.confidence, result.permanence, result.category) == (0.4, "stable", "context")
    assert merged(ours | {"importance": 6.0}, theirs).category == "goal"
    assert merged(ours | {"importance": 6.0}, theirs | {"occurred_at": LATER}).category == "context"
    assert merged({}, {}).category == "preference"


@pytest.mark.scenario("000-035")
@pytest.mark.scenario("000-036")
def test_sentences_that_are_known_are_not_added() -> None:
    first = "Likes tea. Has a dog!\n\nLives in Rome."
    second = "has a DOG. Works at a bank in town.\nLives in Rome\nWorks at the bank in town. Likes 3.5 cups."
    result = merged(first, second, content_strategy="concatenate")
    assert result.content == f"{first}\nWorks at a bank in town.\nLikes 3.5 cups."
    assert (result.deduplicated_count, result.content_length) == (3, len(result.content))
    strict = merged(first, second, content_strategy="concatenate", deduplicate_threshold=1)
    assert strict.deduplicated_count == 2
    kept = merged(first, second, content_strategy="concatenate", deduplicate=False)
    assert (kept.content, kept.deduplicated_count) == (f"{first}\n{second}", 0)


@pytest.mark.scenario("000-036")
def test_a_summary_counts_the_sentences_left_out() -> None:
    result = merged("Likes tea. Has a dog.", "Likes green tea. Likes tea.", content_strategy="summarize")
    assert (result.content, result.deduplicated_count) == ("Has a dog.\nLikes green tea.", 2)
    assert result.content_length == len(result.content)


@pytest.mark.parametrize("strategy", ["concatenate", "summarize", "smart"])
def test_two_megabytes_are_merged_in_no_time(strategy: str) -> None:
    first = "".join(f"Visitor {number} came at {number * 7 % 1439} and left.\n" for number in range(27_000))
    second = first.replace("left", "stayed")
    began = time.process_time()
    result = merged(first, second, content_strategy=strategy)
    assert time.process_time() - began < 2
    assert result.content_length > 1_000_000


PART = st.sampled_from(
    ["Likes tea.", "likes  TEA!", "Likes the tea.", "不来。", "Not now?", "\n", "- x", " ", "\x00\ud800a"]
)
TEXT = st.text(max_size=40) | st.lists(PART, max_size=8).map(" ".join)
FACTS = st.builds(fact, TEXT, importance=st.floats(0, 10), tags=st.lists(st.text(max_size=2), max_size=3))
POLICIES = st.builds(
    MergePolicy,
    content_strategy=st.sampled_from(["concatenate", "replace", "summarize", "smart"]),
    similarity_threshold=st.floats(0, 1),
    deduplicate=st.booleans(),
    deduplicate_threshold=st.floats(0, 1),
    importance=st.sampled_from(["max", "boost", "average"]),
    boost_amount=st.floats(0, 1),
    keywords=st.sampled_from(["union", "intersection"]),
)


@given(FACTS, FACTS, POLICIES, st.none() | st.floats())
def test_any_two_facts_can_be_merged(first: Fact, second: Fact, policy: MergePolicy, similarity: float | None) -> None:
    result = merge(first, second, policy, similarity=similarity)
    assert 0 <= result.importance <= 10
    assert result.content_length == len(result.content) <= len(first.content) + len(second.content) + 1
    assert result.content.strip() or not (second.content.strip() and first.content.strip())
    assert set(result.content.split()) <= {*first.content.split(), *second.content.split()}
    if result.strategy == "concatenate" and not policy.deduplicate:
        assert first.content in result.content
        assert second.content in result.content


@given(TEXT, st.floats(0, 1))
def test_a_text_merged_with_itself_is_itself(content: str, threshold: float) -> None:
    result = merged(content, content, content_strategy="concatenate", deduplicate_threshold=threshold)
    assert result.content == content
