"""Whatever moment a process is killed at while it runs the bridge, each event has its effect once."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from administration import administer
from fault_parts import Children, opened, problems, said, wait_for
from raw_sql import run_sql

from tulving.settings import BridgeConfig, MemoryModuleConfig


async def test_kills_of_the_bridge_make_no_fact_twice(
    new_store: Path, tmp_path_factory: pytest.TempPathFactory, children: Children
) -> None:
    logs, chance, acknowledged = tmp_path_factory.mktemp("logs"), random.Random(4), set[str]()
    for number in range(10):
        log = logs / f"{number}.log"
        pid = children.start("bridge_forever", log, path=str(new_store), name=f"k{number}")
        wait_for(log, chance.randint(1, 4), pid)
        time.sleep(chance.random() * 0.03)
        assert children.kill(pid) == -9, said(log)
        acknowledged |= {text for line in said(log) for text in line.get("stored", ())}
    config = MemoryModuleConfig(bridge=BridgeConfig(enabled=True))
    async with opened(new_store, background=False, config=config) as memory:
        await memory.run_bridge()
        assert problems(await administer(memory).verify()) == []
        status = await memory.bridge_status()
    sql = "SELECT e.content AS episode, f.content AS fact FROM {} JOIN facts AS f ON f.id = b.fact_id"
    made = run_sql(str(new_store), sql.format("bridged_facts AS b JOIN episodes AS e ON e.id = b.episode_id"))
    left = [row["content"] for row in run_sql(str(new_store), "SELECT content FROM episodes")]
    facts = [row["content"] for row in run_sql(str(new_store), "SELECT content FROM facts")]
    assert Counter(left) == Counter(facts) and len(set(facts)) == len(facts)
    assert {(row["episode"], row["fact"]) for row in made} == {(text, text) for text in left}
    assert acknowledged <= set(left)
    created = run_sql(str(new_store), "SELECT event_type, entity_id FROM memory_events WHERE entity_type = 'fact'")
    assert len(created) == len({tuple(row.values()) for row in created}), "an effect is told twice"
    assert status.ingested == len(facts) + status.deleted and status.waiting == 0
