"""How PostgreSQL answers a search."""

from typing import Any

from tulving.services.memory import Memory
from tulving.storage.lanes import LaneRequest


async def plan_of(memory: Memory, asked: LaneRequest) -> str:
    """How the server answers the statement for the candidates, as that was asked."""

    def explain(conn: Any) -> str:
        seen: list[tuple[str, Any]] = []
        records = conn.records
        conn.records = lambda sql, params=None: seen.append((sql, params)) or records(sql, params)
        conn.lanes(asked)
        (candidates,) = [(sql, params) for sql, params in seen if sql.startswith("WITH ")]
        return "\n".join(row[0] for row in records(f"EXPLAIN {candidates[0]}", candidates[1]))

    return await memory._env.store.read(asked.tenant_id, explain)
