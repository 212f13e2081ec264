"""`tulving mcp`: the memory as a server for MCP hosts."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from tulving import extras
from tulving.errors import InvalidInput
from tulving.interfaces import logs
from tulving.interfaces.cli.options import AccessLog, LogFormat, logging_as
from tulving.settings import TOOL_SETS


def mcp(
    context: typer.Context,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Over HTTP instead, at this address; see `tulving token`")
    ] = None,
    open_: Annotated[
        bool, typer.Option("--open", help="With --http: to every program on this machine, while there is no token")
    ] = False,
    tools: Annotated[
        str | None, typer.Option(metavar="|".join(TOOL_SETS), help="Which tools [default: as configured]")
    ] = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="SERVER", help="With the tools of another server: server-memory")
    ] = None,
    log_format: LogFormat = None,
    access_log: AccessLog = False,
) -> None:
    """Serve the memory to MCP hosts, over standard input and output or over HTTP."""
    from tulving.location import is_postgres, new_file

    extras.require("mcp", "an MCP server")
    if as_ not in (None, "server-memory"):
        raise InvalidInput("as", f"{as_!r:.60} is not known", "server-memory")
    if as_ and (http or open_):
        raise InvalidInput("as", "is for standard input and output only", "without --http")
    config = logging_as(context.obj.config(), log_format, access_log)
    if tools is not None:
        config = replace(config, tools=tools)
    if not is_postgres(config.url) and (file := new_file(config.url)):
        logs.announce([f"There is no memory at {file} yet: a new one is made."], config.logs)
    if http is not None:
        from tulving.interfaces.http.server import serve as serve_http

        return serve_http(config, http, open_)
    if open_:
        raise InvalidInput("open", "is for a server over HTTP", "--http HOST:PORT --open")
    if sys.stdin.isatty():
        typer.echo("An MCP host is expected on standard input: see `tulving init --mcp`. Ctrl-C ends it.", err=True)
    if as_:
        from tulving.interfaces.mcp.server_memory import serve
    else:
        from tulving.interfaces.mcp.greeting import serve
    serve(config)
