from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain.questions import Question, understand
from tulving.domain.relevance import (
    ASKING,
    OPENING,
    SIGNALS,
    SPEAKS,
    TURN,
    UNKNOWN_MEANING,
    Candidate,
    contributions,
    weigh,
    why,
)
from tulving.domain.text import search_text

NOW = datetime(2026, 6, 10, 9, tzinfo=UTC)
ANNA = frozenset({"anna"})


def candidate(content, **more):
    """A memory; each that is part of a session is said by someone else."""
    about = frozenset([content]) if "session" in more else frozenset()
    return Candidate(words=search_text(content), content=content, **{"about": about, **more})


def weighed(query, pool, names=frozenset(), meaning=1.0):
    return evidence_of(understand(query, names, NOW), pool, meaning)


def evidence_of(question, pool, meaning=1.0):
    found = weigh(question, pool, meaning)
    return {key: found.evidence(key) for key in found}


def words(number, *first):
    return " ".join((*first, *(f"filler{n}" for n in range(number - len(first)))))


BETTER_AND_WORSE = {
    "meaning": ("tea", {"good": candidate("a cup", similarity=0.8), "bad": candidate("a cup", similarity=0.2)}),
    "words": ("green tea", {"good": candidate("some green tea"), "bad": candidate("some black milk")}),
    "window": (
        "green tea",
        {
            "before": candidate("green tea maybe", session=1, after="good"),
            "other": candidate("black milk maybe", session=2, after="bad"),
            "good": candidate("yes I do", session=1, before="before"),
            "bad": candidate("yes I do", session=2, before="other"),
        },
    ),
    "speaker": ("what did anna eat", {"good": candidate("a cake", about=ANNA), "bad": candidate("a cake")}),
    "session": (
        "green tea",
        {
            "best": candidate("green tea indeed", session=1),
            "good": candidate("a cup of it", session=1),
            "bad": candidate("a cup of it", session=2),
        },
    ),
    "answer": (
        "green tea",
        {
            "asked": candidate("would you like some green tea today?", session=1),
            "said": candidate("would you like some green tea today.", session=2),
            "good": candidate("yes I do", session=1, before="asked"),
            "bad": candidate("yes I do", session=2, before="said"),
        },
    ),
    "time": ("when was the trip", {"good": candidate("it was last friday"), "bad": candidate("it was quite good")}),
    "substance": ("tea", {"good": candidate(words(40)), "bad": candidate(words(4))}),
    "date": (
        "what happened on 5 May 2026",
        {
            "good": candidate("a walk", moment=datetime(2026, 5, 5, 12, tzinfo=UTC)),
            "bad": candidate("a walk", moment=datetime(2026, 4, 5, 12, tzinfo=UTC)),
        },
    ),
}


def test_each_signal_has_a_case():
    assert BETTER_AND_WORSE.keys() == SIGNALS.keys()


@pytest.mark.parametrize("signal", BETTER_AND_WORSE)
def test_each_signal_raises_a_candidate(signal):
    query, pool = BETTER_AND_WORSE[signal]
    evidence = weighed(query, pool, ANNA if signal == "speaker" else frozenset())
    good, bad = evidence["good"], evidence["bad"]
    assert good[signal] > bad[signal]
    assert good["relevance"] > bad["relevance"]
    others = SIGNALS.keys() & good.keys() - {signal}
    if signal not in ("words", "answer"):  # these words are in the window too, and a question has less substance
        assert {name for name in others if good[name] < bad[name]} == set(), "nothing else speaks against it"


@pytest.mark.parametrize(
    ("query", "names", "left_out"),
    [
        ("green tea", frozenset(), {"speaker", "date", "time"}),
        ("when was it", frozenset(), {"speaker", "date"}),
        ("what happened yesterday", frozenset(), {"speaker", "time"}),
        ("what did anna drink", ANNA, {"date", "time"}),
    ],
)
def test_what_the_query_does_not_call_for_is_left_out(query, names, left_out):
    pool = {1: candidate("green tea yesterday", about=ANNA, moment=NOW, session="s")}
    assert SIGNALS.keys() - weighed(query, pool, names)[1].keys() == left_out


def test_outside_a_session_there_is_no_signal_of_one():
    pool = {1: candidate("green tea"), 2: candidate("green tea", session="s")}
    evidence = weighed("green tea", pool)
    assert evidence[2].keys() - evidence[1].keys() == {"session", "answer"}
    assert evidence[1]["relevance"] == pytest.approx(evidence[2]["relevance"]), "which is no disadvantage"


def test_a_fact_that_fits_in_every_way_is_fully_relevant_and_one_that_does_not_at_all_hardly():
    best = candidate("anna drinks green tea", similarity=1.0, about=ANNA, distilled=True)
    worst = candidate("ok", similarity=-1.0, about=frozenset({"bob"}))
    evidence = weighed("green tea anna drinks", {1: best, 2: worst}, ANNA)
    assert evidence[1]["relevance"] == pytest.approx(1.0)
    assert evidence[2]["relevance"] < 0.05
    assert evidence[2]["meaning"] == 0.0, "an opposite meaning counts no less than none"


def test_without_candidates_there_is_no_evidence():
    assert weighed("green tea", {}) == {}


@pytest.mark.parametrize("query", ["", "!!!", "🙂"])
def test_without_words_the_meaning_decides(query):
    pool = {1: candidate("one", similarity=0.1), 2: candidate("two", similarity=0.6)}
    evidence = weighed(query, pool)
    assert evidence[2]["relevance"] > evidence[1]["relevance"]
    assert {each[name] for each in evidence.values() for name in ("words", "window")} == {0.0}


@pytest.mark.parametrize("similarity", [None, 0.0, 1.0])
def test_one_candidate_is_enough(similarity):
    (evidence,) = weighed("green tea", {1: candidate("green tea", similarity=similarity)}).values()
    assert evidence["words"] == pytest.approx(1.0)
    assert 0 < evidence["relevance"] <= 1


def test_without_any_vector_the_other_signals_share_the_whole():
    perfect = candidate("green tea", distilled=True)
    assert weighed("green tea", {1: perfect})[1]["relevance"] == pytest.approx(1.0)


def test_a_missing_vector_is_estimated_from_the_words():
    pool = {
        "pending": candidate("green tea"),
        "alike": candidate("green tea", similarity=UNKNOWN_MEANING),
        "unlike": candidate("green tea", similarity=0.0),
    }
    evidence = weighed("green tea", pool)
    assert evidence["pending"]["relevance"] == evidence["alike"]["relevance"] > evidence["unlike"]["relevance"]


def test_similarities_count_as_far_as_the_embedder_is_trusted():
    pool = {1: candidate("black tea today", similarity=0.0), 2: candidate("some cake today", similarity=1.0)}
    apart = []
    for trust in (0.0, 0.5, 1.0):
        evidence = weighed("black tea", pool, meaning=trust)
        apart.append(evidence[2]["relevance"] - evidence[1]["relevance"])
    assert apart[0] < apart[1] < apart[2] and apart[0] < 0 < apart[2]
    same = {key: candidate(each.content, similarity=None) for key, each in pool.items()}
    untrusted, none = weighed("black tea", pool, meaning=0.0), weighed("black tea", same)
    assert [each["relevance"] for each in untrusted.values()] == [each["relevance"] for each in none.values()]


def test_a_rare_word_tells_more_than_a_frequent_one():
    pool = {n: candidate(f"tea number {n}") for n in range(20)} | {"rare": candidate("saffron number x")}
    evidence = weighed("saffron tea", pool)
    assert evidence["rare"]["words"] > 2 * evidence[0]["words"] > 0


def test_words_are_compared_by_their_stems_and_whole():
    pool = {key: candidate(key) for key in ("paintings of lakes", "painted a lake", "repaint the lakeside", "paint")}
    evidence = weighed("painting lakes", pool)
    assert evidence["paintings of lakes"]["words"] == evidence["painted a lake"]["words"] == pytest.approx(1.0)
    assert evidence["repaint the lakeside"]["words"] == 0.0
    assert 0 < evidence["paint"]["words"] < 1


@pytest.mark.parametrize(("length", "near"), [(TURN, True), (TURN + 1, False)])
def test_only_a_turn_is_read_with_its_neighbours(length, near):
    pool = {
        1: candidate("green tea", session=1, after=2),
        2: candidate(words(length, "indeed"), session=1, before=1, after=3),
        3: candidate("thanks", session=1, before=2),
    }
    assert (weighed("green tea", pool)[2]["window"] > 0) is near
    pool[1], pool[2] = candidate(words(length, "green"), session=1, after=2), candidate("indeed", session=1, before=1)
    assert (weighed("green tea", pool)[2]["window"] > 0) is near, "nor is a long neighbour part of a window"


@pytest.mark.parametrize(("at", "found"), [(OPENING - 1, True), (OPENING, False)])
def test_the_window_of_a_long_text_is_its_opening(at, found):
    text = " ".join((words(at), "tea", words(3 * TURN)))
    evidence = weighed("tea", {1: candidate(text), 2: candidate("milk")})
    assert evidence[1]["words"] == pytest.approx(1.0)
    assert evidence[1]["window"] == pytest.approx(1.0 if found else 0.0)


def test_a_neighbour_outside_the_pool_does_not_count():
    alone = weighed("green tea", {1: candidate("indeed", session=1, before="gone", after="gone too")})
    assert alone[1]["window"] == alone[1]["answer"] == 0.0


def test_a_speaker_who_speaks_of_himself_counts_more():
    pool = {
        "own": candidate("I like my tea", about=ANNA),
        "other": candidate("tea is nice", about=ANNA),
        "fact": candidate("tea is nice", about=ANNA, distilled=True),
        "bob": candidate("I like my tea", about=frozenset({"bob"})),
        "none": candidate("I like my tea"),
    }
    speaker = {key: each["speaker"] for key, each in weighed("anna tea", pool, ANNA).items()}
    assert speaker == {"own": 1.0, "other": SPEAKS, "fact": 1.0, "bob": 0.0, "none": 0.0}


def test_a_speaker_is_a_boost_and_not_a_filter():
    pool = {
        "answer": candidate("Anna likes green tea", similarity=0.9, about=frozenset({"bob"})),
        "greeting": candidate("hello there", similarity=0.1, about=ANNA),
    }
    evidence = weighed("which tea does Anna like", pool, ANNA)
    assert evidence["answer"]["relevance"] > evidence["greeting"]["relevance"] > 0


def test_a_question_has_half_the_substance_of_a_statement():
    pool = {1: candidate("do you like it?"), 2: candidate("do you like it")}
    evidence = weighed("tea", pool)
    assert evidence[1]["substance"] == pytest.approx(ASKING * evidence[2]["substance"])


TEXTS = st.lists(st.sampled_from("green tea anna I last friday cake? yes milk paint".split()), max_size=12).map(
    " ".join
)
CANDIDATES = st.builds(
    candidate,
    TEXTS,
    moment=st.none() | st.integers(-40, 40).map(lambda days: NOW + timedelta(days=days)),
    similarity=st.none() | st.floats(-1, 1),
    about=st.sampled_from([frozenset(), ANNA, frozenset({"bob"})]),
    distilled=st.booleans(),
    session=st.none() | st.integers(1, 2),
    before=st.none() | st.integers(0, 5),
    after=st.none() | st.integers(0, 5),
)
POOLS = st.lists(CANDIDATES, max_size=6).map(lambda made: dict(enumerate(made)))
QUERIES = st.builds(
    understand,
    TEXTS | st.sampled_from(["when did anna drink tea yesterday", "tea in May", ""]),
    st.sampled_from([frozenset(), ANNA]),
    st.just(NOW),
)


@given(QUERIES, POOLS, st.sampled_from([0.0, 0.3, 1.0]))
def test_relevance_and_every_signal_is_a_share(question: Question, pool, meaning):
    evidence = evidence_of(question, pool, meaning)
    assert evidence.keys() == pool.keys()
    for each in evidence.values():
        assert each.keys() - {"relevance"} <= SIGNALS.keys()
        assert all(-1e-9 <= value <= 1 + 1e-9 for value in each.values()), each
        assert 0.0 <= each["relevance"] <= 1.0


@given(QUERIES, POOLS, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_changes_nothing(question: Question, pool, random):
    keys = list(pool)
    random.shuffle(keys)
    assert evidence_of(question, {key: pool[key] for key in keys}) == evidence_of(question, pool)


def test_equal_evidence_is_equal_to_the_last_bit():
    """So that ties are ties, and go to the newer one. A sum in another order may differ in its last bit."""
    terms = "saffron tulip window yacht zebra".split()
    pool = {" ".join(order): candidate(" ".join(order), similarity=0.1) for order in permutations(terms)}
    some = {f"more {n}": candidate(" ".join(terms[: n % 5]) + " more", similarity=0.1) for n in range(40)}
    evidence = weighed(" ".join(terms), pool | some)
    assert len({evidence[key]["relevance"] for key in pool}) == 1


def test_why_a_memory_was_found_in_words_and_the_greatest_contribution_first():
    parts = {"words": 1.0, "meaning": 0.4, "speaker": 0.0, "similarity": 0.4, "confidence": 1.0}
    assert why(parts) == {"meaning": SIGNALS["meaning"].reason, "words": SIGNALS["words"].reason}
    assert why({}) == {}


@pytest.mark.parametrize("meaning", [1.0, 0.4, 0.0])
def test_what_the_signals_add_is_the_relevance(meaning):
    pool = {
        "a": candidate("tea in the garden", similarity=0.6, session=1),
        "b": candidate("who has the tea", similarity=0.3, session=1, after="a"),
        "c": candidate("nothing", similarity=0.1),
    }
    for evidence in weighed("tea in the garden", pool, meaning=meaning).values():
        added = contributions(evidence, meaning)
        assert sum(added.values()) == pytest.approx(evidence["relevance"])
        assert [*added.values()] == sorted(added.values(), reverse=True)
        assert ("meaning" in added) == (meaning > 0)


def test_without_signals_nothing_is_added():
    assert contributions({"relevance": 0.5, "rrf_score": 0.01}) == {}
