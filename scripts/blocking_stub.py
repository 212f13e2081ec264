"""Writes src/tulving/interfaces/blocking.pyi: the types of the synchronous memory, from those of the asynchronous one.

Each public method of `Memory` is written without `async` and without the descriptions of its parameters, and
`open_memory_sync` with the parameters of `open_memory`. With --check it only tells whether the file is current, and
ends with 1 if not.
"""

import ast
import builtins
import inspect
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tulving import bootstrap
from tulving.interfaces import blocking
from tulving.services.memory import Memory

STUB = Path(blocking.__file__).with_suffix(".pyi")
HEADER = '''"""The types of `blocking.py`. Written by scripts/blocking_stub.py: do not edit."""'''
BLOCK = "def __enter__(self) -> Self: ...\ndef __exit__(self, *error: object) -> None: ..."
PLAIN = {
    "AsyncIterator": ("contextlib", ast.Name("AbstractContextManager")),  # of a method that is a context manager
    "AsyncGenerator": ("collections.abc", ast.Name("Iterator")),
}
"""What a plain call returns instead."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


@cache
def origins(module: str) -> dict[str, str]:
    """From where a module has its names, also those that it imports for type checkers only; "" for whole modules."""
    return {
        each.asname or each.name: getattr(node, "module", "")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
    }


@cache
def described(module: str, name: str) -> tuple[ast.expr, str] | None:
    """The type of a name that stands for a type with a description, and the module where that is written."""
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name and _is_annotated(node.value):
            return node.value, module
    origin = origins(module).get(name, "")
    return described(origin, name) if origin.startswith("tulving.") else None


def _is_annotated(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated"


class Plain(ast.NodeTransformer):
    """Type hints of a module without descriptions; notes what they need to be imported."""

    def __init__(self, module: str, imports: dict[str, str]) -> None:
        self.module, self.imports = module, imports

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if _is_annotated(node):
            assert isinstance(node.slice, ast.Tuple)
            return self.visit(node.slice.elts[0])
        if ast.unparse(node.value) == "Literal":
            self.visit(node.value)
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

    def visit_Name(self, node: ast.Name) -> Any:
        if meant := described(self.module, node.id):
            return Plain(meant[1], self.imports).visit(meant[0])
        if node.id in PLAIN:
            origin, node = PLAIN[node.id]
        else:
            origin = origins(self.module).get(node.id, self.module)
        if not hasattr(builtins, node.id) and self.imports.setdefault(node.id, origin) != origin:
            raise SystemExit(f"{node.id} is a name of {origin} and of {self.imports[node.id]}")
        return node


def called(function: Function, value: Any, module: str, imports: dict[str, str]) -> ast.FunctionDef:
    """A function as a plain call."""
    function = deepcopy(function)
    plain, taken, signature = Plain(module, imports), function.args, inspect.signature(value)
    for each in (*taken.args, *taken.kwonlyargs):
        each.annotation = each.annotation and plain.visit(each.annotation)
    taken.defaults = [_default(signature, each.arg) for each in taken.args[len(taken.args) - len(taken.defaults) :]]
    taken.kw_defaults = [
        each and _default(signature, name.arg) for each, name in zip(taken.kw_defaults, taken.kwonlyargs, strict=True)
    ]
    returned = function.returns and plain.visit(function.returns)
    text = ast.get_docstring(function, clean=False)
    body: list[ast.stmt] = [ast.Expr(ast.Constant(said)) for said in (text, ...) if said is not None]
    kept = [each for each in function.decorator_list if ast.unparse(each) == "property"]
    return ast.FunctionDef(function.name, taken, body, kept, returned, lineno=1)


def _default(signature: inspect.Signature, name: str) -> ast.expr:
    value = signature.parameters[name].default
    return ast.Constant(value if isinstance(value, str | int | float | None) else ...)


def members(verbs: type, imports: dict[str, str]) -> Iterator[str]:
    """The public attributes and methods of a class, each from the base that has the last word."""
    seen: set[str] = set()
    for cls in verbs.__mro__[:-1]:
        classes = {each.name: each for each in parsed(cls.__module__).body if isinstance(each, ast.ClassDef)}
        for node in classes[cls.__name__].body:
            if isinstance(node, ast.AnnAssign):
                hint = Plain(cls.__module__, imports).visit(node.annotation)
                yield f"{ast.unparse(node.target)}: {ast.unparse(hint)}"
            elif isinstance(node, Function) and not node.name.startswith("_") and node.name not in seen:
                seen.add(node.name)
                value = inspect.getattr_static(cls, node.name)
                yield ast.unparse(called(node, getattr(value, "fget", value), cls.__module__, imports))


def opener(imports: dict[str, str]) -> str:
    """`open_memory_sync` with the parameters of `open_memory`."""
    module = bootstrap.__name__
    functions = {each.name: each for each in parsed(module).body if isinstance(each, Function)}
    function = deepcopy(functions["_open"])
    function.returns = None  # it would be imported
    made = called(function, bootstrap._open, module, imports)
    made.name, made.returns = blocking.open_memory_sync.__name__, ast.Name("BlockingMemory")
    made.body = [ast.Expr(ast.Constant(blocking.open_memory_sync.__doc__)), *made.body]
    return ast.unparse(made)


def written() -> str:
    """The text of the stub."""
    imports = {"Self": "typing"}
    methods = [*members(Memory, imports), BLOCK]
    function = opener(imports)
    of: defaultdict[str, list[str]] = defaultdict(list)
    for name, module in imports.items():
        of[module].append(name)
    lines = [f"import {name}" for name in of.pop("", [])]
    lines += [f"from {module} import {', '.join(names)}" for module, names in of.items()]
    body = "\n".join([f'"""{blocking.BlockingMemory.__doc__}"""', *methods]).replace("\n", "\n    ")
    return _formatted(f"{HEADER}\n\n" + "\n".join(lines) + f"\n\nclass BlockingMemory:\n    {body}\n\n{function}\n")


def _formatted(text: str) -> str:
    for command in (["check", "--select", "I", "--fix", "--exit-zero", "--quiet"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> int:
    text = written()
    if "--check" in sys.argv:
        return int(not STUB.exists() or STUB.read_text() != text)
    STUB.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
