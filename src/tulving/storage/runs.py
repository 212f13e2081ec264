"""The runs of language models: who is learning from what, and what it has cost."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from tulving.domain.learning import Run, day_of
from tulving.domain.scope import Allowance, Bound
from tulving.errors import InvalidInput, SpendLimitReached
from tulving.settings import LlmConfig
from tulving.storage import items
from tulving.storage.connection import Connection
from tulving.storage.filters import behind
from tulving.storage.rows import Row, insert_statement

TAUGHT = ("facts_created", "facts_updated", "rules_created", "confirmations_made")
HOST = "host"
"""The model of a run whose prompt was handed out, once it has answered: nothing more is known of it."""
LONGEST_RUN = timedelta(days=1)
"""Only runs that began this long before a day can have spent something on it."""
_COLUMNS = tuple(each.name for each in fields(Run))
_INSERT = insert_statement("learning_runs", _COLUMNS)
_RUNS = f"SELECT {', '.join(_COLUMNS)} FROM learning_runs WHERE tenant_id = :tenant_id"


def begin(conn: Connection, run: Run, again: bool = False) -> datetime | None:
    """Begin a run; if somebody else is learning from this agent's episodes, until when that may take. `again` ends the
    leases of the same actor's prompts that nobody has answered yet."""
    if run.butler is not None and run.job == "consolidation":
        conn.lock(f"{run.tenant_id} learning {run.butler}")
        for other in _live(conn, run):
            if not (again and other.model is None and other.actor == run.actor):
                return other.lease_until
        conn.execute(
            "UPDATE learning_runs SET status = 'failed', last_error = 'abandoned', finished_at = :created_at"
            " WHERE tenant_id = :tenant_id AND job = 'consolidation' AND butler = :butler AND status = 'open'",
            {"tenant_id": run.tenant_id, "butler": run.butler, "created_at": run.created_at},
        )
    conn.execute(_INSERT, {name: getattr(run, name) for name in _COLUMNS})
    return None


def _live(conn: Connection, run: Run) -> list[Run]:
    """The runs over the same agent's episodes whose lease is not over."""
    rows = conn.fetch_all(
        f"{_RUNS} AND job = 'consolidation' AND butler = :butler AND status = 'open' AND lease_until > :created_at"
        " ORDER BY lease_until DESC",
        {"tenant_id": run.tenant_id, "butler": run.butler, "created_at": run.created_at},
    )
    return [Run(**row) for row in rows]


def get(conn: Connection, tenant_id: str, run_id: UUID, *, to_change: bool = False) -> Run | None:
    lock = conn.for_update if to_change else ""
    row = conn.fetch_one(f"{_RUNS} AND id = :id{lock}", {"tenant_id": tenant_id, "id": run_id})
    return Run(**row) if row else None


def get_open(conn: Connection, run: Run) -> Run:
    """A run that may still learn, locked until the transaction ends. One that was away for longer than its lease may
    have lost its episodes to another."""
    found = get(conn, run.tenant_id, run.id, to_change=True)
    if found is None or found.status != "open":
        raise used_lease()
    return found


def claim(conn: Connection, run: Run) -> None:
    """Use the lease of a prompt that was handed out: of two answers only one is taken."""
    if get_open(conn, run).model is not None:
        raise used_lease()
    change(conn, run, model=HOST)


def used_lease() -> InvalidInput:
    return InvalidInput("lease", "is unknown, used or over", "the lease of a prompt that waits for its answer")


def recent(
    conn: Connection,
    tenant_id: str,
    bound: Bound,
    limit: int,
    status: str | None = None,
    after: Sequence[Any] | None = None,
) -> list[Run]:
    """The runs of a tenant that a caller may see, newest first; `after` is the place of the last one of the previous
    page."""
    where, params = reach(bound)
    beyond, place = behind(after, "created_at", "id")
    if status is not None:
        where, params["status"] = f"{where} AND status = :status", status
    rows = conn.fetch_all(
        f"{_RUNS} AND {where} AND {beyond} ORDER BY created_at DESC, id DESC LIMIT :limit",
        {**params, **place, "tenant_id": tenant_id, "limit": limit},
    )
    return [Run(**row) for row in rows]


def reach(bound: Bound) -> tuple[str, Row]:
    """The condition for the runs over what belongs to an owner and agent, as far as a caller is bound to them."""
    parts = {name: getattr(bound.owner, name) for name in ("user_id", "household_id", "persona_id")}
    params = {name: value for name, value in {**parts, "butler": bound.scope}.items() if value is not None}
    return " AND ".join(["TRUE", *(f"{name} = :{name}" for name in params)]), params


def change(conn: Connection, run: Run, **changes: Any) -> None:
    """Write some columns of a run."""
    assigned = ", ".join(f"{name} = :{name}" for name in changes)
    params = {"tenant_id": run.tenant_id, "id": run.id, **changes}
    conn.execute(f"UPDATE learning_runs SET {assigned} {items.THIS}", params)


def reserve(
    conn: Connection,
    run: Run,
    tokens: int,
    limits: LlmConfig,
    allowance: Allowance | None,
    now: datetime,
    lease_until: datetime,
) -> None:
    """Count the tokens that a question may cost before it is asked; raises if they exceed what a tenant, or who asks,
    may spend."""
    conn.lock(f"{run.tenant_id} spending")
    run, today = get_open(conn, run), spent_since(conn, run.tenant_id, day_of(now))
    so_far = run.input_tokens + run.output_tokens
    limited = [
        ("for this run", so_far, limits.tokens_per_run, "llm.tokens_per_run"),
        ("for this day", today, limits.tokens_per_day, "llm.tokens_per_day"),
    ]
    if allowance is not None and (most := allowance.tokens_per_day) is not None:
        theirs = spent_since(conn, run.tenant_id, day_of(now), allowance.spender)
        limited.append(("by this access token on this day", theirs, most, "its model tokens per day"))
    for what, used, most, limit in limited:
        if used + tokens > most:
            problem = f"{used:,} tokens are spent of {most:,} {what}, and this prompt may cost {tokens:,}"
            raise SpendLimitReached(f"{problem} ({limit})")
    conn.execute(
        f"UPDATE learning_runs SET input_tokens = input_tokens + :tokens, lease_until = :lease_until {items.THIS}",
        {"tenant_id": run.tenant_id, "id": run.id, "tokens": tokens, "lease_until": lease_until},
    )


def spend(conn: Connection, run: Run, reserved: int, input_tokens: int, output_tokens: int) -> None:
    """Replace the reserved tokens by those that were spent."""
    conn.execute(
        "UPDATE learning_runs SET input_tokens = input_tokens + :input - :reserved,"
        f" output_tokens = output_tokens + :output {items.THIS}",
        {
            "tenant_id": run.tenant_id,
            "id": run.id,
            "reserved": reserved,
            "input": input_tokens,
            "output": output_tokens,
        },
    )


def spent_since(conn: Connection, tenant_id: str, since: datetime, spender: str | None = None) -> int:
    """The tokens of all runs of a tenant, or of one spender, that ended since then, or may still be going on. A run
    over midnight counts for both days: it may have spent all of it after midnight."""
    theirs = "" if spender is None else " AND spender = :spender"
    row = conn.fetch_one(
        "SELECT COALESCE(SUM(input_tokens + output_tokens), 0) AS tokens FROM learning_runs"
        " WHERE tenant_id = :tenant_id AND created_at >= :earliest AND COALESCE(finished_at, lease_until) >= :since"
        + theirs,
        {"tenant_id": tenant_id, "since": since, "earliest": since - LONGEST_RUN, "spender": spender},
    )
    return int(row["tokens"]) if row else 0


def close(conn: Connection, run: Run, problem: str | None, now: datetime) -> None:
    """End a run: it failed, or it is done, or a person has to decide on all that it proposed. One that has ended, since
    another took over, stays as it is."""
    found, status = get(conn, run.tenant_id, run.id, to_change=True), "failed"
    if found is None or found.status != "open":
        return
    if problem is None:
        taught = any(found.counts.get(name) for name in TAUGHT)
        status = "held" if not taught and _is_held(conn, run.tenant_id, run.id) else "done"
    change(conn, run, status=status, last_error=problem, finished_at=now, lease_until=None)


def settle(conn: Connection, tenant_id: str, run_id: UUID) -> None:
    """A run that was held is done once a person has decided on all of it."""
    if not _is_held(conn, tenant_id, run_id):
        conn.execute(
            f"UPDATE learning_runs SET status = 'done' {items.THIS} AND status = 'held'",
            {"tenant_id": tenant_id, "id": run_id},
        )


def _is_held(conn: Connection, tenant_id: str, run_id: UUID) -> bool:
    """Whether a part of a run waits for a person."""
    found = "SELECT 1 AS found FROM proposals WHERE tenant_id = :tenant_id AND run_id = :id LIMIT 1"
    return conn.fetch_one(found, {"tenant_id": tenant_id, "id": run_id}) is not None


def summary(conn: Connection, tenant_id: str, bound: Bound, now: datetime) -> dict[str, Any]:
    """How many runs a caller may see and when the last one began, what of them waits for a person, and what the tenant
    has spent today."""
    reached, params = reach(bound)
    mine = f"learning_runs WHERE tenant_id = :tenant_id AND {reached}"
    [counts] = conn.fetch_all(
        "SELECT COUNT(*) AS runs, MAX(created_at) AS created_at,"
        f" (SELECT COUNT(*) FROM proposals WHERE tenant_id = :tenant_id AND run_id IN (SELECT id FROM {mine})) AS held"
        f" FROM {mine}",
        {"tenant_id": tenant_id, **params},
    )
    last_run = counts.pop("created_at")
    return {**counts, "last_run": last_run, "tokens_today": spent_since(conn, tenant_id, day_of(now))}
