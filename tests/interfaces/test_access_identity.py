"""Tokens of an identity provider: who their holders are, and which are refused."""

import base64
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from access_parts import AUDIENCE, FACT, ISSUER, KEY, Provider, provider, public, service, settings
from http_parts import JSON, LIST
from service_parts import service_process

from tulving.config import parse
from tulving.errors import ConfigError
from tulving.interfaces.http.signing_keys import LARGEST, SigningKeys

pytestmark = pytest.mark.usefixtures("path")  # whatever the engine

ALL = "tulving:read tulving:write tulving:destroy"


@pytest.fixture
def issuer() -> Iterator[Provider]:
    with provider() as made:
        yield made


# -- who their holders are -------------------------------------------------------------------------------------


async def test_a_user_reaches_their_own_part_and_nobody_elses(environ, issuer: Provider):
    anna, bert = issuer.token(scope=ALL), issuer.token(sub="bert", scope=ALL)
    async with service(jwt=settings(issuer)) as here:
        stored = (await here.send("POST", "/v1/facts", anna, json=FACT)).json()
        path = f"/v1/memories/fact/{stored['id']}"
        mine = await here.send("GET", path, anna)
        assert (mine.status_code, mine.json()["memory"]["user_id"]) == (200, "anna")
        assert (await here.send("GET", path, bert)).status_code == 404
        assert (await here.send("DELETE", path, bert)).status_code == 404
        found = await here.send("POST", "/v1/search", bert, json={"query": "green"})
        assert (found.status_code, found.json()["results"]) == (200, [])
        named = await here.send("POST", "/v1/facts", bert, json={**FACT, "user_id": "anna"})
        assert named.status_code == 422
        [event] = await here.store.memory.events("fact", stored["id"])
        assert (event.tenant_id, event.actor) == ("default", "anna")


async def test_what_the_server_is_bound_to_holds_for_every_token(environ, issuer: Provider):
    async with service(jwt=settings(issuer), user_id="bert") as here:
        assert (await here.send("GET", "/v1/health", issuer.token(sub="bert"))).status_code == 200
        refused = await here.send("GET", "/v1/health", issuer.token())
        assert (refused.status_code, refused.json()["type"]) == (403, "/v1/problems/forbidden")


async def test_claims_mean_what_the_settings_say(environ, issuer: Provider):
    made = settings(
        issuer,
        tenant_claim="org",
        user_claim=None,
        actor_claim="email",
        rights_claim="groups",
        rights=["editors=read,write", "https://x.example/a=b=review"],
        default_rights=[],
    )
    told = {"org": "acme", "email": "anna@example.com"}
    async with service(jwt=made) as here:
        editor = issuer.token(**told, groups=["editors", "https://x.example/a=b", 7, "admins"])
        stored = (await here.send("POST", "/v1/facts", editor, json=FACT)).json()
        memory = (await here.send("GET", f"/v1/memories/fact/{stored['id']}", editor)).json()["memory"]
        assert (memory["tenant_id"], memory["user_id"]) == ("acme", None)
        assert (await here.send("DELETE", f"/v1/memories/fact/{stored['id']}", editor)).status_code == 403
        nobody = await here.send("POST", "/v1/search", issuer.token(**told), json={"query": "green"})
        assert (nobody.status_code, nobody.json()["type"]) == (403, "/v1/problems/forbidden")
        assert (await here.send("GET", "/v1/health", issuer.token())).status_code == 401  # without its tenant


async def test_without_a_claim_for_it_the_default_rights_hold(environ, issuer: Provider):
    async with service(jwt=settings(issuer)) as here:
        for scope in (None, "openid profile", ["tulving:write"] * 0, 7):
            reader = issuer.token(scope=scope)
            assert (await here.send("POST", "/v1/search", reader, json={"query": "x"})).status_code == 200
            assert (await here.send("POST", "/v1/facts", reader, json=FACT)).status_code == 403


async def test_one_token_opens_every_surface(environ, issuer: Provider):
    token = issuer.token(scope=ALL)
    async with service(jwt=settings(issuer), key=KEY) as here:
        assert (await here.send("GET", "/v1/health", token)).status_code == 200
        assert (await here.send("POST", "/mcp", token, json=LIST, headers=JSON)).status_code == 200
        door = await here.send("GET", "/console/login")
        form = {"_token": door.text.split('name="_token" value="')[1].split('"')[0], "token": token}
        visitor = door.headers["set-cookie"].split(";")[0]
        entered = await here.send("POST", "/console/login", data=form, headers={"cookie": visitor})
        assert entered.status_code == 303
        cookie = next(each for each in entered.headers.get_list("set-cookie") if "_access" in each).split(";")[0]
        assert (await here.send("GET", "/console", headers={"cookie": cookie})).status_code == 200
        forged = cookie[:-4] + ("AAAA" if not cookie.endswith("AAAA") else "BBBB")
        assert (await here.send("GET", "/console", headers={"cookie": forged})).status_code == 303
        assert (await here.send("GET", "/v1/health", KEY)).status_code == 200


@pytest.mark.parametrize("kind", ["RSA", "EC", "OKP"])
async def test_every_kind_of_key_can_sign(environ, issuer: Provider, kind: str):
    issuer.add("two", kind)
    async with service(jwt=settings(issuer)) as here:
        assert (await here.send("GET", "/v1/health", issuer.token("two"))).status_code == 200


async def test_keys_may_lie_in_a_file(environ, issuer: Provider, tmp_path: Path):
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.published())
    async with service(jwt=settings(issuer, jwks=str(file))) as here:
        assert (await here.send("GET", "/v1/health", issuer.token())).status_code == 200
    assert issuer.asked == 0


# -- which are refused -----------------------------------------------------------------------------------------


def claims() -> dict[str, Any]:
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "exp": int(time.time()) + 300}


def unsigned(issuer: Provider) -> str:
    _, body, _ = issuer.token().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT","kid":"one"}').rstrip(b"=").decode()
    return f"{none}.{body}."


def signed_with_what_is_public(issuer: Provider) -> str:
    """The classic confusion: a public key as the secret of an HMAC."""
    from hashlib import sha256
    from hmac import new

    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = issuer.keys["one"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    encode = lambda part: base64.urlsafe_b64encode(part).rstrip(b"=").decode()  # noqa: E731
    head = encode(json.dumps({"alg": "HS256", "typ": "JWT", "kid": "one"}).encode())
    body = issuer.token().split(".")[1]
    return f"{head}.{body}.{encode(new(pem, f'{head}.{body}'.encode(), sha256).digest())}"


def by_another(issuer: Provider) -> str:
    stranger = Provider()
    stranger.add("one")
    return stranger.token()


def with_a_key_of_its_own(issuer: Provider) -> str:
    stranger = Provider()
    stranger.add("mine")
    return stranger.token("mine", headers={"kid": "one", "jwk": public(stranger.keys["mine"], "one")})


def changed(issuer: Provider) -> str:
    head, body, signature = issuer.token().split(".")
    told = json.loads(base64.urlsafe_b64decode(body + "==")) | {"sub": "bert"}
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(told).encode()).rstrip(b'=').decode()}.{signature}"


REFUSED: dict[str, tuple[Any, str]] = {
    "expired": (lambda of: of.token(exp=int(time.time()) - 31), "expired"),
    "early": (lambda of: of.token(nbf=int(time.time()) + 60), "not valid yet"),
    "from the future": (lambda of: of.token(iat=int(time.time()) + 60), "not valid yet"),
    "other audience": (lambda of: of.token(aud="billing"), "audience"),
    "other audiences": (lambda of: of.token(aud=["billing", "tulving2"]), "audience"),
    "other issuer": (lambda of: of.token(iss="https://id.example.com"), "issuer"),
    "no end": (lambda of: of.token(exp=None), "lacks the claim exp"),
    "no audience": (lambda of: of.token(aud=None), "lacks the claim aud"),
    "no issuer": (lambda of: of.token(iss=None), "lacks the claim iss"),
    "no user": (lambda of: of.token(sub=None), "lacks the claim sub"),
    "empty user": (lambda of: of.token(sub=" "), "not a name"),
    "a number as user": (
        lambda of: jwt.encode({**claims(), "sub": 7}, of.keys["one"], "RS256", {"kid": "one"}),
        "name",
    ),
    "a user that can't be stored": (lambda of: of.token(sub="a\x00b"), "can't be used"),
    "a user without end": (lambda of: of.token(sub="a" * 300), "can't be used"),
    "an end that is no time": (lambda of: of.token(exp="tomorrow"), "not a time"),
    "an endless end": (lambda of: of.token(exp=float("inf")), "not a time"),
    "an end beyond all numbers": (lambda of: of.token(exp=10**400), "not a time"),
    "true as its end": (lambda of: of.token(exp=True), "not a time"),
    "unsigned": (unsigned, "not accepted"),
    "public secret": (signed_with_what_is_public, "not accepted"),
    "shared secret": (lambda of: jwt.encode(claims(), "s" * 64, "HS256", {"kid": "one"}), "not accepted"),
    "algorithm that is off": (lambda of: of.token(algorithm="PS256"), "not accepted"),
    "other signer": (by_another, "signature"),
    "own key": (with_a_key_of_its_own, "signature"),
    "changed": (changed, "signature"),
    "cut": (lambda of: of.token()[:-2], "token"),
    "unknown key": (lambda of: of.token(headers={"kid": "zwei"}), "not one of the identity provider"),
    "a path as key": (lambda of: of.token(headers={"kid": "../../etc/passwd"}), "not one of"),
    "a long name of a key": (lambda of: of.token(headers={"kid": "k" * 201}), "can't be read"),
    "demands": (lambda of: of.token(headers={"crit": ["exp"]}), "token"),
    "too long": (lambda of: of.token(more="x" * 9000), "too long"),
    "no token": (lambda of: "a.b.c", "can't be read"),
    "nested": (lambda of: "W1tb" * 1000 + ".e30.e30", "can't be read"),
}


async def test_what_is_not_right_is_refused_with_its_reason(environ, issuer: Provider, caplog):
    with caplog.at_level(logging.DEBUG):
        async with service(jwt=settings(issuer)) as here:
            for name, (make, reason) in REFUSED.items():
                token = make(issuer)
                answer = await here.send("GET", "/v1/health", token, client=f"10.0.0.{len(name)}")
                told = answer.json()
                assert (answer.status_code, told["type"]) == (401, "/v1/problems/invalid-token"), name
                assert reason in told["detail"], (name, told)
                challenge = answer.headers["www-authenticate"]
                assert challenge.startswith('Bearer realm="tulving", error="invalid_token", error_description="'), name
                assert challenge.count('"') == 6, name
                assert token not in answer.text and token not in caplog.text, name
                [_, body, signature] = token.split(".")
                for part in (body, signature):
                    assert len(part) < 8 or part not in answer.text + challenge + caplog.text, name
            assert (await here.send("GET", "/v1/health", issuer.token())).status_code == 200


async def test_a_clock_may_differ_a_little(environ, issuer: Provider):
    now = int(time.time())
    async with service(jwt=settings(issuer)) as here:
        for times in ({"exp": now - 20}, {"nbf": now + 20}, {"iat": now + 20}):
            assert (await here.send("GET", "/v1/health", issuer.token(**times))).status_code == 200
    async with service(jwt=settings(issuer, leeway=0)) as here:
        for times in ({"exp": now - 1}, {"nbf": now + 20}, {"iat": now + 20}):
            assert (await here.send("GET", "/v1/health", issuer.token(**times))).status_code == 401


async def test_the_kind_of_a_key_decides_what_it_may_sign(environ, issuer: Provider):
    """A key is only used for the algorithm that it is for, whatever a token says."""
    issuer.add("two", "EC")
    said = [public(issuer.keys["one"], "one", alg="RS512"), public(issuer.keys["two"], "two", use="enc")]
    issuer.said = json.dumps({"keys": [*said, {"kty": "oct", "kid": "three", "k": "c2VjcmV0" * 8}]}).encode()
    made = settings(issuer, algorithms=["RS256", "RS512", "ES256"])
    async with service(jwt=made) as here:
        for token, status in (
            (issuer.token(), 401),
            (issuer.token(algorithm="RS512"), 200),
            (issuer.token("two"), 401),
            (issuer.token("two", headers={"kid": "one"}), 401),
            (jwt.encode(claims(), b"secret" * 8, "HS256", {"kid": "three"}), 401),
        ):
            assert (await here.send("GET", "/v1/health", token)).status_code == status


async def test_without_the_name_of_a_key_there_must_be_one_only(environ, issuer: Provider):
    nameless = issuer.token(headers={"kid": None})
    async with service(jwt=settings(issuer)) as here:
        assert (await here.send("GET", "/v1/health", nameless)).status_code == 200
    issuer.add("two")
    async with service(jwt=settings(issuer)) as here:
        assert (await here.send("GET", "/v1/health", nameless)).status_code == 401
        assert (await here.send("GET", "/v1/health", issuer.token())).status_code == 200
    issuer.add("three", "EC")
    issuer.add("four", "EC of another curve")
    async with service(jwt=settings(issuer)) as here:
        nameless = issuer.token("three", headers={"kid": None})
        assert (await here.send("GET", "/v1/health", nameless)).status_code == 200


async def test_without_a_provider_its_tokens_are_unknown(environ, issuer: Provider):
    async with service() as here:
        answer = await here.send("GET", "/v1/health", issuer.token())
        assert (answer.status_code, answer.json()["detail"]) == (401, "the token is unknown, expired or revoked")
    assert issuer.asked == 0


# -- its keys --------------------------------------------------------------------------------------------------


class Time:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


async def status(here, token: str) -> int:
    return (await here.send("GET", "/v1/health", token)).status_code


async def test_keys_are_exchanged_while_it_runs(environ, issuer: Provider):
    clock = Time()
    old = issuer.token()
    async with service(SigningKeys(issuer.url, clock), jwt=settings(issuer)) as here:
        for _ in range(3):
            assert await status(here, old) == 200
        assert issuer.asked == 1
        issuer.add("two")
        del issuer.keys["one"]
        new = issuer.token("two")
        assert await status(here, new) == 401  # it was asked a moment ago
        clock.now += 11
        assert await status(here, new) == 200
        assert await status(here, old) == 401
        assert issuer.asked == 2


async def test_made_up_names_cost_the_provider_nothing(environ, issuer: Provider):
    clock = Time()
    async with service(
        SigningKeys(issuer.url, clock), jwt=settings(issuer), http={"failures_per_minute": 1000}
    ) as here:
        assert await status(here, issuer.token()) == 200
        for number in range(50):
            clock.now += 0.5
            assert await status(here, issuer.token(headers={"kid": f"made up {number}"})) == 401
        assert issuer.asked <= 1 + 50 * 0.5 / 10


async def test_what_is_known_serves_while_the_provider_is_down(environ, issuer: Provider, caplog):
    clock = Time()
    async with service(SigningKeys(issuer.url, clock), jwt=settings(issuer)) as here:
        assert await status(here, issuer.token()) == 200
        issuer.status = 500
        for _ in range(3):
            clock.now += 10_000
            assert await status(here, issuer.token()) == 200
        for said in (b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [7, {}]}', b"[" * 9999, b"{" * (LARGEST + 1)):
            issuer.status, issuer.said = 200, said
            clock.now += 10_000
            await status(here, issuer.token(headers={"kid": "other"}))
            assert await status(here, issuer.token()) == 200
        assert "the keys of the identity provider can't be read: it answered with status 500" in caplog.text


async def test_before_the_provider_was_reached_once_it_is_not_the_users_fault(environ, issuer: Provider):
    clock = Time()
    issuer.status = 503
    async with service(SigningKeys(issuer.url, clock), jwt=settings(issuer)) as here:
        answer = await here.send("GET", "/v1/health", issuer.token())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "identity provider" in answer.json()["detail"]
        assert await status(here, issuer.token()) == 503
        assert issuer.asked == 1
        issuer.status = 200
        clock.now += 11
        assert await status(here, issuer.token()) == 200


async def test_nobody_else_is_followed_for_keys(environ, issuer: Provider):
    with provider() as stranger:
        issuer.status, issuer.headers = 302, {"location": stranger.url}
        async with service(jwt=settings(issuer)) as here:
            assert await status(here, stranger.token()) == 503
        assert (issuer.asked, stranger.asked) == (1, 0)


async def test_a_provider_that_does_not_answer_is_given_up(environ, issuer: Provider):
    issuer.pause = 20.0
    async with service(SigningKeys(issuer.url, time.monotonic, seconds=0.2), jwt=settings(issuer)) as here:
        begun = time.monotonic()
        assert await status(here, issuer.token()) == 503
        assert time.monotonic() - begun < issuer.pause


@pytest.mark.filterwarnings("ignore:The RSA key")
async def test_weak_and_private_keys_are_left_out(environ, issuer: Provider):
    issuer.add("weak", bits=1024)
    private = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(issuer.keys["one"]))
    issuer.add("two", "EC")
    weak = public(issuer.keys["weak"], "weak")
    unsigned = {**public(issuer.keys["one"], "none"), "alg": "none"}
    listed = [weak, {**private, "kid": "one"}, unsigned, public(issuer.keys["two"], "two")]
    issuer.said = json.dumps({"keys": listed}).encode()
    async with service(jwt=settings(issuer)) as here:
        assert await status(here, issuer.token("weak")) == 401
        assert await status(here, issuer.token("one")) == 401
        assert await status(here, issuer.token("two")) == 200


def test_with_a_provider_it_is_served_to_others_without_a_token_of_ours(process, environ, issuer: Provider):
    made = settings(issuer)
    told = {f"TULVING_JWT__{name.upper()}": value for name, value in made.items()}
    with service_process(address="0.0.0.0", **told) as served:
        at = f"http://127.0.0.1:{served.port}/v1/stats"
        assert httpx2.get(at, timeout=30).status_code == 401
        good = {"authorization": f"Bearer {issuer.token()}"}
        assert httpx2.get(at, headers=good, timeout=30).status_code == 200
        assert "key=" not in served.said
    ran = process("serve", "127.0.0.1:0", "--open", **told)
    assert (ran.code, "open: is not possible with an identity provider" in ran.err) == (2, True)


# -- settings --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"audience": ""}, "jwt.issuer"),
        ({"jwks": ""}, "jwt.issuer"),
        ({"jwks": "ftp://id.example.com/keys"}, "jwt.jwks"),
        ({"jwks": "https://anna:secret@id.example.com/keys"}, "jwt.jwks"),
        ({"jwks": "keys.json"}, "jwt.jwks"),
        ({"algorithms": ["HS256"]}, "jwt.algorithms"),
        ({"algorithms": ["none"]}, "jwt.algorithms"),
        ({"algorithms": []}, "jwt.algorithms"),
        ({"leeway": -1}, "jwt.leeway"),
        ({"leeway": 3600}, "jwt.leeway"),
        ({"rights": ["editors"]}, "jwt.rights"),
        ({"rights": ["editors=fly"]}, "jwt.rights"),
        ({"rights": ["=read"]}, "jwt.rights"),
        ({"default_rights": ["fly"]}, "jwt.default_rights"),
        ({"actor_claim": ""}, "jwt.actor_claim"),
        ({"secret": "x"}, "jwt.secret"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changed: dict[str, Any], field: str):
    with pytest.raises(ConfigError) as problem:
        parse({"jwt": settings(Provider("https://id.example.com/keys"), **changed)})
    assert problem.value.field == field
    assert "secret" not in str(problem.value) or field == "jwt.secret"
