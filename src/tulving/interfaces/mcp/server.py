"""The MCP server, for both eras of the protocol; here over standard input and output."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from mcp.server import Server
from mcp_types import (
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceRequestParams,
    ReadResourceResult,
    Tool,
)

from tulving.interfaces.calls import Opened, cancelled_once, open_lazily
from tulving.interfaces.mcp import prompts, resources
from tulving.interfaces.mcp.completions import complete
from tulving.interfaces.mcp.greeting import SERVER, instructions
from tulving.interfaces.mcp.progress import reporting
from tulving.interfaces.mcp.sampling import Answer, Rounds, Sampler, can_sample
from tulving.interfaces.mcp.stdio import conversation
from tulving.interfaces.mcp.tools import failure, run, tool
from tulving.interfaces.parameters import undescribed
from tulving.interfaces.principal import Principal
from tulving.services.operations import Operation, offered
from tulving.settings import MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.services.memory import Memory

log = logging.getLogger("tulving")


async def converse(
    config: MemoryModuleConfig,
    first: str | None,
    lines: "asyncio.Queue[str | None]",
    is_greeted: bool,
    build: "Callable[[Opened[Memory]], Server] | None" = None,
) -> None:
    """Serve the memory over standard input and output, whose `first` line may be an `initialize` that is answered; with
    `build`, by another server than our own."""

    def opened() -> "AbstractAsyncContextManager[Memory]":
        from tulving.bootstrap import open_memory

        return open_memory(config=config)

    try:
        streams = conversation(first, lines, is_greeted)
        async with open_lazily(opened) as memory, streams as (requests, responses):
            server = build(memory) if build else build_server(config, lambda _: Principal(memory))
            await server.run(requests, responses, server.create_initialization_options())
    except* OSError as errors:
        log.warning("the client is gone: %s", errors.exceptions[0])


def build_server(config: MemoryModuleConfig, principal_of: Callable[[Any], Principal]) -> Server:
    """A server whose tools are the offered operations that the principal of a request may call; prompts and resources
    are made of the same operations.

    Nothing is opened before a memory is asked for, and the services are not loaded before the tools are.
    """

    @cache
    def operations() -> dict[str, Operation]:
        import tulving.services.memory  # noqa: F401  (fills the registry)

        return offered(config.tools)

    @cache
    def tools() -> dict[str, Tool]:
        return {name: tool(operation, config) for name, operation in operations().items()}

    async def list_tools(context: Any, params: Any) -> ListToolsResult:
        principal = principal_of(context)
        return ListToolsResult(tools=[each for name, each in tools().items() if principal.may(operations()[name])])

    async def call_tool(context: Any, params: CallToolRequestParams) -> Answer:
        return await cancelled_once(answer(context, params))

    async def answer(context: Any, params: CallToolRequestParams) -> Answer:
        principal, operation = principal_of(context), operations().get(params.name)
        if operation is None:
            return failure(f"there is no tool {params.name!r:.80}; there are {', '.join(operations())}")
        if not principal.may(operation):
            return failure(principal.lacks(operation))
        work = partial(run, principal.memory, operation, params.arguments or {})
        if not (wanted := undescribed(operation)):
            return await work()
        async with reporting(context.session) as progress:
            if "cc_spawner" not in wanted or config.llm.chosen or not can_sample(context):
                return await work(progress=progress)
            if context.session.can_send_request:
                return await work(progress=progress, cc_spawner=Sampler(context, config.llm))
            return await context.lifespan_context.run(principal.who, context, params, work, progress)

    async def list_prompts(context: Any, params: Any) -> ListPromptsResult:
        return ListPromptsResult(prompts=prompts.offered(principal_of(context), operations()))

    async def get_prompt(context: Any, params: GetPromptRequestParams) -> GetPromptResult:
        principal = principal_of(context)
        known = prompts.offered(principal, operations())
        return await prompts.get(principal, operations(), known, params.name, params.arguments or {})

    async def list_resources(context: Any, params: Any) -> ListResourcesResult:
        return ListResourcesResult(resources=[*resources.RESOURCES] if "read" in principal_of(context).rights else [])

    async def list_templates(context: Any, params: Any) -> ListResourceTemplatesResult:
        readable = "read" in principal_of(context).rights
        return ListResourceTemplatesResult(resource_templates=[*resources.TEMPLATES] if readable else [])

    async def read_resource(context: Any, params: ReadResourceRequestParams) -> ReadResourceResult:
        operations()
        return await resources.read(principal_of(context), config, params.uri)

    async def completion(context: Any, params: CompleteRequestParams) -> CompleteResult:
        operations()
        return await complete(principal_of(context), params)

    return Server(
        **SERVER,
        instructions=instructions(config),
        lifespan=lambda _: aclosing(Rounds(config.llm)),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_completion=completion,
        # Otherwise every call over HTTP would list all tools to find its own.
        get_tool_input_schema=lambda name: tools()[name].input_schema if name in tools() else None,
    )
