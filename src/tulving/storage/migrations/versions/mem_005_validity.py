"""How long facts and rules hold, and the names by which facts are compared."""

from tulving.storage.migrations.statements import execute

revision = "mem_005"
down_revision = "mem_004"
DIGEST = "d20f566213d08936306fc922433e8877ae61d16fe0a0476dc4298362b6e0a60a"
"""Digest of the SQLite schema. A wrong one only makes opening slower; a test prints the right one."""

# Only Python folds Unicode reliably, so existing rows get their folded names when maintenance completes them. Until
# then their own names are compared. The unique indexes on those remain, for rows that are inserted by plain SQL.
_SUBJECT, _PREDICATE = (f"COALESCE(folded_{name}, {name})" for name in ("subject", "predicate"))


def _last(event: str, alias: str) -> str:
    return f"""(SELECT MAX(e.occurred_at) FROM memory_events AS e
        WHERE e.tenant_id = {alias}.tenant_id AND e.entity_id = {alias}.id AND e.event_type = '{event}')"""


STATEMENTS = (
    "ALTER TABLE facts ADD COLUMN folded_subject TEXT",
    "ALTER TABLE facts ADD COLUMN folded_predicate TEXT",
    "ALTER TABLE facts ADD COLUMN restated_at TIMESTAMPTZ",
    "ALTER TABLE facts ADD COLUMN ended_at TIMESTAMPTZ",
    "ALTER TABLE rules ADD COLUMN ended_at TIMESTAMPTZ",
    f"CREATE INDEX ix_facts_slot ON facts (tenant_id, {_SUBJECT}, {_PREDICATE})",
    f"""CREATE UNIQUE INDEX ux_facts_slot ON facts (tenant_id, scope, owner, {_SUBJECT}, {_PREDICATE})
    WHERE validity = 'active' AND entity_id IS NULL AND keyed""",
    f"""CREATE UNIQUE INDEX ux_facts_entity_slot ON facts (tenant_id, entity_id, scope, owner, {_PREDICATE})
    WHERE validity = 'active' AND entity_id IS NOT NULL AND keyed""",
    "CREATE INDEX ix_facts_unsettled ON facts (tenant_id, id) WHERE folded_predicate IS NULL",
    f"""UPDATE facts AS f SET ended_at = COALESCE(
    (SELECT MIN(COALESCE(s.occurred_at, s.created_at)) FROM facts AS s
        WHERE s.tenant_id = f.tenant_id AND s.supersedes_id = f.id),
    {_last("fact_superseded", "f")}, f.updated_at) WHERE f.validity = 'superseded'""",
    f"""UPDATE facts AS f SET ended_at = COALESCE({_last("fact_expired", "f")}, f.updated_at)
    WHERE f.validity = 'expired'""",
    # A rule that a person has forgotten has no end.
    f"""UPDATE rules AS r SET ended_at = {_last("rule_expired", "r")}
    WHERE r.forgotten AND {_last("rule_forgotten", "r")} IS NULL""",
    "UPDATE jobs SET due_at = now() WHERE name = 'index_maintenance'",
)


def upgrade() -> None:
    execute(STATEMENTS)
