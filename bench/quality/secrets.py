"""How well secrets are recognised: made-up ones in the places where they turn up, and what only looks like one.

All of it is drawn from a seed, so that no file holds anything that looks like a key. False alarms are also counted on
the turns of LoCoMo, in which nobody tells a secret.
"""

import base64
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random
from time import process_time
from uuid import UUID

from bench.quality import locomo
from bench.report import Report, Timings, Watch
from tulving import Memory, MemoryModuleConfig, NewEpisode
from tulving.domain.secrets import find
from tulving.settings import SecretsConfig

SEED = 20260117
EACH = 12
"""How many texts are drawn of each form."""
GOAL = 0.01
"""The largest share of false alarms."""
ONE_BY_ONE, BATCH, BATCHES = 400, 500, 6
Draw = Callable[[Random], str]
Opener = Callable[[str, MemoryModuleConfig], AbstractAsyncContextManager[Memory]]

BASE62 = string.ascii_letters + string.digits
BASE64 = BASE62 + "+/"
URL_SAFE = BASE62 + "_-"
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
WORDS = (
    "amber apple bridge candle castle copper coral dragon ember falcon forest garnet glacier harbor island jungle "
    "lantern maple meadow monkey orchid pepper planet quartz raven river saddle silver sunset thunder tiger velvet "
    "walnut winter"
).split()


def some(letters: str, length: int) -> Draw:
    return lambda random: "".join(random.choices(letters, k=length))


def joined(*parts: str | Draw) -> Draw:
    return lambda random: "".join(part if isinstance(part, str) else part(random) for part in parts)


def _json_web_token(random: Random) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(f'{{"sub":"{random.getrandbits(40)}"}}'.encode()).decode().rstrip("=")
    return f"{header}.{body}.{some(URL_SAFE, 43)(random)}"


def _private_key(random: Random) -> str:
    name = random.choice(("RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY"))
    lines = [some(BASE64, 64)(random) for _ in range(random.randint(3, 12))]
    lines.append(some(BASE64, random.randint(4, 60))(random))
    end = [] if random.random() < 0.3 else [f"-----END {name}-----"]
    return "\n".join([f"-----BEGIN {name}-----", *lines, *end])


def _password(random: Random) -> str:
    word, number = random.choice(WORDS), random.randint(1, 9999)
    return random.choice(
        (
            f"{word}{number}",
            f"{word.capitalize()}{number}!",
            f"{word[:3]}-{random.choice(WORDS)}-{number}",
            some(BASE62 + "!@#%*", 14)(random) + "7x",
            word.replace("a", "@").replace("e", "3").replace("o", "0").capitalize() + str(number),
        )
    )


EVIDENT: Mapping[str, Draw] = {
    "AWS access key id": joined("AKIA", some(UPPER, 16)),
    "GitHub": joined("ghp_", some(BASE62, 36)),
    "GitHub, other": joined("gho_", some(BASE62, 36)),
    "GitHub, fine-grained": joined("github_pat_", some(BASE62, 22), "_", some(BASE62, 59)),
    "GitLab": joined("glpat-", some(URL_SAFE, 20)),
    "Slack, bot": joined("xoxb-", some(string.digits, 12), "-", some(string.digits, 12), "-", some(BASE62, 24)),
    "Slack, webhook": joined(
        "https://hooks.slack.com/services/T", some(UPPER, 8), "/B", some(UPPER, 8), "/", some(BASE62, 24)
    ),
    "Stripe": joined("sk_live_", some(BASE62, 24)),
    "OpenAI": joined("sk-proj-", some(URL_SAFE, 64)),
    "OpenAI, older": joined("sk-", some(BASE62, 48)),
    "Anthropic": joined("sk-ant-api03-", some(URL_SAFE, 95)),
    "Google API": joined("AIza", some(URL_SAFE, 34), some(BASE62, 1)),
    "npm": joined("npm_", some(BASE62, 36)),
    "PyPI": joined("pypi-AgEIcHlwaS5vcmc", some(URL_SAFE, 120)),
    "Hugging Face": joined("hf_", some(string.ascii_letters, 34)),
    "SendGrid": joined("SG.", some(URL_SAFE, 22), ".", some(URL_SAFE, 43)),
    "Twilio": joined("SK", some(HEX, 32)),
    "Telegram": joined(some("123456789", 9), ":AA", some(URL_SAFE, 32), some(BASE62, 1)),
    "JSON web token": _json_web_token,
    "private key": _private_key,
}
PLACES = (
    "I pushed it with {} yesterday, please rotate it",
    "export DEPLOY={}\n./deploy.sh",
    '{{"service": "billing", "value": "{}", "retries": 3}}',
    "-old: none\n+value: {}\n",
    "2026-01-03T10:00:00Z INFO client using {} for eu-west-1",
    "Use `{}` when you call it.",
    "headers = {{'X-Auth': '{}'}}",
    "({})",
)
TOLD: Mapping[str, tuple[Draw, Sequence[str]]] = {
    "AWS secret key": (
        some(BASE64, 40),
        (
            "AWS_SECRET_ACCESS_KEY={}",
            "aws_secret_access_key = {}\nregion = eu-west-1",
            '"secretAccessKey": "{}",',
            "The secret access key is {}",
        ),
    ),
    "hexadecimal key": (
        some(HEX, 32),
        ("api_key={}", "X-Api-Key: {}", "https://api.example.org/v1?api_key={}&q=rain", "auth_token: '{}'"),
    ),
    "random token": (
        some(BASE62, 32),
        (
            "Authorization: Bearer {}",
            "access_token: {}",
            'client_secret = "{}"',
            "--token {}",
            "the new token we got from support: {}",
            "My API key is {}.",
        ),
    ),
    "storage key": (
        joined(some(BASE64, 86), "=="),
        ("DefaultEndpointsProtocol=https;AccountName=logs;AccountKey={};EndpointSuffix=core.windows.net",),
    ),
    "password in a file": (
        _password,
        (
            "DB_PASSWORD={}",
            "database:\n  user: app\n  password: {}\n  host: db",
            '{{"user": "app", "password": "{}"}}',
            "Server=db;User Id=app;Password={};Encrypt=yes",
            "connect(user='app', password='{}')",
            "mysql --user=app --password={} shop",
            "machine api.example.org login bob password {}",
        ),
    ),
    "password in a URL": (
        _password,
        (
            "postgresql://app:{}@db.example.org:5432/shop",
            "git clone https://bob:{}@git.example.org/team/app.git",
            "REDIS_URL=redis://:{}@cache:6379/0",
            "amqp://worker:{}@mq.internal//",
        ),
    ),
    "password in a sentence": (
        _password,
        (
            "my password is {}",
            "The wifi password is {}, by the way.",
            "I changed the password to {} because the old one leaked.",
            "Password for the staging server: {}",
            "You can log in as admin with password {}.",
            "Mein Passwort ist {}",
            "the password for our router at home is {}!",
        ),
    ),
}

DIGESTS: Sequence[Draw] = (
    some(HEX, 40),
    some(HEX, 64),
    some(HEX, 7),
    joined("sha256:", some(HEX, 64)),
    joined("sha512-", some(BASE64, 86), "=="),
    lambda random: str(UUID(int=random.getrandbits(128), version=4)),
    joined("01", some(CROCKFORD, 24)),
    joined("fact_", some(HEX, 8)),
)
AROUND = (
    "commit {}",
    "fixed in {} (token refresh)",
    "resolved password reset in {}",
    '    "integrity": "{}",',
    "    --hash={} \\",
    "the key part of the change is {}",
    "image: registry.example.org/app@{}",
    "secret scanning found nothing in {}",
    "request {} took 38 ms, 412 tokens",
    "primary key {} not found",
)
WRITTEN = (
    "the password is stored in the vault",
    "The password must have at least 12 characters, one digit and one symbol.",
    "Passwords are hashed with argon2id and a 16-byte salt.",
    "She forgot her password again and had to reset it.",
    "Das Passwort ist im Tresor hinterlegt.",
    "He said the secret of good bread is patience.",
    "password: str = field(repr=False)",
    "def login(user: str, password: str | None = None, token: str = '') -> Token:",
    "password = os.environ['DB_PASSWORD']",
    "password=settings.database.password",
    "token = await client.get_token(scope)",
    "api_key: ${OPENAI_API_KEY}",
    "api_key = 'YOUR_API_KEY'",
    "password: <your password here>",
    "DB_PASSWORD=changeme",
    "postgresql://user:password@localhost:5432/db",
    "postgresql://postgres:postgres@localhost/test",
    "usage: prompt_tokens=1412, completion_tokens=96, total_tokens=1508",
    "max_tokens: 4096",
    '"token_type": "bearer", "expires_in": 3600',
    "nextPageToken: CAUQAAoBMRIHbmV4dF9wMg",
    "if token == 'END': break",
    "tokens = tokenizer(text, return_tensors='pt')",
    "secretName: billing-tls-2026",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGh4c2RmZ2hqa2xxd2VydHl1aW9wYXNkZmdoag bob@laptop",
    "-----BEGIN PUBLIC KEY-----",
    "The file starts with -----BEGIN PRIVATE KEY----- and ends with -----END PRIVATE KEY-----.",
    "https://example.org/articles/2026/how-to-choose-a-good-password-manager-for-your-team",
    "src/components/PasswordResetConfirmationDialogContainer2.test.tsx",
    "AbstractAuthenticationTokenFilterConfigurerAdapterV2",
    "Donaudampfschifffahrtsgesellschaftskapitänspasswort",
    "Authorization: Bearer <token>",
    'curl -u "$USER:$TOKEN" https://api.example.org',
    "docker run -u 1000:1000 app",
    "PWD=/home/bob/projects/app",
    "sk-learn-compatible-estimators-for-time-series",
    "the access key for the door is under the mat",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "password: required|min:8|confirmed",
    '<input type="password" name="password" autocomplete="current-password">',
    "GET /reset?token=:token 200",
    "The token bucket holds 100 tokens and refills 10 per second.",
    "keyboard shortcut: ctrl+shift+p",
    "it was fixed in v2.14.3 on 2026-01-03T10:00:00Z",
)


def secrets(seed: int = SEED) -> Iterator[tuple[str, str, str]]:
    """Each made-up secret: its form, the text it stands in, and itself."""
    random = Random(seed)
    for name, draw in EVIDENT.items():
        for number in range(EACH):
            secret = draw(random)
            yield name, PLACES[number % len(PLACES)].format(secret), secret
    for name, (draw, places) in TOLD.items():
        for number in range(max(EACH, 4 * len(places))):
            secret = draw(random)
            yield name, places[number % len(places)].format(secret), secret


def innocents(seed: int = SEED) -> list[str]:
    """Texts without a secret, most of which look as if they had one."""
    random = Random(seed)
    return [*(place.format(draw(random)) for place in AROUND for draw in DIGESTS for _ in range(EACH)), *WRITTEN]


def caught(text: str, secret: str) -> bool:
    """Whether nothing of a secret would be left but what is no use: a mark may end a sentence early."""
    covered = "".join(text[each.start : each.end] for each in find(text))
    return secret.rstrip("!.") in covered


def tell(report: Report, turns: Sequence[str]) -> None:
    """How many secrets are found, and how many texts without one are suspected."""
    drawn = list(secrets())
    report.section(f"Secrets, {len(drawn)} made-up ones in {len(EVIDENT) + len(TOLD)} forms")
    for form in (*EVIDENT, *TOLD):
        found = [caught(text, secret) for name, text, secret in drawn if name == form]
        report.row(form, f"{sum(found)} of {len(found)}")
    found = [caught(text, secret) for _, text, secret in drawn]
    report.row("all", f"{sum(found)} of {len(found)}, {sum(found) / len(found):.1%}")
    for name, texts in (("digests, ids, code and prose of our own", innocents()), ("turns of LoCoMo", turns)):
        alarms = sum(bool(find(text)) for text in texts)
        share = alarms / len(texts)
        report.row(f"false alarms, {name}", f"{alarms} of {len(texts):,}, {share:.2%}", target="1 %", met=share < GOAL)
    rounds = []
    for _ in range(5):
        began = process_time()
        for text in turns:
            find(text)
        rounds.append((process_time() - began) / len(turns))
    report.row("a turn of LoCoMo is screened in", f"{1e6 * min(rounds):.1f} µs of the CPU")


async def cost(report: Report, turns: Sequence[str], open_store: Opener) -> None:
    """What screening adds to a write: two stores take turns, one of which does not screen."""
    off = MemoryModuleConfig(secrets=SecretsConfig(policy="off"))
    alone, together = (Timings(), Timings()), (Timings(), Timings())
    async with open_store("off", off) as plain, open_store("on", MemoryModuleConfig()) as screening:
        memories = (plain, screening)
        for number in range(ONE_BY_ONE):
            for at in (number % 2, 1 - number % 2):
                with Watch(alone[at]):
                    await memories[at].store_episode(turns[number], "bench")
        for number in range(BATCHES):
            offers = [NewEpisode(content=text, butler="bench") for text in turns[number * BATCH : (number + 1) * BATCH]]
            for at in (number % 2, 1 - number % 2):
                with Watch(together[at]):
                    await memories[at].store_episodes(offers)
    for name, (before, after) in (("one episode", alone), (f"a batch of {BATCH}", together)):
        report.row(f"{name}, screened", str(after), str(before), f"{after.cpu_p50 / before.cpu_p50:.3f} of the CPU")


async def run(report: Report, data: Path, open_store: Opener) -> None:
    """All figures."""
    turns = [str(episode.content) for sample in locomo.samples(data) for episode in sample.episodes.values()]
    tell(report, turns)
    await cost(report, turns, open_store)
