from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tulving.domain.claims import Claim, decide, key
from tulving.domain.model import Fact

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def fact(content_hash: str = "h", **values: Any) -> Fact:
    known = {"tenant_id": "t", "id": UUID(int=1), "content": "c", "subject": "Anna", "predicate": "likes"}
    return Fact(**{**known, **values}, content_hash=content_hash, created_at=NOW, updated_at=NOW)


@pytest.mark.scenario("001-017")
@pytest.mark.parametrize(
    ("keyed", "current", "decision"),
    [
        (True, None, "store"),
        (False, None, "store"),
        (True, "h", "confirm"),
        (False, "h", "duplicate"),
        (True, "other", "supersede"),
        (True, "", "supersede"),
    ],
    ids=["new key", "new note", "same content", "same note", "other content", "not completed yet"],
)
def test_what_becomes_of_an_offer(keyed: bool, current: str | None, decision: str) -> None:
    known = None if current is None else Claim(UUID(int=2), current or None, None)
    assert decide(fact(keyed=keyed), known) == decision


def test_a_key_is_that_of_the_entity_or_the_subject_and_of_its_owner() -> None:
    entity = UUID(int=9)
    assert key(fact()) == key(fact("other"))
    assert key(fact(entity_id=entity)) == key(fact(entity_id=entity, subject="Ann"))
    different = [
        fact(),
        fact(entity_id=entity),
        fact(subject="Ben"),
        fact(predicate="hates"),
        fact(scope="work"),
        fact(owner="5:alice"),
        fact(tenant_id="u"),
        fact(keyed=False),
        fact("other", keyed=False),
    ]
    assert len(set(map(key, different))) == len(different)
