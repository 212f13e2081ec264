"""What the methods of a connection promise."""

from uuid import UUID

from conformance_parts import EAST, ONE, OTHER, Opened, by_vector, count, episode, event, fact, put, rule

from tulving.domain.scope import Address
from tulving.storage import items
from tulving.storage.connection import Connection, check


def test_statements_tell_what_they_did(store: Opened) -> None:
    """`execute` returns how many rows it changed, `fetch_one` a row or None; `execute_many` runs once per row."""
    store.write(put, rule(1), rule(2))
    update = "UPDATE rules SET content = :content WHERE tenant_id = :tenant_id AND id = :id"
    rows = [{"tenant_id": ONE, "id": UUID(int=number), "content": f"new {number}"} for number in (1, 2, 3)]
    assert [store.write(lambda conn, row=row: conn.execute(update, row)) for row in rows] == [1, 1, 0]
    store.write(lambda conn: conn.execute_many(update, [{**row, "content": "newer"} for row in rows]))
    query = "SELECT id, content FROM rules WHERE tenant_id = :tenant_id AND id = :id"
    found = [store.read(lambda conn, row=row: conn.fetch_one(query, row)) for row in rows]
    assert found == [{"id": UUID(int=1), "content": "newer"}, {"id": UUID(int=2), "content": "newer"}, None]


def test_a_stream_yields_what_fetch_all_returns(store: Opened) -> None:
    store.write(put, *map(rule, range(1, 1201)))
    query = "SELECT id, tags, created_at FROM rules ORDER BY id"

    def both(conn: Connection) -> None:
        streamed = conn.stream(query)
        first = next(streamed)
        assert count(conn) == 1200, "another statement while the stream is open"
        assert [first, *streamed] == conn.fetch_all(query)
        next(conn.stream(query))
        assert count(conn) == 1200, "a stream that is not read to its end blocks nothing"

    store.read(both)


def test_within_is_membership(store: Opened) -> None:
    store.write(put, *map(rule, range(1, 5)))

    def ids(conn: Connection, *wanted: int) -> list[int]:
        query = f"SELECT id FROM rules WHERE {conn.within('id', 'ids')} ORDER BY id"
        return [row["id"].int for row in conn.fetch_all(query, {"ids": [UUID(int=number) for number in wanted]})]

    assert store.read(ids, 4, 2, 9) == [2, 4]
    assert store.read(ids) == []


def test_tagged_is_having_every_tag(store: Opened) -> None:
    store.write(put, rule(1, tags=["a", "b"]), rule(2, tags=["b"]), rule(3, tags=["ab", "it's"]), rule(4))

    def ids(conn: Connection, *wanted: str) -> list[int]:
        query = f"SELECT id FROM rules WHERE {conn.tagged('tags', 'tags')} ORDER BY id"
        return [row["id"].int for row in conn.fetch_all(query, {"tags": list(wanted)})]

    assert store.read(ids, "b") == [1, 2]
    assert store.read(ids, "b", "a") == [1]
    assert store.read(ids, "it's") == [3]
    assert store.read(ids) == [1, 2, 3, 4]


def test_a_healthy_store_is_found_healthy(store: Opened) -> None:
    store.write(put, episode(1), fact(2), rule(3), vector=EAST)
    store.write(put, rule(1, tenant_id=OTHER), vector=EAST, on_behalf=OTHER)
    store.write(items.forget, Address(ONE, "rule", UUID(int=3)), event(90))
    store.read(by_vector)
    checks = store.read(lambda conn: [check(*each) for each in conn.engine_checks().items()], on_behalf=None)
    findings = [*checks, *store.run(store.store.health())]
    assert findings and [finding for finding in findings if finding.problems] == []
