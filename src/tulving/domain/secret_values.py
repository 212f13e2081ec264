"""Values that only their context makes secrets: what a telling name or sentence says, and how random a string looks."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log2

NEAR = 40
"""How far behind a telling word a random string still counts, in characters."""
LONG = 200
"""How much of a value is looked at, in characters: its beginning says what it is."""
_PASSWORD = (
    r"passwor[dt]|passwd|passphrase|passcode|kennwort|pwd|contraseña|mot de passe|senha|wachtwoord|пароль|密码|"
    r"パスワード"
)
_WORD = re.compile(rf"{_PASSWORD}|key|token|secret|credential")
_KINDS = {"key": "key", "token": "token", "secret": "secret", "credential": "secret"}
_STEMS = (
    *("key", "token", "passw", "secret", "pwd", "credential", "passphrase", "passcode", "kennwort", "senha"),
    *("mot de passe", "wachtwoord"),
)
_FOREIGN_STEMS = ("contraseña", "пароль", "密码", "パスワード")
Found = tuple[str, int, int]
"""A kind of secret, and where it begins and ends."""


def lowered(text: str) -> str:
    """In lower case, with every character at its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.replace("\u0130", "I").lower()


def has_stem(lower: str) -> bool:
    """Whether it may hold a telling word. Most texts hold none, and substrings are found faster than by expressions."""
    for stem in _STEMS if lower.isascii() else _STEMS + _FOREIGN_STEMS:  # noqa: SIM110 - any() takes twice as long
        if stem in lower:
            return True
    return False


def telling_words(lower: str) -> list[Found]:
    """The words of a text in lower case behind which a secret may stand: `password`, `api key`, but not `keyboard`."""
    if not has_stem(lower):
        return []
    found = [(_KINDS.get(match[0], "password"), *match.span()) for match in _WORD.finditer(lower)]
    return [each for each in found if each[0] == "password" or _is_telling(lower, *each)]


def _is_telling(lower: str, kind: str, start: int, end: int) -> bool:
    before = max(start - 24, 0)
    if kind == "key":
        return _OF_KEY.search(lower, before, start) is not None
    return _OTHER.search(lower, before, start) is None


def named(name: str, text: str) -> str | None:
    """The kind of secret that a text is as the value of a name, if it is one."""
    value, lower = text.strip(), lowered(name)
    for kind, _, end in telling_words(lower)[-1:]:
        if _SUFFIX.fullmatch(lower, end) and _UNQUOTED.fullmatch(value) and _is_value(kind, value, "quoted"):
            return kind
    return None


def assigned(text: str, lower: str, words: Sequence[Found]) -> Iterator[Found]:
    """Values that a text assigns to a password, key or token, as configurations, programs, headers and people do."""
    read = 0
    for kind, begin, end in words:
        if begin < read or (match := _VALUE.match(text, end)) is None:
            continue
        how, value, start = _read(match, text, begin)
        if len(value) > LONG:  # it is read once, however many words are in it
            read = start + len(value)
        if value and _is_value(kind, value, how):
            yield kind, start, start + len(value)
    if "bearer" in lower or "authorization" in lower:
        for match in _AUTHORIZATION.finditer(text):
            if match["basic"] or is_random(match["value"], 16):
                yield "token", *match.span("value")
    if "curl " in lower:
        for match in _LOGIN.finditer(text):
            line = text[max(match.start() - 300, 0) : match.start()].rpartition("\n")[2]
            if "curl" in line and not match[1].isdigit() and not is_placeholder(match[1]):
                yield "password", *match.span(1)


def random_behind(text: str, ends: Iterable[int]) -> Iterator[Found]:
    """Random strings close behind a telling word or another secret, of which `ends` has the ends."""
    reached = 0
    for end in sorted(ends):
        at = max(end, reached)
        while (match := _AHEAD.match(text, at)) is not None and _looks_generated(match[1]):
            at = reached = match.end()
            yield "token", *match.span(1)


def is_random(value: str, least: int) -> bool:
    """Whether at least so many characters of it look drawn, not written: letters mixed with digits, or with both cases,
    that are hardly words."""
    value = value[:LONG]
    if "://" in value or _WRITTEN.match(value) or is_placeholder(value):
        return False
    pieces = _PIECE.findall(value)
    mixed = "".join(piece for piece in pieces if not piece.isalpha() and not piece.isdigit())
    if len(mixed) >= least and _entropy(mixed) >= 2.5:
        digits = sum(map(str.isdigit, mixed))
        return digits >= 0.12 * len(mixed) or _share_of_words(mixed) < 0.6
    letters = "".join(pieces)
    two_cases = letters.lower() != letters != letters.upper()
    return len(letters) >= max(least, 20) and two_cases and _share_of_words(letters) < 0.4


def is_placeholder(value: str) -> bool:
    """Whether it stands for a value, as `changeme`, `${TOKEN}`, `****` and `your-key-here` do."""
    return len(value) <= LONG and _PLACEHOLDER.match(value) is not None


def _read(match: re.Match[str], text: str, begin: int) -> tuple[str, str, int]:
    """How a value is given to the word that begins there, the value, and where it starts."""
    if match["quoted"]:
        return "quoted", match["quoted"], match.start("quoted")
    start = match.start("plain")
    whole = _UNQUOTED.match(text, start)
    value = whole[0] if whole else ""
    if following := _NEXT_FIELD.search(value):
        value = value[: following.start()]
    value = value.rstrip(".,;:)]}…、。，")
    if match["set"] is None:
        flag = match["next"] and _FLAG.search(text, max(begin - 30, 0), begin)
        return ("set" if flag else "next" if match["next"] else "told"), value, start
    alone = text[start + len(value) : start + len(value) + 1] in ("", "\n", "\r") and match["set"] != " = "
    return ("line" if alone else "set"), value, start


def _is_value(kind: str, value: str, how: str) -> bool:
    """Whether what stands behind a word is a secret. `how` says how sure that is: a value can be `quoted`, `set` by a
    sign, alone on the rest of its `line`, `told` in a sentence, or just the `next` word."""
    if is_placeholder(value) or (how != "quoted" and _CODE.match(value)):
        return False
    if kind != "password":
        return how != "next" and is_random(value, 12 if how == "told" else 8)
    if how == "quoted":
        return len(value) >= 4
    letters, digits = sum(map(str.isalpha, value)), sum(map(str.isdigit, value))
    if how in ("told", "next") and _MEASURE.fullmatch(value):
        return False
    if how == "next":
        return len(value) >= 6 and letters > 1 and digits > 0
    if letters and (digits or _SYMBOL.search(value)):
        return len(value) >= 4 and not (digits < 2 and _VARIABLE.fullmatch(value))
    return digits >= 4 or (how == "line" and len(value) >= 4 and value.isalpha())


def _looks_generated(value: str) -> bool:
    """Whether a string is random and nothing that is public: a digest, an id, a checksum, a public key, a path."""
    value = value[:LONG]
    return not _PUBLIC.match(value) and is_random(value, 16) and _entropy(value) >= 3.5


def _entropy(text: str) -> float:
    """Bits a character."""
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values())


def _share_of_words(text: str) -> float:
    return sum(map(len, _WRITTEN_WORD.findall(text))) / len(text)


_QUOTE = r"\\?[\"'`]"
_SAYS = r"is|was|are|to|be|as|been|now|still|has|set|changed|reset|should|will|must|ist|lautet|war|es|est|era|é|è|是"
_OF_KEY = re.compile(
    r"(?:api|access|account|admin|app|application|auth|bot|client|consumer|encryption|license|master|private|secret|"
    r"service|signing|storage|subscription|webhook)[ _-]?$"
)
_OTHER = re.compile(  # tokens of pages and of language models, and what is no password itself
    r"(?:page|next|prev|previous|continuation|cursor|sync|pad|eos|bos|unk|mask|sep|stop|special|public|design|input|"
    r"output)[ _-]?$"
)
_SUFFIX = re.compile(r"s?(?:[_-]?(?:value|prod|production|dev|staging|test|live|old|new|\d{1,2}))?")
_VALUE = re.compile(
    rf"(?i){_SUFFIX.pattern}(?:"
    # password: hunter2, "password": "hunter2", PASSWORD=hunter2
    rf"(?P<set>(?:{_QUOTE}|\])?[ \t]{{0,4}}(?::=|=>|={{1,3}}|!==?|:|：)[ \t]{{0,4}})"
    # my password for the router is hunter2
    rf"|(?P<told>(?:\s(?:for|of|on|at|in|für|para|pour|de|del)(?:\s[\w.'-]{{1,30}}){{1,4}}?)?"
    rf"(?:(?:\s(?:{_SAYS})(?!\w)){{1,4}}:?\s|:\s|是))"
    rf"|(?P<next>[ ]))"
    rf"(?:[bru]?{_QUOTE}(?P<quoted>[^\s\"'`\\\0]{{1,500}}){_QUOTE}|(?P<plain>[^\s\"'`<>\0]))"
)
_UNQUOTED = re.compile(r"[^\s\"'`<>\0]{1,1000}+")
_NEXT_FIELD = re.compile(r"[;&,|][\w-]{1,40}[=:]|;$")
_FLAG = re.compile(r"(?:^|\s)--[\w-]{0,24}$")
_AUTHORIZATION = re.compile(
    r"(?i)(?:\bauthorization\b[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|token|apikey|bot|(?P<basic>basic))|\bbearer)"
    r"\s{1,3}(?P<value>[A-Za-z0-9._~+/=-]{8,2000})"
)
_LOGIN = re.compile(r"\s(?:-u|--user)[ =][\"']?[^\s:\"'\0]{1,100}:([^\s\"'\0]{3,200})")
_AHEAD = re.compile(
    rf"[^\n\0]{{0,{NEAR}}}?(?<![A-Za-z0-9+/_=.@#%&?~-])([A-Za-z0-9+/_=-]{{20,}}+)(?!\.[A-Za-z]{{1,5}}\b)"
)
_PIECE = re.compile(r"[A-Za-z0-9]+")
_WRITTEN_WORD = re.compile(r"[A-Z][a-z]{3,}|[a-z]{4,}|[A-Z]{5,}")
_WRITTEN = re.compile(r"\d{4}-\d\d-\d\d|[\w./-]+\.(?:[a-z]{2,4}|json|yaml|toml|lock)$|sha\d+[-:$]|md5[-:$]")
_PUBLIC = re.compile(
    r"/|(?:(?:0x)?[0-9a-fA-F-]+|[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9]+)$|(?:sha\d+|md5|h1|AAAA|ssh|data|v\d)|[A-Za-z]*/[a-z]+/"
)
_SYMBOL = re.compile(r"[!@#$%^&*+=~?|\\]")
_VARIABLE = re.compile(r"(?i)[a-z_]*(?:pass|pw|token|secret|key|arg|param|val|var|str|user|input|field)[a-z_]*\d?")
_MEASURE = re.compile(
    r"(?i)\d{1,3}[.,]?|[\d.,]+[+%a-z-]+|"
    r"(?:sha|md|aes|rsa|base|utf|oauth|argon|hmac|hs|rs|es|ed|tls|v|ipv|p|http)[-_/]?\d+(?:id|url|[din])?(?:[-_].*)?"
    r"|(?:bcrypt|scrypt|pbkdf)\w*"
)
_CODE = re.compile(
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[^\w!@#$%^*+=]*$|[A-Za-z_][\w.]*[(\[{]|\w+(?:->|::)|[\[({<]|[.~]{0,2}/[A-Z]?[a-z_.-]+(?:/|$)"
    r"|[A-Za-z]:\\|[A-Z]\w*(?:Key|Token|Secret|Password)\b"
)
_PLACEHOLDER = re.compile(
    r"""(?ix)
    (?: \$[{(a-z_] | \{ | < | %[({] | %[sd]\b | %\w+%$ | \[ | …  | \.\.\. | \#\{ | @\{ | \*{2,} | •{2,}
      | [x*•._?#-]+$ | (.)\1+$
      | (?: none|null|nil|undefined|true|false|empty|blank|yes|no|on|off|ok|string|str|text|int|integer|number|bool|
            boolean|bytes|char|varchar|optional|required|any|object|type|value|default|nullable|secretstr|hash|hashed|
            encrypted|hidden|masked|removed|redacted|missing|invalid|wrong|incorrect|correct|expired|changed|unknown|
            unset|same|todo|tbd|n/a|here|below|above|stdin|prompt|env|vault|keychain|changeme|change[-_]?me|change[-_]?it|
            pass|passwd|pwd|passwor[dt]|passwords|contraseña|senha|secret|secrets|token|tokens|key|keys|api[-_]?key|
            auth|bearer|credentials?|hello|foo|bar|baz|foobar|dummy|sample|example|placeholder|test|testing ) $
      | [a-z.]*(?:[-_.]|\b)
            (?:your|my|the|some|example|sample|dummy|fake|insert|enter|placeholder|changeme|redacted|xxx+)
            (?:[-_.][a-z]+)*$
      | [a-z_.-]*(?:password|passwd|token|secret|api[-_]?key|credential)[a-z_.-]*$ )
    """
)
