"""What a token may have of a server, and how guessing is slowed down."""

import json
from typing import Any

import pytest
from access_parts import FACT, KEY, Service, provider, service, settings
from http_parts import JSON, LIST
from httpx2 import Response
from hypothesis import given
from hypothesis import strategies as st

from tulving.interfaces.console import security
from tulving.interfaces.http.rates import Rates
from tulving.ports import Completion
from tulving.testing import ScriptedLlm

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine

WRONG = "tulving_" + "W" * 43


class Time:
    """A clock that is set by hand."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


# -- requests --------------------------------------------------------------------------------------------------


@given(st.integers(1, 1000), st.floats(0, 1e6))
def test_a_minutes_worth_may_come_at_once_and_no_more_in_any_minute(per_minute: int, begin: float):
    clock = Time(begin)
    rates = Rates(clock)
    assert [rates.take("a", per_minute) for _ in range(per_minute)] == [0.0] * per_minute
    wait = rates.take("a", per_minute)
    assert wait == pytest.approx(60 / per_minute, abs=1e-3)
    assert rates.wait("b", per_minute) == 0.0
    clock.now += wait + 1e-5
    assert rates.take("a", per_minute) == 0.0
    assert rates.take("a", per_minute) > 0.0


def test_what_is_counted_stays_small():
    clock = Time()
    rates = Rates(clock, most_known=100)
    for number in range(10_000):
        rates.take(number, 1)
    assert len(rates) == 100
    clock.now += 120
    rates.take("last", 1)
    assert len(rates) == 1


async def test_a_token_has_its_requests_in_a_minute_and_is_told_when_there_are_more(environ):
    clock = Time()
    async with service(clock=clock, http={"requests_per_minute": 5}) as here:
        mine, theirs = await here.create(), await here.create()
        own = await here.create(requests_per_minute=2)
        for _ in range(5):
            assert (await here.send("GET", "/v1/health", mine)).status_code == 200
        answer = await here.send("GET", "/v1/health", mine)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "12")
        assert answer.headers["content-type"] == "application/problem+json"
        assert (answer.json()["type"], "5 requests" in answer.json()["detail"]) == (
            "/v1/problems/too-many-requests",
            True,
        )
        over_mcp = await here.send("POST", "/mcp", mine, json=LIST, headers=JSON)
        assert (over_mcp.status_code, over_mcp.headers["retry-after"]) == (429, "12")
        assert over_mcp.json()["error"] == "too_many_requests"
        assert (await here.send("GET", "/v1/health", theirs)).status_code == 200
        assert [(await here.send("GET", "/v1/health", own)).status_code for _ in range(3)] == [200, 200, 429]
        clock.now += 12
        assert [(await here.send("GET", "/v1/health", mine)).status_code for _ in range(2)] == [200, 429]


async def test_each_user_of_a_provider_has_a_count_of_their_own(environ):
    with provider() as issuer:
        async with service(jwt=settings(issuer), http={"requests_per_minute": 1}, clock=Time()) as here:
            for user in ("anna", "bert"):
                first, second = issuer.token(sub=user), issuer.token(sub=user, jti="2")
                assert (await here.send("GET", "/v1/health", first)).status_code == 200
                assert (await here.send("GET", "/v1/health", second)).status_code == 429


# -- bodies ----------------------------------------------------------------------------------------------------


async def test_a_body_is_as_large_as_its_sender_may_send(environ):
    async with service(http={"largest_body": 2000}, key=KEY) as here:
        small, large = await here.create(), await here.create(largest_body=100_000)
        for path, headers, body in (
            ("/v1/facts", {}, FACT),
            ("/v1/facts/batch", {}, {"items": [FACT]}),
            ("/mcp", JSON, LIST),
        ):
            long = {**body, "padding": "x" * 3000} if path == "/mcp" else body
            text = json.dumps(long).encode() + b" " * 3000

            async def streamed(text: bytes = text) -> Any:
                for start in range(0, len(text), 500):
                    yield text[start : start + 500]

            headers = {"content-type": "application/json", **headers}
            for content, sender in ((text, small), (streamed(), small), (text, KEY)):
                refused = await here.send("POST", path, sender, content=content, headers=headers)
                assert refused.status_code == 413, path
            assert (await here.send("POST", path, large, content=text, headers=headers)).status_code < 300, path
            assert (await here.send("POST", path, small, json=body, headers=headers)).status_code < 300, path


# -- language models -------------------------------------------------------------------------------------------


async def test_model_tokens_are_counted_for_each_token_in_the_store(environ):
    """Another process knows what the first one spent, and each token has its own."""
    llm = ScriptedLlm(Completion('{"facts": []}', False, 3000, 1000), forever=True)

    async def learn(at: Service, secret: str) -> Response:
        said = {"conversation": "User: I moved to Lisbon last year."}
        return await at.send("POST", "/v1/learn", secret, json=said, headers={"tulving-user": "anna"})

    limits = {"model_tokens_per_day": 12_000}
    async with service(llm=llm, http=limits) as here, service(llm=llm, http=limits) as other:
        poor, rich = await here.create(model_tokens_per_day=8_000), await here.create()
        none = await here.create(model_tokens_per_day=0)
        assert (await learn(here, poor)).status_code == 200
        for at in (here, other):
            refused = await learn(at, poor)
            assert (refused.status_code, refused.json()["type"]) == (429, "/v1/problems/too-many-requests")
            assert "4,000 tokens are spent of 8,000 by this access token on this day" in refused.json()["detail"]
            assert int(refused.headers["retry-after"]) > 0
        assert (await learn(other, none)).status_code == 429
        assert [(await learn(at, rich)).status_code for at in (here, other, here)] == [200, 200, 429]
    assert len(llm.prompts) == 3


# -- guessing --------------------------------------------------------------------------------------------------


async def test_who_guesses_must_wait_and_nobody_else(environ):
    clock = Time()
    async with service(clock=clock, http={"failures_per_minute": 3}) as here:
        good, unused = await here.create(), await here.create()
        assert (await here.send("GET", "/v1/health", good)).status_code == 200
        for number in range(3):
            assert (await here.send("GET", "/v1/health", WRONG[:-1] + str(number))).status_code == 401
        for path in ("/v1/health", "/mcp"):
            method = "POST" if path == "/mcp" else "GET"
            answer = await here.send(method, path, WRONG, headers=JSON)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "20")
        assert answer.json()["error"] == "too_many_failures"
        cookie = {"cookie": f"tulving_access_8321={WRONG}"}
        assert (await here.send("GET", "/console", headers=cookie)).status_code == 429
        form = {"_token": security.form_token("v"), "token": WRONG}
        visitor = {"cookie": "tulving_visitor_8321=v"}
        answer = await here.send("POST", "/console/login", data=form, headers=visitor)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "20")
        assert (await here.send("GET", "/v1/health", good)).status_code == 200  # it was good before
        assert (await here.send("GET", "/v1/health", unused)).status_code == 429
        assert (await here.send("GET", "/v1/health")).status_code == 401  # nothing was guessed
        assert (await here.send("GET", "/v1/health", unused, client="10.0.0.7")).status_code == 200
        clock.now += 20
        assert (await here.send("GET", "/v1/health", WRONG)).status_code == 401
        assert (await here.send("GET", "/v1/health", WRONG)).status_code == 429


async def test_a_token_that_was_good_before_and_is_revoked_is_a_guess_like_others(environ):
    async with service(clock=Time(), http={"failures_per_minute": 2}) as here:
        secret = await here.create()
        assert (await here.send("GET", "/v1/health", secret)).status_code == 200
        [token] = await here.store.administration.list_tokens()
        await here.store.administration.revoke_token(str(token.id))
        statuses = [(await here.send("GET", "/v1/health", secret)).status_code for _ in range(4)]
        assert statuses == [401, 401, 429, 429]


async def test_a_good_token_with_a_request_that_is_not_is_no_guess(environ):
    async with service(clock=Time(), http={"failures_per_minute": 1}) as here:
        secret, reader = await here.create(), await here.create(rights=["write"])
        for _ in range(3):
            for asked, token, headers in ((400, secret, {"idempotency-key": ""}), (403, reader, {})):
                assert (await here.send("GET", "/v1/health", token, headers=headers)).status_code == asked


async def test_a_network_of_ipv6_is_one_client(environ):
    async with service(clock=Time(), http={"failures_per_minute": 5}) as here:
        statuses = [
            (await here.send("GET", "/v1/health", WRONG, client=f"2001:db8::{number:x}")).status_code
            for number in (*range(7), 0xFFFF)
        ]
        assert statuses == [401] * 5 + [429] * 3
        assert (await here.send("GET", "/v1/health", WRONG, client="2001:db9::1")).status_code == 401


# -- at the command line ---------------------------------------------------------------------------------------


def test_a_token_is_created_with_limits(cli):
    options = "--requests-per-minute", "60", "--model-tokens-per-day", "0", "--largest-body", "2048"
    made = json.loads(cli("token", "create", *options, "--json").out)
    assert (made["requests_per_minute"], made["model_tokens_per_day"], made["largest_body"]) == (60, 0, 2048)
    [listed] = json.loads(cli("token", "list", "--json").out)["tokens"]
    assert (listed["requests_per_minute"], listed["largest_body"]) == (60, 2048)
    for option, value in (("requests-per-minute", "0"), ("model-tokens-per-day", "-1"), ("largest-body", "10")):
        ran = cli("token", "create", f"--{option}", value)
        assert (ran.code, option.replace("-", "_") in ran.err) == (2, True)
