"""The hosts that run a command at certain events: which ones, and where that is set.

Cursor has hooks too, but none by which a prompt is given more context, and no documented transcript; Windsurf, Zed, VS
Code and Claude Desktop have none for the start of a session.
"""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import getitem
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
            wanted = {event: self._hook(host, event, environment) for event in self.events}
            found = _ours(text)
            if all([hook for path, hook in found.items() if path[1] == event] == [wanted[event]] for event in wanted):
                return text
            text = _removed(text)
            for event, hook in wanted.items():
                text = jsonc.add(text, (KEY, event), {"hooks": [hook]})
            return text

        return propose(self.place.path(), edit)

    def uninstall(self) -> Change:
        """What must change so that the host runs none of our hooks."""
        return propose(self.place.path(), _removed)

    def installed(self) -> list[str]:
        """The events at which the host runs a hook of ours."""
        found = _ours(propose(self.place.path(), lambda text: text).after)
        return [event for event in self.events if any(path[1] == event for path in found)]

    def _hook(self, host: str, event: str, environment: Mapping[str, str]) -> dict[str, Any]:
        return {"type": "command", "command": command(host, event, environment), "timeout": self.timeout}


def command(host: str, event: str, environment: Mapping[str, str]) -> str:
    """The command for a shell. It runs in a project: no module is to be taken from there (-P)."""
    said = ["env", *(f"{name}={value}" for name, value in environment.items())] if environment else []
    return shlex.join([*said, sys.executable, "-P", "-m", MODULE, host, event])


def _ours(text: str) -> dict[tuple[str | int, ...], Any]:
    """Our hooks by their paths: an event has groups, and a group has hooks."""
    settings, found = jsonc.read(text), {}
    events = settings.get(KEY) if isinstance(settings, dict) else None
    for event, groups in events.items() if isinstance(events, dict) else ():
        for at, group in enumerate(groups) if isinstance(groups, list) else ():
            hooks = group.get("hooks") if isinstance(group, dict) else None
            for place, hook in enumerate(hooks) if isinstance(hooks, list) else ():
                if isinstance(hook, dict) and f"-m {MODULE} " in str(hook.get("command")):
                    found[KEY, event, at, "hooks", place] = hook
    return found


def _removed(text: str) -> str:
    """Without our hooks, and without the groups, the lists and the table that this leaves empty."""
    for path in reversed(_ours(text)):
        text = jsonc.drop(text, path)
        for emptied, gone in ((4, 3), (2, 2), (1, 1)):
            if reduce(getitem, path[:emptied], jsonc.read(text)):
                break
            text = jsonc.drop(text, path[:gone])
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
