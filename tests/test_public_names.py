"""What `import tulving` offers: every public name can be imported, and nothing is loaded before it is used."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import blocking_stub
import pytest

import tulving
from tulving import errors
from tulving.domain.records import Record

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", tulving.__all__)
def test_a_public_name_is_what_it_says(name: str):
    named = getattr(tulving, name)
    if inspect.isclass(named) or inspect.isfunction(named):
        assert named.__name__ == name
        assert named.__doc__


def test_what_verbs_take_and_return_is_public():
    imports: dict[str, str] = {}
    for verbs in (tulving.Memory, tulving.Administration):
        assert len([*blocking_stub.members(verbs, imports)]) > 20
    blocking_stub.opener(imports)
    met = {name for name, module in imports.items() if module.startswith("tulving.")}
    assert {"Found", "Statistics", "Verification", "ResolvedRule", "Kind"} <= met
    assert met <= set(tulving.__all__)


def test_what_is_in_a_public_record_is_public():
    parts = {
        part.__name__
        for record in (getattr(tulving, name) for name in tulving.__all__)
        if inspect.isclass(record) and issubclass(record, Record)
        for hint in get_type_hints(record).values()
        for part in (hint, *get_args(hint))
        if inspect.isclass(part) and issubclass(part, Record)
    }
    assert {"Hit", "RunChange", "FactCounts"} <= parts
    assert parts <= set(tulving.__all__)


def test_public_docstrings_speak_to_users():
    """They do not begin with the number of a scenario."""
    numbered = re.compile(r"\d{3}-\d{3}")
    for name in tulving.__all__:
        named = getattr(tulving, name)
        methods = inspect.getmembers(named, inspect.isfunction) if inspect.isclass(named) else []
        for place, each in [(name, named), *methods]:
            if not place.startswith("_"):
                assert not numbered.match(each.__doc__ or ""), f"{name}.{place}"


def test_every_error_is_public():
    raised = {name for name, each in vars(errors).items() if inspect.isclass(each)}
    assert raised <= set(tulving.__all__)


def test_what_the_documents_import_is_public():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    imported = {
        name.strip()
        for page in pages
        for names in re.findall(r"^from tulving import (.+)$", page.read_text(), re.MULTILINE)
        for name in names.split(",")
    }
    assert imported
    assert imported <= set(tulving.__all__)


def test_other_names_do_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'dream'"):
        _ = tulving.dream
    assert not hasattr(tulving, "annotations")


def test_all_public_names_are_completed():
    assert {*tulving.__all__, "__version__"} <= set(dir(tulving))


def test_the_stub_names_one_on_each_line():
    """It is not parsed when it is loaded, which would take long."""
    stub = ast.parse(Path(tulving.__file__).with_suffix(".pyi").read_text())
    imported = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    assert {each.name: line.module for line in imported for each in line.names} == tulving._MODULES


def test_nothing_is_loaded_before_it_is_used():
    program = (
        "import sys, tulving; print([name for name in sys.modules if name.startswith('tulving.') or name == 'ast'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
