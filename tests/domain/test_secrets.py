"""Secrets in texts: what is one, what only looks like one, and what is left of a text without them.

No key stands here as a whole: other people's scanners read this file too.
"""

import json
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.quality import secrets as made_up
from tulving.domain.secrets import find, screened, suspicious

GITHUB = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
RANDOM = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYzq8Lm2Vt0R"


def redacted(text, **options):
    return screened(text, **options)[0]


@pytest.mark.parametrize("seed", [made_up.SEED, 1, 2])
def test_nearly_all_made_up_secrets_are_found(seed):
    drawn = list(made_up.secrets(seed))
    missed = [(form, text) for form, text, secret in drawn if not made_up.caught(text, secret)]
    assert len(missed) <= 0.01 * len(drawn), missed
    evident = [form for form, _ in missed if form in made_up.EVIDENT]
    assert not evident


@pytest.mark.parametrize("seed", [made_up.SEED, 1])
def test_digests_ids_code_and_prose_are_no_secrets(seed):
    assert [text for text in made_up.innocents(seed) if find(text)] == []


def test_screening_again_changes_nothing():
    for _, text, secret in made_up.secrets():
        once = redacted(text)
        assert secret not in once
        assert redacted(once) == once == redacted(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"pushed with {GITHUB}.", "pushed with [redacted: GitHub token]."),
        (f"token: {GITHUB}", "token: [redacted: GitHub token]"),
        ("AKIA" + "IOSFODNN7EXAMPLE", "[redacted: AWS access key]"),
        ("my password is hunter2", "my password is [redacted: password]"),
        ("password: hunter2, then go", "password: [redacted: password], then go"),
        ("Password: swordfish\nUser: bob", "Password: [redacted: password]\nUser: bob"),
        ("postgres://bob:hunter2@db/shop", "postgres://bob:[redacted: password]@db/shop"),
        ("mysql://bob:p@ss@db/shop", "mysql://bob:[redacted: password]@db/shop"),
        ("Server=db;Password=abc123;Database=x", "Server=db;Password=[redacted: password];Database=x"),
        ("GET /?api_key=a8f5f167f44f4964e6c9&q=1", "GET /?api_key=[redacted: key]&q=1"),
        (r"{\"password\": \"hunter2\"}", r"{\"password\": \"[redacted: password]\"}"),
        ("curl -u bob:hunter2 https://x.org", "curl -u bob:[redacted: password] https://x.org"),
        ("Authorization: Basic Ym9iOmh1bnRlcjI=", "Authorization: Basic [redacted: token]"),
        (f"the token, sent by mail, {RANDOM}", "the token, sent by mail, [redacted: token]"),
        ("İİ mein Passwort lautet hunter2", "İİ mein Passwort lautet [redacted: password]"),
        ("密码是hunter22", "密码是[redacted: password]"),
        ("пароль: qwerty123", "пароль: [redacted: password]"),
    ],
)
def test_only_the_secret_is_replaced(text, left):
    assert redacted(text) == left
    assert redacted(left) == left


@pytest.mark.parametrize(
    "text",
    [
        "the password is stored in the vault",
        "the password is wrong",
        "the password is case-sensitive",
        "the password was changed in 2023",
        "a password of 8+ characters",
        "password: [redacted: password]",
        "password: ${DB_PASSWORD}",
        "password = self.password",
        "password = getpass()",
        "secret: projects/12/secrets/db",
        f"sha of the tokenizer: {'9fceb02d0ae598e95dc9' * 2}",
        RANDOM,
        "http://localhost:8080/path@x",
        "xoxb-your-slack-token",
        "",
    ],
)
def test_what_is_no_secret(text):
    assert find(text) == []
    assert screened(text) == (text, [])


def block(name="RSA PRIVATE KEY", lines=4, end=True):
    random = Random(3)
    body = ["".join(random.choices(made_up.BASE64, k=64)) for _ in range(lines)]
    return "\n".join([f"-----BEGIN {name}-----", *body, *([f"-----END {name}-----"] if end else [])])


@pytest.mark.parametrize("name", ["PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PGP PRIVATE KEY BLOCK"])
def test_a_private_key_is_one_secret_with_or_without_its_end(name):
    for end in (True, False):
        assert redacted(f"see\n{block(name, end=end)}") == "see\n[redacted: private key]"
    escaped = block(name).replace("\n", "\\n")
    assert redacted(f'{{"k": "{escaped}"}}') == '{"k": "[redacted: private key]"}'
    diff = "\n".join("+" + line for line in block(name, end=False).splitlines())
    assert redacted(f"{diff}\n\n and (more)").startswith("+[redacted: private key]")
    assert "(more)" in redacted(f"{diff}\n\n and (more)")


def test_each_of_several_private_keys_is_found_and_the_text_between_them_stays():
    text = f"{block()}\nand then\n{block(lines=2)}\n-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----"
    assert [secret.kind for secret in find(text)] == ["private key"] * 2
    assert "and then" in redacted(text) and "...\n-----END" in redacted(text)


def test_json_stays_json():
    """The arguments of a tool call are JSON in a text, and so may be the text that has them."""
    for value in ("hunter2", 12345678):
        arguments = json.dumps({"password": value, "n": 1})
        for text, inner in (
            (arguments, str),
            (json.dumps({"arguments": arguments}), lambda said: json.loads(said)["arguments"]),
        ):
            said, found = screened(text)
            assert len(found) == 1
            assert json.loads(inner(said)) == {"password": "[redacted: password]", "n": 1}
            assert screened(said) == (said, [])


def test_a_name_tells_what_its_value_is():
    assert find("hunter2") == []
    assert [secret.kind for secret in find("hunter2", "wifi_password")] == ["password"]
    assert [secret.kind for secret in find(GITHUB, "token")] == ["GitHub token"]
    assert redacted(" hunter2 ", name="Password") == "[redacted: password]"
    assert redacted("9b2f8c1d7e6a4f03", name="stripeApiKey") == "[redacted: key]"
    for name, value in (
        ("password", "in the vault"),
        ("password_policy", "hunter2"),
        ("monkey", "9b2f8c1d7e6a4f03"),
        ("page_token", "9b2f8c1d7e6a4f03"),
        ("password", "changeme"),
        ("password", ""),
    ):
        assert find(value, name) == []


def test_what_is_allowed_stays():
    allow = [re.compile("ghp_a.*"), re.compile("hunter2")]
    text = f"{GITHUB} and password: hunter2 and password: hunter22"
    assert redacted(text, allow=allow) == f"{GITHUB} and password: hunter2 and password: [redacted: password]"


PIECES = st.sampled_from(
    [
        *(
            "password",
            "token",
            "api_key",
            "secret",
            "my ",
            " is ",
            ": ",
            "=",
            " ",
            "\n",
            '"',
            "'",
            "]",
            "[",
            "://",
            "@",
        ),
        *(
            "bob",
            "hunter2",
            "the",
            "curl -u ",
            "Bearer ",
            "Authorization: ",
            "eyJ",
            ".",
            "sk-",
            "--",
            "İ",
            "\0",
            "пароль",
        ),
        *(
            GITHUB,
            RANDOM,
            "[redacted: password]",
            "[redacted: ",
            "AKIA",
            "9b2f8c1d7e6a4f03",
            ";",
            ",",
            "&",
            "<",
            "{",
            "$",
        ),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "A" * 40, "a1" * 20),
    ]
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=25).map("".join))
def test_any_text_is_screened_once_and_for_all(text):
    found = find(text)
    places = [0, *(at for secret in found for at in (secret.start, secret.end)), len(text)]
    assert places == sorted(places) and all(secret.start < secret.end for secret in found)
    assert found == [] or suspicious(text)
    once = redacted(text)
    assert find(once) == []
    assert redacted(once) == once


@pytest.mark.parametrize(
    "piece",
    ["eyJ", "eyJaaaaaaaaaa.", "token=", "-----BEGIN PRIVATE KEY-----", "://a:", "sk-", "curl -u ", "bearer ", "a"],
)
def test_a_large_hostile_text_is_read_in_one_go(piece):
    assert len(find("token: " + piece * (300_000 // len(piece)))) < 100_000
