"""The count of lines of code, and the table that it is compared with."""

from pathlib import Path

import pytest
import sizes

CODE = '''"""A docstring

of three lines."""

# a comment
import os  # code, with a comment


class Thing:
    """One line."""

    name = """code

    in three lines, one of them blank"""
    """A string after an attribute is not a docstring of Python."""

    def method(self) -> None:
        """Only a docstring."""


async def call(
    argument: int,
):
    "Any string."
    return (
        argument,
        # a comment inside
        os,
    )
'''


def test_code_is_counted_without_blank_lines_comments_and_docstrings() -> None:
    assert sizes.count(CODE) == 1 + 1 + 3 + 1 + 3 + 4
    assert sizes.count("") == sizes.count('"""Only a docstring."""\n') == 0


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".sql", "-- a comment\nSELECT 1; -- code\n\n/* a comment\nof two lines */\nSELECT 2;\n"),
        (".html", "<!-- a comment\nof two lines -->\n<p>\n{# a comment #}\n</p>\n"),
    ],
)
def test_other_languages_are_counted_without_their_comments(suffix: str, text: str) -> None:
    assert sizes.count(text, suffix) == 2


def test_a_package_is_the_first_folder(tmp_path: Path) -> None:
    for name in ("top.py", "one/a.py", "one/deep/b.py", "one/c.sql", "two/d.py", "two/notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")
    assert sizes.measure(tmp_path) == {".": 1, "one": 3, "two": 1}


def test_more_than_the_table_allows_fails(tmp_path: Path) -> None:
    sizes.write_table(tmp_path / "table.tsv", {".": 5, "one": 1_500})
    allowed = sizes.read_table(tmp_path / "table.tsv")
    assert allowed == {".": 5, "one": 1_500}
    assert sizes.compare({".": 5, "one": 1_400}, allowed)[1]
    text, kept = sizes.compare({".": 5, "one": 1_502}, allowed)
    assert not kept and "one            1,502   1,500  2 too many" in text
    assert not sizes.compare({".": 5, "new": 1}, allowed)[1], "a new package has no lines yet"


def test_every_package_is_in_the_table() -> None:
    assert set(sizes.read_table(sizes.TABLE)) == set(sizes.measure(sizes.SOURCE))
