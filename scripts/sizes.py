"""How many lines of code has each package, and is that more than it may have?

Counts Python, SQL and HTML in src/tulving, without blank lines, comments and docstrings, and compares with the table
scripts/sizes.tsv. Ends with 1 when a package has more lines than the table allows; `--update` rewrites the table.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tulving"
TABLE = Path(__file__).with_suffix(".tsv")
HEADER = """\
# The most lines of code (without blank lines, comments and docstrings) that each package may have.
# A commit that raises a number says in its message what the lines are for and why they can't be saved elsewhere.
# Rewritten by: python scripts/sizes.py --update
"""

COMMENTS = {".sql": re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL), ".html": re.compile(r"<!--.*?-->|{#.*?#}", re.DOTALL)}
SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def count(text: str, suffix: str = ".py") -> int:
    """The lines of a file that are code."""
    if suffix in COMMENTS:
        return sum(bool(line.strip()) for line in COMMENTS[suffix].sub("", text).splitlines())
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            lines.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    blank = {number for number, line in enumerate(text.splitlines(), 1) if not line.strip()}
    return len(lines - blank)


def measure(source: Path) -> dict[str, int]:
    """The lines of each package, which is the first folder below the source; the modules beside them are `.`."""
    sizes: Counter[str] = Counter()
    for path in sorted(source.rglob("*")):
        if path.suffix in (".py", *COMMENTS):
            inside = path.relative_to(source).parts
            sizes[inside[0] if len(inside) > 1 else "."] += count(path.read_text(encoding="utf-8"), path.suffix)
    return dict(sorted(sizes.items()))


def read_table(path: Path) -> dict[str, int]:
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {package: int(lines) for package, lines in rows}


def write_table(path: Path, sizes: dict[str, int]) -> None:
    path.write_text(HEADER + "".join(f"{package}\t{lines}\n" for package, lines in sizes.items()))


def compare(sizes: dict[str, int], allowed: dict[str, int]) -> tuple[str, bool]:
    """The table for a person, and whether every package keeps to it."""
    rows = [(package, lines, allowed.get(package, 0)) for package, lines in sizes.items()]
    rows.append(("total", sum(sizes.values()), sum(allowed.values())))
    texts = [
        f"{package:<12}{lines:>8,}{most:>8,}{f'  {lines - most:,} too many' if lines > most else ''}"
        for package, lines, most in rows
    ]
    return "\n".join([f"{'package':<12}{'lines':>8}{'allowed':>8}", *texts]), all(row[1] <= row[2] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write what is counted into the table")
    arguments = parser.parse_args()
    sizes = measure(SOURCE)
    if arguments.update:
        write_table(TABLE, sizes)
    text, kept = compare(sizes, read_table(TABLE))
    print(text)
    if not kept:
        sys.exit("Save lines, or raise the table with --update and say in the commit why.")


if __name__ == "__main__":
    main()
