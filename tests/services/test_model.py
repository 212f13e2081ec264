"""How a language model is asked: attempts, waits, what counts as an answer, and what it costs."""

import asyncio
import logging
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any

import pytest

from tulving.errors import ModelUnavailable, UnusableAnswer
from tulving.ports import Completion, Llm
from tulving.services.model import LONGEST_WAIT, LanguageModel, Spawned
from tulving.testing import ScriptedLlm

PROMPT = "What does Ann like? She asked for a second pot of tea."
BUSY = ModelUnavailable("busy", passing=True)


class Waits(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def waits() -> Waits:
    return Waits()


def model(llm: Llm, waits: Waits, *, retries: int = 3, jitter: float = 0.0) -> LanguageModel:
    return LanguageModel(llm, retries=retries, max_tokens=100, jitter=lambda: jitter, sleep=waits)


async def test_an_answer_is_handed_on(waits: Waits) -> None:
    llm = ScriptedLlm("tea")
    asked = model(llm, waits)
    assert await asked.ask(PROMPT) == Completion("tea")
    assert (llm.prompts, waits, asked.name, asked.unready()) == ([PROMPT], [], "scripted", None)
    llm.problem = "no key"
    assert asked.unready() == "no key"


@pytest.mark.parametrize(("jitter", "expected"), [(0.0, [0.5, 1.0, 2.0]), (0.5, [0.75, 1.5, 3.0]), (1.0, [1, 2, 4])])
async def test_what_may_pass_is_tried_again(
    waits: Waits, jitter: float, expected: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tulving")
    assert (await model(ScriptedLlm(BUSY, BUSY, BUSY, "tea"), waits, jitter=jitter).ask(PROMPT)).text == "tea"
    assert waits == expected
    assert caplog.text.count("busy; another attempt follows") == 3
    assert "pot of tea" not in caplog.text


async def test_it_gives_up_after_the_retries(waits: Waits) -> None:
    for retries in (0, 2):
        llm = ScriptedLlm(BUSY, forever=True)
        with pytest.raises(ModelUnavailable, match="busy"):
            await model(llm, waits, retries=retries).ask(PROMPT)
        assert len(llm.prompts) == retries + 1
    assert waits == [0.5, 1.0]


async def test_what_stays_is_not_tried_again(waits: Waits) -> None:
    llm = ScriptedLlm(ModelUnavailable("no such model"))
    with pytest.raises(ModelUnavailable, match="no such model"):
        await model(llm, waits).ask(PROMPT)
    with pytest.raises(ZeroDivisionError):
        await model(ScriptedLlm(ZeroDivisionError()), waits).ask(PROMPT)
    assert (len(llm.prompts), waits) == (1, [])


async def test_the_wait_that_a_service_asks_for(waits: Waits) -> None:
    def wait(seconds: float) -> ModelUnavailable:
        return ModelUnavailable("busy", passing=True, wait=seconds)

    assert await model(ScriptedLlm(wait(0.2), wait(7), wait(LONGEST_WAIT), "tea"), waits, jitter=1).ask(PROMPT)
    assert waits == [1.0, 7.0, 60.0]
    with pytest.raises(ModelUnavailable) as failure:
        await model(ScriptedLlm(wait(LONGEST_WAIT + 1)), waits).ask(PROMPT)
    assert failure.value.wait == 61, "for whoever asks again later"
    assert len(waits) == 3


async def test_no_wait_is_longer_than_a_minute(waits: Waits) -> None:
    await model(ScriptedLlm(*[BUSY] * 10, "tea"), waits, retries=10, jitter=1).ask(PROMPT)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


@pytest.mark.parametrize(
    ("answer", "said", "tokens"),
    [
        (Completion("[1, 2", True, 40, 100), r"was cut off \(llm.max_output_tokens limits", (40, 100)),
        (Completion("[1, 2", True), "was cut off", (14, 2)),
        (Completion("", False, 40, 0), "is blank$", (40, 0)),
        (" \n\t", "is blank$", (14, 1)),
        ("", "is blank$", (14, 0)),
    ],
)
async def test_an_answer_that_is_none(
    waits: Waits, answer: str | Completion, said: str, tokens: tuple[int, int]
) -> None:
    llm = ScriptedLlm(answer)
    with pytest.raises(UnusableAnswer, match=f"the answer of scripted {said}") as failure:
        await model(llm, waits).ask(PROMPT)
    assert (failure.value.input_tokens, failure.value.output_tokens) == tokens
    assert not failure.value.passing
    assert (len(llm.prompts), waits) == (1, []), "it would be the same again, and is paid for"


def test_what_it_costs(waits: Waits) -> None:
    asked = model(ScriptedLlm(), waits)
    assert asked.cost(PROMPT) == 14 + 100
    assert asked.spent(PROMPT, Completion("four")) == (14, 1)
    assert asked.spent(PROMPT, Completion("four", False, 20, 0)) == (20, 0)
    assert asked.spent(PROMPT, Completion("four", False, 0)) == (0, 1)


async def test_the_scripted_model() -> None:
    llm = ScriptedLlm("one", Completion("two", True), BUSY, str.upper, lambda prompt: BUSY, name="mine")
    assert (llm.name, llm.unready()) == ("mine", None)
    assert (await llm.complete("a", 5)).text == "one"
    assert (await llm.complete("b", 5)).truncated
    with pytest.raises(ModelUnavailable):
        await llm.complete("c", 5)
    assert await llm.complete("d", 5) == Completion("D")
    with pytest.raises(ModelUnavailable):
        await llm.complete("e", 5)
    with pytest.raises(AssertionError, match="no answer to prompt 6: f"):
        await llm.complete("f", 5)
    assert llm.prompts == ["a", "b", "c", "d", "e", "f"]
    forever = ScriptedLlm("one", "two", forever=True)
    assert [(await forever.complete("x", 5)).text for _ in range(3)] == ["one", "two", "two"]


class Spawner:
    """A host's: keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, list[dict[str, Any]]()

    async def trigger(self, **asked: Any) -> Any:
        self.asked.append(asked)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "completion"),
    [
        ("tea", Completion("tea")),
        ("", Completion("")),
        ({"output": "tea"}, Completion("tea")),
        ({"result": "tea", "success": True, "error": None}, Completion("tea")),
        (SimpleNamespace(output=None, text="tea"), Completion("tea")),
        (SimpleNamespace(output="tea", input_tokens=7, output_tokens="5"), Completion("tea", False, 7, None)),
    ],
)
async def test_a_spawner_is_a_model(answer: Any, completion: Completion) -> None:
    spawner = Spawner(answer)
    llm = Spawned(spawner, "schedule:consolidation")
    assert (llm.name, llm.unready()) == ("Spawner", None)
    assert await llm.complete(PROMPT, 100) == completion
    assert spawner.asked == [{"prompt": PROMPT, "trigger_source": "schedule:consolidation"}]


async def test_a_spawner_may_be_a_function_async_or_not() -> None:
    threads = []

    def plain(prompt: str, trigger_source: str) -> str:
        threads.append(current_thread())
        return trigger_source

    async def waiting(prompt: str, trigger_source: str) -> str:
        await asyncio.sleep(0)
        return trigger_source

    for spawner in (plain, waiting, lambda **asked: waiting(**asked)):
        assert (await Spawned(spawner, "x").complete(PROMPT, 100)).text == "x"
    assert Spawned(plain, "x").name == "plain"
    assert Spawned(SimpleNamespace(trigger=plain, name="butler"), "x").name == "butler"
    assert main_thread() not in threads, "a session takes minutes, and the loop must not wait for it"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"success": False}, "Spawner failed"),
        ({"success": False, "output": "tea"}, "Spawner failed"),
        ({"error": "no\nroom", "output": "tea"}, "Spawner failed: no room"),
        (SimpleNamespace(error="can't run 'asked for a second pot of tea'"), "Spawner failed"),
        (SimpleNamespace(success=False, error=ValueError("full")), "Spawner failed: full"),
        (None, "Spawner failed: gave no output"),
        ({"output": ["tea"]}, "Spawner failed: gave no output"),
        (5, "Spawner failed: gave no output"),
    ],
)
async def test_a_spawner_that_fails(answer: Any, said: str) -> None:
    with pytest.raises(ModelUnavailable) as failure:
        await Spawned(Spawner(answer), "x").complete(PROMPT, 100)
    assert str(failure.value) == said
    assert not failure.value.passing


async def test_a_spawner_that_raises() -> None:
    def fail(prompt: str, trigger_source: str) -> str:
        raise KeyError(prompt)

    def wait(prompt: str, trigger_source: str) -> str:
        raise BUSY

    with pytest.raises(ModelUnavailable, match=r"^fail failed$") as failure:
        await Spawned(fail, "x").complete(PROMPT, 100)
    assert isinstance(failure.value.__cause__, KeyError)
    with pytest.raises(ModelUnavailable) as failure:
        await Spawned(wait, "x").complete(PROMPT, 100)
    assert failure.value is BUSY
