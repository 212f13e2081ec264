"""What `import tulving` offers: every public name can be imported, and nothing is loaded before it is used."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tulving
from tulving import errors

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", tulving.__all__)
def test_a_public_name_is_what_it_says(name: str):
    named = getattr(tulving, name)
    assert named.__name__ == name
    assert named.__doc__


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


def test_nothing_is_loaded_before_it_is_used():
    program = "import sys, tulving; print([name for name in sys.modules if name.startswith('tulving.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
