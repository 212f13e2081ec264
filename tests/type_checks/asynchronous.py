"""A program of a user, for type checkers only: right, except where a comment names the complaint."""

from collections.abc import Sequence
from typing import assert_type

from tulving import (
    Administration,
    Episode,
    Fact,
    Found,
    Hit,
    Memory,
    NewFact,
    Opening,
    Page,
    Rule,
    Statistics,
    Stored,
    open_administration,
    open_memory,
)


async def right() -> None:
    async with open_memory("memory.db", tenant="acme", background=False) as memory:
        assert_type(memory, Memory)
        assert_type(await memory.store_fact("Anna", "likes", "tea", importance=7), Stored)
        assert_type(await memory.store_facts([NewFact(content="tea"), {"content": "coffee"}]), list[Stored])
        found = await memory.recall("drinks", types=["fact"], limit=3)
        assert_type(found, Found)
        for hit in found:
            assert_type(hit, Hit)
            assert_type(hit.item, Episode | Fact | Rule)
            print(hit.content.upper(), hit.id.hex, hit.score + 1, hit.to_dict()["score"])
        first, few, all_hits = found[0], found[:2], list(found)
        assert_type((first, few, all_hits), tuple[Hit, list[Hit], list[Hit]])
        hits: Sequence[Hit] = found
        print(len(hits), (await memory.context("drinks")).upper())
        counts = await memory.stats()
        assert_type(counts, Statistics)
        assert_type(counts.facts.total, int)
        assert_type(await memory.history("Anna", "likes"), Page[Fact])
        for item in await memory.list_memories("fact"):
            print(item.content)
        async with memory.bind(user_id="anna").session(project="garden") as work:
            assert_type(work, Memory)
    opened = await open_memory()
    assert_type(opened, Memory)
    await opened.close()
    async with open_administration("memory.db", may_reembed=True) as administration:
        assert_type(administration, Administration)
        print((await administration.verify()).ok)


async def wrong() -> None:
    await open_memory(tennant="acme")  # mypy: call-arg; pyright: reportCallIssue
    await open_administration(tenant=7)  # mypy: arg-type; pyright: reportArgumentType
    memory = open_memory()
    assert_type(memory, Opening[Memory])
    memory.recall("tea")  # mypy: attr-defined; pyright: reportAttributeAccessIssue
    with open_memory():  # mypy: attr-defined, attr-defined; pyright: reportGeneralTypeIssues, reportGeneralTypeIssues
        pass
    async with memory as opened:
        await opened.recall("tea", limt=3)  # mypy: call-arg; pyright: reportCallIssue
        await opened.recall("tea", limit="3")  # mypy: arg-type; pyright: reportArgumentType
        await opened.recal("tea")  # mypy: attr-defined; pyright: reportAttributeAccessIssue
        await opened.get("note", "x")  # mypy: arg-type; pyright: reportArgumentType
        await opened.store_facts(["tea"])  # mypy: list-item; pyright: reportArgumentType
        for hit in await opened.search("tea"):
            print(hit.contents)  # mypy: attr-defined; pyright: reportAttributeAccessIssue
        print((await opened.stats()).facts.totals)  # mypy: attr-defined; pyright: reportAttributeAccessIssue
