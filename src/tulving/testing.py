"""Deterministic parts for tests of your own: a clock you set, ids that count, an embedder and a language model that
need no model."""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tulving.domain.ranking import SIMILARITY_DECIMALS
from tulving.ports import Completion

CLOSE = 2 / 10**SIMILARITY_DECIMALS
"""How far apart the similarities of the same two vectors may be on two processors, or on two engines."""

_WORD = re.compile(r"\w+")


class ManualClock:
    """Time that stands still until it is moved."""

    def __init__(self, start: datetime | None = None) -> None:
        self.now = start or datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **duration: float) -> datetime:
        """Move by a duration, given as to `timedelta`; a negative one moves back."""
        self.now += timedelta(**duration)
        return self.now


class SequentialIds:
    """UUIDs that count: 1, 2, 3."""

    def __init__(self, start: int = 1) -> None:
        self._next = start

    def __call__(self) -> UUID:
        self._next += 1
        return UUID(int=self._next - 1)


class WordEmbedder:
    """One direction per word: texts are as similar as the words they share. With a `problem` it is
    unready, with an `error` it fails.
    """

    light = True

    def __init__(self, dimension: int = 64, model: str = "words", version: str = "1") -> None:
        self.model, self.version, self.dimension = model, version, dimension
        self.problem: str | None = None
        self.error: Exception | None = None

    def unready(self) -> str | None:
        return self.problem

    def embed(self, text: str | None) -> list[float]:
        if self.error:
            raise self.error
        vector = [0.0] * self.dimension
        for word in _WORD.findall((text or " ").casefold()):
            digest = hashlib.blake2b(word.encode(errors="replace"), digest_size=8).digest()
            vector[int.from_bytes(digest) % self.dimension] += 1.0
        length = math.sqrt(sum(part * part for part in vector))
        return [part / length for part in vector] if length else vector

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class ScriptedLlm:
    """A language model that answers from a script: a text, a `Completion`, an error to raise, or a function of the
    prompt that returns one of these. The last answer is repeated `forever`, or the script must not be exceeded. With a
    `problem` it is unready. `prompts` are those that were asked.
    """

    def __init__(
        self,
        *answers: "str | Completion | Exception | Callable[[str], str | Completion | Exception]",
        name: str = "scripted",
        forever: bool = False,
    ) -> None:
        self.name, self.prompts = name, list[str]()
        self.problem: str | None = None
        self._answers, self._forever = list(answers), forever

    def unready(self) -> str | None:
        return self.problem

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        self.prompts.append(prompt)
        if not self._answers:
            raise AssertionError(f"the script has no answer to prompt {len(self.prompts)}: {prompt[:200]}")
        answer = self._answers[0] if self._forever and len(self._answers) == 1 else self._answers.pop(0)
        if callable(answer):
            answer = answer(prompt)
        if isinstance(answer, Exception):
            raise answer
        return Completion(answer) if isinstance(answer, str) else answer
