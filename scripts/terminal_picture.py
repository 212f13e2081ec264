"""Make docs/assets/terminal.svg: a real run of some commands in a fresh home, as a terminal would show it.

python scripts/terminal_picture.py        needs the weights of the embedding model (`tulving init`)
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tulving.config import data_directory
from tulving.providers import weights

PICTURE = Path(__file__).parent.parent / "docs" / "assets" / "terminal.svg"
WIDTH = 92
COMMANDS = (
    'tulving store fact Anna favorite_drink "green tea"',
    "tulving store fact Anna favorite_drink espresso",
    'tulving store rule "Offer Anna her favorite drink before the menu"',
    'tulving recall "what would Anna like to have?"',
    "tulving history Anna favorite_drink",
)


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    found = weights.find(data_directory())
    if found is None:
        sys.exit("the weights are missing: run `tulving init` first")
    with tempfile.TemporaryDirectory() as home:
        environ = {"HOME": home, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
        environ |= {"TULVING_WEIGHTS": str(found), "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
        run("tulving init", environ)
        for command in COMMANDS:
            console.print(Text.assemble(("$ ", "green"), (command, "bold")), soft_wrap=True)
            console.print(Text.from_ansi(run(command, environ)), soft_wrap=True)
    text = console.export_svg(title="tulving", font_aspect_ratio=0.61)
    # The fonts that rich names are on another host; the reader's own will do.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\n", "", text, flags=re.DOTALL))
    print(PICTURE)


def run(command: str, environ: dict[str, str]) -> str:
    """Run it in a terminal of its own, so that it prints as it does to a person."""
    line = f"stty cols {WIDTH}; exec {command}"
    done = subprocess.run(
        ["script", "--quiet", "--return", "--command", f"bash -c {shlex.quote(line)}", "/dev/null"],
        env=environ,
        cwd=environ["HOME"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return re.sub(r"\x1b\][^\x07]*\x07", "", done.stdout.replace("\r\n", "\n"))


if __name__ == "__main__":
    main()
