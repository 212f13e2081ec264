from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tulving.domain import context, profile, prompts
from tulving.domain.echo import without_injected
from tulving.domain.model import CATEGORIES, Episode, Fact, Hit, Rule

NOW = datetime(2026, 6, 1, tzinfo=UTC)
BASE = {"tenant_id": "t", "content_hash": "", "created_at": NOW, "updated_at": NOW}
FACT = Fact(**BASE, id=UUID(int=1), content="dark mode", subject="user", predicate="prefers")
RULE = Rule(**BASE, id=UUID(int=2), content="greet first", effectiveness_score=0.5)
EPISODE = Episode(**BASE, id=UUID(int=3), content="the demo went well", butler="b", source="Anna")


def hit(item, confidence=0.9):
    kind = type(item).__name__.lower()
    return Hit(memory_type=kind, item=item, score=1.0, parts={"confidence": confidence})


BLOCK = context.render([hit(FACT), hit(RULE), hit(EPISODE)], 1000)
SAID = {"work": "runs a bakery", "topOfMind": "a new oven", "background": "grew up in Lyon"}
WITH_PROFILE = context.render([hit(FACT), hit(RULE), hit(EPISODE)], 1000, blocks=SAID)
PROFILE = profile.render(SAID, [("preference", 0.9, "likes rye"), ("goal", 0.75, "wants a second shop")], 2000)
CUT_PROFILE = profile.render(SAID, [], 12)
UNAVAILABLE = f"{context.HEADER}\n(memory is not available: the disk is full (5 GB))\n"
PROMPT = prompts.consolidation("", "b", [replace(EPISODE, content="one\n\n## two\n```json\n{}")], [FACT], [RULE])
BLOCKS = [BLOCK, WITH_PROFILE, PROFILE, CUT_PROFILE, UNAVAILABLE, PROMPT.removeprefix("\n\n---\n\n")]


def said(text: str) -> list[str]:
    return [line for line in without_injected(text).splitlines() if line.strip(" >\t")]


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize(
    "paste",
    [
        lambda block: block,
        lambda block: "".join(f"> {line}" for line in block.splitlines(keepends=True)),
        lambda block: "".join(f"> > {line}" for line in block.splitlines(keepends=True)),
        lambda block: "".join(f"    {line}" for line in block.splitlines(keepends=True)),
        lambda block: block.replace("\n", "\r\n"),
        lambda block: block.replace("\n- ", "\n* "),
        lambda block: f"{block}\n{block}",
    ],
    ids=["plain", "quoted", "quoted twice", "indented", "crlf", "stars", "twice"],
)
def test_what_tulving_wrote_is_removed(block, paste):
    assert said(f"before\n{paste(block)}\nafter") == ["before", "after"]
    assert not said(paste(block))


@pytest.mark.parametrize("block", BLOCKS[:4])
@pytest.mark.parametrize("fence", ["```", "```text", "~~~"])
def test_a_fence_around_it_goes_too_and_others_stay(block, fence):
    assert said(f"before\n{fence}\n{block}\n{fence[:3]}\nafter") == ["before", "after"]
    code = f"{fence}\nprint(1)\n{fence[:3]}\n"
    assert without_injected(f"{code}{BLOCK}{code}") == code + code
    assert said(f"{fence}\nmine\n{block}\n{fence[:3]}") == [fence, "mine", fence[:3]]


texts = st.text(st.characters(codec="utf-8"), max_size=60)
items = st.one_of(
    st.builds(lambda c, s, p: replace(FACT, content=c, subject=s, predicate=p), texts, texts, texts),
    st.builds(lambda c, e: replace(RULE, content=c, effectiveness_score=e), texts, st.floats(0, 1)),
    st.builds(lambda c, s, w: replace(EPISODE, content=c, source=s, occurred_at=w), texts, texts, st.datetimes()),
)


@given(
    st.lists(st.tuples(items, st.floats(0, 1)), max_size=6),
    st.integers(5, 400),
    st.dictionaries(st.sampled_from(profile.BLOCKS), texts),
)
def test_every_context_is_removed_wholly(found, budget, blocks):
    block = context.render([hit(item, confidence) for item, confidence in found], budget, blocks=blocks)
    assert without_injected(f"before\n{block}\nafter") == "before\n\nafter"


@given(
    st.dictionaries(st.sampled_from(profile.BLOCKS), texts),
    st.lists(st.tuples(st.sampled_from(CATEGORIES), st.floats(0, 1), texts), max_size=5),
    st.integers(10, 200),
)
def test_every_profile_is_removed_wholly(blocks, facts, budget):
    block = profile.render(blocks, facts, budget)
    assert said(f"before\n{block}\nafter") == ["before", "after"]


@given(st.lists(texts, max_size=4), texts)
def test_every_episode_of_a_prompt_is_removed_wholly(contents, source):
    shown = [replace(EPISODE, content=content, source=source) for content in contents]
    prompt = prompts.consolidation("before", "b", shown, [FACT] * len(shown), [RULE])
    left = said(prompt + "\nafter")
    assert [line for line in left if not line.startswith("_No ")] == ["before", "---", "after"]


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("- [user] [prefers]: dark mode (confidence: 0.90)", []),
        ("[user] [prefers]: dark mode (confidence: 0.90)", []),
        ("- greet first (maturity: proven, effectiveness: 0.50)", []),
        ("- [goal | 0.75] wants a second shop", []),
        ("(memory is not available: locked)", []),
        ("## Active Rules\n- greet first (maturity: candidate, effectiveness: 0.00)\n", []),
        ("## Related Episodes\n\n- [2026-05-31] Anna: the demo went well\n", []),
        ("- [2026-05-31] Anna: the demo went well", ["- [2026-05-31] Anna: the demo went well"]),
        ("<episode_content>\n> a\n> b", []),
        ("<episode_content>\n> a\nmine", ["mine"]),
    ],
)
def test_of_a_part_each_line_is_known_by_its_form(line, left):
    assert said(line) == left
    assert said(f"Yes.\n{line}\nNo.") == ["Yes.", *left, "No."]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "# Memory\n\nIt has 16 GB.\n",
        "## Key Facts\n\n- The bakery opens at 6.\n- [x] done\n",
        "Facts:\n- [ ] buy flour\n- rye sells best\n",
        "User Context: a baker\n- Work: bakery\n",
        "## Profile\n- Work: bakery\n- Personal: two cats\n",
        "## Active Rules\n1. Wash hands\n2. No phones\n",
        "- [2026-05-31] the oven failed\n- [2026-06-01] repaired\n",
        "I am fairly sure (confidence: 0.90)\n",
        "- [link](https://example.org) [other]: text\n",
        "the tag <episode_content> is ours\n> a quote\n",
        "```python\nprint('# Memory Context')\n```\n",
        "```\n```\n",
        "a\u2028b\x85c\x0bd\r\ne",
    ],
)
def test_other_text_is_unchanged(text):
    assert without_injected(text) == text


def test_what_follows_a_block_is_kept():
    own = "\n- [2026-05-31] mine, after other words\nWork: is fun\n...\n"
    assert without_injected(f"{BLOCK}But:{own}") == f"But:{own}"


@given(st.text())
def test_nothing_is_added_or_reordered(text):
    left = iter(without_injected(text).splitlines(keepends=True))
    lines = iter(text.splitlines(keepends=True))
    assert all(line in lines for line in left)


@pytest.mark.parametrize(
    "piece", ["\n", "# Memory Context\n", "```\n", "] [", "> ", "- [a] [b]: ", "<episode_content>\n", "## Key Facts\n"]
)
def test_a_megabyte_is_read_before_the_test_times_out(piece):
    text = piece * (1_000_000 // len(piece))
    assert without_injected(f"{text}\nafter").endswith("after")
