"""A language model over HTTP: one request, and an answer that comes as a whole or as a stream of events."""

import asyncio
import json
from abc import ABC, abstractmethod
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar

from tulving.errors import ModelUnavailable
from tulving.ports import Completion
from tulving.providers.json_endpoint import EXCUSES, LONGEST_CONNECT, ApiKey, address, encoded, required, seconds, told

_LOCKED = 409
_PASSING_ERRORS = ("api_error", "overloaded_error", "rate_limit_error", "server_error", "timeout_error")
_MOST_BYTES, _BYTES_PER_TOKEN = 1_000_000, 1000
"""An answer may have the first and, because a stream packs every token into an event, the second for each token."""


@dataclass(slots=True)
class Answer:
    """What has arrived of an answer. `text` is None until there is any place for text in it."""

    text: str | None = None
    ended: bool = False
    truncated: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None

    def add(self, content: Any) -> None:
        """Append a text, or the texts of a list of blocks. Anything else is left out."""
        if isinstance(content, list):
            content = "".join(text for block in content if isinstance(text := at(block, "text"), str))
        if isinstance(content, str):
            self.text = (self.text or "") + content

    def end(self, reason: Any, *lengths: str) -> None:
        """Note why the answer ended, if it did; `lengths` are the reasons of one that was cut off."""
        self.ended = self.ended or isinstance(reason, str)
        self.truncated = self.truncated or reason in lengths

    def count(self, input_tokens: Any, output_tokens: Any) -> None:
        """Note the tokens that were used, where they are told."""
        self.input_tokens = input_tokens if _is_count(input_tokens) else self.input_tokens
        self.output_tokens = output_tokens if _is_count(output_tokens) else self.output_tokens


class ModelEndpoint(ABC):
    """The base of the dialects. With a URL of one's own no key is sent, unless a variable is named for it."""

    HOME: ClassVar[str]
    KEY_VARIABLE: ClassVar[str]
    PATH: ClassVar[str]
    INSTEAD: ClassVar[dict[str, str]] = {}
    """Parameters that not every model accepts, and the ones to send instead of them; an empty name for none."""

    def __init__(self, *, url: str, model: str, key_variable: str | None, stream: bool, timeout: float) -> None:
        required("llm", model=model)
        self._key = ApiKey("llm", key_variable or (None if url else self.KEY_VARIABLE))
        url = (url or self.HOME).rstrip("/")
        self.name, self._url, self._model = f"{model} at {url}", address(url, self.PATH), model
        self._stream, self._timeout = stream, timeout
        self._instead: dict[str, str] = {}

    def unready(self) -> str | None:
        """Whether the key is missing. The service is not asked."""
        return self._key.unready()

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The answer to a prompt."""
        if problem := self.unready():
            raise ModelUnavailable(problem)
        wanted = self._body(prompt, max_tokens)
        while True:
            named = {self._instead.get(name, name): value for name, value in wanted.items()}
            sent = {name: value for name, value in named.items() if name}
            try:
                answer = await self._ask(sent, prompt, _MOST_BYTES + _BYTES_PER_TOKEN * max_tokens)
            except _Refused as refusal:
                if refusal.parameter not in sent or refusal.parameter not in self.INSTEAD:
                    raise
                self._instead[refusal.parameter] = self.INSTEAD[refusal.parameter]
            else:
                return Completion(answer.text or "", answer.truncated, answer.input_tokens, answer.output_tokens)

    @abstractmethod
    def _body(self, prompt: str, max_tokens: int) -> dict[str, Any]: ...

    @abstractmethod
    def _headers(self, key: str) -> dict[str, str]: ...

    @abstractmethod
    def _take(self, answer: Answer, event: Any) -> None:
        """Add an event of a stream, or a whole answer, which has the same values in other places."""

    async def _ask(self, body: dict[str, Any], prompt: str, most: int) -> Answer:
        import httpx2

        key = self._key.read()
        headers = {"content-type": "application/json", **self._headers(key)}
        timeout = httpx2.Timeout(None, connect=min(self._timeout, LONGEST_CONNECT))
        try:
            async with (
                asyncio.timeout(self._timeout) as limit,
                httpx2.AsyncClient(timeout=timeout) as client,
                client.stream("POST", self._url, content=encoded(body), headers=headers) as response,
            ):
                if response.status_code != 200:
                    raise self._refusal(response, await self._whole(response, most), key, prompt)
                if "text/event-stream" in response.headers.get("content-type", ""):
                    return await self._streamed(response, most, limit, key, prompt)
                answer = Answer()
                self._add(answer, await self._whole(response, most), key, prompt)
        except TimeoutError as error:
            problem = f"{self._url} did not answer within {self._timeout:g} seconds"
            raise ModelUnavailable(problem, passing=True) from error
        except httpx2.TransportError as error:
            problem = f"{self._url} can't be reached: {error or type(error).__name__}"
            raise ModelUnavailable(problem, passing=True) from error
        except ModelUnavailable:
            raise
        except Exception as error:  # of many kinds: the environment's proxy or certificates, the answer's encoding
            raise ModelUnavailable(f"{self._url} can't be asked: {error}") from error
        if answer.text is None:
            raise ModelUnavailable(f"{self._url} gave a wrong answer: there is no text in it")
        return answer

    async def _whole(self, response: Any, most: int) -> bytes:
        content = bytearray()
        async for chunk in response.aiter_bytes():
            content += chunk
            if len(content) > most:
                raise ModelUnavailable(f"{self._url} answered with more than {most:,} bytes")
        return bytes(content)

    async def _streamed(self, response: Any, most: int, limit: asyncio.Timeout, key: str, prompt: str) -> Answer:
        """The text of all events. The time limit begins anew with each, except those that only keep alive."""
        import httpx2

        answer = Answer()
        events: Any = aiter(httpx2.EventSource(response))
        async with aclosing(events):
            async for event in events:
                if event.data == "[DONE]":
                    answer.ended = True
                    break
                if response.num_bytes_downloaded > most:
                    raise ModelUnavailable(f"{self._url} answered with more than {most:,} bytes")
                if event.event != "ping":
                    limit.reschedule(asyncio.get_running_loop().time() + self._timeout)
                    self._add(answer, event.data.encode(), key, prompt)
        if not answer.ended:
            raise ModelUnavailable(f"{self._url} broke off its answer", passing=True)
        return answer

    def _add(self, answer: Answer, content: bytes, key: str, prompt: str) -> None:
        try:
            event = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ModelUnavailable(f"{self._url} answered what is not JSON") from error
        if failure := at(event, "error"):
            code, kind = at(failure, "code"), at(failure, "type")
            passing = kind in _PASSING_ERRORS or (isinstance(code, int) and code in EXCUSES)
            raise ModelUnavailable(f"{self._url} failed{told(content, key, [prompt])}", passing=passing)
        self._take(answer, event)

    def _refusal(self, response: Any, content: bytes, key: str, prompt: str) -> ModelUnavailable:
        status = response.status_code
        problem = f"{self._url} answered {status}{told(content, key, [prompt])}"
        if status in EXCUSES or status == _LOCKED:
            return ModelUnavailable(problem, passing=True, wait=seconds(response.headers.get("retry-after")))
        try:
            parameter = at(json.loads(content), "error", "param")
        except (ValueError, RecursionError):
            parameter = None
        return _Refused(problem, parameter) if isinstance(parameter, str) else ModelUnavailable(problem)


class _Refused(ModelUnavailable):
    """The service does not accept a parameter of the request, which it names."""

    def __init__(self, problem: str, parameter: str) -> None:
        super().__init__(problem)
        self.parameter = parameter


def at(value: Any, *path: str | int) -> Any:
    """What is at a path inside of JSON; None if there is nothing, whatever shape the JSON has."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
