"""Settings, by precedence: values passed in code, the environment, the project's file, the defaults.

The file is `tulving.toml`, or the table `[modules.memory]` of `butler.toml`, found in the working directory or above
it, in a trusted folder (`project.py`). In the environment a setting is `TULVING_` and its name, with two underscores
for nesting: `TULVING_RETRIEVAL__DEFAULT_LIMIT=30`.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tulving.domain.context import SECTION_QUOTAS
from tulving.domain.ranking import FUSIONS, MODES, WEIGHTS
from tulving.errors import ConfigError
from tulving.project import DATABASE, Project, find
from tulving.providers import EMBEDDERS, POOLINGS

CRONS = {
    "consolidation": "0 */6 * * *",
    "decay_sweep": "0 3 * * *",
    "episode_cleanup": "0 4 * * *",
    "index_maintenance": "30 * * * *",
}


class _Unchosen(int):
    """A default that was not configured explicitly: the verbs' own defaults take precedence over it."""


@dataclass(frozen=True, slots=True)
class RetrievalConfig:
    """How memories are searched and shown. 001-097."""

    context_token_budget: int = 3000
    default_limit: int = _Unchosen(20)
    default_mode: str = "hybrid"
    fusion: str = "evidence"
    min_relevance: float = 0.0
    score_weights: Mapping[str, float] = field(default_factory=lambda: dict(WEIGHTS))
    section_quotas: Mapping[str, float] = field(default_factory=lambda: dict(SECTION_QUOTAS))

    def __post_init__(self) -> None:
        _check("retrieval.context_token_budget", self.context_token_budget >= 5, "5 or more")
        _check("retrieval.default_limit", 1 <= self.default_limit <= 1000, "1 to 1000")
        _check("retrieval.default_mode", self.default_mode in MODES, ", ".join(MODES))
        _check("retrieval.fusion", self.fusion in FUSIONS, ", ".join(FUSIONS))
        _check("retrieval.min_relevance", 0 <= self.min_relevance <= 1, "0 to 1")
        for name, known in (("score_weights", WEIGHTS), ("section_quotas", SECTION_QUOTAS)):
            given = getattr(self, name)
            if unknown := set(given) - set(known):
                raise ConfigError(f"retrieval.{name}", f"has unknown keys {sorted(unknown)}", ", ".join(known))
            _check(f"retrieval.{name}", all(0 <= part <= 1 for part in given.values()), "numbers from 0 to 1")
            object.__setattr__(self, name, {**known, **given})

    @property
    def configured_limit(self) -> int | None:
        """The limit if it was configured explicitly, else None."""
        return None if isinstance(self.default_limit, _Unchosen) else self.default_limit


@dataclass(frozen=True, slots=True)
class PostgresConfig:
    """How the PostgreSQL engine behaves."""

    pool_size: int = 10
    connect_timeout: float = 10.0
    statement_timeout: float = 60.0
    exact_rows: int = 10_000

    def __post_init__(self) -> None:
        _check("postgres.pool_size", 1 <= self.pool_size <= 1000, "1 to 1000")
        _check("postgres.connect_timeout", 0 < self.connect_timeout <= 3600, "more than 0, to 3600 seconds")
        _check("postgres.statement_timeout", 0 <= self.statement_timeout <= 86_400, "0 (none) to 86400 seconds")
        _check("postgres.exact_rows", self.exact_rows >= 0, "0 or more")


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """The limits of the HTTP server."""

    request_timeout: float = 30.0
    max_connections: int = 256
    max_connections_per_address: int | None = 64

    def __post_init__(self) -> None:
        _check("http.request_timeout", 0 < self.request_timeout <= 3600, "more than 0, to 3600 seconds")
        _check("http.max_connections", 1 <= self.max_connections <= 10_000, "1 to 10000")
        each = self.max_connections_per_address
        _check("http.max_connections_per_address", each is None or 1 <= each <= 10_000, "1 to 10000, or none")


@dataclass(frozen=True, slots=True)
class ScheduleConfig:
    """When jobs run: cron expressions, in UTC. 001-121, 001-122."""

    consolidation: str | None = CRONS["consolidation"]
    decay_sweep: str | None = CRONS["decay_sweep"]
    episode_cleanup: str | None = CRONS["episode_cleanup"]
    index_maintenance: str | None = CRONS["index_maintenance"]
    background: bool = True
    lease: float = 120.0

    def __post_init__(self) -> None:
        _check("schedule.lease", 1 <= self.lease <= 86_400, "1 to 86400 seconds")
        for name, text in self.crons().items():
            if text is not None and text != CRONS[name]:  # the defaults are valid, and the parser is slow to import
                _check_cron(f"schedule.{name}", text)

    def crons(self) -> dict[str, str | None]:
        """The cron expression of every job; None if it is switched off."""
        return {name: getattr(self, name) for name in CRONS}


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """The embedder behind an OpenAI-compatible endpoint."""

    url: str = ""
    model: str = ""
    key_variable: str | None = None
    batch_size: int = 64
    max_characters: int = 8000
    timeout: float = 30.0
    retries: int = 3
    query_prefix: str = ""
    document_prefix: str = ""

    def __post_init__(self) -> None:
        _check_service("endpoint", self)
        _check("endpoint.batch_size", 1 <= self.batch_size <= 2048, "1 to 2048")
        _check("endpoint.retries", 0 <= self.retries <= 10, "0 to 10")


@dataclass(frozen=True, slots=True)
class OnnxConfig:
    """The embedder in a folder. None: what the folder says."""

    folder: str = ""
    file: str | None = None
    pooling: str | None = None
    max_tokens: int | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None

    def __post_init__(self) -> None:
        absolute = not self.folder or Path(self.folder).expanduser().is_absolute()
        _check("onnx.folder", absolute, "an absolute path, or one that begins with ~")
        _check("onnx.pooling", self.pooling in (None, *POOLINGS), ", ".join(POOLINGS))
        _check("onnx.max_tokens", self.max_tokens is None or 8 <= self.max_tokens <= 131_072, "8 to 131072")


@dataclass(frozen=True, slots=True)
class RerankerConfig:
    """The reranker behind an HTTP endpoint, if any."""

    url: str = ""
    model: str = ""
    dialect: str = "cohere"
    key_variable: str | None = None
    depth: int = 30
    max_characters: int = 2000
    timeout: float = 10.0

    def __post_init__(self) -> None:
        _check_service("reranker", self)
        _check("reranker.dialect", self.dialect in ("cohere", "tei"), "cohere, tei")
        _check("reranker.depth", 1 <= self.depth <= 1000, "1 to 1000")


@dataclass(frozen=True, slots=True)
class MemoryModuleConfig:
    """All settings, each documented in docs/configuration.md."""

    url: str | None = None
    tenant: str = "default"
    actor: str | None = None
    embedder: str = "minilm"
    dimension: int | None = None
    episode_ttl_days: float | None = 7.0
    episode_grace_days: float | None = 7.0
    episode_max_entries: int = 10_000
    max_content_characters: int | None = None
    user_id: str | None = None
    household_id: str | None = None
    persona_id: str | None = None
    project: str | None = None
    scope: str | None = None
    tools: str = "standard"
    busy_timeout: float = 30.0
    vector_cache_mb: int = 256
    allowed_hosts: str | None = None
    allowed_origins: str | None = None
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    postgres: PostgresConfig = field(default_factory=PostgresConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    onnx: OnnxConfig = field(default_factory=OnnxConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)

    def __post_init__(self) -> None:
        _check("embedder", self.embedder in EMBEDDERS, ", ".join(EMBEDDERS))
        _check(
            "episode_ttl_days",
            self.episode_ttl_days is None or 0 < self.episode_ttl_days <= 36_500,
            "a positive number of days, or none",
        )
        _check(
            "episode_grace_days",
            self.episode_grace_days is None or 0 <= self.episode_grace_days <= 36_500,
            "0 to 36500 days, or none",
        )
        _check("episode_max_entries", 0 <= self.episode_max_entries < 2**31, "0 to 2147483647")
        most = self.max_content_characters
        _check("max_content_characters", most is None or most >= 1, "1 or more, or none")
        _check("tools", self.tools in ("standard", "all"), "standard, all")
        _check("busy_timeout", 0 <= self.busy_timeout <= 3600, "seconds from 0 to 3600")
        _check("vector_cache_mb", self.vector_cache_mb >= 1, "1 or more")

    def defaults(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """A verb's defaults, overridden by what is configured."""
        configured = {
            "limit": self.retrieval.configured_limit,
            "mode": self.retrieval.default_mode,
            "token_budget": self.retrieval.context_token_budget,
            "max_entries": self.episode_max_entries,
        }
        return {name: value if configured.get(name) is None else configured[name] for name, value in written.items()}


def _check(name: str, fine: bool, allowed: str) -> None:
    if not fine:
        raise ConfigError(name, "has a value that is not allowed", allowed)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_service(table: str, given: EndpointConfig | RerankerConfig) -> None:
    """Of what both services have. The messages show no value: someone may have put a key or password into it."""
    _check(f"{table}.url", not given.url or _is_plain_url(given.url), "http:// or https://, a host and a path only")
    named = given.key_variable is None or _VARIABLE.fullmatch(given.key_variable) is not None
    _check(f"{table}.key_variable", named, "the name of an environment variable that holds the key, or none")
    _check(f"{table}.max_characters", given.max_characters >= 1, "1 or more")
    _check(f"{table}.timeout", 0 < given.timeout <= 3600, "more than 0, to 3600 seconds")


def _is_plain_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        told = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return False
    return bool(told) and "@" not in parts.netloc and not parts.query and not parts.fragment


_RANDOM_OR_HASHED = re.compile(r"(?<![a-z])[hr](?![a-z])", re.IGNORECASE)


def _check_cron(name: str, text: str) -> None:
    """Raise unless the expression is valid, deterministic, and has a next time."""
    from croniter import CroniterError, croniter

    problem = None
    try:
        if len(text.split()) > 6:
            problem = "a year is not supported"
        elif _RANDOM_OR_HASHED.search(text):
            problem = "random and hashed times are not supported"
        else:
            croniter(text, 0.0).get_next()
    except (CroniterError, ValueError, OverflowError) as error:
        problem = str(error)
    if problem is not None:
        allowed = "five fields (minute hour day month weekday), such as 0 3 * * *, or none"
        raise ConfigError(name, f"{text!r:.60} is not a cron expression ({problem})", allowed)


def load_config(
    folder: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
) -> MemoryModuleConfig:
    """The settings for a working directory; `overrides` that are not None take precedence over everything."""
    values = find_project(folder, environ).values
    values = _merge(values, _from_environment(os.environ if environ is None else environ))
    return parse(_merge(values, {name: value for name, value in overrides.items() if value is not None}))


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
    "endpoint": EndpointConfig,
    "onnx": OnnxConfig,
    "reranker": RerankerConfig,
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


NOT_SETTINGS = ("TULVING_HOME", "TULVING_WEIGHTS")
"""Variables that are read before the settings are loaded."""
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
    parts = {"score_weights": WEIGHTS, "section_quotas": SECTION_QUOTAS}
    for cls, prefix in ((MemoryModuleConfig, ""), *((cls, f"{name}__") for name, cls in _TABLES.items())):
        for each in fields(cls):
            if each.name not in _TABLES:
                inner = [f"__{part}" for part in parts.get(each.name, ())] or [""]
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
