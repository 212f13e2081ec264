"""One active fact per slot, and the same past whatever the order in which it is told."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import count as counting
from itertools import groupby
from typing import Any
from uuid import UUID

import pytest
from conformance_parts import EAST, NOW, ONE, Opened, entry, fact, insert
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tulving.domain import claims
from tulving.domain.events import Audit
from tulving.domain.model import Fact, Stored
from tulving.domain.scope import Bound, Caller, Filter
from tulving.errors import IntegrityError
from tulving.storage import facts, items
from tulving.storage.connection import Connection
from tulving.testing import SequentialIds

NUMBERS = counting(1_000)
IDS = SequentialIds(10**9)
DAY = timedelta(days=1)
START = NOW - 100 * DAY
AUDIT = Audit(Caller(ONE), NOW, IDS)


def offered(subject: str, predicate: str, content: str, **more: Any) -> Fact:
    names = {"folded_subject": claims.folded(subject), "folded_predicate": claims.folded(predicate)}
    return fact(next(NUMBERS), content, subject=subject, predicate=predicate, **names, **more)


def tell(conn: Connection, *offers: Fact) -> list[Stored]:
    given = [{"occurred_at": offer.occurred_at} if offer.occurred_at else {} for offer in offers]
    rows = [(offer, entry(offer, EAST), known) for offer, known in zip(offers, given, strict=True)]
    return facts.store(conn, rows, AUDIT, Bound())


def history(conn: Connection, subject: str) -> list[Fact]:
    return facts.history(conn, ONE, Filter(state="any"), subject, "lives in", NOW, 1000)[::-1]


def as_of(conn: Connection, subject: str, day: int) -> list[str]:
    wanted = Filter(as_of=START + day * DAY)
    return [
        item.content for item in items.listing(conn, ONE, "fact", wanted, NOW, 1000, None) if item.subject == subject
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    dates=st.permutations(range(6)).flatmap(lambda days: st.sampled_from([days[:n] for n in range(1, 7)])),
    values=st.lists(st.sampled_from("abc"), min_size=6, max_size=6),
    one_by_one=st.booleans(),
    entity=st.booleans(),
)
def test_the_order_in_which_it_is_told_does_not_matter(
    store: Opened, dates: list[int], values: list[str], one_by_one: bool, entity: bool
) -> None:
    """Whatever was said for the latest day is current, and on each day held what was said for it last."""
    subject = f"s{next(NUMBERS)}"
    about = {"entity_id": made_entity(store) if entity else None}
    told = [offered(subject, "lives in", values[day], occurred_at=START + day * DAY, **about) for day in dates]
    if one_by_one:
        stored = [answer for offer in told for answer in store.write(tell, offer)]
    else:
        stored = store.write(tell, *told)
    (active,) = [item for item in store.read(history, subject) if item.state == "active"]
    assert active.content == values[max(dates)]
    for at, answer in enumerate(stored):
        later = [values[day] for day in dates[:at] if day > dates[at]]
        if not later:
            assert answer.outcome in ("stored", "superseded", "confirmed")
        elif answer.outcome == "outdated":
            assert answer.superseded_by is not None
    past = store.read(history, subject)
    times = [(item.occurred_at, item.ended_at) for item in past]
    assert times == sorted(times, key=lambda pair: pair[0])
    assert [end for _, end in times] == [start for start, _ in times[1:]] + [None], "without gap or overlap"
    if max(Counter(values[day] for day in dates).values()) > 2:
        return  # of more than two times for a value, only the first and the last are kept
    for day in range(6):
        said = [values[each] for each in sorted(dates) if each <= day]
        assert store.read(as_of, subject, day) == said[-1:], day
    runs = [(value, next(days)) for value, days in groupby(sorted(dates), key=values.__getitem__)]
    assert [(item.content, item.occurred_at) for item in past] == [(value, START + day * DAY) for value, day in runs]


def made_entity(store: Opened) -> UUID:
    id_ = IDS()
    insert_ = (
        "INSERT INTO entities (tenant_id, id, canonical_name, folded_name, entity_type)"
        " VALUES (:tenant_id, :id, :name, :name, 'person')"
    )
    store.write(lambda conn: conn.execute(insert_, {"tenant_id": ONE, "id": id_, "name": str(id_)}))
    return id_


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(days=st.permutations(range(5)))
def test_spellings_are_kept_in_the_history(store: Opened, days: list[int]) -> None:
    subject = f"s{next(NUMBERS)}"
    spellings = ["lives_in", "Lives in", "LIVES-IN", "lives  in", "lives_in"]
    for day in days:
        store.write(tell, offered(subject, spellings[day], f"city {day}", occurred_at=START + day * DAY))
    past = store.read(history, subject)
    assert [(item.predicate, item.content) for item in past] == [(spellings[day], f"city {day}") for day in range(5)]
    assert [item.state for item in past] == ["superseded"] * 4 + ["active"]


@pytest.mark.scenario("001-005", "001-017")
def test_the_database_refuses_a_second_active_fact_of_a_slot(store: Opened) -> None:
    entity = made_entity(store)
    for about in ({}, {"entity_id": entity}):
        first = offered("Anna", "favorite_drink", "tea", **about)
        store.write(insert, first)
        second = offered("ANNA", "Favorite-Drink", "coffee", **about)
        with pytest.raises(IntegrityError):
            store.write(insert, second)
        # A row that another program inserts has no folded names.
        for spelling in ({"predicate": first.folded_predicate}, {"subject": "Anna", "predicate": "favorite_drink"}):
            plain = replace(second, folded_subject=None, folded_predicate=None, **{"subject": "anna", **spelling})
            with pytest.raises(IntegrityError):
                store.write(insert, plain)
        for other in ({"scope": "work"}, {"owner": "3:bob"}, {"validity": "superseded"}, {"folded_predicate": "x"}):
            store.write(insert, replace(second, id=IDS(), **other))


def test_writers_of_several_spellings_at_once_leave_one_active(store: Opened) -> None:
    spellings = ["lives_in", "Lives In", "LIVES-IN", "lives in"] * 5
    offers = [offered("Anna", spelling, f"city {at}") for at, spelling in enumerate(spellings)]
    dated = [
        offered("ANNA", spelling, f"old {at}", occurred_at=START + at * DAY) for at, spelling in enumerate(spellings)
    ]
    mixed = [one for pair in zip(offers, dated, strict=True) for one in pair]
    answers = store.write_at_once(*(lambda conn, offer=offer: tell(conn, offer) for offer in mixed))
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    past = store.read(history, "anna")
    assert len(past) == 40 and next(item.content for item in past if item.state == "active").startswith("city")
    assert [item.state for item in past].count("active") == 1


def test_the_slot_is_found_through_an_index(store: Opened, engine: str) -> None:
    """Also with a condition for rows that have no folded names yet."""
    params = {**facts._slot_params(offered("Anna", "lives_in", "Rome", entity_id=IDS())), "place": 0}
    for slot in (facts._BY_SUBJECT, facts._BY_ENTITY):
        statement = f"SELECT {facts._CLAIM} FROM facts WHERE {slot} AND validity = 'active'"
        if engine == "sqlite":
            plan = store.read(lambda conn, sql=statement: conn.tuples(f"EXPLAIN QUERY PLAN {sql}", params))
        else:
            plan = store.read(
                lambda conn, sql=statement: [
                    conn.execute("SET LOCAL enable_seqscan = off"),
                    *conn.records(f"EXPLAIN {sql}", params),
                ]
            )
        assert "ux_facts" in str(plan), plan
