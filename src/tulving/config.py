"""Settings, by precedence: values passed in code, the environment, the project's file, the defaults.

The file is `tulving.toml`, or the table `[modules.memory]` of `butler.toml`, found in the working directory or above
it, in a trusted folder (`project.py`). In the environment a setting is `TULVING_` and its name, with two underscores
for nesting: `TULVING_RETRIEVAL__DEFAULT_LIMIT=30`.
"""

import logging
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tulving.errors import ConfigError
from tulving.project import DATABASE, Project, find
from tulving.settings import (
    NUMBERS,
    BridgeConfig,
    ConflictsConfig,
    EndpointConfig,
    HooksConfig,
    HttpConfig,
    JwtConfig,
    LearningConfig,
    LlmConfig,
    LogsConfig,
    MemoryModuleConfig,
    MetricsConfig,
    OnnxConfig,
    PostgresConfig,
    RerankerConfig,
    RetrievalConfig,
    ScheduleConfig,
    SecretsConfig,
    TimelineConfig,
    ToolTextConfig,
    VectorsConfig,
    WritesConfig,
)

log = logging.getLogger("tulving")


def load_config(
    folder: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
) -> MemoryModuleConfig:
    """The settings for a working directory; `overrides` that are not None take precedence over everything."""
    values = find_project(folder, environ).values
    values = _merge(values, _from_environment(os.environ if environ is None else environ))
    return parse(_merge(values, {name: value for name, value in overrides.items() if value is not None}))


def own_config() -> MemoryModuleConfig:
    """The settings of this process, for code that was passed none; settings files that are ignored are logged."""
    if warning := find_project().warning:
        log.warning("%s", warning)
    return load_config()


def find_project(folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Project:
    """The settings and the store that apply to a working directory, found in it or above it."""
    return find(folder or Path.cwd(), trust_record(environ))


def find_database(folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """The database used without a URL: that of the trusted project, else the user's."""
    return find_project(folder, environ).database or data_directory(environ) / DATABASE


def trust_record(environ: Mapping[str, str] | None = None) -> Path:
    """The file that lists the trusted folders."""
    return data_directory(environ) / "trusted.json"


def data_directory(environ: Mapping[str, str] | None = None) -> Path:
    """The user's directory for weights and for memory outside any project."""
    if home := (os.environ if environ is None else environ).get("TULVING_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_data_path

    return user_data_path("tulving")


def parse(values: Mapping[str, Any]) -> MemoryModuleConfig:
    """Settings from plain values, each checked; an unknown name is an error."""
    given = dict(values)
    tables = {name: _table(name, cls, given.pop(name)) for name, cls in _TABLES.items() if given.get(name) is not None}
    return MemoryModuleConfig(**_typed(MemoryModuleConfig, given, ""), **tables)


_TABLES = {
    "retrieval": RetrievalConfig,
    "postgres": PostgresConfig,
    "schedule": ScheduleConfig,
    "http": HttpConfig,
    "jwt": JwtConfig,
    "endpoint": EndpointConfig,
    "onnx": OnnxConfig,
    "reranker": RerankerConfig,
    "llm": LlmConfig,
    "learning": LearningConfig,
    "conflicts": ConflictsConfig,
    "tool_text": ToolTextConfig,
    "timeline": TimelineConfig,
    "bridge": BridgeConfig,
    "vectors": VectorsConfig,
    "writes": WritesConfig,
    "secrets": SecretsConfig,
    "hooks": HooksConfig,
    "logs": LogsConfig,
    "metrics": MetricsConfig,
}


def _table(name: str, cls: type, values: Any) -> Any:
    if isinstance(values, cls):
        return values
    if not isinstance(values, Mapping):
        raise ConfigError(name, "must be a table")
    return cls(**_typed(cls, values, f"{name}."))


def _typed(cls: type, values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    kinds = {field.name: str(field.type) for field in fields(cls) if field.name not in _TABLES}
    if unknown := sorted(set(values) - set(kinds)):
        raise ConfigError(prefix + unknown[0], _unknown(unknown[0], kinds), ", ".join(kinds))
    return {name: _value(prefix + name, kinds[name], value) for name, value in values.items()}


def _value(name: str, kind: str, value: Any) -> Any:
    """A value of the declared type; numbers and `none` are parsed from text, because the environment has only text."""
    if value is None or (isinstance(value, str) and value.lower() == "none"):
        if "None" in kind:
            return None
        raise ConfigError(name, "can't be none")
    if "Mapping" in kind:
        if isinstance(value, Mapping) and all(_is_number(part) for part in value.values()):
            return dict(value)
        raise ConfigError(name, "must be a table of numbers")
    if "Sequence" in kind:
        try:
            given = shlex.split(value) if isinstance(value, str) else value
        except ValueError as error:
            raise ConfigError(name, f"can't be read as shell words: {error}") from None
        if isinstance(given, list | tuple) and all(isinstance(part, str) for part in given):
            return tuple(given)
        raise ConfigError(name, "must be a list of texts")
    if "bool" in kind:
        given = _FLAGS.get(str(value).lower())
        if given is None:
            raise ConfigError(name, f"{value!r:.80} is neither true nor false", "true, false")
        return given
    for word, cast in (("int", int), ("float", float)):
        if word in kind:
            try:
                if isinstance(value, str) or (_is_number(value) and cast(value) == value):
                    return cast(value)
            except ValueError:
                pass
            raise ConfigError(name, f"{value!r:.80} is not a number", "a whole number" if cast is int else "a number")
    if not isinstance(value, str):
        raise ConfigError(name, f"must be text, not {type(value).__name__}")
    return value


_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


NOT_SETTINGS = ("TULVING_HOME", "TULVING_WEIGHTS", "TULVING_TOKEN")
"""Variables that are no settings: they are read before the settings are loaded, or by `tulving top`."""
_OTHERS = ("TULVING_TEST_", "TULVING_BENCH_")


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """`TULVING_*` as nested values. Unknown names are refused: a typo that is ignored could open another memory."""
    known = set(_variables())
    values: dict[str, Any] = {}
    for name, text in environ.items():
        if not name.startswith("TULVING_") or name in NOT_SETTINGS or name.startswith(_OTHERS) or not text:
            continue
        if name not in known:
            problem = _unknown(name, (*known, *NOT_SETTINGS), "TULVING_")
            raise ConfigError(name, problem, "the variables in docs/configuration.md")
        path = name.removeprefix("TULVING_").lower().split("__")
        place = values
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = float(text) if len(path) == 3 and _reads_as_number(text) else text
    return values


def _variables() -> Iterator[str]:
    """The environment variables of all settings; for a table of numbers, one for each entry."""
    for cls, prefix in ((MemoryModuleConfig, ""), *((cls, f"{name}__") for name, cls in _TABLES.items())):
        for each in fields(cls):
            if each.name not in _TABLES:
                inner = [f"__{part}" for part in NUMBERS.get(each.name, ())] or [""]
                yield from (f"TULVING_{prefix}{each.name}{part}".upper() for part in inner)


def _unknown(name: str, known: Iterable[str], prefix: str = "") -> str:
    """A message that a name is not a setting, with the most similar one; their common prefix is not compared."""
    from difflib import get_close_matches

    alike = get_close_matches(name.removeprefix(prefix), sorted(each.removeprefix(prefix) for each in known), 1)
    return f"is not a setting (did you mean {prefix}{alike[0]}?)" if alike else "is not a setting"


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        inner = merged.get(name)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            value = _merge(inner, value)
        merged[name] = value
    return merged
