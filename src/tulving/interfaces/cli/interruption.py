"""What Ctrl-C leaves behind: whether something was changed, and how to go on."""

from tulving.interfaces.cli.terminal import remark

_AGAIN = "run it again to go on where it stopped"
BATCHES = "what was done so far stays; run it again to do the rest"
_NO_FILE = "no file was written"
_LEARNING = "what was learned before stays; the episodes of the question that was interrupted wait as before"
LEFT = {
    "reembed": f"the old vectors stay in use; {_AGAIN}",
    "copy": f"what was copied so far stays in the target; {_AGAIN}",
    "init": f"what was installed so far stays; {_AGAIN}",
    "migrate": f"each step is made as a whole or not at all; {_AGAIN}",
    "import": "nothing was read in",
    "export": _NO_FILE,
    "backup": _NO_FILE,
    "restore": "the store is as it was, or a copy of it is beside it",
    "verify": "nothing was changed",
    "evaluate": "nothing was changed",
    "reindex": "the old indexes stay in use",
    "cleanup": BATCHES,
    "archive": BATCHES,
    "evict": BATCHES,
    "learn": _LEARNING,
    "consolidate": _LEARNING,
}
"""For commands that may take long; an interrupted short one says nothing."""


def tell(command: str | None) -> None:
    """Say what an interrupted command has left."""
    if command in LEFT:
        remark(f"interrupted: {LEFT[command]}")
