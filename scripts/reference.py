"""The reference pages, made from the code: library, tools, routes, commands, settings, events and errors.

They are made whenever the site is built (`scripts/site_pages.py`): never out of date, never edited. To read
them without the site, write them to a folder: `python scripts/reference.py FOLDER`.

Whatever has no description is listed by `undescribed`, which a test holds to be empty.
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, is_typeddict

import event_kinds

import tulving
from tulving import errors as error_classes
from tulving import settings as setting_classes
from tulving.config import _TABLES
from tulving.domain.messages import TOPIC_OF
from tulving.errors import TulvingError
from tulving.interfaces import parameters
from tulving.interfaces.blocking import BlockingMemory
from tulving.interfaces.cli.commands import application
from tulving.interfaces.http import openapi
from tulving.interfaces.http.shapes import SCENARIOS
from tulving.services.operations import OPERATIONS, Operation, offered
from tulving.settings import MemoryModuleConfig

DOCS = Path(__file__).parent.parent / "docs"
MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")
SETTING_ROW = re.compile(r"^\| ((?:`[\w.]+`(?:, )?)+) \| .*? \| (.+) \|$", re.MULTILINE)
EFFECTS = {
    "read": "reads",
    "write": "writes",
    "destroy": "destroys",
    "review": "is for people only",
    "admin": "is for administrators",
}
FACES = {
    "Memory": "memory",
    "Administration": "administration",
    "BlockingMemory": "memory",
    "MemoryModule": "module",
    "ToolRunner": "runner",
}
"""How a class with verbs is called in the reference's signatures."""
FIRST = ("open_memory", "open_memory_sync", "Memory", "BlockingMemory")
"""What most readers look for; the other public names follow in their order."""

undescribed: list[str] = []
"""What the last call of `pages` found without a description."""


def pages() -> dict[str, str]:
    """The pages by their names in the site."""
    undescribed.clear()
    makers: Sequence[Callable[[], str]] = (library, tools, http, commands, settings, events, errors)
    return {f"reference/{make.__name__}.md": make() for make in makers}


# Library


def library() -> str:
    """Every public name of the package."""
    public = {name: getattr(tulving, name) for name in tulving.__all__}
    public.setdefault("BlockingMemory", BlockingMemory)
    public = {name: public[name] for name in dict.fromkeys([*FIRST, *public])}
    shown = {name: each for name, each in public.items() if not _is_error(each)}
    functions = {name: each for name, each in shown.items() if inspect.isroutine(each)}
    types = {name: each for name, each in shown.items() if not inspect.isclass(each) and name not in functions}
    records = {name: each for name, each in shown.items() if is_dataclass(each) or is_typeddict(each)}
    classes = {name: each for name, each in shown.items() if name not in {*functions, *types, *records}}
    lines = [
        "# Library",
        "",
        "Every public name of `tulving`, made from the code. The verbs are asynchronous; `open_memory_sync` gives the "
        "same verbs as plain calls. [Errors](errors.md) and [settings](settings.md) have pages of their own.",
    ]
    lines += ["", "## Functions"]
    for name, each in functions.items():
        lines += ["", f"### {name}", "", *_callable(f"tulving.{name}", name, each)]
    for name, each in classes.items():
        lines += ["", f"## {name}", "", _text(f"tulving.{name}", each)]
        for method, found in _methods(each):
            lines += ["", f"### {name}.{method}", ""]
            title = f"{FACES.get(name, name)}.{method}"
            if isinstance(found, property):
                lines += [_text(f"{name}.{method}", found), ""]
            else:
                lines += _callable(f"{name}.{method}", title, getattr(each, method))
    lines += ["", "## Records", "", "What verbs take and return."]
    for name, each in records.items():
        lines += ["", f"### {name}", "", _text(f"tulving.{name}", each), "", *_record(each)]
    if types:
        lines += ["", "## Types", "", "Short names for what parameters may be."]
    for name, each in types.items():
        lines += ["", f"### {name}", "", _code(_type(each))]
    return _page(lines)


def _is_error(each: Any) -> bool:
    return inspect.isclass(each) and issubclass(each, BaseException)


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name in sorted(set(dir(cls)) - set(dir(object))):
        found = inspect.getattr_static(cls, name)
        if not name.startswith("_") and (inspect.isroutine(found) or isinstance(found, property)):
            yield name, found


def _callable(name: str, title: str, function: Any) -> list[str]:
    lines = ["```python", _signature(title, function), "```", "", _text(name, function)]
    described = _described(function)
    if described:
        lines += ["", "| Parameter | Meaning |", "|---|---|"]
        lines += [f"| `{parameter}` | {_cell(meaning)} |" for parameter, meaning in described.items()]
    return lines


def _signature(title: str, function: Any) -> str:
    signature = inspect.signature(function)
    shown = [_parameter(each) for each in signature.parameters.values() if each.name != "self"]
    kinds = [each.kind for each in signature.parameters.values() if each.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = "" if signature.return_annotation is inspect.Signature.empty else signature.return_annotation
    arrow = f" -> {_type(returned)}" if returned != "" else ""
    start = "await " if inspect.iscoroutinefunction(inspect.unwrap(function)) else ""
    line = f"{start}{title}({', '.join(shown)}){arrow}"
    return line if len(line) <= 90 else f"{start}{title}(\n" + "".join(f"    {each},\n" for each in shown) + f"){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {_type(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        default = getattr(parameter.default, "__name__", None) or repr(parameter.default)
        text += " = ..." if default.startswith("<") else f" = {default}"
    return text


def _type(hint: Any) -> str:
    """A type as it would be written in code, without modules."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if isinstance(hint, str):
        return MODULES.sub("", hint)
    if inspect.isclass(hint) and not get_args(hint):
        return hint.__name__
    return re.sub(r"Annotated\[(.*), '[^']*'\]", r"\1", MODULES.sub("", str(hint))).replace("NoneType", "None")


def _described(function: Any) -> dict[str, str]:
    """The parameters that say what they are for."""
    taken = inspect.signature(function).parameters.values()
    return {each.name: str(get_args(each.annotation)[1]) for each in taken if get_origin(each.annotation) is Annotated}


def _record(cls: Any) -> list[str]:
    if is_typeddict(cls):
        return [
            "| Key | Type |",
            "|---|---|",
            *(f"| `{key}` | {_code(_type(hint))} |" for key, hint in cls.__annotations__.items()),
        ]
    lines = ["| Field | Type | Default |", "|---|---|---|"]
    lines += [f"| `{each.name}` | {_code(_type(each.type))} | {_default(each)} |" for each in fields(cls)]
    for name, found in _methods(cls):
        shown = f"`{name}`" if isinstance(found, property) else f"`{name}()`"
        lines += ["", f"{shown}: {_text(f'{cls.__name__}.{name}', found)}"]
    return lines


def _default(each: Field[Any]) -> str:
    if each.default is not MISSING:
        return _code(each.default if each.default == "" else _plain(each.default))
    if each.default_factory is not MISSING:
        return _code(_plain(each.default_factory()))
    return "required"


# Tools


def tools() -> str:
    """Every MCP tool: when it is offered, what it does, what it takes."""
    sets = _allowed(MemoryModuleConfig, "tools").split(", ")
    lines = [
        "# Tools",
        "",
        "The tools of the MCP server, made from the code. The setting `tools` says which set is offered: "
        + ", ".join(f"`{name}` ({len(offered(name))} tools)" for name in sets)
        + ". Each set has the tools of those before it. The same calls can be made [in plain text](../tool-text.md). "
        "Those for people are not offered to models: programs call them [over HTTP](../http.md).",
        "",
        "| Tool | Set | |",
        "|---|---|---|",
    ]
    for name, each in sorted(OPERATIONS.items()):
        within = next((set_ for set_ in sets if name in offered(set_)), "for people")
        lines.append(f"| [`{name}`](#{name}) | {within} | {_cell(_first(parameters.describe(each)))} |")
    for name, each in sorted(OPERATIONS.items()):
        lines += ["", f"## {name}", "", *_tool(name, each)]
    return _page(lines)


def _tool(name: str, each: Operation) -> Iterator[str]:
    about = _clean(parameters.describe(each))
    if not about:
        undescribed.append(f"tool {name}")
    command = f" On the command line: `tulving {each.command}`." if each.command else ""
    face = "Administration" if each.effect == "admin" else "Memory"
    again = " Calling it again with the same arguments changes nothing more." if each.idempotent else ""
    yield f"{about}\n\n*It {EFFECTS[each.effect]}.{again}*{command} In Python: `{FACES[face]}.{each.name}`."
    taken = parameters.parameters(each)
    if not taken:
        yield "\nIt takes no parameters."
        return
    yield "\n| Parameter | Type | Default | Meaning |\n|---|---|---|---|"
    for parameter in taken:
        schema: Mapping[str, Any] = parameter.schema
        if not schema.get("description"):
            undescribed.append(f"tool {name}, parameter {parameter.name}")
        default = "required" if parameter.required else _code(_plain(schema["default"])) if "default" in schema else ""
        cells = (f"`{parameter.name}`", _json_type(schema), default, _cell(str(schema.get("description", ""))))
        yield f"| {' | '.join(cells)} |"


def _json_type(schema: Mapping[str, Any]) -> str:
    inner = schema.get("items", {})
    kind = f"list of {inner.get('type', 'values')}" if schema.get("type") == "array" else schema.get("type", "any")
    words = schema.get("enum") or inner.get("enum")
    notes = [f"one of {', '.join(f'`{word}`' for word in words)}"] if words else []
    notes += [schema["format"]] if "format" in schema else []
    for name, text in {"minimum": "at least", "maximum": "at most", "maxLength": "at most, in characters,"}.items():
        notes += [f"{text} {schema[name]}"] if name in schema else []
    return _cell("; ".join((str(kind), *notes)))


# HTTP


def http() -> str:
    """Every route of the HTTP API."""
    document = openapi.document()
    lines = [
        "# HTTP",
        "",
        "Every route of the [HTTP API](../http.md), made from the code. Where a route is a tool, the page of the "
        "[tools](tools.md) has its parameters; the [OpenAPI document](../openapi.json) has everything, with examples. "
        "A route with a key takes an `Idempotency-Key`.",
    ]
    tools = {f"{each.http}{end}": each.tool for each in OPERATIONS.values() for end in ("", "/batch")}
    routes = [(path, *each) for path, methods in document["paths"].items() for each in methods.items()]
    for tag in document["tags"]:
        lines += ["", f"## {tag['name']}", "", tag["description"], ""]
        lines += ["| Route | | Right | Key | Tool |", "|---|---|---|---|---|"]
        for path, method, each in routes:
            if each["tags"] != [tag["name"]]:
                continue
            route = f"{method.upper()} {path}"
            if not each["summary"]:
                undescribed.append(f"route {route}")
            right = each["security"][0]["bearer"][0] if each["security"] else "none"
            headers = [header.get("$ref", "").rpartition("/")[2] for header in each["parameters"]]
            key = "yes" if "Idempotency-Key" in headers else ""
            tool = f"[`{tools[route]}`](tools.md#{tools[route]})" if route in tools else ""
            lines.append(f"| `{route}` | {_cell(_clean(each['summary']))} | {right} | {key} | {tool} |")
    return _page(lines)


# Commands


def commands() -> str:
    """Every command of the command line, with its arguments and options."""
    app: Any = application()
    lines = [
        "# Commands",
        "",
        "Every command of `tulving`, made from the code. `tulving COMMAND --help` prints the same.",
        "",
        "## Options of all commands",
        "",
        "They come before the command: `tulving --tenant acme recall tea`.",
        "",
        *_command_options("tulving", app),
    ]
    for path, command in _commands(app):
        if getattr(command, "commands", None) and not command.params:
            lines += ["", f"## {path}", "", _command_text(path, command)]
        else:
            lines += ["", f"## {path}", "", _command_text(path, command), "", *_command_options(path, command)]
    return _page(lines)


def _commands(group: Any, path: str = "tulving") -> Iterator[tuple[str, Any]]:
    for name in group.commands:
        command = group.commands[name]
        if getattr(command, "hidden", False):
            continue
        yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")


def _command_text(path: str, command: Any) -> str:
    text = _clean(command.help or "")
    if not text:
        undescribed.append(f"command {path}")
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    if not arguments:
        return text
    names = [each.metavar or each.name.upper() for each in arguments]
    shown = (name if each.required else f"[{name}]" for name, each in zip(names, arguments, strict=True))
    return f"{text}\n\n```text\n{path} {' '.join(shown)}\n```"


def _command_options(path: str, command: Any) -> list[str]:
    lines = []
    for each in command.params:
        if getattr(each, "hidden", False) or each.name == "help":
            continue
        if not each.help:
            undescribed.append(f"command {path}, {each.name}")
        named = each.param_type_name == "argument"
        name = (each.metavar or each.name.upper()) if named else ", ".join((*each.opts, *each.secondary_opts))
        value = "" if named or getattr(each, "is_flag", False) else _code(each.metavar or "TEXT")
        lines.append(f"| {_code(name)} | {value} | {_cell(each.help or '')} |")
    return ["| Argument or option | Value | |", "|---|---|---|", *lines] if lines else ["It takes no options."]


# Settings


def settings() -> str:
    """Every setting: its type, default, environment variable and what is allowed."""
    written = meanings_of_settings()
    lines = [
        "# Settings",
        "",
        "Every setting, made from the code; [Configuration](../configuration.md) says where settings come from and "
        "explains the larger subjects.",
    ]
    for prefix, cls in {"": MemoryModuleConfig, **{f"{name}.": table for name, table in _TABLES.items()}}.items():
        title = f"[{prefix[:-1]}]" if prefix else "At the top of the file"
        lines += ["", f"## {title}", "", _text(f"table {prefix}", cls), ""]
        lines += ["| Setting | Type | Default | Allowed | Variable |", "|---|---|---|---|---|"]
        notes = []
        for each in fields(cls):
            if f"{prefix}{each.name}" in _TABLES:
                continue
            name = f"{prefix}{each.name}"
            variable = f"TULVING_{name.replace('.', '__').upper()}"
            allowed = _cell(_allowed(cls, name))
            lines.append(f"| `{each.name}` | {_code(_type(each.type))} | {_default(each)} | {allowed} | `{variable}` |")
            if name not in written:
                undescribed.append(f"setting {name}: no row in docs/configuration.md")
            notes += ["", f"`{name}`", f":   {written.get(name, '')}"]
        lines += notes
    return _page(lines)


def meanings_of_settings() -> dict[str, str]:
    """What docs/configuration.md says about each setting. Its links lead from there, so they are adapted."""
    text = re.sub(r"\]\((?!https?:)(#?)", lambda at: f"](../{'configuration.md#' if at[1] else ''}", _configuration())
    rows = ((re.findall(r"`([\w.]+)`", names), meaning) for names, meaning in SETTING_ROW.findall(text))
    return {name: meaning.strip() for names, meaning in rows for name in names}


def _configuration() -> str:
    return (DOCS / "configuration.md").read_text()


def _allowed(cls: type, name: str) -> str:
    """What the check of a setting says is allowed, asked by making the settings with a check that listens."""
    heard: dict[str, str] = {}
    check = setting_classes._check
    setting_classes._check = lambda name, fine, allowed: heard.setdefault(name, allowed) and None
    try:
        cls()
    finally:
        setting_classes._check = check
    return heard.get(name, "")


# Events and errors


def events() -> str:
    """Every kind of audit event."""
    written, meanings = event_kinds.written(), event_kinds.meanings()
    lines = [
        "# Audit events",
        "",
        "Every change writes an event in its own transaction, with `event_type`, `entity_type`, `entity_id`, "
        "`occurred_at`, `actor`, `request_id`, `run_id` and a `payload` of ids, hashes and numbers, never content. "
        "This list is made from the code. Those with a topic are also messages of the [event bus](../events.md).",
        "",
        "| Event | Means | Payload | Topic |",
        "|---|---|---|---|",
    ]
    for kind, each in sorted(written.items()):
        if kind not in meanings:
            undescribed.append(f"event {kind}: no meaning in scripts/event_kinds.py")
        keys = ", ".join(f"`{key}`" for key in sorted(each.keys)) + (", and more" if each.more and each.keys else "")
        keys = keys or ("depends on the change" if each.more else "")
        topic = f"`{TOPIC_OF[kind]}`" if kind in TOPIC_OF else ""
        lines.append(f"| `{kind}` | {meanings.get(kind, '')} | {keys} | {topic} |")
    undescribed.extend(f"event {kind}: nothing writes it" for kind in meanings if kind not in written)
    return _page(lines)


def errors() -> str:
    """Every error that is raised on purpose."""
    lines = [
        "# Errors",
        "",
        "Every error that Tulving raises on purpose, made from the code. Each is also the builtin that a caller would "
        "expect, so `except ValueError` works without importing Tulving. Causes and cures are in "
        "[Troubleshooting](../troubleshooting.md).",
        "",
        "```text",
        *_tree(TulvingError),
        "```",
    ]
    for each in _family(TulvingError):
        builtin = next(base.__name__ for base in each.__mro__ if base.__module__ == "builtins")
        also = "" if builtin == "Exception" else f" Also a builtin `{builtin}`."
        lines += ["", f"## {each.__name__}", "", f"{_text(each.__name__, each)}{also}"]
        signature = inspect.signature(each.__init__)
        if "__init__" in vars(each):
            shown = [_parameter(one) for one in signature.parameters.values() if one.name != "self"]
            lines += ["", f"Carries {', '.join(f'`{one}`' for one in shown)}."]
    return _page(lines)


def _family(cls: type) -> Iterator[type]:
    yield cls
    for each in cls.__subclasses__():
        if each.__module__ == error_classes.__name__:
            yield from _family(each)


def _tree(cls: type, indent: str = "") -> Iterator[str]:
    yield f"{indent}{cls.__name__}"
    for each in cls.__subclasses__():
        if each.__module__ == error_classes.__name__:
            yield from _tree(each, f"{indent}    ")


# Text


def _text(name: str, each: Any) -> str:
    """The docstring, without the numbers of scenarios, which mean nothing to a user."""
    text = _clean(inspect.getdoc(each) or "")
    if not text:
        undescribed.append(name)
    return text


def _clean(text: str) -> str:
    text = SCENARIOS.sub("", inspect.cleandoc(text)).strip()
    return text[:1].upper() + text[1:]


def _first(text: str) -> str:
    return re.split(r"(?<=[.;])\s", _clean(text), maxsplit=1)[0].rstrip(";.")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""  # a bar needs no escape there


def _plain(value: Any) -> str:
    if isinstance(value, str | int | float | None.__class__):
        return "none" if value is None else str(value) if isinstance(value, str) else json.dumps(value)
    return json.dumps(value, default=str) if isinstance(value, dict | list | tuple) else str(value)


def _page(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/reference.py FOLDER")
    for name, text in pages().items():
        file = Path(sys.argv[1]) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    sys.exit("\n".join(f"no description: {name}" for name in undescribed) or None)
