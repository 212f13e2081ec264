"""The hosts that run a command at certain events: which ones, and where that is set.

Cursor has hooks too, but none by which a prompt is given more context, and no documented transcript; Windsurf, Zed, VS
Code and Claude Desktop have none for the start of a session.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tulving.interfaces.hosts import jsonc
from tulving.interfaces.hosts.hook_events import EVENTS, Moment
from tulving.interfaces.hosts.settings_file import Change, propose
from tulving.interfaces.hosts.table import HOSTS, Place

MODULE = "tulving.interfaces.hook"
KEY = "hooks"


@dataclass(frozen=True, slots=True)
class Hooking:
    """A host with hooks. `events` are its names for our moments, `timeout` what it measures five seconds in."""

    place: Place
    events: Mapping[str, Moment]
    timeout: int = 5
    then: str = "Start a new session"

    def install(self, host: str, environment: Mapping[str, str]) -> Change:
        """What must change so that the host runs our hooks, and no others of ours."""

        def edit(text: str) -> str:
            wanted = {event: self._group(host, event, environment) for event in self.events}
            found = _ours(text)
            if all([*found.get(event, {}).values()] == [group] for event, group in wanted.items()):
                return text
            text = _removed(text)
            for event, group in wanted.items():
                text = jsonc.add(text, (KEY, event), group)
            return text

        return propose(self.place.path(), edit)

    def uninstall(self) -> Change:
        """What must change so that the host runs none of our hooks."""
        return propose(self.place.path(), _removed)

    def installed(self) -> list[str]:
        """The events at which the host runs a hook of ours."""
        found = _ours(propose(self.place.path(), lambda text: text).after)
        return [event for event in self.events if found.get(event)]

    def _group(self, host: str, event: str, environment: Mapping[str, str]) -> dict[str, Any]:
        return {"hooks": [{"type": "command", "command": command(host, event, environment), "timeout": self.timeout}]}


def command(host: str, event: str, environment: Mapping[str, str]) -> str:
    """The command for a shell. It runs in a project: no module is to be taken from there (-P)."""
    said = ["env", *(f"{name}={value}" for name, value in environment.items())] if environment else []
    return shlex.join([*said, sys.executable, "-P", "-m", MODULE, host, event])


def _ours(text: str) -> dict[str, dict[int, Any]]:
    """For each event the groups that run our command and no other, by their places."""
    settings = jsonc.read(text)
    events = settings.get(KEY) if isinstance(settings, dict) else None
    return {
        event: {at: group for at, group in enumerate(groups) if _is_ours(group)}
        for event, groups in (events.items() if isinstance(events, dict) else ())
        if isinstance(groups, list)
    }


def _is_ours(group: Any) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    commands = [each.get("command") for each in hooks if isinstance(each, dict)] if isinstance(hooks, list) else []
    return bool(commands) and all(isinstance(each, str) and f"-m {MODULE} " in each for each in commands)


def _removed(text: str) -> str:
    """Without our groups, and without the lists and the table that this leaves empty."""
    found = {event: ours for event, ours in _ours(text).items() if ours}
    for event, ours in found.items():
        for at in reversed(ours):
            text = jsonc.drop(text, (KEY, event), at)
        if not jsonc.read(text)[KEY][event]:
            text = jsonc.drop(text, (KEY, event))
    if found and not jsonc.read(text)[KEY]:
        text = jsonc.drop(text, (KEY,))
    return text


HOOKING = {
    "claude-code": Hooking(Place("settings.json", ".claude", variable="CLAUDE_CONFIG_DIR"), EVENTS["claude-code"]),
    "codex": Hooking(
        Place("hooks.json", ".codex", variable="CODEX_HOME"),
        EVENTS["codex"],
        then="Start a new session and trust them in `/hooks`",
    ),
    "gemini": Hooking(HOSTS["gemini"].place, EVENTS["gemini"], timeout=5000),
}
