"""Tulving inside a host: the host brings its database and its MCP server, the module brings the memory.

Importing this loads nothing heavy; MCP and what it needs are imported when a host has tools registered.
"""

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tulving.bootstrap import open_memory
from tulving.config import own_config, parse
from tulving.domain.scope import Caller
from tulving.embedders import choose_embedder
from tulving.errors import ConfigError, StoreUnavailable
from tulving.interfaces.answers import offered_parameters
from tulving.interfaces.instructions import described
from tulving.interfaces.parameters import JsonType, Parameter
from tulving.ports import Embedder
from tulving.services.memory import Memory
from tulving.services.operations import Operation, offered
from tulving.settings import MemoryModuleConfig

if TYPE_CHECKING:
    from pathlib import Path

    import asyncpg

NOT_RUNNING = "the memory module is not running: its host has not started it, or has shut it down"
DATABASES = "an asyncpg pool, an object that has one as its `pool`, a URL or a path"


class Module(ABC):
    """A part that a host switches on in its settings: it starts and ends with the host and adds tools to it."""

    name: str
    """What the host and its settings call it."""
    dependencies: ClassVar[list[str]]
    """The names of the modules that must be started before it."""
    config_schema: type
    """What its settings are read into."""

    @abstractmethod
    def migration_revisions(self) -> str | None:
        """The label of its branch of Alembic migrations; None when it keeps nothing in a database."""

    @abstractmethod
    async def on_startup(self, config: Any, db: Any) -> None:
        """The host has its settings and its database."""

    @abstractmethod
    async def register_tools(self, mcp: Any, config: Any, db: Any) -> None:
        """The host has its MCP server."""

    @abstractmethod
    async def on_shutdown(self) -> None:
        """The host ends. It closes its database itself, afterwards."""


class MemoryModule(Module):
    """The memory as a module of a host.

    `caller` is asked at each call on whose behalf it is made, from what the host has authenticated; without it every
    call is the configured tenant's. No tool has a parameter for it.
    """

    name = "memory"
    dependencies: ClassVar[list[str]] = []
    config_schema = MemoryModuleConfig

    def __init__(self, *, caller: Callable[[], Caller] | None = None) -> None:
        self._caller = caller
        self._config: MemoryModuleConfig | None = None
        self._db: Any = None
        self._embedding_engine: Embedder | None = None
        self._memory: Memory | None = None
        self._opened = AsyncExitStack()
        self._turn = asyncio.Lock()

    def migration_revisions(self) -> str | None:
        """The host has nothing to run: `on_startup` migrates, with a version table of its own."""
        return "memory"

    async def on_startup(self, config: MemoryModuleConfig | Mapping[str, Any] | None, db: Any) -> None:
        """Keep the host's database, bring the schema up to date there and open the memory.

        Without `config` the settings are those of the environment and, in a trusted folder, of `butler.toml`;
        without `db` the memory is at the configured URL. A second start ends the first.
        """
        settings = _settings(config)
        place = _place(db, settings)
        async with self._turn:
            await self._close()
            self._config, self._db = settings, db
            try:
                opening = open_memory(place, config=settings, embedder=self._get_embedding_engine())
                self._memory = await self._opened.enter_async_context(opening)
            except BaseException:
                await self._close()
                raise

    async def on_shutdown(self) -> None:
        """Close the memory, but not the host's pool."""
        async with self._turn:
            await self._close()

    async def register_tools(
        self, mcp: Any, config: MemoryModuleConfig | Mapping[str, Any] | None = None, db: Any = None
    ) -> None:
        """Add the operations to a host's MCP server, before or after the start.

        The server is anything with FastMCP's decorator `tool`. `config` decides which operations there are and what
        their defaults are; `db` is part of the contract only, since tools use the database of the start.
        """
        from tulving.interfaces.mcp.tools import tool

        settings = (self._config or _settings(None)) if config is None else _settings(config)
        understood = inspect.signature(mcp.tool).parameters
        takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in understood.values())
        for name, operation in offered(settings.tools).items():
            made = tool(operation, settings)
            about = {word: getattr(made, word) for word in ("title", "description", "annotations")}
            known = {word: value for word, value in about.items() if takes_all or word in understood}
            mcp.tool(name=name, **known)(self._function(operation, settings))

    def _get_embedding_engine(self) -> Embedder:
        """The engine that the process shares, fetched at the first access; its model loads at first use."""
        if self._embedding_engine is None:
            self._embedding_engine = choose_embedder(self._config or _settings(None))
        return self._embedding_engine

    def _function(self, operation: Operation, settings: MemoryModuleConfig) -> Callable[..., Awaitable[dict[str, Any]]]:
        """An operation as a function of its parameters only. It returns what a model is told, or raises it."""
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp_types import TextContent

        from tulving.interfaces.mcp.tools import run

        signature = _signature(operation, settings)

        async def function(*args: Any, **kwargs: Any) -> dict[str, Any]:
            given = signature.bind(*args, **kwargs).arguments
            # Before the call, which may fail open: the host refuses a caller that it does not know in its own words.
            caller = self._caller() if self._caller else None
            if self._caller and not isinstance(caller, Caller):
                raise TypeError(f"the host's `caller` must return a Caller, not {type(caller).__name__}")
            result = await run(lambda: self._memory_of(caller), operation, given)
            if result.is_error:
                # The one kind of error whose text the official server shows to the model.
                raise ToolError("\n".join(part.text for part in result.content if isinstance(part, TextContent)))
            return result.structured_content or {}

        function.__name__ = function.__qualname__ = operation.tool
        function.__doc__ = described(operation, settings).description
        function.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
        function.__annotations__["return"] = signature.return_annotation
        function.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
        return function

    async def _memory_of(self, caller: Caller | None) -> Memory:
        if self._memory is None:
            raise StoreUnavailable(NOT_RUNNING)
        return self._memory.bind(caller=caller)

    async def _close(self) -> None:
        self._memory = self._db = self._embedding_engine = None
        await self._opened.aclose()


def _settings(config: Any) -> MemoryModuleConfig:
    """The settings of a host: ours, the plain values of its table for us, or None, which means to look for them."""
    if isinstance(config, MemoryModuleConfig):
        return config
    if config is None:
        return own_config()
    if isinstance(config, Mapping):
        return parse(config)
    raise ConfigError("config", f"is a {type(config).__name__}", "a MemoryModuleConfig, a table of settings, or None")


def _place(db: Any, settings: MemoryModuleConfig) -> "asyncpg.Pool | str | Path":
    """Where the memory is: in the host's database, never in one that the host has not named."""
    place = settings.url if db is None else getattr(db, "pool", db)
    if place is None:
        problem = "is None, and no url is configured" if db is None else "has no pool yet"
        raise ConfigError("db", problem, DATABASES)
    return place


def _signature(operation: Operation, settings: MemoryModuleConfig) -> inspect.Signature:
    """The method's signature without `self`, with the configured defaults and the schemas of our own server."""
    taken = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if each.required else each.default,
            annotation=_annotation(each),
        )
        for each in offered_parameters(operation, settings)
    ]
    return inspect.Signature(taken, return_annotation=dict[str, Any])


_TYPES: dict[JsonType, Any] = {
    "string": str,
    "number": float,
    "integer": int,
    "boolean": bool,
    "array": list[str],
    "object": dict[str, Any],
}


def _annotation(parameter: Parameter) -> Any:
    """The type for people and our schema for the server. It does not validate values: `parameters.accept` does.

    An optional text is a plain `str` too: for other types the official server reads texts as JSON where it can.
    """
    from pydantic import Field, SkipValidation, WithJsonSchema

    return Annotated[
        SkipValidation[_TYPES[parameter.type]],
        WithJsonSchema(parameter.schema),
        Field(json_schema_extra=_without_null),
    ]


def _without_null(schema: dict[str, Any]) -> None:
    if "default" in schema and schema["default"] is None:
        del schema["default"]
