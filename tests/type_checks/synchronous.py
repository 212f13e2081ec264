"""The same for the synchronous memory: see asynchronous.py."""

from typing import assert_type

from tulving import (
    BlockingMemory,
    Episode,
    Fact,
    Found,
    Hit,
    Message,
    NewFact,
    Page,
    Rule,
    Statistics,
    Stored,
    open_memory_sync,
)


def right() -> None:
    with open_memory_sync("memory.db", tenant="acme", background=False) as memory:
        assert_type(memory, BlockingMemory)
        assert_type(memory.store_fact("Anna", "likes", "tea", importance=7), Stored)
        assert_type(memory.store_facts([NewFact(content="tea"), {"content": "coffee"}]), list[Stored])
        found = memory.recall("drinks", types=["fact"], limit=3)
        assert_type(found, Found)
        for hit in found:
            assert_type(hit, Hit)
            assert_type(hit.item, Episode | Fact | Rule)
        assert_type(memory.stats(), Statistics)
        assert_type(memory.history("Anna", "likes"), Page[Fact])
        for message in memory.messages("memory:semantic"):
            assert_type(message, Message)
        with memory.bind(user_id="anna").session(project="garden") as work:
            assert_type(work, BlockingMemory)
            print(work.caller.tenant_id, work.warning, work.session_id)
    opened = open_memory_sync()
    print(opened.context("drinks").upper())
    opened.close()


def wrong() -> None:
    open_memory_sync(tennant="acme")  # mypy: call-arg; pyright: reportCallIssue
    memory = open_memory_sync()
    memory.recall("tea", limt=3)  # mypy: call-arg; pyright: reportCallIssue
    memory.recall("tea", limit="3")  # mypy: arg-type; pyright: reportArgumentType
    memory.recall(None)  # mypy: arg-type; pyright: reportArgumentType
    memory.recal("tea")  # mypy: attr-defined; pyright: reportAttributeAccessIssue
    memory.bind(usr_id="anna")  # mypy: call-arg; pyright: reportCallIssue
    memory.get("note", "x")  # mypy: arg-type; pyright: reportArgumentType
    for hit in memory.search("tea"):
        print(hit.contents)  # mypy: attr-defined; pyright: reportAttributeAccessIssue
