"""The effective settings, the source of each, and secrets masked."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from tulving.config import NOT_SETTINGS, find_project, load_config
from tulving.domain.screening import Screen
from tulving.location import is_postgres, store_name
from tulving.settings import MemoryModuleConfig

DOTS = "…"
_SECRET = re.compile(r"password|passwd|secret|token|key|signature", re.IGNORECASE)
_SCREEN = Screen()
Layers = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its name, its value with secrets masked, and its source."""

    setting: str
    value: Any
    source: str


def effective_settings(config: MemoryModuleConfig) -> list[Setting]:
    """The settings that a process uses, each with its source: an option, the environment, the settings file, or the
    defaults."""
    file, homes = find_project().settings_file, {name: os.environ[name] for name in NOT_SETTINGS if name in os.environ}
    layers = (
        ("option", _flat(config)),
        ("environment", _flat(load_config())),
        (str(file), _flat(load_config(environ=homes))),
        ("default", _flat(MemoryModuleConfig())),
    )
    return [
        Setting(
            name, store_name(value) if name == "url" and is_postgres(value) else shown(value), _source(name, layers)
        )
        for name, value in _flat(config).items()
    ]


def shown(value: Any) -> Any:
    """A value with what looks like a secret masked: keys, and the passwords in URLs."""
    match value:
        case str():
            return _SCREEN.text("", _without_password(value))[0]
        case Mapping():
            return {name: shown(part) for name, part in value.items()}
        case list() | tuple():
            return [shown(part) for part in value]
    return value


def _without_password(text: str) -> str:
    """A URL with its password and the secrets among its query parameters masked."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return DOTS
    who, at, host = parts.netloc.rpartition("@")
    user, colon, _ = who.partition(":")
    options = [
        f"{name}={DOTS}" if equal and _SECRET.search(unquote(name)) else f"{name}{equal}{value}"
        for name, equal, value in (each.partition("=") for each in parts.query.split("&"))
    ]
    return urlunsplit(parts._replace(netloc=f"{user}{colon and f':{DOTS}'}{at}{host}", query="&".join(options)))


def _flat(record: Any, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        flat |= _flat(value, f"{field.name}.") if is_dataclass(value) else {prefix + field.name: value}
    return flat


def _source(name: str, layers: Layers) -> str:
    """The highest layer that changes the value."""
    for (source, here), (_, below) in pairwise(layers):
        if here[name] != below[name]:
            return source
    return layers[-1][0]
