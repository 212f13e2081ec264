"""Tulving: a memory for AI agents. Episodes, facts and rules, found in milliseconds.

The public names are listed in `__init__.pyi`, once for type checkers and for this module, which imports each when it is
first used: `import tulving` alone loads nothing else.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
# Each line is `from module import name as name`: parsing it properly would take longer than all else here.
_MODULES = {words[3]: words[1] for words in map(str.split, _STUB.splitlines()) if words[:1] == ["from"]}

__all__ = sorted(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if module := _MODULES.get(name):
        value = globals()[name] = getattr(import_module(module), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
