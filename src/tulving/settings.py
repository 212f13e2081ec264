"""The settings: a record for each table, with the defaults and the values that are allowed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tulving.domain import conflicts, secrets
from tulving.domain.access import ALL_RIGHTS, BODY_SIZES, PER_MINUTE
from tulving.domain.context import SECTION_QUOTAS
from tulving.domain.ranking import FUSIONS, MODES, WEIGHTS
from tulving.errors import ConfigError
from tulving.providers import DIALECTS, EMBEDDERS, POOLINGS

LOG_FORMATS = ("text", "json")
TOOL_SETS = ("minimal", "standard", "all")
CRONS = {
    "consolidation": "0 */6 * * *",
    "decay_sweep": "0 3 * * *",
    "timeline_rotation": "30 3 * * *",
    "episode_cleanup": "0 4 * * *",
    "index_maintenance": "30 * * * *",
}


NUMBERS: Mapping[str, Mapping[str, float]] = {"score_weights": WEIGHTS, "section_quotas": SECTION_QUOTAS}
"""The tables of numbers under `retrieval`, with their defaults."""


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
        for name, known in NUMBERS.items():
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
    """The limits of the HTTP server: connections, concurrent requests, and the default limits of each access token."""

    request_timeout: float = 30.0
    max_connections: int = 512
    max_connections_per_address: int | None = 192
    answer_timeout: float = 300.0
    max_working: int = 64
    max_waiting: int = 128
    requests_per_minute: int | None = None
    model_tokens_per_day: int | None = None
    largest_body: int = 4 * 1024 * 1024
    failures_per_minute: int = 60
    drain_time: float = 0.0
    grace_time: float = 30.0
    max_streams: int = 128
    max_streams_per_token: int = 16
    stream_check: float = 15.0
    max_import_mb: int = 1024

    def __post_init__(self) -> None:
        _check("http.answer_timeout", 0 < self.answer_timeout <= 86_400, "more than 0, to 86400 seconds")
        _check("http.max_working", 1 <= self.max_working <= 10_000, "1 to 10000")
        _check("http.max_waiting", 0 <= self.max_waiting <= 10_000, "0 to 10000")
        most = self.requests_per_minute
        allowed = f"1 to {PER_MINUTE.high}"
        _check("http.requests_per_minute", most is None or 1 <= most <= PER_MINUTE.high, f"{allowed}, or none")
        most = self.model_tokens_per_day
        _check("http.model_tokens_per_day", most is None or most >= 0, "0 (none may be used) or more, or none")
        least, most = BODY_SIZES
        _check("http.largest_body", least <= self.largest_body <= most, f"{least} to {most} bytes")
        _check("http.failures_per_minute", 1 <= self.failures_per_minute <= PER_MINUTE.high, allowed)
        _check("http.drain_time", 0 <= self.drain_time <= 600, "0 to 600 seconds")
        _check("http.grace_time", 0 <= self.grace_time <= 3600, "0 to 3600 seconds")
        _check("http.request_timeout", 0 < self.request_timeout <= 3600, "more than 0, to 3600 seconds")
        _check("http.max_connections", 1 <= self.max_connections <= 10_000, "1 to 10000")
        each = self.max_connections_per_address
        _check("http.max_connections_per_address", each is None or 1 <= each <= 10_000, "1 to 10000, or none")
        _check("http.max_streams", 0 <= self.max_streams <= 10_000, "0 to 10000")
        _check("http.max_streams_per_token", 1 <= self.max_streams_per_token <= 10_000, "1 to 10000")
        _check("http.max_import_mb", 1 <= self.max_import_mb <= 1_000_000, "1 to 1000000")
        _check("http.stream_check", 0 < self.stream_check <= 300, "more than 0, to 300 seconds")


ASYMMETRIC = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split()
"""The signature algorithms that a JWT may use: asymmetric ones only."""


@dataclass(frozen=True, slots=True)
class JwtConfig:
    """The identity provider whose tokens (JWT) are accepted over HTTP, if any, and the mapping of its claims. The
    entries of `rights` are VALUE=RIGHT,RIGHT."""

    issuer: str = ""
    audience: str = ""
    jwks: str = ""
    algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA")
    leeway: float = 30.0
    tenant_claim: str | None = None
    user_claim: str | None = "sub"
    actor_claim: str = "sub"
    rights_claim: str | None = "scope"
    rights: Sequence[str] = tuple(f"tulving:{right}={right}" for right in ALL_RIGHTS)
    default_rights: Sequence[str] = ("read",)

    def __post_init__(self) -> None:
        given = self.issuer, self.audience, self.jwks
        _check("jwt.issuer", all(given) or not any(given), "together with jwt.audience and jwt.jwks, or none of them")
        fine = not self.jwks or _is_plain_url(self.jwks) or Path(self.jwks).expanduser().is_absolute()
        _check("jwt.jwks", fine, "http:// or https://, a host and a path only; or the absolute path of a file")
        known = bool(self.algorithms) and set(self.algorithms) <= set(ASYMMETRIC)
        _check("jwt.algorithms", known, ", ".join(ASYMMETRIC))
        _check("jwt.leeway", 0 <= self.leeway <= 600, "0 to 600 seconds")
        _check("jwt.actor_claim", bool(self.actor_claim), "the name of a claim")
        _check("jwt.default_rights", set(self.default_rights) <= set(ALL_RIGHTS), ", ".join(ALL_RIGHTS))
        for value, rights in self.granted.items():
            fine = bool(value) and bool(rights) and rights <= set(ALL_RIGHTS)
            _check("jwt.rights", fine, f"a list of VALUE=RIGHT,RIGHT with rights of {', '.join(ALL_RIGHTS)}")

    @property
    def chosen(self) -> bool:
        """Whether there is an identity provider."""
        return bool(self.issuer)

    @property
    def granted(self) -> Mapping[str, set[str]]:
        """The rights that each value of the claim grants."""
        pairs = (each.rpartition("=") for each in self.rights)
        return {value: {right.strip() for right in rights.split(",")} for value, _, rights in pairs}


@dataclass(frozen=True, slots=True)
class ScheduleConfig:
    """When jobs run: cron expressions, in UTC. 001-121, 001-122."""

    consolidation: str | None = CRONS["consolidation"]
    decay_sweep: str | None = CRONS["decay_sweep"]
    timeline_rotation: str | None = CRONS["timeline_rotation"]
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
class LlmConfig:
    """The language model that learns, if any: behind an endpoint, or a command. The token limits are per tenant."""

    url: str = ""
    model: str = ""
    dialect: str = "openai"
    command: Sequence[str] = ()
    key_variable: str | None = None
    stream: bool = False
    max_characters: int = 48_000
    timeout: float = 300.0
    retries: int = 3
    max_output_tokens: int = 4096
    tokens_per_run: int = 200_000
    tokens_per_day: int = 1_000_000

    def __post_init__(self) -> None:
        _check_service("llm", self)
        _check("llm.dialect", self.dialect in DIALECTS, ", ".join(DIALECTS))
        alone = not self.command or (bool(self.command[0].strip()) and not (self.url or self.model))
        _check("llm.command", alone, "a program and its arguments, instead of llm.url and llm.model")
        _check("llm.retries", 0 <= self.retries <= 10, "0 to 10")
        _check("llm.max_output_tokens", 16 <= self.max_output_tokens <= 1_000_000, "16 to 1000000")
        for name in ("tokens_per_run", "tokens_per_day"):
            _check(f"llm.{name}", getattr(self, name) >= 0, "0 (none may be used) or more")

    @property
    def chosen(self) -> bool:
        """Whether there is a model."""
        return bool(self.url or self.model or self.command)


@dataclass(frozen=True, slots=True)
class LearningConfig:
    """What is learned from conversations and episodes, and what is held for a person's review."""

    confidence_threshold: float = 0.5
    max_facts: int = 500
    profile_tokens: int = 2000
    episodes_at_a_time: int = 100
    max_attempts: int = 5
    max_loss: float = 0.2
    review_rules: bool = False

    def __post_init__(self) -> None:
        _check("learning.confidence_threshold", 0 <= self.confidence_threshold <= 1, "0 to 1")
        _check("learning.max_facts", 0 <= self.max_facts <= 100_000, "0 (no limit) to 100000")
        _check("learning.profile_tokens", 10 <= self.profile_tokens <= 1_000_000, "10 to 1000000")
        _check("learning.episodes_at_a_time", 1 <= self.episodes_at_a_time <= 1000, "1 to 1000")
        _check("learning.max_attempts", 1 <= self.max_attempts <= 100, "1 to 100")
        _check("learning.max_loss", 0 <= self.max_loss <= 1, "0 to 1 (never hold)")


@dataclass(frozen=True, slots=True)
class ConflictsConfig(conflicts.Detection):
    """Whether and how unkeyed facts are compared with known ones, and with how many."""

    enabled: bool = True
    neighbours: int = 10

    def __post_init__(self) -> None:
        _check("conflicts.mode", self.mode in conflicts.MODES, ", ".join(conflicts.MODES))
        for name in "semantic_threshold keyword_threshold importance_delta review_below".split():
            _check(f"conflicts.{name}", 0 <= getattr(self, name) <= 1, "0 to 1")
        _check("conflicts.review_model_merges_below", 0 <= self.review_model_merges_below <= 1, "0 to 1")
        _check("conflicts.time_window", 0 <= self.time_window <= 31_536_000, "0 to 31536000 seconds")
        _check("conflicts.neighbours", 1 <= self.neighbours <= 100, "1 to 100")


@dataclass(frozen=True, slots=True)
class ToolTextConfig:
    """How tool calls are read from the text of a model: ABP, and VCP where that fails."""

    dual_protocol: bool = False
    max_calls: int = 20

    def __post_init__(self) -> None:
        _check("tool_text.max_calls", 1 <= self.max_calls <= 1000, "1 to 1000")


@dataclass(frozen=True, slots=True)
class TimelineConfig:
    """When old episodes are archived, and for how long episodes are kept."""

    capacity: int = 10_000
    keep_days: float | None = None
    segment_episodes: int = 500
    retention_days: float | None = None

    def __post_init__(self) -> None:
        _check("timeline.capacity", 0 <= self.capacity < 2**31, "0 to 2147483647")
        _check("timeline.segment_episodes", 1 <= self.segment_episodes <= 10_000, "1 to 10000")
        for name in ("keep_days", "retention_days"):
            days = getattr(self, name)
            _check(f"timeline.{name}", days is None or 0 <= days <= 36_500, "0 to 36500 days, or none")


@dataclass(frozen=True, slots=True)
class BridgeConfig:
    """Which episodes become facts by themselves, without a model."""

    enabled: bool = False
    importance_threshold: float = 0.6
    types: Sequence[str] = ("task", "reminder", "conversation")
    max_characters: int = 512

    def __post_init__(self) -> None:
        _check("bridge.importance_threshold", 0 <= self.importance_threshold <= 1, "0 to 1")
        _check("bridge.max_characters", self.max_characters >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class VectorsConfig:
    """The vector index of a file: exact for tenants with few rows, a graph (HNSW) above."""

    exact_rows: int = 20_000
    ef: int = 100
    capacity: int = 1_000_000

    def __post_init__(self) -> None:
        _check("vectors.exact_rows", self.exact_rows >= 0, "0 or more")
        _check("vectors.ef", 50 <= self.ef <= 10_000, "50 to 10000")
        _check("vectors.capacity", self.capacity >= 1, "1 or more")


@dataclass(frozen=True, slots=True)
class WritesConfig:
    """How many writes of a process may wait, for how long, and how slow they may be before new ones are throttled."""

    max_waiting: int = 10_000
    patience: float = 30.0
    latency_target: float = 2.0

    def __post_init__(self) -> None:
        _check("writes.max_waiting", self.max_waiting >= 1, "1 or more")
        _check("writes.patience", 0 <= self.patience <= 3600, "seconds from 0 to 3600")
        _check("writes.latency_target", 0 < self.latency_target <= 3600, "more than 0, to 3600 seconds")


@dataclass(frozen=True, slots=True)
class SecretsConfig:
    """What becomes of keys, tokens and passwords in what is to be stored, and what is none."""

    policy: str = "redact"
    allow: Sequence[str] = ()

    def __post_init__(self) -> None:
        _check("secrets.policy", self.policy in secrets.POLICIES, ", ".join(secrets.POLICIES))
        for each in self.allow:
            try:
                re.compile(each)
            except re.error as error:
                problem = f"holds an expression that can't be read ({error})"
                raise ConfigError("secrets.allow", problem, "regular expressions") from None


@dataclass(frozen=True, slots=True)
class HooksConfig:
    """What the hooks of a coding agent do, and how much they put into a prompt."""

    context: bool = True
    recall: bool = True
    record: bool = True
    token_budget: int = 1000

    def __post_init__(self) -> None:
        _check("hooks.token_budget", 50 <= self.token_budget <= 100_000, "50 to 100000")


@dataclass(frozen=True, slots=True)
class LogsConfig:
    """What a server or worker logs, and how."""

    format: str = "text"
    access: bool = False

    def __post_init__(self) -> None:
        _check("logs.format", self.format in LOG_FORMATS, ", ".join(LOG_FORMATS))


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Who may read the metrics of a server, and how many tenants have metrics of their own."""

    open: bool = False
    tenants: int = 10

    def __post_init__(self) -> None:
        _check("metrics.tenants", 0 <= self.tenants <= 1000, "0 (none) to 1000")


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
    query_cache: int = 256
    max_size_bytes: int | None = 524_288_000
    session_idle_hours: float = 24.0
    allowed_hosts: str | None = None
    allowed_origins: str | None = None
    retrieval: RetrievalConfig = field(default_factory=RetrievalConfig)
    postgres: PostgresConfig = field(default_factory=PostgresConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    jwt: JwtConfig = field(default_factory=JwtConfig)
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    onnx: OnnxConfig = field(default_factory=OnnxConfig)
    reranker: RerankerConfig = field(default_factory=RerankerConfig)
    llm: LlmConfig = field(default_factory=LlmConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    conflicts: ConflictsConfig = field(default_factory=ConflictsConfig)
    tool_text: ToolTextConfig = field(default_factory=ToolTextConfig)
    timeline: TimelineConfig = field(default_factory=TimelineConfig)
    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    vectors: VectorsConfig = field(default_factory=VectorsConfig)
    writes: WritesConfig = field(default_factory=WritesConfig)
    secrets: SecretsConfig = field(default_factory=SecretsConfig)
    hooks: HooksConfig = field(default_factory=HooksConfig)
    logs: LogsConfig = field(default_factory=LogsConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)

    def __post_init__(self) -> None:
        if self.embedder not in EMBEDDERS:
            raise ConfigError("embedder", f"{self.embedder!r:.80} is not known", ", ".join(EMBEDDERS))
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
        _check("tools", self.tools in TOOL_SETS, ", ".join(TOOL_SETS))
        _check("busy_timeout", 0 <= self.busy_timeout <= 3600, "seconds from 0 to 3600")
        most = self.max_size_bytes
        _check("max_size_bytes", most is None or most >= 1_000_000, "1000000 or more, or none")
        _check("session_idle_hours", 0 < self.session_idle_hours <= 8760, "more than 0, to 8760 hours")
        _check("vector_cache_mb", self.vector_cache_mb >= 1, "1 or more")
        _check("query_cache", 0 <= self.query_cache <= 1_000_000, "0 (none) to 1000000")

    def defaults(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """A verb's defaults, overridden by what is configured."""
        configured = {
            "limit": self.retrieval.configured_limit,
            "mode": self.retrieval.default_mode,
            "token_budget": self.retrieval.context_token_budget,
            "max_entries": self.episode_max_entries,
            "max_tokens": self.learning.profile_tokens,
        }
        return {name: value if configured.get(name) is None else configured[name] for name, value in written.items()}


def _check(name: str, fine: bool, allowed: str) -> None:
    if not fine:
        raise ConfigError(name, "has a value that is not allowed", allowed)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_service(table: str, given: EndpointConfig | RerankerConfig | LlmConfig) -> None:
    """Of what all services have. The messages show no value: someone may have put a key or password into it."""
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
