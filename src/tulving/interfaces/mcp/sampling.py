"""The client's own model, which a tool may ask where none is configured.

Up to version 2025-11-25 of the protocol a server asks within the call. Since 2026-07-28 it can't: the call is answered
with the question, and the client makes it again with the answer. What the call was doing waits in between.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any

from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from tulving.errors import ModelUnavailable, UnusableAnswer
from tulving.interfaces.mcp.tools import failure
from tulving.settings import LlmConfig

if TYPE_CHECKING:
    from tulving.services.service import Progress

Work = Callable[..., Awaitable[CallToolResult]]
"""What a call does with a model to ask, `cc_spawner`, and someone to tell how far it is, `progress`."""
Answer = CallToolResult | InputRequiredResult
MOST_ROUNDS = 10
"""After so many questions clients give up a call."""
KEY = "answer"


def model_name(context: Any) -> str:
    """What people are told of the client's model: we never learn which one it is before it has answered."""
    client = context.session.client_params
    return f"the model of {client.client_info.name:.80}" if client else "the client's model"


def can_sample(context: Any) -> bool:
    """Whether the client has a model for us, and there is a way to ask it."""
    session = context.session
    offered = session.client_capabilities and session.client_capabilities.sampling is not None
    return bool(offered) and (session.can_send_request or context.protocol_version in MODERN_PROTOCOL_VERSIONS)


class Sampler:
    """Asks within the call."""

    def __init__(self, context: Any, config: LlmConfig) -> None:
        self._context, self._config = context, config
        self.name = model_name(context)

    async def trigger(self, *, prompt: str, **_: object) -> str:
        """The answer of the client's model to a prompt."""
        about = ServerMessageMetadata(related_request_id=self._context.request_id)
        request, timeout = _request(prompt, self._config), self._config.timeout
        try:
            return _text(
                await self._context.session.send_request(request, CreateMessageResultWithTools, timeout, about)
            )
        except (MCPError, ValidationError) as error:
            problem = error.error.message if isinstance(error, MCPError) else "its answer is malformed"
            raise ModelUnavailable(f"the client's model did not answer: {problem}") from error


class Rounds:
    """The calls that wait for their client to come back with an answer; only `who` made a call can go on with it."""

    def __init__(self, config: LlmConfig) -> None:
        self._config = config
        self._waiting: dict[tuple[Hashable, str], _Call] = {}

    async def run(
        self, who: Hashable, context: Any, params: CallToolRequestParams, work: Work, progress: "Progress"
    ) -> Answer:
        """Begin a call, or go on with one whose question the client has answered: the result, or the next question."""
        if params.request_state is None:
            return await self._next(who, _Call(model_name(context), self._config, work, progress))
        call = self._waiting.pop((who, params.request_state), None)
        if call is None:
            return failure("this call has ended: it timed out or was answered before; make a new one")
        call.progress = progress
        call.answers.put_nowait((params.input_responses or {}).get(KEY))
        return await self._next(who, call)

    async def aclose(self) -> None:
        """End the calls whose clients have not come back."""
        tasks = [call.task for call in self._waiting.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _next(self, who: Hashable, call: "_Call") -> Answer:
        try:
            said = await call.said.get()
        except asyncio.CancelledError:
            call.task.cancel()
            await asyncio.wait([call.task])
            raise
        if isinstance(said, CallToolResult):
            return said
        state = secrets.token_urlsafe(16)
        self._waiting[who, state] = call
        asyncio.get_running_loop().call_later(self._config.timeout, self._give_up, (who, state))
        return InputRequiredResult(input_requests={KEY: said}, request_state=state)

    def _give_up(self, key: tuple[Hashable, str]) -> None:
        if call := self._waiting.pop(key, None):
            call.task.cancel()


class _Call:
    """A call at work, and what goes to and fro between it and its client."""

    def __init__(self, name: str, config: LlmConfig, work: Work, progress: "Progress") -> None:
        self._config, self._rounds = config, 0
        self.name, self.progress = name, progress
        self.said = asyncio.Queue[CallToolResult | CreateMessageRequest]()
        self.answers = asyncio.Queue[Any]()
        self.task = asyncio.create_task(self._run(work))

    async def _run(self, work: Work) -> None:
        self.said.put_nowait(await work(cc_spawner=self, progress=lambda *step: self.progress(*step)))

    async def trigger(self, *, prompt: str, **_: object) -> str:
        """The answer of the client's model to a prompt."""
        if self._rounds == MOST_ROUNDS:
            raise ModelUnavailable(f"clients answer only {MOST_ROUNDS} questions in one call; call again for the rest")
        self._rounds += 1
        self.said.put_nowait(_request(prompt, self._config))
        return _text(await self.answers.get())


def _request(prompt: str, config: LlmConfig) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=config.max_output_tokens)
    )


def _text(answer: Any) -> str:
    if not isinstance(answer, CreateMessageResult | CreateMessageResultWithTools):
        raise ModelUnavailable("the client's model did not answer")
    if answer.stop_reason == "maxTokens":
        raise UnusableAnswer("the answer of the client's model was cut off")
    blocks = answer.content if isinstance(answer.content, list) else [answer.content]
    return "".join(block.text for block in blocks if isinstance(block, TextContent))
