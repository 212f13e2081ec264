"""Tulving: a memory for AI agents. Episodes, facts and rules, found in milliseconds.

The public names are listed in `__init__.pyi`, once for type checkers and for this module, which imports each when it is
first used: `import tulving` alone loads nothing else.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_MODULES = {each.name: line.module for line in _STUB.body if isinstance(line, ast.ImportFrom) for each in line.names}

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if module := _MODULES.get(name):
        value = globals()[name] = getattr(import_module(module), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
