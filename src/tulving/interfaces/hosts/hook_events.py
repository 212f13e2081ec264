"""The hosts' names for the moments at which a hook runs. On its own, since a hook must load as little as it can."""

from collections.abc import Mapping
from typing import Literal

Moment = Literal["start", "prompt", "end"]
"""What Tulving does: gives the context of a project, gives what fits a prompt, stores what was said."""

EVENTS: Mapping[str, Mapping[str, Moment]] = {
    "claude-code": {"SessionStart": "start", "UserPromptSubmit": "prompt", "SessionEnd": "end"},
    "codex": {"SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "end"},  # which ends a turn
    "gemini": {"SessionStart": "start", "BeforeAgent": "prompt", "SessionEnd": "end"},
}
