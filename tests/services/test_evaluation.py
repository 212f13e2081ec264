"""Asking questions in order to measure."""

import pytest

from tulving.domain.quality import Question
from tulving.services.evaluation import VERBS, ask, compose, uncounted


@pytest.fixture
async def questions(memory):
    tea = await memory.store_fact("Anna", "drink", "green tea")
    cello = await memory.store_fact("Bela", "instrument", "cello")
    return [
        Question(text="which instrument does Bela play", expected=[cello.id]),
        Question(text="what does Anna drink", expected=[tea.id]),
    ]


@pytest.mark.parametrize("verb", VERBS)
async def test_each_question_is_asked_and_judged_in_order(memory, questions, verb):
    done = []
    answers = await ask(memory, questions, verb, limit=3, progress=lambda *told: done.append(told))
    assert [answer.question for answer in answers] == questions
    assert [answer.ranks for answer in answers] == [[1], [1]]
    assert all(answer.milliseconds > 0 for answer in answers)
    assert done == [(1, 2), (2, 2)]


async def test_the_options_are_those_of_the_verb(memory, questions):
    for verb in VERBS:
        nothing = await ask(memory, questions, verb, types=["rule"])
        assert [answer.ranks for answer in nothing] == [[None], [None]]
    by_word = await ask(memory, [Question(text="zither", contains=["cello"])], mode="keyword")
    assert by_word[0].ranks == [None]


async def test_measuring_leaves_no_trace_in_the_memory(memory, questions, sql):
    counted = "SELECT sum(reference_count) AS n FROM facts"
    await ask(uncounted(memory), questions, "recall")
    await memory._env.references.settle()
    assert sql(counted)[0]["n"] == 0
    await ask(memory, questions, "recall")
    await memory._env.references.settle()
    assert sql(counted)[0]["n"] > 0


async def test_the_uncounted_memory_keeps_its_caller_and_bounds(memory):
    bound = memory.bind(user_id="u", project="p")
    quiet = uncounted(bound)
    assert (quiet.caller, quiet.bound) == (bound.caller, bound.bound)


async def test_a_composed_context_is_the_one_of_the_verb_and_counts_nothing(memory, questions, sql):
    made = await compose(uncounted(memory), questions[0].text, token_budget=200)
    await memory._env.references.settle()
    assert sql("SELECT sum(reference_count) AS n FROM facts")[0]["n"] == 0
    assert made.hits
    assert made.text == await memory.context(questions[0].text, token_budget=200)
    assert (made.budget, made.tokens) == (200, -(-len(made.text) // 4))


async def test_what_others_recalled_counts_for_the_order_of_an_uncounted_memory_too(memory, clock, questions):
    quiet = uncounted(memory)
    for _ in range(2):
        expected = [(hit.id, hit.score) for hit in await quiet.recall(questions[0].text)]
        assert [(hit.id, hit.score) for hit in await memory.recall(questions[0].text)] == expected
        await memory._env.references.settle()
        clock.advance(hours=1)
