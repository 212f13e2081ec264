"""The language model of an open store: repeated attempts, what counts as an answer, and what one costs."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tulving.domain.redaction import presentable
from tulving.domain.text import count_tokens
from tulving.errors import ModelUnavailable, UnusableAnswer
from tulving.ports import UNOBSERVED, Completion, Llm, Observer

log = logging.getLogger("tulving")

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0


class LanguageModel:
    """Asks the model. A failure that may pass is followed by another attempt, after a wait that grows and has a random
    part (`jitter`, 0 to 1), so that many processes do not return to a busy service at once."""

    def __init__(
        self,
        llm: Llm,
        *,
        retries: int,
        max_tokens: int,
        jitter: Callable[[], float],
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._llm, self._retries, self._max_tokens = llm, retries, max_tokens
        self._jitter, self._sleep, self._observer = jitter, sleep, observer

    @property
    def name(self) -> str:
        return self._llm.name

    def unready(self) -> str | None:
        """Why it can't be asked and what to do about it; None if it can."""
        return self._llm.unready()

    async def ask(self, prompt: str) -> Completion:
        """The answer to a prompt. One that is blank or was cut off raises `UnusableAnswer`."""
        completion = await self._attempt(prompt)
        problem = "was cut off" if completion.truncated else "is blank" if not completion.text.strip() else None
        if problem is None:
            return completion
        asked, answered = self.spent(prompt, completion)
        advice = " (llm.max_output_tokens limits its length)" if completion.truncated else ""
        problem = f"the answer of {self.name} {problem}{advice}"
        raise UnusableAnswer(problem, input_tokens=asked, output_tokens=answered)

    def cost(self, prompt: str) -> int:
        """The most tokens that a question may cost, as far as they can be estimated."""
        return count_tokens(prompt) + self._max_tokens

    def spent(self, prompt: str, completion: Completion) -> tuple[int, int]:
        """The tokens of a prompt and of its answer, estimated where the model did not tell."""
        asked, answered = completion.input_tokens, completion.output_tokens
        return (
            count_tokens(prompt) if asked is None else asked,
            count_tokens(completion.text) if answered is None else answered,
        )

    async def _attempt(self, prompt: str) -> Completion:
        for attempt in range(self._retries + 1):
            try:
                return await self._complete(prompt)
            except ModelUnavailable as error:
                if not error.passing or attempt == self._retries or error.wait > LONGEST_WAIT:
                    raise
                wait = min(max(FIRST_WAIT * 2**attempt * (1 + self._jitter()), error.wait), LONGEST_WAIT)
                log.info("%s; another attempt follows in %.1f seconds", error, wait)
                await self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _complete(self, prompt: str) -> Completion:
        with self._observer.during("model") as observed:
            completion = await self._llm.complete(prompt, self._max_tokens)
            asked, answered = self.spent(prompt, completion)
            observed.tell(input_tokens=asked, output_tokens=answered)
            return completion


class Spawned:
    """A host's spawner of runtime sessions as a language model: an object with a method `trigger`, or a function, that
    takes `prompt` and `trigger_source`, async or not. It answers with a text, or with an object or mapping that has
    `output`, `result` or `text`, and may have `success`, `error` and the tokens that were used. 001-048."""

    def __init__(self, spawner: Any, trigger_source: str) -> None:
        self._trigger, self._source = getattr(spawner, "trigger", spawner), trigger_source
        name = getattr(spawner, "name", None)
        self.name = name if isinstance(name, str) else getattr(spawner, "__name__", type(spawner).__name__)

    def unready(self) -> str | None:
        """Only the host knows."""
        return None

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The output of a session. Its length is the host's matter. A failure is told without anything of the prompt,
        because it is stored."""
        asked = {"prompt": prompt, "trigger_source": self._source}
        try:
            if inspect.iscoroutinefunction(self._trigger):
                given = await self._trigger(**asked)
            else:  # it may take minutes
                given = await asyncio.to_thread(self._trigger, **asked)
                given = await given if inspect.isawaitable(given) else given
        except ModelUnavailable:
            raise
        except Exception as error:
            raise self._failure(f"{type(error).__name__}: {error}", prompt) from error
        if isinstance(given, str):
            return Completion(given)
        if _value(given, "success") is False or _value(given, "error"):
            raise self._failure(str(_value(given, "error") or ""), prompt)
        texts = (_value(given, name) for name in ("output", "result", "text"))
        text = next((each for each in texts if isinstance(each, str)), None)
        if text is None:
            raise self._failure("gave no output", prompt)
        tokens = (_value(given, name) for name in ("input_tokens", "output_tokens"))
        return Completion(text, False, *(each if isinstance(each, int) else None for each in tokens))

    def _failure(self, said: str, prompt: str) -> ModelUnavailable:
        shown = presentable(said, "", [prompt])
        return ModelUnavailable(f"{self.name} failed" + (f": {shown}" if shown else ""))


def _value(given: Any, name: str) -> Any:
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)
