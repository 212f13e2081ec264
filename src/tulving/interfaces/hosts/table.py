"""The hosts: where each keeps its MCP servers, and in which form."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tulving.errors import InvalidInput
from tulving.interfaces.hosts import codex_toml, jsonc
from tulving.interfaces.hosts.settings_file import Change, propose

NAME = "tulving"
OURS = "TULVING_"
TRANSPORT = frozenset(
    "type command args env url serverUrl httpUrl headers http_headers env_http_headers bearer_token_env_var".split()
)
"""What says how a server is reached, in the words of all hosts."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host keeps a file of the user: in a folder below one of `BASES`, or in the folder that a variable names,
    if that is set."""

    file: str
    folder: str = ""
    base: str = "home"
    variable: str | None = None

    def path(self) -> Path:
        """The file on this machine."""
        given = os.environ.get(self.variable) if self.variable else None
        return (Path(given).expanduser() if given else BASES[self.base]() / self.folder) / self.file


@dataclass(frozen=True, slots=True)
class Host:
    """A host and the form of its MCP servers: the key they are under, and the fields that they have beside the usual
    ones. `then` is what the person does after a change, `project` the file in a project, if it has one."""

    title: str
    place: Place
    then: str
    key: str = "mcpServers"
    project: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def entry(self, command: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
        """The server as the host wants it."""
        env = {"env": dict(environment)} if environment else {}
        return {**self.extra, "command": command[0], "args": command[1:], **env}

    def change(self, entry: Mapping[str, Any], project: Path | None = None) -> Change:
        """What must change so that the host has this entry, in the user's file or in that of a project."""
        path = self.place.path() if project is None else project / str(self.project)
        return propose(path, lambda text: self._put(text, entry))

    def show(self, entry: Mapping[str, Any]) -> str:
        """The file that has nothing but this entry."""
        return self._put("", entry)

    def _put(self, text: str, entry: Mapping[str, Any]) -> str:
        form = codex_toml if self.place.file.endswith(".toml") else jsonc
        servers = form.read(text)
        if not isinstance(servers, dict) or not isinstance(servers.get(self.key, {}), dict):
            raise InvalidInput(self.key, "is not an object", "an object; nothing was changed")
        merged = merge(servers.get(self.key, {}).get(NAME), entry)
        if form is codex_toml:
            return codex_toml.put(text, self.key, NAME, merged)
        return jsonc.put(text, (self.key, NAME), merged)


def merge(old: object, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Our entry, with what the person has added to the one there was: the host's own options, and variables such as a
    key for the embedder's server."""
    if not isinstance(old, dict):
        return dict(entry)
    kept = {name: value for name, value in old.items() if name not in TRANSPORT}
    theirs = old.get("env")
    env = theirs if isinstance(theirs, dict) else {}
    env = {name: value for name, value in env.items() if not name.startswith(OURS)} | entry.get("env", {})
    new = {**entry, **({"env": env} if env else {})}
    # In the order in which they stood: so running it twice changes nothing.
    return {name: new.get(name, kept.get(name)) for name in (*(each for each in old if each in {*new, *kept}), *new)}


def _config() -> Path:
    given = None if sys.platform == "darwin" else os.environ.get("XDG_CONFIG_HOME")
    return Path(given) if given else Path.home() / ".config"


def _applications() -> Path:
    return Path.home() / "Library/Application Support" if sys.platform == "darwin" else _config()


BASES = {"home": Path.home, "applications": _applications, "config": _config}
"""Folders that depend on the system and on the environment."""

STDIO = {"type": "stdio"}
HOSTS = {
    "claude-code": Host(
        "Claude Code",
        Place(".claude.json", variable="CLAUDE_CONFIG_DIR"),
        "`/mcp` in a new session shows it",
        project=".mcp.json",
        extra=STDIO,
    ),
    "claude-desktop": Host(
        "Claude Desktop",
        Place("claude_desktop_config.json", "Claude", "applications"),
        "quit Claude Desktop and start it again",
    ),
    "cursor": Host("Cursor", Place("mcp.json", ".cursor"), "restart Cursor", project=".cursor/mcp.json"),
    "vscode": Host(
        "VS Code",
        Place("mcp.json", "Code/User", "applications"),
        "`MCP: List Servers` starts it",
        key="servers",
        project=".vscode/mcp.json",
        extra=STDIO,
    ),
    "codex": Host(
        "Codex",
        Place("config.toml", ".codex", variable="CODEX_HOME"),
        "`/mcp` in a new session shows it",
        key="mcp_servers",
        project=".codex/config.toml",
    ),
    "gemini": Host(
        "Gemini CLI",
        Place(".gemini/settings.json", variable="GEMINI_CLI_HOME"),
        "`/mcp` in a new session shows it",
        project=".gemini/settings.json",
    ),
    "windsurf": Host("Windsurf", Place("mcp_config.json", ".codeium/windsurf"), "refresh the servers in Cascade"),
    "zed": Host(
        "Zed", Place("settings.json", "zed", "config"), "the Agent Panel's settings show it", key="context_servers"
    ),
}
ALIASES = {"claude": "claude-code", "gemini-cli": "gemini", "code": "vscode"}


def host_named(name: str, among: Mapping[str, Any] = HOSTS) -> str:
    """The key of a host by the name that a person gives it."""
    known = ALIASES.get(name.lower(), name.lower())
    if known not in among:
        raise InvalidInput("host", f"{name!r:.40} is not known", ", ".join(among))
    return known
