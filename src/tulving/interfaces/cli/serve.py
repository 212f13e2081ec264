"""`tulving serve`: the HTTP API, the console and MCP on one port."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tulving import extras
from tulving.interfaces import logs
from tulving.interfaces.cli.options import AccessLog, LogFormat, logging_as
from tulving.settings import TOOL_SETS

ADDRESS = "127.0.0.1:8765"


def serve(
    context: typer.Context,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where to listen", show_default=True)] = ADDRESS,
    open_: Annotated[
        bool, typer.Option("--open", help="Require no token from programs on this machine, as long as there is none")
    ] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Serve a separate store with made-up memories, to look around")
    ] = False,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Serve over TLS with this certificate")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key of the certificate")] = None,
    proxy_headers: Annotated[
        str | None, typer.Option(metavar="ADDR,...", help="Trust the X-Forwarded headers of these proxies")
    ] = None,
    tools: Annotated[
        str | None, typer.Option(metavar="|".join(TOOL_SETS), help="Which MCP tools [default: as configured]")
    ] = None,
    log_format: LogFormat = None,
    access_log: AccessLog = False,
) -> None:
    """Serve the memory over HTTP: an API, a web console and MCP, all on one port."""
    from tulving.location import is_postgres, new_file, store_name

    extras.require("server", "the service")
    from tulving.interfaces.http.connections import networks
    from tulving.interfaces.http.tls import tls_context

    tls, proxies = tls_context(tls_cert, tls_key), networks(proxy_headers)
    with ExitStack() as served:
        if demo:
            from tulving.interfaces.cli.story import filled

            config = logging_as(served.enter_context(filled(context.obj)), log_format, access_log)
            logs.announce([f"Made-up memories, in {store_name(config.url)}"], config.logs)
        else:
            config = logging_as(context.obj.config(), log_format, access_log)
        if tools is not None:
            config = replace(config, tools=tools)
        if not is_postgres(config.url) and (file := new_file(config.url)):
            logs.announce([f"There is no memory at {file} yet: a new one is made."], config.logs)
        from tulving.interfaces.http.server import serve as serve_http

        serve_http(config, address, open_, whole=True, tls=tls, proxies=proxies)
