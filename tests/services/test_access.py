"""Tokens as the library keeps them: who has which, until when, and what of them is never kept."""

import json
import secrets
from dataclasses import fields
from typing import get_args

import pytest
from administration import administer, authentication

from tulving import Caller, InvalidInput, Memory, NotFound
from tulving.domain.access import ALL_RIGHTS, RIGHTS, NewToken, Token, digest
from tulving.domain.scope import Allowance
from tulving.services.operations import Effect
from tulving.testing import ManualClock


def drawn() -> str:
    return f"tulving_{secrets.token_urlsafe(32)}"


def known(token: NewToken) -> Token:
    """What the store knows of a token that was just made."""
    return Token(**{each.name: getattr(token, each.name) for each in fields(Token)})


def test_a_right_is_an_effect_of_an_operation():
    assert get_args(Effect) == ALL_RIGHTS
    assert ALL_RIGHTS[: len(RIGHTS)] == RIGHTS


async def test_a_token_stands_for_its_tenant_actor_and_rights(memory: Memory):
    secret = drawn()
    theirs = memory.bind(caller=Caller("anna"))
    token = await administer(theirs).create_token(
        secret, name="laptop", actor="claude", rights=["destroy", "read", "read"]
    )
    found = await authentication(memory).authenticate(secret)
    assert found == known(token)
    assert token.secret == secret
    assert (token.tenant_id, token.name, token.actor, token.rights) == ("anna", "laptop", "claude", ("read", "destroy"))
    spent_by = Allowance(str(token.id), None)
    assert token.caller("42") == Caller("anna", "claude", "42", allowance=spent_by)
    assert await authentication(memory).authenticate(secret[:-1]) is None
    assert await authentication(memory).authenticate("") is None
    assert await authentication(memory).authenticate(digest(secret)) is None
    assert await authentication(memory).authenticate("\ud800\x00") is None


async def test_the_actor_is_the_name_unless_it_is_given(memory: Memory):
    assert (await administer(memory).create_token(drawn(), name="laptop")).actor == "laptop"
    assert (await administer(memory).create_token(drawn())).actor is None
    assert (await administer(memory).create_token(drawn())).rights == RIGHTS


async def test_a_token_ends_when_its_time_is_over(memory: Memory, clock: ManualClock):
    secret = drawn()
    token = await administer(memory).create_token(secret, days=1.5)
    clock.advance(days=1.5, microseconds=-1)
    assert await authentication(memory).authenticate(secret)
    assert token.state(clock()) == "active"
    clock.advance(microseconds=1)
    assert await authentication(memory).authenticate(secret) is None
    assert token.state(clock()) == "expired"
    assert await authentication(memory).needs_token(), "time alone must not open a door"


async def test_revoking_ends_a_token_at_once_and_only_that_one(memory: Memory, clock: ManualClock):
    assert not await authentication(memory).needs_token()
    kept, gone = drawn(), drawn()
    other = await administer(memory).create_token(kept)
    token = await administer(memory.bind(caller=Caller("anna"))).create_token(gone)
    clock.advance(hours=1)
    revoked = await administer(memory).revoke_token(str(token.id))
    assert revoked.revoked_at == clock()
    assert revoked.state(clock()) == "revoked"
    assert await authentication(memory).authenticate(gone) is None
    assert await authentication(memory).authenticate(kept) == known(other)
    clock.advance(hours=1)
    assert await administer(memory).revoke_token(str(token.id)) == revoked
    assert await administer(memory).list_tokens() == [known(other), revoked]
    assert await authentication(memory).needs_token()
    await administer(memory).revoke_token(str(other.id))
    assert not await authentication(memory).needs_token()


async def test_the_beginning_of_an_id_is_enough_if_it_is_the_only_one(memory: Memory):
    tokens = [await administer(memory).create_token(drawn()) for _ in range(3)]
    with pytest.raises(InvalidInput, match="3 tokens begin like this"):
        await administer(memory).revoke_token(str(tokens[0].id)[:8])
    assert not any(token.revoked_at for token in await administer(memory).list_tokens())
    assert (await administer(memory).revoke_token(str(tokens[1].id).upper())).id == tokens[1].id


@pytest.mark.parametrize("id_", ["ffff", "00000000-0000-7000-8000-00000000ffff", "%%%%", "____"])
async def test_an_unknown_id_is_said_to_be_unknown(memory: Memory, id_: str):
    await administer(memory).create_token(drawn())
    with pytest.raises(NotFound, match="there is no token"):
        await administer(memory).revoke_token(id_)


@pytest.mark.parametrize("id_", ["", "   ", "000", "0000\x00", "0" * 41, None, 3])
async def test_what_is_no_id_is_refused(memory: Memory, id_):
    await administer(memory).create_token(drawn())
    with pytest.raises(InvalidInput, match="token_id"):
        await administer(memory).revoke_token(id_)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("name", {"name": "a\x00b"}),
        ("name", {"name": "n" * 201}),
        ("name", {"name": "  "}),
        ("name", {"name": "\ud800"}),
        ("actor", {"actor": "a\x00b"}),
        ("actor", {"actor": "a" * 201}),
        ("rights", {"rights": ["read", "fly"]}),
        ("rights", {"rights": []}),
        ("rights", {"rights": "read"}),
        ("rights", {"rights": [["read"]]}),
        ("days", {"days": 0}),
        ("days", {"days": -1}),
        ("days", {"days": float("nan")}),
        ("days", {"days": float("inf")}),
        ("days", {"days": 40_000}),
        ("days", {"days": "7"}),
    ],
)
async def test_bad_input_names_the_field_and_makes_no_token(memory: Memory, field: str, given: dict):
    with pytest.raises(InvalidInput) as refused:
        await administer(memory).create_token(drawn(), **given)
    assert refused.value.field == field
    assert await administer(memory).list_tokens() == []


@pytest.mark.parametrize(
    "secret", ["", "short", "tulving_short", "tulving_" + "a" * 42, "x" * 51, "tulving_" + "é" * 43]
)
async def test_a_weak_secret_is_refused(memory: Memory, secret):
    with pytest.raises(InvalidInput, match="secret"):
        await administer(memory).create_token(secret)


async def test_no_two_tokens_share_a_secret(memory: Memory):
    secret = drawn()
    await administer(memory).create_token(secret)
    with pytest.raises(InvalidInput, match="another token"):
        await administer(memory.bind(caller=Caller("anna"))).create_token(secret)
    assert len(await administer(memory).list_tokens()) == 1


async def test_each_change_is_one_event_of_the_tokens_tenant_without_the_secret(memory: Memory, clock: ManualClock):
    heard = []
    memory.bind(caller=Caller("anna")).subscribe(heard.extend)
    secret = drawn()
    token = await administer(memory.bind(caller=Caller("anna", "boss"))).create_token(secret, name="laptop", days=1)
    await administer(memory.bind(caller=Caller("default", "chief"))).revoke_token(str(token.id))
    await administer(memory).revoke_token(str(token.id))
    kept = await memory.bind(caller=Caller("anna")).events("fact", str(token.id))
    assert [(event.event_type, event.entity_type, event.actor) for event in kept] == [
        ("token_created", "token", "boss"),
        ("token_revoked", "token", "chief"),
    ]
    assert [event.id for event in heard] == [event.id for event in kept]
    assert kept[0].payload == {"rights": list(RIGHTS), "expires_at": token.expires_at and token.expires_at.isoformat()}
    everything = repr(kept) + repr(token)
    assert secret not in everything
    assert digest(secret) not in everything
    assert await memory.events("fact", str(token.id)) == []


async def test_an_export_has_no_tokens(memory: Memory, tmp_path):
    secret = drawn()
    await administer(memory).create_token(secret)
    counts = await administer(memory).export(tmp_path / "export.jsonl")
    text = (tmp_path / "export.jsonl").read_text()
    assert "access_tokens" not in counts
    assert secret not in text
    assert digest(secret) not in text
    assert {json.loads(line).get("table") for line in text.splitlines()} == {None, "memory_events"}


async def test_a_secret_that_nobody_gives_is_drawn(memory: Memory):
    first, second = [await administer(memory).create_token(name="laptop") for _ in range(2)]
    assert first.secret != second.secret
    assert await authentication(memory).authenticate(first.secret) == known(first)
    assert first.secret not in repr(first)


async def test_an_administrator_makes_tokens_for_other_tenants_and_their_trail_tells(memory: Memory):
    boss = administer(memory.bind(caller=Caller("office", "boss")))
    token = await boss.create_token(tenant_id="anna", rights=["read"])
    assert (await authentication(memory).authenticate(token.secret)).tenant_id == "anna"  # pyright: ignore
    await boss.revoke_token(str(token.id))
    for tenant, told in (("anna", ["token_revoked", "token_created"]), ("office", [])):
        trail = await memory.bind(caller=Caller(tenant)).audit()
        assert [event.event_type for event in trail] == told
        assert {event.actor for event in trail} <= {"boss"}
    assert await boss.list_tokens(tenant_id="office") == []
    assert [each.id for each in await boss.list_tokens(tenant_id="anna")] == [token.id]
    with pytest.raises(InvalidInput, match="tenant_id"):
        await boss.create_token(tenant_id="t" * 201)
