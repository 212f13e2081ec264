"""The OpenAI-compatible client against a real language model, which is too small for its words to be asserted."""

import json
from typing import Any

import pytest

from tulving.errors import ModelUnavailable, UnusableAnswer
from tulving.ports import Completion
from tulving.providers.chat_endpoint import ChatEndpoint
from tulving.services.model import LanguageModel

pytestmark = [pytest.mark.xdist_group("language-model"), pytest.mark.timeout(300)]

STORY = "Write a long story about a dog that drinks tea."
JSON = 'Answer with JSON only, such as {"likes": "tea"}. What does Ann like? Ann said: I like coffee.'
TIMEOUT = 120.0


def endpoint(url: str, *, stream: bool = False, timeout: float = TIMEOUT) -> ChatEndpoint:
    return ChatEndpoint(url=url, model="smollm2", key_variable=None, stream=stream, timeout=timeout)


@pytest.mark.parametrize("stream", [False, True])
async def test_it_answers_and_tells_what_that_cost(language_model_url: str, stream: bool) -> None:
    completion = await endpoint(language_model_url, stream=stream).complete(JSON, 60)
    assert completion.text.strip()
    assert completion.input_tokens and completion.input_tokens > 20
    assert completion.output_tokens and 0 < completion.output_tokens <= 60
    print(f"answered {completion.text!r}, which {'is' if is_json(completion.text) else 'is not'} JSON")


async def test_the_answer_is_the_same_as_a_stream(language_model_url: str) -> None:
    """The model is deterministic at temperature 0, as long as the same is asked in the same way."""
    texts = set()
    for stream in (False, True):
        llm = endpoint(language_model_url, stream=stream)
        await llm.complete(STORY, 20)
        texts.add((await llm.complete(STORY, 20)).text)
    assert len(texts) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_is_cut_off(language_model_url: str, stream: bool) -> None:
    llm = endpoint(language_model_url, stream=stream)
    completion = await llm.complete(STORY, 5)
    assert (completion.truncated, completion.output_tokens) == (True, 5)
    asked = LanguageModel(llm, retries=0, max_tokens=5, jitter=float)
    with pytest.raises(UnusableAnswer, match="was cut off") as failure:
        await asked.ask(STORY)
    assert (failure.value.input_tokens, failure.value.output_tokens) == (completion.input_tokens, 5)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_takes_too_long(language_model_url: str, stream: bool) -> None:
    """The model stops working on it, so that the next one is answered."""
    hurried = endpoint(language_model_url, stream=stream, timeout=0.1)
    with pytest.raises(ModelUnavailable, match=r"did not answer within 0\.1 seconds|can't be reached") as failure:
        await hurried.complete(f"{stream} {STORY} " * 50, 2000)
    assert failure.value.passing
    assert isinstance(await endpoint(language_model_url).complete("Say hello.", 5), Completion)


async def test_a_prompt_that_is_too_long_for_it(language_model_url: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"answered 400: .*context") as failure:
        await endpoint(language_model_url).complete("tea " * 10_000, 5)
    assert not failure.value.passing


def is_json(text: str) -> bool:
    try:
        parsed: Any = json.loads(text)
    except ValueError:
        return False
    return isinstance(parsed, dict | list)
