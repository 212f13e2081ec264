"""`tulving config`: the settings in effect, and where each comes from."""

import os
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any

import typer

from tulving.config import NOT_SETTINGS, data_directory, find_project, load_config
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import print_json, table
from tulving.interfaces.wire import wire
from tulving.services.health import embedder_problems
from tulving.settings import MemoryModuleConfig


def config(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the settings in effect, and where each comes from."""
    from tulving.embedders import choose_embedder
    from tulving.location import is_postgres, store_name

    effective, project = context.obj.config(), find_project()
    file, homes = project.settings_file, {name: os.environ[name] for name in NOT_SETTINGS if name in os.environ}
    layers = (
        ("option", _flat(effective)),
        ("environment", _flat(load_config())),
        (str(file), _flat(load_config(environ=homes))),
        ("default", _flat(MemoryModuleConfig())),
    )
    shown = _flat(effective)
    if is_postgres(effective.url):
        shown["url"] = store_name(effective.url)  # without its password
    places = {
        "settings_file": None if file is None else str(file),
        "store": store_name(effective.url),
        "data_directory": str(data_directory()),
        "embedder": "; ".join(embedder_problems(choose_embedder(effective))) or "ready",
    }
    if as_json:
        settings = [{"setting": name, "value": value, "source": _source(name, layers)} for name, value in shown.items()]
        print_json({**places, "ignored": wire(project.ignored), "settings": settings})
        return
    rows = [(name.replace("_", " "), value or "none") for name, value in places.items()]
    table([*rows, *(("ignored", f"{each}: {each.reason}") for each in project.ignored)])
    typer.echo()
    rows = [(name, _shown(value), _source(name, layers)) for name, value in shown.items()]
    table(rows, ("setting", "value", "from"), {"default": "dim"})


def _flat(record: Any, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        flat |= _flat(value, f"{field.name}.") if is_dataclass(value) else {prefix + field.name: value}
    return flat


def _source(name: str, layers: tuple[tuple[str, dict[str, Any]], ...]) -> str:
    """The layer without which the value would be another one."""
    for (source, here), (_, below) in pairwise(layers):
        if here[name] != below[name]:
            return source
    return layers[-1][0]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part:g}" for name, part in value.items())
    return "none" if value is None else str(value)
