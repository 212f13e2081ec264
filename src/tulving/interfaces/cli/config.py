"""`tulving config`: the settings in effect, and where each comes from."""

from typing import Any

import typer

from tulving.config import data_directory, find_project
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import print_json, table
from tulving.interfaces.effective_settings import effective_settings
from tulving.interfaces.wire import wire
from tulving.services.health import embedder_problems


def config(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the settings in effect, and where each comes from."""
    from tulving.embedders import choose_embedder
    from tulving.location import store_name

    effective, project = context.obj.config(), find_project()
    file, settings = project.settings_file, effective_settings(effective)
    places = {
        "settings_file": None if file is None else str(file),
        "store": store_name(effective.url),
        "data_directory": str(data_directory()),
        "embedder": "; ".join(embedder_problems(choose_embedder(effective))) or "ready",
    }
    if as_json:
        print_json({**places, "ignored": wire(project.ignored), "settings": wire(settings)})
        return
    rows = [(name.replace("_", " "), value or "none") for name, value in places.items()]
    table([*rows, *(("ignored", f"{each}: {each.reason}") for each in project.ignored)])
    typer.echo()
    rows = [(each.setting, _shown(each.value), each.source) for each in settings]
    table(rows, ("setting", "value", "from"), {"default": "dim"})


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part:g}" for name, part in value.items())
    return "none" if value is None else str(value)
