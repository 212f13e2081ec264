"""The statements that learning and comparing notes ask again and again find their rows by an index, however many there
are of others."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from fault_parts import opened

from tulving.domain.events import Audit
from tulving.domain.learning import Run
from tulving.domain.model import Fact
from tulving.domain.scope import Bound, Caller, Filter, Owner
from tulving.settings import ConflictsConfig, LearningConfig, LlmConfig
from tulving.storage import (
    entities,
    events,
    facts,
    learning,
    lessons,
    merge_rules,
    neighbours,
    proposals,
    runs,
    sessions,
    settlements,
    slots,
)
from tulving.storage.connection import Connection
from tulving.storage.rows import IndexEntry

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RUN = Run(tenant_id="t", id=UUID(int=1), job="consolidation", butler="b", created_at=NOW, lease_until=NOW)
ANN = Bound(Owner(user_id="ann"))

ASKED: dict[str, tuple[Callable[[Connection], Any], str, str]] = {
    "due groups": (lambda conn: learning.groups(conn, "t", ANN, NOW, "b"), "FROM episodes", "ix_episodes_pending"),
    "due episodes": (
        lambda conn: learning.material(conn, "t", ANN, "b", LearningConfig(), NOW),
        "FROM episodes",
        "ix_episodes_pending",
    ),
    "due shards": (lambda conn: learning.shards(conn, NOW), "SELECT DISTINCT tenant_id, butler", "ix_episodes_pending"),
    "tokens of a day": (lambda conn: runs.spent_since(conn, "t", NOW), "SUM(input_tokens", "ix_learning_runs_age"),
    "before a question": (
        lambda conn: (runs.begin(conn, RUN), runs.reserve(conn, RUN, 1, LlmConfig(), None, NOW, NOW)),
        "SUM(input_tokens",
        "ix_learning_runs_age",
    ),
    "recent runs": (lambda conn: runs.recent(conn, "t", Bound(), 20), "FROM learning_runs", "ix_learning_runs_age"),
    "a live lease": (lambda conn: runs.begin(conn, RUN), "lease_until > ", "ix_learning_runs_open"),
    "events of a run": (lambda conn: events.of_run(conn, "t", RUN.id), "FROM memory_events", "ix_events_run"),
    "learned facts": (
        lambda conn: lessons._Executor(conn, RUN, None, ANN, lessons.Applied(), None, False)._learned(),  # pyright: ignore
        "run_id IS NOT NULL",
        "ix_facts_learned|ux_facts_content",  # both are of those in use
    ),
}


NOTE = Fact(
    tenant_id="t",
    id=UUID(int=1),
    content="the note",
    content_hash="x",
    subject="user",
    predicate="knowledge",
    keyed=False,
    owner="1:ann",
    user_id="ann",
    created_at=NOW,
    updated_at=NOW,
)
AUDIT = Audit(Caller("t"), NOW, uuid4)
LITERAL = ConflictsConfig(mode="literal")
ASKED |= {
    "settlements": (
        lambda conn: settlements.listing(conn, "t", ANN, 20),
        "FROM settlements",
        "ix_settlements_age",
    ),
    "held settlements": (
        lambda conn: settlements.listing(conn, "t", Bound(), 20, "held"),
        "FROM settlements",
        "ix_settlements_(held|age)",
    ),
    "how many are held": (
        lambda conn: settlements.count_held(conn, "t", Bound()),
        "AS waiting FROM settlements",
        r"ix_settlements_(held|\w+ \(tenant_id=)",  # of one tenant, at least
    ),
    "rules for merging": (
        lambda conn: merge_rules.load(conn, "t"),
        "FROM merge_rules",
        "merge_rules_pkey|sqlite_autoindex_merge_rules_1",
    ),
    "an equal note": (
        lambda conn: settlements._same_content(conn, NOTE),  # pyright: ignore[reportPrivateUsage]
        "content_hash = ",
        "ux_facts_content",
    ),
    "notes of about the same time": (
        lambda conn: neighbours.find(conn, NOTE, IndexEntry("note", None, None), LITERAL, AUDIT),
        "BETWEEN",
        "ix_facts_|ux_facts_",
    ),
}


def _page(index: str, column: str) -> str:
    """A page begins at its place in the index, not at the beginning of the listing."""
    return rf"{index} (\(tenant_id=\? AND (\({column},id\)|{column})[<>]|.*\n.*Index Cond: .*{column})"


AFTER = (NOW, UUID(int=1))
ASKED |= {
    "a later page of runs": (
        lambda conn: runs.recent(conn, "t", Bound(), 20, after=AFTER),
        "FROM learning_runs",
        _page("ix_learning_runs_age", "created_at"),
    ),
    "a later page of the runs of somebody": (
        lambda conn: runs.recent(conn, "t", ANN, 20, after=AFTER),
        "FROM learning_runs",
        _page("ix_learning_runs_age", "created_at"),
    ),
    "a later page of settlements": (
        lambda conn: settlements.listing(conn, "t", Bound(), 20, after=AFTER),
        "FROM settlements",
        _page("ix_settlements_age", "created_at"),
    ),
    "a page of proposals": (
        lambda conn: proposals.listing(conn, "t", Bound(), 20, None),
        "FROM proposals",
        "ix_proposals_age",
    ),
    "a later page of proposals": (
        lambda conn: proposals.listing(conn, "t", Bound(), 20, AFTER),
        "FROM proposals",
        _page("ix_proposals_age", "created_at"),
    ),
    "a later page of sessions": (
        lambda conn: sessions.listing(conn, "t", Bound(), 20, None, None, AFTER),
        "FROM sessions",
        _page("ix_sessions_started", "started_at"),
    ),
    "a later page of a history": (
        lambda conn: facts.history(conn, "t", Filter(state="any"), "a", "b", NOW, 20, (NOW, *AFTER)),
        "FROM facts",
        "ix_facts_slot",
    ),
    "a later page of facts by subject": (
        lambda conn: slots.listing(conn, "t", Filter(), None, NOW, 20, ("a", "b", UUID(int=1))),
        "FROM facts",
        r"ix_facts_slot (\(tenant_id=\? AND <expr>>\?|.*\n.*Index Cond: .*folded_subject)",
    ),
    "a later page of entities": (
        lambda conn: entities.listing(conn, "t", None, None, Bound(), NOW, 20, ("a", UUID(int=1))),
        "FROM entities",
        _page("ix_entities_folded", "folded_name"),
    ),
}


@pytest.mark.parametrize("name", ASKED)
async def test_rows_are_found_by_an_index(url: str, engine: str, name: str) -> None:
    ask, part, index = ASKED[name]

    def explain(conn: Any) -> str:
        seen: list[tuple[str, Any]] = []
        for verb in ("fetch_all", "fetch_one"):
            real = getattr(conn, verb)
            setattr(conn, verb, lambda sql, params=None, real=real: seen.append((sql, params)) or real(sql, params))
        ask(conn)
        sql, params = next(each for each in seen if part in each[0])
        if engine == "sqlite":
            return str(conn.tuples(f"EXPLAIN QUERY PLAN {sql}", params))
        # The tables are nearly empty, so the planner would prefer to read all.
        list(conn.records("SET LOCAL enable_seqscan = off"))
        list(conn.records("SET LOCAL enable_sort = off"))
        return "\n".join(row[0] for row in conn.records(f"EXPLAIN {sql}", params))

    async with opened(url, background=False) as memory:
        plan = await memory._env.store.write(None, explain)
    assert re.search(index, plan), plan
