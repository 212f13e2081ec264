"""The options before the command, and the memory that they choose."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tulving import __version__
from tulving.config import find_project, load_config
from tulving.interfaces import logs
from tulving.interfaces.cli.terminal import warn
from tulving.providers import EMBEDDERS
from tulving.settings import LOG_FORMATS, MemoryModuleConfig

if TYPE_CHECKING:
    from tulving.location import Create

log = logging.getLogger("tulving")

T = TypeVar("T")
Why = Annotated[bool, typer.Option("--why", help="Explain why each memory was found")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON")]
Cursor = Annotated[str | None, typer.Option(metavar="TEXT", help="The next_cursor of the previous page")]
LogFormat = Annotated[
    str | None, typer.Option(metavar="|".join(LOG_FORMATS), help="The format of log lines [default: as configured]")
]
AccessLog = Annotated[
    bool, typer.Option("--access-log", help="Log each request: its route, status and duration, never its content")
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the options before the command say."""

    url: str | None = None
    tenant: str | None = None
    embedder: str | None = None
    warned: set[str] = field(default_factory=set)
    """Warnings that were printed already: a command may ask for its settings more than once."""

    def config(self) -> MemoryModuleConfig:
        """The settings of this command. Warns, once, of settings that are ignored."""
        warning = find_project().warning
        if warning is not None and warning not in self.warned:
            self.warned.add(warning)
            warn(warning)
        return load_config(url=self.url, tenant=self.tenant, embedder=self.embedder)

    def open(
        self, *, all_tenants: bool = False, stores: bool = False, create: "Create | None" = None, **options: Any
    ) -> AbstractAsyncContextManager[Any]:
        """The memory, or the administration of `all_tenants`, for one command: nothing works in the background.

        A command that `stores` may make the store in the user's own place, but none at a URL, which may be mistyped.
        """
        from tulving.bootstrap import open_administration, open_memory

        config = self.config()
        create = create or ("file" if stores and config.url is None else "never")
        opener = open_administration if all_tenants else open_memory
        return opener(config=config, background=False, create=create, **options)

    def run(self, work: Callable[[Any], Awaitable[T]], **options: Any) -> T:
        """Open the memory, do one piece of work with it, and close it."""
        import asyncio

        async def opened() -> T:
            async with self.open(**options) as memory:
                return await work(memory)

        return asyncio.run(opened())

    def administer(self, work: Callable[[Any], Awaitable[T]], *, may_reembed: bool = True, **options: Any) -> T:
        """Do one piece of work that concerns the whole store, whatever embedder its vectors are from."""
        return self.run(work, all_tenants=True, may_reembed=may_reembed, **options)


def logging_as(config: MemoryModuleConfig, form: str | None, accesses: bool = False) -> MemoryModuleConfig:
    """Apply the logging options of a server or worker, and return the settings with them."""
    given = config.logs
    chosen = replace(given, format=form or given.format, access=accesses or given.access)
    logs.arrange(chosen)
    return replace(config, logs=chosen)


def _version(given: bool) -> None:
    if given:
        typer.echo(f"tulving {__version__}")
        raise typer.Exit


def options(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The store: a path, sqlite:///path or postgresql://...")
    ] = None,
    tenant: Annotated[str | None, typer.Option(metavar="NAME", help="Whose memory")] = None,
    embedder: Annotated[str | None, typer.Option(metavar="NAME", help=" or ".join(EMBEDDERS))] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log what happens to standard error")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Note what is chosen for the command."""
    logs.to_stderr()
    # A command reports errors itself; a server has only its log.
    quiet = logging.WARNING if context.invoked_subcommand in ("mcp", "serve") else logging.CRITICAL
    log.setLevel(logging.DEBUG if verbose else quiet)
    context.obj = Chosen(url, tenant, embedder)
