import re
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tulving.domain import intake
from tulving.errors import InvalidInput


@pytest.mark.scenario("002-014")
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("key <private>API_KEY=secret123</private> end", "key  end"),
        ("<private>a</private>b<private>c</private>d", "bd"),
        ("open <private>never closed: secret", "open "),
        ("<PRIVATE >a</Private >b", "b"),
        ("<private>a<private>b</private>secret</private>c", "c"),
        ("<private\nkind='x'>a</private>b", "b"),
        ("stray </private> close", "stray  close"),
        ("x < y and y > z", "x < y and y > z"),
        ("<privateer>stays</privateer>", "<privateer>stays</privateer>"),
        ("a<private/>b <PRIVATE kind='x' / >c", "ab c"),
        ("<private/>a<private>b<private/>c</private>d", "ad"),
        ("<private / x>a</private>b", "b"),
        ("<pri<private>x</private>vate>S</private>", ""),
        ("<pri<private/>vate>S</private>b", "b"),
        ("<pri<pri<private/>vate/>vate>S</private>b", "b"),
        ("<private>S</pri<private>x</private>vate>b", "b"),
        ("a<private>x</pri</private>vate>b", "avate>b"),
        ("<pri<private>vate>x</private>S", "<priS"),
        ("<private>a</private></private>b", "b"),
        ("a<b<private/>c>d", "a<bc>d"),
        ("<<<private>x</private>>>", "<<>>"),
        ("<private", "<private"),
        ("x<private<private>S", "x<private"),
    ],
)
def test_private_text_is_removed(text, kept):
    assert intake.strip_private(text) == kept


TAG = re.compile(r"<(/?)\s*private\b[^<>]*>", re.IGNORECASE)
PIECES = st.sampled_from(
    ["<", ">", "/", " ", "pri", "vate", "private", "a", "<private>", "</private>", "<private/>", "<PRI", "<privateer>"]
)


@given(st.lists(PIECES, max_size=40).map("".join))
@example("<pri<private>x</private>vate>S</private>")
def test_no_private_tag_is_left_however_it_was_built(text):
    stripped = intake.strip_private(text)
    assert TAG.search(stripped) is None
    assert intake.strip_private(stripped) == stripped
    if TAG.search(text) is None:
        assert stripped == text


OUTSIDE = st.text(st.characters(exclude_characters="<>"))
HIDDEN = st.recursive(
    OUTSIDE | st.just("<private/>"),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: f"<private>{''.join(parts)}</private>"),
)


@given(st.lists(st.tuples(OUTSIDE, HIDDEN.map(lambda hidden: f"<private>{hidden}</private>")), max_size=6), OUTSIDE)
def test_text_outside_private_tags_is_kept(parts, last):
    text = "".join(outside + hidden for outside, hidden in parts) + last
    assert intake.strip_private(text) == "".join(outside for outside, _ in parts) + last


@pytest.mark.parametrize(
    "repeat",
    [
        lambda n: "<private>" * n,
        lambda n: "<private/>" * n,
        lambda n: "<private>" * n + "</private>" * n,
        lambda n: "<pri" * n + "<private/>" + "vate/>" * n,
        lambda n: "<pri" * n + "<private>x</private>" + "vate>x</private>" * n,
        lambda n: "<private/>" + "<" * n + ">" * n,
        lambda n: "<private/>" + "<private" + " " * n + "x" * n + "<",
        lambda n: "<private/>" + "<x" * n + "<y>" * n,
    ],
)
def test_private_text_is_found_in_linear_time(repeat, monkeypatch: pytest.MonkeyPatch):
    """Counted, not timed: the pieces that are read, and the letters of all that is tried as a tag."""

    class Counting:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern = pattern

        def search(self, text: str):
            return self.pattern.search(text)

        def fullmatch(self, text: str):
            counts.append(len(text))
            return self.pattern.fullmatch(text)

        def finditer(self, text: str):
            for match in self.pattern.finditer(text):
                counts.append(1)
                yield match

    counts: list[int] = []
    for name in ("_PRIVATE", "_PIECE"):
        monkeypatch.setattr(intake, name, Counting(getattr(intake, name)))
    text = repeat(100_000)
    assert TAG.search(intake.strip_private(text)) is None
    assert 0 < sum(counts) <= 2 * len(text)


@given(st.text(), st.text(alphabet="abcdef", min_size=8), st.text())
def test_nothing_private_survives_anywhere(before, secret, after):
    stripped = intake.strip_private(f"{before}<private>{secret}</private>{after}")
    assert stripped.count(secret) <= (before + after).count(secret)


@pytest.mark.scenario("002-016")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Fixed authentication bug causing login failures", "bugfix"),
        ("Added new export feature for CSV format", "feature"),
        ("Refactored the session store", "refactor"),
        ("We decided on SQLite", "decision"),
        ("Discovered that the cache is cold", "discovery"),
        ("Updated the address of the office", "change"),
        ("The sky was blue at noon", "observation"),
        ("The prefix of an address", "observation"),
    ],
)
def test_type_is_told_from_the_words(text, kind):
    assert intake.classify(text) == kind


@pytest.mark.parametrize("value", [None, 5, b"x", ["x"], "", " \n", "<private>all of it</private>", "\x00"])
def test_content_must_have_something_to_remember(value):
    with pytest.raises(InvalidInput, match=r"^content: "):
        intake.content(value)


def test_content_may_be_long_but_not_endless():
    assert len(intake.content("x" * 1_000_000)) == 1_000_000
    with pytest.raises(InvalidInput, match="at most"):
        intake.content("é" * (intake.MAX_CONTENT_BYTES // 2 + 1))


@pytest.mark.parametrize("value", [None, 1, "", "  ", "a\x00", "a\ud800", "a\nb", "x" * 1001])
def test_names_are_refused_not_mended(value):
    with pytest.raises(InvalidInput, match=r"^subject: "):
        intake.name("subject", value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.001, 10.001, "5", True, None])
def test_numbers_have_bounds(value):
    with pytest.raises(InvalidInput, match=r"importance: .*allowed: a number from 0 to 10"):
        intake.number("importance", value, 0, 10)


def test_bounds_are_allowed():
    assert intake.number("importance", 0, 0, 10) == 0.0
    assert intake.number("importance", 10, 0, 10) == 10.0
    assert intake.whole("limit", 1, 1, 9) == 1


@pytest.mark.parametrize("value", [0, 10, 1.0, "3", True, None])
def test_whole_numbers_have_bounds(value):
    with pytest.raises(InvalidInput, match=r"^limit: "):
        intake.whole("limit", value, 1, 9)


@pytest.mark.parametrize("value", ["", "x", 5, None, b"1234567890123456", [], "fact_1"])
def test_ids_are_uuids(value):
    with pytest.raises(InvalidInput, match=r"^memory_id: .*a UUID"):
        intake.memory_id("memory_id", value)


def test_an_id_may_be_text():
    assert intake.memory_id("memory_id", str(UUID(int=5))) == UUID(int=5)


def test_times_become_utc():
    east = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert intake.moment("since", east) == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert intake.moment("since", datetime(2026, 1, 1)) == datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidInput):
        intake.moment("since", "yesterday")
    with pytest.raises(InvalidInput):
        intake.moment("since", datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))))


def test_tags_are_stripped_and_unique():
    assert intake.tags([" a ", "b", "a", "", "<private>x</private>"]) == ["a", "b"]
    for bad in ("a", 5, [5], ["a\x00"], ["x" * 201], ["t"] * 101):
        with pytest.raises(InvalidInput, match=r"^tags: "):
            intake.tags(bad)


def test_metadata_is_json_without_private_text():
    given_ = {"a": [1, 2.5, None, True, "x<private>y</private>"], "b": {"c\x00": "d\ud800"}}
    assert intake.metadata(given_) == {"a": [1, 2.5, None, True, "x"], "b": {"c": "d"}}
    for bad in ([], "x", {"a": {1, 2}}, {"a": float("nan")}, {"a": b"x"}):
        with pytest.raises(InvalidInput, match=r"^metadata"):
            intake.metadata(bad)


def test_metadata_has_a_depth_and_dots_in_keys_are_not_levels():
    flat = {".".join("abc" * 20): "x", "a[0][1]" * 20: {"b." * 40: [1]}}
    assert intake.metadata(flat) == flat
    deepest: object = 1
    for level in range(intake.MAX_DEPTH - 1):
        deepest = [deepest] if level % 2 else {"k.k": deepest}
    assert intake.metadata({"a": deepest}) == {"a": deepest}
    with pytest.raises(InvalidInput, match="metadata: is nested too deeply; allowed: at most 32 levels"):
        intake.metadata({"a": [deepest]})


def test_choices_are_listed():
    with pytest.raises(InvalidInput, match="mode: 'fuzzy' is not known; allowed: hybrid, keyword"):
        intake.one_of("mode", "fuzzy", ("keyword", "hybrid"))
