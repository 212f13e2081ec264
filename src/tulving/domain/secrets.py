"""Secrets in a text: keys, tokens, passwords and private keys, found by their form or by what stands before them.

Three nets, from the most certain to the least: formats that nothing else has (`ghp_...`), values that are assigned to a
telling name (`password: ...`, "my password is ..."), and random strings close behind such a word. A random string alone
is no secret here: digests, commits, ids and checksums look the same. Every expression takes linear time, and a text
without any of the words and prefixes is left after a few substring searches.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tulving.domain import secret_values

POLICIES = ("off", "warn", "redact", "refuse")
MOST_PASSES = 8
SHORT = 2_000
SHORTEST = 15
"""A short text without telling words and without a piece of so many characters can't hold a secret."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Where a text holds a secret, and of which kind. Never the secret itself."""

    kind: str
    start: int
    end: int


def find(text: str, name: str | None = None) -> list[Secret]:
    """The secrets in a text, in order and apart from each other; `name` is what the text is the value of, if known."""
    kind = secret_values.named(name, text) if name else None
    whole = [Secret(kind, 0, len(text))] if kind else []
    if not suspicious(text):
        return whole
    if "[redacted: " in text:
        text = _MARK.sub(lambda mark: "\0" * len(mark[0]), text)
    lower = secret_values.lowered(text)
    words = secret_values.telling_words(lower)
    found: list[Secret] = []
    for form in _FORMATS:
        if any(prefix in lower for prefix in form.prefixes):
            found += form.find(text)
    if "-----begin" in lower:
        found += _private_keys(text)
    found += [Secret(*each) for each in secret_values.assigned(text, lower, words)]
    ends = [*(end for _, _, end in words), *(each.end for each in found)]
    found += [Secret(*each) for each in secret_values.random_behind(text, ends)]
    return _apart(found + whole)


def suspicious(text: str) -> bool:
    """Whether a text needs a closer look, told in a few microseconds. If not, it holds no secret."""
    if len(text) >= SHORT or "://" in text or max(map(len, text.split()), default=0) >= SHORTEST:
        return True
    lower = text.lower()
    return "curl " in lower or "authorization" in lower or secret_values.has_stem(lower)


def screened(text: str, allow: Sequence[re.Pattern[str]] = (), name: str | None = None) -> tuple[str, list[Secret]]:
    """The text with a mark in place of each secret, and the secrets, with their places in the original text. What one
    of the expressions in `allow` matches as a whole is left."""
    first = kept = _not_allowed(text, find(text, name), allow)
    for _ in range(MOST_PASSES):  # a mark can bring a value closer to a word
        if not kept:
            break
        text = _redacted(text, kept)
        kept = _not_allowed(text, find(text), allow)
    return text, first


def _not_allowed(text: str, secrets: list[Secret], allow: Sequence[re.Pattern[str]]) -> list[Secret]:
    if not allow:
        return secrets
    return [each for each in secrets if not any(one.fullmatch(text, each.start, each.end) for one in allow)]


def _redacted(text: str, secrets: Sequence[Secret]) -> str:
    parts, at = list[str](), 0
    for secret in secrets:
        member = _MEMBER.search(text[max(0, secret.start - 12) : secret.start])
        # In place of a number in JSON the mark needs quotes, so that the arguments of a tool can still be read.
        quote = member[1] if member and text[secret.start : secret.end].isdecimal() else ""
        parts += text[at : secret.start], f"{quote}[redacted: {secret.kind}]{quote}"
        at = secret.end
    return "".join(parts) + text[at:]


def _apart(found: Sequence[Secret]) -> list[Secret]:
    """Those that overlap as one. Its kind is that of the one found first, which is the most certain."""
    ranked = sorted(enumerate(found), key=lambda each: each[1].start)
    apart: list[tuple[int, Secret]] = []
    for rank, secret in ranked:
        if apart and secret.start < apart[-1][1].end:
            before, known = apart.pop()
            kind = known.kind if before < rank else secret.kind
            rank, secret = min(before, rank), Secret(kind, known.start, max(known.end, secret.end))
        apart.append((rank, secret))
    return [secret for _, secret in apart]


# -- formats -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Format:
    """A form that only secrets have. `prefixes` are lower-case texts, one of which every match holds; the secret is the
    last group of the expression. `fits` judges what the expression can't."""

    kind: str
    prefixes: tuple[str, ...]
    pattern: re.Pattern[str]
    fits: Callable[[re.Match[str]], object] = bool

    def find(self, text: str) -> Iterator[Secret]:
        for match in self.pattern.finditer(text):
            if self.fits(match):
                yield Secret(self.kind, *match.span(match.lastindex or 0))


def _form(kind: str, prefixes: str, pattern: str, fits: Callable[[re.Match[str]], object] = bool) -> _Format:
    return _Format(kind, tuple(prefixes.split()), re.compile(rf"(?<![A-Za-z0-9])({pattern})"), fits)


def _has_digits(match: re.Match[str]) -> bool:
    return any(map(str.isdigit, match[1]))


def _has_random_part(match: re.Match[str]) -> bool:
    return secret_values.is_random(match[1], 16)


_FORMATS = (
    _form("AWS access key", "akia asia abia acca", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _Format(
        "AWS secret key",
        ("secret",),
        re.compile(
            r"(?i:secret[ _-]?(?:access[ _-]?)?key|aws[ _-]?secret)(?:[\"']?\s{0,3}[=:]\s{0,3}| is )[\"']?"
            r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
    ),
    _form(
        "GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_(?:\d+_eyJ[A-Za-z0-9_.-]{30,2000}|[A-Za-z0-9]{30,255})"
    ),
    _form("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    _form("GitLab token", "gl", r"gl(?:pat|ptt|dt|rt|cbt|ft|imt|agent|oas|soat|ffct|rtr)-[A-Za-z0-9_.-]{18,200}"),
    _form("GitLab token", "gr1348941", r"GR1348941[A-Za-z0-9_-]{20,100}"),
    _form("Slack token", "xox", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,300}", _has_digits),
    _form("Slack token", "xapp-", r"xapp-\d-[A-Za-z0-9-]{10,300}"),
    _form(
        "Slack webhook",
        "hooks.slack.com",
        r"(?:https://)?hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,200}",
    ),
    _form(
        "Discord webhook",
        "/api/webhooks/",
        r"(?:https://)?discord(?:app)?\.com/api/webhooks/\d{10,25}/[A-Za-z0-9_-]{40,100}",
    ),
    _form("Stripe key", "k_live_ k_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,250}"),
    _form("Stripe key", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,100}"),
    _form("Anthropic key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,250}", _has_random_part),
    _form("OpenAI key", "sk-", r"sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{16,250}", _has_random_part),
    _form("API key", "sk-", r"sk-[A-Za-z0-9_-]{20,250}", _has_random_part),
    _form("Google API key", "aiza", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _form("Google token", "gocspx- ya29.", r"(?:GOCSPX-[A-Za-z0-9_-]{20,60}|ya29\.[A-Za-z0-9_.-]{20,2000})"),
    _form("npm token", "npm_", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _form("PyPI token", "pypi-", r"pypi-A[A-Za-z0-9_-]{50,1000}"),
    _form("Hugging Face token", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z0-9]{30,60}(?![A-Za-z0-9_])"),
    _form("SendGrid key", "sg.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
    _form("Twilio key", "sk", r"SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _form("Telegram bot token", ":aa", r"\d{7,11}:AA[A-Za-z0-9_-]{30,40}(?![A-Za-z0-9_-])"),
    _form("DigitalOcean token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    _form("Shopify token", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _form("Vault token", "hvs. hvb.", r"hv[sb]\.[A-Za-z0-9_-]{24,250}"),
    _form("Tailscale key", "tskey-", r"tskey-[a-z]{2,10}-[A-Za-z0-9-]{16,100}"),
    _form("age key", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{40,80}"),
    _Format(
        "JSON web token",
        ("eyj",),
        # Only from the start of a run, and without going back: else a long run would be read from each `eyJ` in it.
        re.compile(r"(?<![A-Za-z0-9_.-])(eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+)?)"),
    ),
    _Format(
        "password",
        ("://",),
        re.compile(r"://([^\s/:@\"'<>\0]{0,100}):([^\s/\"'<>\0]{1,200})@(?=[A-Za-z0-9\[.$%{_-])"),
        lambda match: match[1] != match[2] and not secret_values.is_placeholder(match[2]),
    ),
)


def _private_keys(text: str) -> Iterator[Secret]:
    """Blocks of PEM, OpenSSH and PGP. One without an end reaches as far as its lines look like a key's."""
    begins = list(_BEGIN.finditer(text))
    limits = [*(begin.start() for begin in begins[1:]), len(text)]
    for begin, limit in zip(begins, limits, strict=False):
        if end := _END.search(text, begin.end(), limit):
            if _BODY.search(text, begin.end(), end.start()):
                yield Secret("private key", begin.start(), end.end())
        elif (rest := _TRUNCATED.match(text, begin.end(), limit)) and _BODY.search(rest[0]):
            yield Secret("private key", begin.start(), rest.end())


_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(r"[A-Za-z0-9+/]{24}")
_TRUNCATED = re.compile(
    r"(?:(?:\s|\\[nr]|[-+|>\"',#])*+(?:[A-Za-z][A-Za-z-]{2,20}: [^\n\\]{0,100}|[A-Za-z0-9+/=]{16,}+))*+"
    r"(?:(?:\s|\\[nr]|[-+|>\"',#])*+[A-Za-z0-9+/=]{1,15}(?![A-Za-z0-9+/=]))?"  # the last line is short
)
_MEMBER = re.compile(r"(\\{0,4}\")\s{0,3}:\s{0,3}$")
_MARK = re.compile(r"\[redacted: [A-Za-z ]{1,30}\]")
