from pathlib import Path

import pytest
from folders import trust_folder

from tulving import ConfigError, MemoryModuleConfig, RetrievalConfig
from tulving.config import load_config, parse
from tulving.location import database_path
from tulving.settings import CRONS


@pytest.mark.scenario("001-097")
def test_defaults(tmp_path):
    config = load_config(tmp_path, {})
    assert config == MemoryModuleConfig()
    assert config.retrieval.context_token_budget == 3000
    assert config.retrieval.default_limit == 20
    assert config.retrieval.default_mode == "hybrid"
    assert config.retrieval.score_weights == {"relevance": 0.4, "importance": 0.3, "recency": 0.2, "confidence": 0.1}
    assert config.retrieval.configured_limit is None, "nobody chose 20: the written defaults of the verbs hold"
    assert RetrievalConfig(default_limit=20).configured_limit == 20


def test_how_relevance_is_made_and_shown_is_a_setting(tmp_path):
    usual = MemoryModuleConfig().retrieval
    assert (usual.fusion, usual.min_relevance) == ("evidence", 0.0)
    assert usual.section_quotas == {"profile": 0.2, "facts": 0.7, "rules": 0.3, "episodes": 0.3}
    (tmp_path / "tulving.toml").write_text(
        '[retrieval]\nfusion = "rrf"\nmin_relevance = 0.25\nsection_quotas = {episodes = 0.1}\n'
    )
    home = {"TULVING_HOME": str(tmp_path / "home")}
    trust_folder(tmp_path, home)
    chosen = load_config(tmp_path, home).retrieval
    assert (chosen.fusion, chosen.min_relevance) == ("rrf", 0.25)
    assert chosen.section_quotas == {"profile": 0.2, "facts": 0.7, "rules": 0.3, "episodes": 0.1}


@pytest.mark.scenario("001-098")
def test_butler_toml_overrides(tmp_path):
    (tmp_path / "butler.toml").write_text(
        '[butler]\nname = "x"\n[modules.memory]\nepisode_ttl_days = 3\n[modules.memory.retrieval]\n'
        'default_limit = 5\ndefault_mode = "keyword"\ncontext_token_budget = 100\n'
        "score_weights = {relevance = 0.9}\n"
    )
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    home = {"TULVING_HOME": str(tmp_path / "home")}
    trust_folder(tmp_path, home)
    config = load_config(inner, home)
    assert config.episode_ttl_days == 3
    assert (config.retrieval.default_limit, config.retrieval.configured_limit) == (5, 5)
    assert config.retrieval.default_mode == "keyword"
    assert config.retrieval.score_weights == {"relevance": 0.9, "importance": 0.3, "recency": 0.2, "confidence": 0.1}
    shown = config.defaults({"limit": 10, "mode": "hybrid", "token_budget": 3000})
    assert shown == {"limit": 5, "mode": "keyword", "token_budget": 100}


def test_the_order_is_code_environment_file(tmp_path):
    (tmp_path / "tulving.toml").write_text('tenant = "file"\nproject = "file"\nactor = "file"\nepisode_ttl_days = 3\n')
    (tmp_path / "butler.toml").write_text("[modules.memory]\ntenant = 'not read beside tulving.toml'\n")
    environ = {
        "TULVING_TENANT": "environment",
        "TULVING_PROJECT": "environment",
        "TULVING_RETRIEVAL__DEFAULT_LIMIT": "30",
        "TULVING_RETRIEVAL__SCORE_WEIGHTS__RECENCY": "0",
        "TULVING_EPISODE_TTL_DAYS": "none",
        "TULVING_HOME": str(tmp_path / "home"),
        "OTHER": "x",
    }
    trust_folder(tmp_path, environ)
    config = load_config(tmp_path, environ, tenant="code")
    assert (config.tenant, config.project, config.actor) == ("code", "environment", "file")
    assert config.retrieval.configured_limit == 30
    assert config.retrieval.score_weights["recency"] == 0
    assert config.episode_ttl_days is None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"embeder": "x"}, "embeder"),
        ({"embedder": "gpt"}, "embedder"),
        ({"embedder": 5}, "embedder"),
        ({"episode_ttl_days": 0}, "episode_ttl_days"),
        ({"episode_ttl_days": "soon"}, "episode_ttl_days"),
        ({"tenant": None}, "tenant"),
        ({"busy_timeout": -1}, "busy_timeout"),
        ({"vector_cache_mb": 1.5}, "vector_cache_mb"),
        ({"vector_cache_mb": True}, "vector_cache_mb"),
        ({"query_cache": -1}, "query_cache"),
        ({"tools": "some"}, "tools"),
        ({"retrieval": 5}, "retrieval"),
        ({"retrieval": {"default_limit": 0}}, "retrieval.default_limit"),
        ({"retrieval": {"default_mode": "x"}}, "retrieval.default_mode"),
        ({"retrieval": {"limit": 5}}, "retrieval.limit"),
        ({"retrieval": {"fusion": "mixed"}}, "retrieval.fusion"),
        ({"retrieval": {"min_relevance": 1.1}}, "retrieval.min_relevance"),
        ({"retrieval": {"min_relevance": "nan"}}, "retrieval.min_relevance"),
        ({"retrieval": {"min_relevance": "much"}}, "retrieval.min_relevance"),
        ({"retrieval": {"section_quotas": {"episodes": -0.1}}}, "retrieval.section_quotas"),
        ({"retrieval": {"section_quotas": {"dreams": 0.1}}}, "retrieval.section_quotas"),
        ({"reranker": {"depth": 0}}, "reranker.depth"),
        ({"reranker": {"depth": 1001}}, "reranker.depth"),
        ({"postgres": "x"}, "postgres"),
        ({"postgres": {"pool_size": 0}}, "postgres.pool_size"),
        ({"postgres": {"connect_timeout": 0}}, "postgres.connect_timeout"),
        ({"postgres": {"statement_timeout": -1}}, "postgres.statement_timeout"),
        ({"postgres": {"exact_rows": 1.5}}, "postgres.exact_rows"),
        ({"postgres": {"dsn": "x"}}, "postgres.dsn"),
        ({"schedule": "daily"}, "schedule"),
        ({"schedule": {"decay": "0 3 * * *"}}, "schedule.decay"),
        ({"schedule": {"decay_sweep": "at noon"}}, "schedule.decay_sweep"),
        ({"schedule": {"decay_sweep": "61 3 * * *"}}, "schedule.decay_sweep"),
        ({"schedule": {"decay_sweep": "0 3 30 2 *"}}, "schedule.decay_sweep"),
        ({"schedule": {"decay_sweep": ""}}, "schedule.decay_sweep"),
        ({"schedule": {"decay_sweep": 3}}, "schedule.decay_sweep"),
        ({"schedule": {"episode_cleanup": "r * * * *"}}, "schedule.episode_cleanup"),
        ({"schedule": {"index_maintenance": "0 0 1 1 * 0 2027"}}, "schedule.index_maintenance"),
        ({"schedule": {"consolidation": "* *"}}, "schedule.consolidation"),
        ({"schedule": {"background": "perhaps"}}, "schedule.background"),
        ({"schedule": {"lease": 0}}, "schedule.lease"),
        ({"schedule": {"lease": 86_401}}, "schedule.lease"),
        ({"schedule": {"lease": "long"}}, "schedule.lease"),
        ({"retrieval": {"score_weights": {"luck": 1}}}, "retrieval.score_weights"),
        ({"retrieval": {"score_weights": {"recency": 2}}}, "retrieval.score_weights"),
        ({"retrieval": {"score_weights": [1]}}, "retrieval.score_weights"),
        ({"endpoint": "http://h"}, "endpoint"),
        ({"endpoint": {"key": "secret"}}, "endpoint.key"),
        ({"endpoint": {"url": 5}}, "endpoint.url"),
        ({"endpoint": {"key_variable": "sk-secret"}}, "endpoint.key_variable"),
        ({"endpoint": {"key_variable": ""}}, "endpoint.key_variable"),
        ({"endpoint": {"batch_size": 0}}, "endpoint.batch_size"),
        ({"endpoint": {"batch_size": 2049}}, "endpoint.batch_size"),
        ({"endpoint": {"max_characters": 0}}, "endpoint.max_characters"),
        ({"endpoint": {"timeout": 0}}, "endpoint.timeout"),
        ({"endpoint": {"timeout": "nan"}}, "endpoint.timeout"),
        ({"endpoint": {"timeout": 3601}}, "endpoint.timeout"),
        ({"endpoint": {"retries": -1}}, "endpoint.retries"),
        ({"endpoint": {"retries": 11}}, "endpoint.retries"),
        ({"endpoint": {"query_prefix": None}}, "endpoint.query_prefix"),
        ({"onnx": {"folder": "models/bge"}}, "onnx.folder"),
        ({"onnx": {"pooling": "max"}}, "onnx.pooling"),
        ({"onnx": {"max_tokens": 7}}, "onnx.max_tokens"),
        ({"onnx": {"max_tokens": 131_073}}, "onnx.max_tokens"),
        ({"reranker": {"url": "h/rerank"}}, "reranker.url"),
        ({"reranker": {"dialect": "jina"}}, "reranker.dialect"),
        ({"reranker": {"depth": 0}}, "reranker.depth"),
        ({"reranker": {"depth": 1001}}, "reranker.depth"),
        ({"reranker": {"timeout": -1}}, "reranker.timeout"),
        ({"reranker": {"max_characters": 0}}, "reranker.max_characters"),
        ({"reranker": {"key_variable": "a b"}}, "reranker.key_variable"),
        ({"llm": "gpt"}, "llm"),
        ({"llm": {"key": "secret"}}, "llm.key"),
        ({"llm": {"url": "https://secret@h"}}, "llm.url"),
        ({"llm": {"key_variable": "sk-secret"}}, "llm.key_variable"),
        ({"llm": {"dialect": "gemini"}}, "llm.dialect"),
        ({"llm": {"command": 5}}, "llm.command"),
        ({"llm": {"command": [""]}}, "llm.command"),
        ({"llm": {"command": "claude 'p"}}, "llm.command"),
        ({"llm": {"command": ["claude", 5]}}, "llm.command"),
        ({"llm": {"command": {"claude": "-p"}}}, "llm.command"),
        ({"llm": {"command": ["claude"], "url": "http://h"}}, "llm.command"),
        ({"llm": {"command": ["claude"], "model": "m"}}, "llm.command"),
        ({"llm": {"stream": "perhaps"}}, "llm.stream"),
        ({"llm": {"timeout": 0}}, "llm.timeout"),
        ({"llm": {"timeout": 3601}}, "llm.timeout"),
        ({"llm": {"retries": -1}}, "llm.retries"),
        ({"llm": {"retries": 11}}, "llm.retries"),
        ({"llm": {"max_output_tokens": 15}}, "llm.max_output_tokens"),
        ({"llm": {"max_output_tokens": 1_000_001}}, "llm.max_output_tokens"),
        ({"llm": {"tokens_per_run": -1}}, "llm.tokens_per_run"),
        ({"llm": {"tokens_per_day": 1.5}}, "llm.tokens_per_day"),
        ({"llm": {"tokens_per_day": -1}}, "llm.tokens_per_day"),
        ({"learning": []}, "learning"),
        ({"learning": {"confidence_threshold": 1.1}}, "learning.confidence_threshold"),
        ({"learning": {"confidence_threshold": "nan"}}, "learning.confidence_threshold"),
        ({"learning": {"max_facts": -1}}, "learning.max_facts"),
        ({"learning": {"max_facts": 100_001}}, "learning.max_facts"),
        ({"learning": {"profile_tokens": 9}}, "learning.profile_tokens"),
        ({"learning": {"episodes_at_a_time": 0}}, "learning.episodes_at_a_time"),
        ({"learning": {"episodes_at_a_time": 1001}}, "learning.episodes_at_a_time"),
        ({"learning": {"max_attempts": 0}}, "learning.max_attempts"),
        ({"learning": {"max_attempts": 101}}, "learning.max_attempts"),
        ({"learning": {"max_loss": 1.1}}, "learning.max_loss"),
        ({"learning": {"max_loss": -0.1}}, "learning.max_loss"),
        ({"learning": {"review_rules": "sometimes"}}, "learning.review_rules"),
    ],
)
def test_a_bad_setting_is_named(values, field):
    with pytest.raises(ConfigError) as refused:
        parse(values)
    assert refused.value.field == field
    assert str(refused.value).startswith(field)


@pytest.mark.parametrize(
    "url",
    [
        "h:8000",
        "ftp://h",
        "http://",
        "http:///v1",
        "http://h:port",
        "http://h:99999",
        "http://[h",
        "http://user:hunter2@h/v1",
        "https://hunter2@h",
        "https://h/v1?key=hunter2",
        "https://h/v1#hunter2",
    ],
)
def test_a_service_is_named_by_a_plain_url(url):
    """No other part of it is needed, and a password in it would be shown and logged."""
    with pytest.raises(ConfigError, match=r"endpoint\.url") as refused:
        parse({"endpoint": {"url": url}})
    assert "hunter2" not in str(refused.value)


def test_services_are_configured_like_all_else(tmp_path):
    environ = {
        "TULVING_EMBEDDER": "endpoint",
        "TULVING_ENDPOINT__URL": "http://[::1]:8000/v1",
        "TULVING_ENDPOINT__KEY_VARIABLE": "OPENAI_API_KEY",
        "TULVING_ENDPOINT__QUERY_PREFIX": "query: ",
        "TULVING_ENDPOINT__TIMEOUT": "2.5",
        "TULVING_RERANKER__DEPTH": "5",
        "TULVING_ONNX__FOLDER": "~/models/bge",
        "TULVING_ONNX__DOCUMENT_PREFIX": "none",
        "OPENAI_API_KEY": "hunter2",
    }
    config = load_config(tmp_path, environ)
    assert (config.endpoint.url, config.endpoint.query_prefix) == ("http://[::1]:8000/v1", "query: ")
    assert (config.endpoint.timeout, config.reranker.depth, config.onnx.document_prefix) == (2.5, 5, None)
    assert "hunter2" not in repr(config)


def test_the_language_model_is_none_unless_one_is_chosen(tmp_path):
    assert not MemoryModuleConfig().llm.chosen
    for values in ({"url": "http://h"}, {"model": "m"}, {"command": ["claude"]}):
        assert parse({"llm": values}).llm.chosen
    for values in ({"dialect": "anthropic"}, {"key_variable": "KEY"}, {"command": []}):
        assert not parse({"llm": values}).llm.chosen


def test_a_command_is_a_list_or_in_the_environment_shell_words(tmp_path):
    (tmp_path / "tulving.toml").write_text("[llm]\ncommand = ['claude', '-p', 'two words']\nstream = true\n")
    home = {"TULVING_HOME": str(tmp_path / "home")}
    trust_folder(tmp_path, home)
    chosen = load_config(tmp_path, home).llm
    assert (chosen.command, chosen.stream) == (("claude", "-p", "two words"), True)
    environ = {
        "TULVING_LLM__COMMAND": "codex exec 'two words' $HOME \"\" -",
        "TULVING_LLM__TOKENS_PER_DAY": "0",
        "TULVING_LEARNING__REVIEW_RULES": "yes",
        "TULVING_LEARNING__MAX_LOSS": "0.5",
    }
    config = load_config(tmp_path, home | environ)
    assert config.llm.command == ("codex", "exec", "two words", "$HOME", "", "-"), "and no shell reads them"
    assert config.llm.tokens_per_day == 0
    assert (config.learning.review_rules, config.learning.max_loss) == (True, 0.5)


def test_what_learning_does_by_default():
    usual = MemoryModuleConfig().learning
    assert (usual.confidence_threshold, usual.max_facts, usual.profile_tokens) == (0.5, 500, 2000)


def test_the_schedule_is_configured_like_all_else(tmp_path):
    (tmp_path / "tulving.toml").write_text('[schedule]\ndecay_sweep = "5 4 * * *"\nlease = 60\nbackground = true\n')
    environ = {
        "TULVING_SCHEDULE__EPISODE_CLEANUP": "none",
        "TULVING_SCHEDULE__INDEX_MAINTENANCE": "*/10 * * * * 30",
        "TULVING_SCHEDULE__BACKGROUND": "off",
        "TULVING_HOME": str(tmp_path / "home"),
    }
    trust_folder(tmp_path, environ)
    schedule = load_config(tmp_path, environ).schedule
    assert schedule.crons() == {
        "consolidation": "0 */6 * * *",
        "decay_sweep": "5 4 * * *",
        "timeline_rotation": "30 3 * * *",
        "episode_cleanup": None,
        "index_maintenance": "*/10 * * * * 30",
    }
    assert (schedule.background, schedule.lease) == (False, 60.0)
    assert load_config(tmp_path / "nowhere", {"TULVING_SCHEDULE__LEASE": "1"}).schedule.lease == 1.0


@pytest.mark.parametrize("content", [b"tenant = ", b"\xff", b"x = " + b"[" * 5000])
def test_broken_toml_is_named(tmp_path, content):
    (tmp_path / "tulving.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=r"tulving\.toml: is not valid TOML"):
        load_config(tmp_path, {})


@pytest.mark.parametrize("content", ["modules = 5", "[modules]\nmemory = []"])
def test_a_butler_toml_of_another_shape_is_named(tmp_path, content):
    (tmp_path / "butler.toml").write_text(content)
    with pytest.raises(ConfigError, match=r"butler\.toml: \w+ must be a table"):
        load_config(tmp_path, {})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("TULVING_TENNANT", "TULVING_TENNANT: is not a setting (did you mean TULVING_TENANT?"),
        ("TULVING_HOM", "did you mean TULVING_HOME?"),
        ("TULVING_RETRIEVAL__DEFAULT_LIMITS", "did you mean TULVING_RETRIEVAL__DEFAULT_LIMIT?"),
        ("TULVING_RETRIEVAL_DEFAULT_LIMIT", "did you mean TULVING_RETRIEVAL__DEFAULT_LIMIT?"),
        ("TULVING_RETRIEVAL__SCORE_WEIGHTS__RECENT", "did you mean TULVING_RETRIEVAL__SCORE_WEIGHTS__RECENCY?"),
        ("TULVING_TENANT__X", "did you mean TULVING_TENANT?"),
        ("TULVING_", "is not a setting"),
        ("TULVING_XYZZY", "TULVING_XYZZY: is not a setting; allowed"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_one_that_was_meant(tmp_path, name, said):
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path, {name: "x"})
    assert refused.value.field == name
    assert said in str(refused.value)


def test_an_unknown_setting_is_told_from_the_one_that_was_meant():
    with pytest.raises(
        ConfigError, match=r"retrieval\.defaultlimit: is not a setting \(did you mean default_limit\?\)"
    ):
        parse({"retrieval": {"defaultlimit": 5}})


def test_variables_that_are_not_settings_are_left_alone(tmp_path):
    others = dict.fromkeys(("TULVING_TEST_X", "TULVING_BENCH_X", "TULVING_WEIGHTS", "NOT_TULVING_X", "tulving_x"), "x")
    assert load_config(tmp_path, {**others, "TULVING_EMPTY": ""}) == MemoryModuleConfig()


def test_urls_name_files():
    assert database_path("sqlite:////var/x/memory.db") == Path("/var/x/memory.db")
    assert database_path("sqlite:///x/my%20memory.db") == Path("x/my memory.db")
    assert database_path("plain/path.db") == Path("plain/path.db")
    for bad in ("postgresql://localhost/x", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://host/x.db"):
        with pytest.raises(ConfigError, match="url"):
            database_path(bad)


def test_every_setting_is_documented():
    from dataclasses import fields

    from tulving.config import _TABLES

    text = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text()
    for prefix, cls in (("", MemoryModuleConfig), *((f"{name}.", table) for name, table in _TABLES.items())):
        for field in fields(cls):
            assert f"`{prefix}{field.name}`" in text, field.name
    for name, cron in CRONS.items():
        assert f"| `schedule.{name}` | `{cron}` |" in text, name
