"""Claude Code's own command for its MCP servers. Its settings for all projects are in `~/.claude.json`, which it also
keeps its state in and writes while it runs: a change made behind its back may be lost."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tulving.errors import TulvingError
from tulving.interfaces.hosts import jsonc
from tulving.interfaces.hosts.settings_file import Change, back_up
from tulving.interfaces.hosts.table import HOSTS, NAME

CLAUDE_CODE = "claude-code"
SCOPE = ("--scope", "user")
LONGEST_WAIT = 60.0


def claude_command(entry: Mapping[str, Any], program: str = "claude") -> list[str]:
    """The command that adds our server for all projects."""
    return [program, "mcp", "add-json", *SCOPE, NAME, json.dumps(entry, ensure_ascii=False)]


def run_claude(program: str, change: Change) -> Path | None:
    """Let Claude Code make a change itself; returns where the file as it was before is kept."""
    before, after = (jsonc.read(text or "").get(HOSTS[CLAUDE_CODE].key, {}) for text in (change.before, change.after))
    backup = back_up(change)
    if NAME in before:
        _run([program, "mcp", "remove", *SCOPE, NAME])  # it adds none that is there already
    try:
        _run(claude_command(after[NAME], program))
    except TulvingError:
        if NAME in before:
            _run(claude_command(before[NAME], program))
        raise
    return backup


def _run(command: list[str]) -> None:
    try:
        ran = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONGEST_WAIT, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise TulvingError(f"`claude {' '.join(command[1:3])}` did not end within {LONGEST_WAIT:.0f} s") from None
    if ran.returncode:
        said = " ".join((ran.stderr or ran.stdout).split())[:500]
        raise TulvingError(f"`claude {' '.join(command[1:3])}` failed: {said or f'exit code {ran.returncode}'}")
