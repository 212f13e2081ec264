"""What a store promises, checked against its rows."""

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from itertools import islice

from tulving.domain.model import KINDS
from tulving.domain.text import content_hash
from tulving.ports import Finding
from tulving.storage import events, merge_rules, timeline
from tulving.storage.connection import Connection, check
from tulving.storage.embeddings import active_version
from tulving.storage.kinds import KIND


def verify(conn: Connection, progress: Callable[[int, int, str], None] | None = None) -> list[Finding]:
    """Check every invariant of the store against its rows; `progress` is told which check of how many begins."""
    conn.check_sees_all_tenants()
    checks: dict[str, Callable[[], Iterable[str]]] = {
        **conn.engine_checks(),
        "contents": lambda: _changed_contents(conn),
        "timeline": lambda: timeline.unlike_rows(conn),
        "audit events": lambda: _unrecorded(conn),
        "vectors": lambda: _foreign_vectors(conn),
        "links": lambda: loose_links(conn),
        "runs": lambda: loose_runs(conn),
        "merge rules": lambda: merge_rules.unreadable(conn),
        "conflicts": lambda: loose_settlements(conn),
    }
    findings: list[Finding] = []
    for done, (name, problems) in enumerate(checks.items()):
        if progress:
            progress(done, len(checks), name)
        findings.append(check(name, problems))
    return findings


def _changed_contents(conn: Connection) -> Iterator[str]:
    """Memories whose content does not match its hash: damage that the database can't detect. A row inserted by plain
    SQL has no hash until it is completed."""
    for kind in KINDS:
        for row in conn.stream(
            f"SELECT tenant_id, id, content, content_hash FROM {KIND[kind].table} AS m WHERE {KIND[kind].at_hand}"
        ):
            if row["content_hash"] not in (None, content_hash(row["content"])):
                yield f"the content of {kind} {row['id']} of {row['tenant_id']} was changed"


def _unrecorded(conn: Connection) -> Iterator[str]:
    """Memories without an event of their creation or import; a row inserted by plain SQL gets one when completed."""
    arrived = cache(partial(events.arrived, conn))
    for kind in KINDS:
        found = conn.stream(
            f"SELECT m.tenant_id, m.id FROM {KIND[kind].table} AS m WHERE m.content_hash IS NOT NULL"
            " AND m.search_text IS NOT NULL AND NOT EXISTS (SELECT 1 FROM memory_events AS e"
            " WHERE e.tenant_id = m.tenant_id AND e.entity_id = m.id)"
        )
        for row in islice((row for row in found if str(row["id"]) not in arrived(row["tenant_id"])), 20):
            yield f"{kind} {row['id']} of {row['tenant_id']} has no event"


def _foreign_vectors(conn: Connection) -> Iterator[str]:
    """Vectors that are not of the active version or have another dimension."""
    active = active_version(conn) or {"number": -1, "dimension": -1}
    size = conn.vector_bytes("m.embedding")
    for kind in KINDS:
        for row in conn.fetch_all(
            f"SELECT m.tenant_id, m.id, m.embedding_version, {size} AS size FROM {KIND[kind].table} AS m"
            f" WHERE m.embedding IS NOT NULL AND (m.embedding_version <> :version OR {size} <> :size) LIMIT 20",
            {"version": active["number"], "size": 4 * active["dimension"]},
        ):
            made = f"of version {row['embedding_version']} and {row['size']} bytes"
            yield f"{kind} {row['id']} of {row['tenant_id']} has a vector {made}"


def loose_links(conn: Connection, tenant_id: str | None = None) -> list[str]:
    """Links that lack one of their ends, of one tenant or (None) of all."""
    mine = "" if tenant_id is None else " AND l.tenant_id = :tenant_id"
    problems: list[str] = []
    for side in ("source", "target"):
        for kind in KINDS:
            end = f"SELECT 1 FROM {KIND[kind].table} AS m WHERE m.tenant_id = l.tenant_id AND m.id = l.{side}_id"
            rows = conn.fetch_all(
                f"SELECT l.tenant_id, l.{side}_id FROM memory_links AS l"
                f" WHERE l.{side}_type = :kind{mine} AND NOT EXISTS ({end}) LIMIT 20",
                {"kind": kind, "tenant_id": tenant_id},
            )
            problems += [f"a link of {row['tenant_id']} has no {side} {row[f'{side}_id']}" for row in rows]
    return problems


def loose_runs(conn: Connection, tenant_id: str | None = None) -> list[str]:
    """What was learned in a run that is not there, so that it can't be undone; of one tenant or (None) of all."""
    mine = "" if tenant_id is None else " AND m.tenant_id = :tenant_id"
    run = "SELECT 1 FROM learning_runs AS r WHERE r.tenant_id = m.tenant_id AND r.id = m.run_id"
    return [
        f"{table} of {row['tenant_id']} refer to a run {row['run_id']} that is not there"
        for table in ("facts", "rules", "profile_blocks")
        for row in conn.fetch_all(
            f"SELECT DISTINCT m.tenant_id, m.run_id FROM {table} AS m"
            f" WHERE m.run_id IS NOT NULL{mine} AND NOT EXISTS ({run}) LIMIT 20",
            {"tenant_id": tenant_id},
        )
    ]


def loose_settlements(conn: Connection, tenant_id: str | None = None) -> list[str]:
    """Settlements that lack a side, or have a side of another owner; of one tenant or (None) of all."""
    mine = "TRUE" if tenant_id is None else "m.tenant_id = :tenant_id"
    side = (
        "SELECT 1 FROM facts AS f WHERE f.tenant_id = m.tenant_id AND f.id = m.{} AND NOT f.keyed"
        " AND f.owner = m.owner AND f.scope = m.scope AND COALESCE(f.project, '') = COALESCE(m.project, '')"
    )
    return [
        f"the conflict {row['id']} of {row['tenant_id']} is not about two notes of its owner"
        for row in conn.fetch_all(
            f"SELECT m.tenant_id, m.id FROM settlements AS m WHERE {mine} AND NOT"
            f" (EXISTS ({side.format('candidate_id')}) AND EXISTS ({side.format('existing_id')})) LIMIT 20",
            {"tenant_id": tenant_id},
        )
    ]
