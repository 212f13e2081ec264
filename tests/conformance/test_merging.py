"""Rows that come from elsewhere are merged."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from conformance_parts import BETWEEN, NOW, ONE, TEXTS, Opened, by_words, episode, event, fact, put, rule

from tulving.domain.events import Audit, Event
from tulving.domain.scope import Address, Caller
from tulving.storage import export_file, links, moving
from tulving.testing import SequentialIds


def test_merge_adds_what_is_new_in_order(store: Opened) -> None:
    columns = moving.MOVED["memory_events"].columns
    rows = [{name: getattr(event(number, payload={"n": number}), name) for name in columns} for number in (5, 3, 4)]
    key = ("tenant_id", "id")
    assert store.write(lambda conn: conn.merge("memory_events", key, rows[:1])) == rows[:1]
    assert store.write(lambda conn: conn.merge("memory_events", key, rows)) == rows[1:]
    assert store.write(lambda conn: conn.merge("memory_events", key, [*rows, *rows])) == []
    changed = [{**row, "payload": {"n": 0}} for row in rows]
    assert store.write(lambda conn: conn.merge("memory_events", key, changed)) == [], "what is there stays"
    kept = store.read(lambda conn: conn.fetch_all("SELECT id, payload FROM memory_events ORDER BY seq"))
    assert kept == [{"id": UUID(int=number), "payload": {"n": number}} for number in (5, 3, 4)]


def test_an_export_loaded_elsewhere_is_the_same(opened: Callable[[], Opened], tmp_path: Path) -> None:
    source, target = opened(), opened()
    source.write(put, episode(1, TEXTS[3], title="t", occurred_at=NOW), vector=BETWEEN)
    source.write(put, fact(2, source_episode_id=UUID(int=1), metadata={"a": [None]}), rule(3, tags=["x"]))
    ends = Address(ONE, "rule", UUID(int=3)), Address(ONE, "fact", UUID(int=2))
    assert source.write(links.create, *ends, "supports", event(90))
    file, again = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    told: list[tuple[int, int, str]] = []

    def tell(done: int, total: int, what: str) -> None:
        told.append((done, total, what))

    rows = sum(source.read(export_file.write, file, ONE, tell).values())
    arrival = moving.Arrival("import", 1, Audit(Caller(ONE), NOW, SequentialIds(1000)))
    for added in (rows, 0):
        published: list[Event] = []
        target.store.publish = published.extend
        counts = target.write(export_file.load, file, ONE, 4, arrival, tell)
        arrived = [(each.payload["table"], len(each.payload["ids"])) for each in published]
        assert arrived == ([("episodes", 1), ("facts", 1), ("rules", 1), ("memory_links", 1)] if added else [])
        assert sum(table["added"] for table in counts.values()) == added
        assert sum(table["skipped"] for table in counts.values()) == rows - added
    target.read(export_file.write, again, ONE, tell)
    assert again.read_text() == file.read_text()
    assert told and all(0 <= done <= total for done, total, _ in told)
    assert target.read(by_words, "tea") == [3]
