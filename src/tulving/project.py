"""The project around a working directory: its settings and its store, as far as the user trusts the folder.

A cloned repository may contain both. Until its folder is trusted, neither decides where memory goes, which tenant it
belongs to or what an agent is told; an untrusted file may only set what is in `HARMLESS`.
"""

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tulving import trust
from tulving.errors import ConfigError

FILES = ("tulving.toml", "butler.toml")
STORE_FOLDER = ".tulving"
DATABASE = "memory.db"
HARMLESS = frozenset({"retrieval"})
MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Ignored:
    """What is ignored in an untrusted folder: some settings of a file, or a store."""

    path: str
    settings: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        names = [_on_one_line(name)[:40] for name in self.settings[:MOST_NAMED]]
        more = ["..."] if len(self.settings) > MOST_NAMED else []
        return (f"{', '.join(names + more)} in " if names else "") + _on_one_line(self.path)


@dataclass(frozen=True, slots=True)
class Settings:
    """A settings file as it was read: the values come from the bytes that were hashed."""

    path: Path
    sha256: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Project:
    """What applies of the settings and stores in a working directory and above it, and what is ignored."""

    settings_file: Path | None
    values: Mapping[str, Any]
    database: Path | None
    ignored: tuple[Ignored, ...]

    @property
    def warning(self) -> str | None:
        """What was ignored and why, on one line."""
        if not self.ignored:
            return None
        reasons = dict.fromkeys(each.reason for each in self.ignored)
        said = [
            f"{' and '.join(str(each) for each in self.ignored if each.reason == reason)}: {reason}"
            for reason in reasons
        ]
        return f"ignored {'; '.join(said)}"


def find(folder: Path, record: Path) -> Project:
    """The nearest trusted settings file and the nearest trusted store, in a folder or above it.

    Where no settings file is trusted, the harmless part of the nearest one applies.
    """
    chosen: Settings | None = None
    untrusted: list[tuple[Settings, str]] = []
    database: Path | None = None
    ignored: list[Ignored] = []
    folders = (folder.absolute(), *folder.absolute().parents)
    places = [place for place in folders if settings_in(place) or (place / STORE_FOLDER).is_dir()]
    trusted = trust.read(record) if places else {}
    for place in places:
        file, store, key = settings_in(place), place / STORE_FOLDER, trust.key(place)
        advice = f"if it is yours, run: tulving trust {_on_one_line(shlex.quote(str(place)))}"
        if file is not None and chosen is None:
            settings = read_settings(file)
            if trusted.get(key) == settings.sha256:
                chosen = settings
            else:
                reason = "it is not the file that was trusted" if key in trusted else "the folder is not trusted"
                untrusted.append((settings, f"{reason}; {advice}"))
        if database is None and (store.is_dir() or (place / FILES[0]).is_file()):
            if key in trusted:
                database = store / DATABASE
            elif store.is_dir():
                ignored.append(Ignored(str(store), (), f"the folder is not trusted; {advice}"))
    values = chosen.values if chosen else {}
    if chosen is None and untrusted:
        chosen = untrusted[0][0]
        values = {name: value for name, value in chosen.values.items() if name in HARMLESS}
    for settings, reason in untrusted:
        names = settings.values.keys() - (HARMLESS if settings is chosen else ())
        if names:
            ignored.append(Ignored(str(settings.path), tuple(sorted(names)), reason))
    return Project(chosen.path if chosen else None, values, database, tuple(ignored))


def _on_one_line(text: str) -> str:
    """A name from an untrusted folder, safe to print and to log: escaped if it holds control characters."""
    return text if text.isprintable() else repr(text)


def settings_in(folder: Path) -> Path | None:
    """The settings file of a folder."""
    return next((folder / name for name in FILES if (folder / name).is_file()), None)


def read_settings(path: Path) -> Settings:
    """What a settings file says; from a host's `butler.toml`, its table `[modules.memory]`."""
    content = path.read_bytes()
    try:
        values: Any = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), f"is not valid TOML ({error})") from error
    if path.name == "butler.toml":
        for name in ("modules", "memory"):
            values = values.get(name, {})
            if not isinstance(values, Mapping):
                raise ConfigError(str(path), f"{name} must be a table")
    return Settings(path, trust.digest(content), values)
