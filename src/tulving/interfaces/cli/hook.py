"""`tulving hook`: a coding agent that remembers without being told to."""

import os
from typing import Annotated

import typer

from tulving.config import NOT_SETTINGS, data_directory
from tulving.errors import InvalidInput
from tulving.interfaces.cli.host_settings import write_settings
from tulving.interfaces.cli.options import AsJson, Chosen
from tulving.interfaces.cli.terminal import print_json, table, warn
from tulving.interfaces.hosts.hook_table import HOOKING
from tulving.interfaces.hosts.settings_file import carry_out
from tulving.interfaces.hosts.table import OURS, host_named

HostName = Annotated[str, typer.Argument(metavar="HOST", help=", ".join(HOOKING))]
Yes = Annotated[bool, typer.Option("--yes", help="Write without asking")]


def install(context: typer.Context, host: HostName, yes: Yes = False) -> None:
    """Let a coding agent begin with a project's context, get what fits each prompt, and remember its sessions.

    Writes into the agent's settings, after showing the change. `tulving hook uninstall` takes it back.
    """
    name = host_named(host, HOOKING)
    change = HOOKING[name].install(name, _environment(context.obj))
    if write_settings(change, yes, lambda: carry_out(change)):
        typer.echo(f"Next: {HOOKING[name].then}. docs/hooks.md says how to turn parts of it off.")


def uninstall(host: HostName, yes: Yes = False) -> None:
    """Remove the hooks from a coding agent's settings, after showing the change. What was stored stays."""
    change = HOOKING[host_named(host, HOOKING)].uninstall()
    if change.empty:
        typer.echo(f"no hooks of ours in {change.path}")
        return
    write_settings(change, yes, lambda: carry_out(change))


def status(as_json: AsJson = False) -> None:
    """Show which coding agents have the hooks, and where their errors are logged."""
    from tulving.interfaces.hook import LOG

    log = data_directory() / LOG
    rows = [(name, host.place.path(), _state(name)) for name, host in HOOKING.items()]
    if as_json:
        hosts = [{"host": name, "file": str(file), "state": state} for name, file, state in rows]
        print_json({"hosts": hosts, "log": str(log) if log.exists() else None})
        return
    styles = {"installed": "green", "not installed": "dim", "in part": "yellow"}
    table([(name, state, str(file)) for name, file, state in rows], ("host", "hooks", "file"), styles)
    if log.exists():
        typer.echo(f"\nerrors are in {log}")


def _state(name: str) -> str:
    host = HOOKING[name]
    try:
        there = host.installed()
    except (InvalidInput, OSError):
        return "unreadable"
    return "installed" if len(there) == len(host.events) else "in part" if there else "not installed"


def run(
    host: HostName, event: Annotated[str, typer.Argument(metavar="EVENT", help="The host's own name for it")]
) -> None:
    """Try a hook: read an event as JSON from standard input and print what the agent would be given.

    The agent itself runs a command that starts faster and ends after 300 ms.
    """
    from tulving.interfaces.hook import LONGEST_STORING, main

    main([host_named(host, HOOKING), event], LONGEST_STORING)


def _environment(chosen: Chosen) -> dict[str, str]:
    """What the hooks must be told: the options given now, and the variables set now, which the agent may not have."""
    from tulving.location import is_postgres, store_name

    url = chosen.config().url  # refuses what is wrong, while a person is there to be told
    given = {"TULVING_URL": chosen.url, "TULVING_TENANT": chosen.tenant, "TULVING_EMBEDDER": chosen.embedder}
    known = {name: value for name, value in sorted(os.environ.items()) if name.startswith(OURS) and value}
    for name in {*NOT_SETTINGS} & known.keys():
        known[name] = os.path.abspath(os.path.expanduser(known[name]))
    known |= {name: value for name, value in given.items() if value is not None}
    if "TULVING_URL" in known and is_postgres(url) and store_name(url) != url:
        # Whoever lists the processes sees a command with its arguments.
        if chosen.url is not None:
            allowed = "a URL without one and a ~/.pgpass, or TULVING_URL in the agent's own environment"
            raise InvalidInput("url", "has a password, which everyone on this machine could see", allowed)
        del known["TULVING_URL"]
        warn("TULVING_URL has a password and is not written: start the agent where it is set")
    return known
