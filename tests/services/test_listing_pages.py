"""Listings of any length, page by page: runs, the review queue, conflicts, sessions, profiles, histories of facts."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from tulving import Caller, InvalidInput, Memory, Page
from tulving.domain import cursors
from tulving.domain.learning import Run
from tulving.domain.model import Settlement
from tulving.storage import proposals, runs, settlements
from tulving.testing import ManualClock


def run_of(memory: Memory) -> Run:
    owner = memory.bound.owner
    return Run(
        tenant_id=memory.caller.tenant_id,
        id=memory._env.ids(),
        job="extraction",
        owner=owner.key,
        user_id=owner.user_id,
        created_at=memory.now(),
    )


async def make_run(memory: Memory) -> UUID:
    run = run_of(memory)
    await memory._write(runs.begin, run)
    return run.id


async def make_proposal(memory: Memory) -> UUID:
    run, audit = run_of(memory), memory._audit(memory.now())
    await memory._write(runs.begin, run)
    await memory._write(proposals.hold, run, "new_rule", {"content": f"rule of {run.id}"}, "it is a test", audit)
    [held] = await memory._read(proposals.of_ids, run.tenant_id, memory.bound, [run.id])
    return held.id


async def make_conflict(memory: Memory) -> UUID:
    owner, now = memory.bound.owner, memory.now()
    first, second = [(await memory.store_note(text)).id for text in ("Anna drinks tea", "The shop opens at nine")]
    settlement = Settlement(
        tenant_id=memory.caller.tenant_id,
        id=memory._env.ids(),
        candidate_id=first,
        existing_id=second,
        owner=owner.key,
        user_id=owner.user_id,
        outcome="held",
        action="keep",
        confidence=0.5,
        reason="it is a test",
        rule="default",
        status="held",
        created_at=now,
        updated_at=now,
    )
    values = {name: getattr(settlement, name) for name in settlements._COLUMNS}  # pyright: ignore[reportPrivateUsage]
    statement = settlements._INSERT  # pyright: ignore[reportPrivateUsage]
    await memory._write(lambda conn: conn.execute(statement, values))
    return settlement.id


async def make_session(memory: Memory) -> UUID:
    return (await memory.start_session()).id


async def make_fact(memory: Memory) -> UUID:
    return (await memory.store_fact("Anna", "city", f"city {memory._env.ids()}", occurred_at=memory.now())).id


async def make_profile(memory: Memory) -> str:
    household = f"h{memory._env.ids().int % 2**32:010}"
    await memory.set_profile("work", "Leads the bookings.", household_id=household)
    return household


@dataclass(frozen=True)
class Listing:
    """A verb that lists page by page, what makes an entry, and where that is."""

    verb: Callable[..., Any]
    make: Callable[[Memory], Awaitable[Any]]
    id_of: Callable[[Any], Any]
    table: str
    key: str = "id"
    ascends: bool = False
    reversed_pages: bool = False

    async def page(self, memory: Memory, **asked: Any) -> tuple[list[Any], str | None]:
        page = await self.verb(memory, **asked)
        assert isinstance(page, Page)
        found = [self.id_of(each) for each in page]
        return found[::-1] if self.reversed_pages else found, page.next_cursor

    async def walk(self, memory: Memory, limit: int, cursor: str | None = None) -> list[Any]:
        """All entries, or those behind a cursor."""
        found: list[Any] = []
        while True:
            ids, cursor = await self.page(memory, limit=limit, cursor=cursor)
            assert len(ids) == limit or cursor is None
            found += ids
            if cursor is None:
                return found


LISTINGS = {
    "runs": Listing(Memory.runs, make_run, lambda each: each.run.id, "learning_runs"),
    "proposals": Listing(Memory.proposals, make_proposal, lambda each: each.id, "proposals", ascends=True),
    "conflicts": Listing(Memory.conflicts, make_conflict, lambda each: each.settlement.id, "settlements"),
    "sessions": Listing(Memory.sessions, make_session, lambda each: each.session.id, "sessions"),
    "profiles": Listing(
        Memory.profile_owners, make_profile, lambda each: each.household_id, "profile_blocks", key="household_id"
    ),
    "history": Listing(
        partial(Memory.history, subject="Anna", predicate="city"),
        make_fact,
        lambda each: each.id,
        "facts",
        reversed_pages=True,
    ),
}
EVERY = pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)


async def made(memory: Memory, clock: ManualClock, listing: Listing, moments: Sequence[int]) -> list[Any]:
    """So many entries at each of some moments, in the order in which they are listed."""
    ids: list[Any] = []
    for count in moments:
        clock.advance(seconds=1)
        ids += [await listing.make(memory) for _ in range(count)]
    return ids if listing.ascends else ids[::-1]


@EVERY
async def test_the_pages_have_every_entry_once_and_in_order(listing, memory, clock):
    ids = await made(memory, clock, listing, [3, 1, 3])
    for limit in (1, 2, 3, 4, 7, 1000):
        assert await listing.walk(memory, limit) == ids
    assert (await listing.page(memory))[0] == ids, "by default, these fit on one page"


@EVERY
async def test_the_last_page_has_no_cursor_even_if_it_is_full(listing, memory, clock):
    assert await listing.page(memory, limit=1) == ([], None)
    ids = await made(memory, clock, listing, [2])
    assert await listing.page(memory, limit=2) == (ids, None)
    first, cursor = await listing.page(memory, limit=1)
    assert (first, await listing.page(memory, limit=1, cursor=cursor)) == (ids[:1], (ids[1:], None))


@EVERY
async def test_what_comes_or_goes_between_two_pages_moves_nothing_else(listing, memory, clock, sql):
    ids = await made(memory, clock, listing, [2, 2, 2])
    first, cursor = await listing.page(memory, limit=3)
    assert first == ids[:3]
    for gone in (ids[0], ids[2], ids[4]):  # seen, the place of the cursor, and one to come
        sql(f"DELETE FROM {listing.table} WHERE {listing.key} = ?", gone)
    new = await listing.make(memory)
    rest = [ids[3], ids[5], *([new] if listing.ascends else [])]
    assert await listing.walk(memory, 1, cursor) == rest
    assert await listing.walk(memory, 2, cursor) == rest
    again = [ids[1], *rest] if listing.ascends else [new, ids[1], *rest]
    assert await listing.walk(memory, 2) == again


@EVERY
async def test_a_cursor_shows_nobody_what_is_not_theirs(listing, memory, clock):
    mine = await made(memory, clock, listing, [3])
    others = [memory.bind(caller=Caller("other")), memory.bind(user_id="anna")]
    theirs = [await made(other, clock, listing, [1]) for other in others]
    assert {*await listing.walk(memory, 2)} >= {*mine, *theirs[1]}
    for other, ids in zip(others, theirs, strict=True):
        _, cursor = await listing.page(memory, limit=1)
        assert {*await listing.walk(other, 1, cursor)} <= {*ids}
        assert await listing.walk(other, 1) == ids


@EVERY
async def test_a_place_that_is_none_is_refused(listing, memory, clock):
    await made(memory, clock, listing, [2])
    now, id_ = clock(), UUID(int=1)
    parts = (now, now) if listing.reversed_pages else (now,)
    for cursor in (
        *("nonsense", "", 5, "W10=", "e30=", "\ud800", "\x00"),
        cursors.write(*parts),
        cursors.write(*parts, id_, id_),
        cursors.write(*parts, "\x00"),
        cursors.write(*parts[1:], "yesterday", id_),
        cursors.write(*parts[1:], now.replace(tzinfo=None), id_),
    ):
        with pytest.raises(InvalidInput, match=r"^cursor: .*next_cursor of the previous page"):
            await listing.verb(memory, cursor=cursor)
    assert await listing.walk(memory, 1, cursors.write(*parts, id_)) in ([], await listing.walk(memory, 1))


@EVERY
async def test_limits(listing, memory, clock):
    await made(memory, clock, listing, [2])
    for limit, count in ((1, 1), (1000, 2)):
        assert len(await listing.verb(memory, limit=limit)) == count
    for limit in (0, -1, 1001, 2**63, True, 1.5, "2", None):
        with pytest.raises(InvalidInput, match="limit"):
            await listing.verb(memory, limit=limit)


async def test_pages_of_what_is_asked_for(memory, clock):
    """A filter holds on each page, and the counts of a run are of all that is held."""
    for number in range(6):
        clock.advance(seconds=number % 2)
        project = "a" if number % 3 else "b"
        await memory.start_session(project)
    sessions = LISTINGS["sessions"]
    whole = [each.session.id for each in await memory.sessions(project="a")]
    found, cursor = [], None
    while not found or cursor:
        page = await memory.sessions(project="a", limit=1, cursor=cursor)
        found, cursor = [*found, *map(sessions.id_of, page)], page.next_cursor
    assert found == whole and len(whole) == 4
    run, audit = run_of(memory), memory._audit(clock())
    await memory._write(runs.begin, run)
    for number in range(60):
        await memory._write(proposals.hold, run, "new_rule", {"content": f"rule {number}"}, "a test", audit)
    [report] = await memory.runs(limit=1)
    assert report.held == 60
    assert [report.held for report in await memory.runs(run.id)] == [60]
    assert len(await memory.proposals()) == 50


async def test_the_pages_of_a_past_history(memory, clock):
    ids = [await make_fact(memory) for _ in range(2)]
    clock.advance(days=1)
    then = clock()
    ids += [await make_fact(memory) for _ in range(2)]
    clock.advance(days=1)
    await make_fact(memory)
    page = await memory.history("Anna", "city", as_of=then, limit=3)
    assert [fact.id for fact in page] == ids[1:]
    page = await memory.history("Anna", "city", as_of=then, limit=3, cursor=page.next_cursor)
    assert ([fact.id for fact in page], page.next_cursor) == (ids[:1], None)
