"""`tulving evict`, as a person sees it."""

import json
from collections.abc import Callable

import pytest
from raw_sql import run_sql

from tulving.location import is_postgres


def test_what_would_go_and_what_has_gone(cli: Callable, url: str, monkeypatch: pytest.MonkeyPatch):
    for number in range(3):
        assert cli("store", "episode", f"event {number}", "--butler", "b").code == 0
    ran = cli("evict")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("nothing   ")
    if is_postgres(url):
        assert "PostgreSQL has no size limit here" in ran.out
        return
    assert "of 524.3 MB are in use" in ran.out
    monkeypatch.setenv("TULVING_MAX_SIZE_BYTES", "none")
    assert "without a limit" in cli("evict").out
    monkeypatch.setenv("TULVING_MAX_SIZE_BYTES", "1000000")  # an empty file has more
    ran = cli("evict", "--dry-run")
    assert ran.out.splitlines()[0] == "would go  3 episodes, 3 of them not learned from yet"
    assert "1.0 MB before, about 1.0 MB after; the limit is 1.0 MB" in ran.out
    assert "protected 0 episodes" in ran.out
    assert len(run_sql(url, "SELECT id FROM episodes")) == 3
    ran = cli("evict")
    assert ran.out.splitlines()[0] == "evicted   3 episodes, 3 of them not learned from yet"
    assert "warning: " in ran.err
    assert "max_size_bytes" in ran.err
    assert run_sql(url, "SELECT id FROM episodes") == []
    said = json.loads(cli("evict", "--json").out)
    assert (said["evicted"], said["limit"], said["protected"]) == (0, 1_000_000, 0)
    assert cli("health").code == 1, "it is full, and nothing is left that could be evicted"
