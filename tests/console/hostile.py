"""Contents that try to be more than text, planted into every field that a person, an agent or a model can fill."""

import json
from collections.abc import Awaitable
from dataclasses import replace
from itertools import cycle

from tulving import Caller, Memory
from tulving.bootstrap import new_secret
from tulving.errors import InvalidInput
from tulving.services.administration import Administration
from tulving.settings import ConflictsConfig

EVIL = "https://evil.example"
HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": '" onmouseover="alert(1)" autofocus onfocus="alert(1)" x="',
    "single quotes": "' onerror='alert(1)' autofocus onfocus='alert(1)' y='",
    "image": f"<img src=x onerror=alert(1)><img src={EVIL}/a.png>",
    "drawing": "<svg/onload=alert(1)><animate onbegin=alert(1) attributeName=x dur=1s>",
    "closing": "</title></textarea></select></script><script>alert(1)</script>",
    "comment": "--><script>alert(1)</script><!--",
    "template": "{{7*191}} {%raw%} ${7*191} #{7*191} <%=7*191%>",
    "link": "javascript:alert(1)",
    "document": "data:text/html,<script>alert(1)</script>",
    "frame": f'<iframe srcdoc="<script>alert(1)</script>"></iframe><base href="{EVIL}/">',
    "direction": "user\u202egnp.exe\u202c \u2066apart\u2069 \u200fمرحبا",
    "unseen": "zero\u200bwidth\u200d\ufeffjoined\u2060up",
    "combining": "Z" + "\u0335\u0321\u031b" * 40 + "algo",
    "long word": "W" * 900,
    "control": "a\x01b\x1bc\x7fd\u2028e\u2029f\u0085g",
    "right to left": "مرحبا بالعالم، هذا نص طويل " * 8,
    "emoji": "👩‍👩‍👧‍👦🏳️‍🌈🇵🇹" * 20,
    "entities": "&lt;b&gt; &amp;amp; &#60;script&#62; &quot; &nbsp",
    "style": f"</style>expression(alert(1));background:url({EVIL}/x)",
    "json": '"}]}\'>\\u003cscript\\u003ealert(1)//{"a":["',
    "htmx": f'<div hx-get="{EVIL}" hx-trigger="load" hx-on:load="alert(1)" data-live="all">x</div>',
    "markdown": f"[x](javascript:alert(1)) ![x]({EVIL}/x.png)",
    "path": "../../../etc/passwd?x=1&y=2#z%2e%2e;",
    "formula": "=HYPERLINK(1)+cmd|' /C calc'!A0",
}
LARGE = "wide words " * 90_000
PROFILE = ("work", "personal", "topOfMind", "recent", "earlier", "background")


class Planting:
    """Fills a memory. What a field refuses is left out there; `kept` says where each content is."""

    def __init__(self, memory: Memory) -> None:
        env = replace(memory._env, config=replace(memory._env.config, conflicts=ConflictsConfig(review_below=1.0)))
        self.memory = Memory(env, memory.caller)
        self.administration = Administration(memory._env, memory.caller)
        self.kept: dict[str, set[str]] = {name: set() for name in HOSTILE}
        self.paths: dict[str, str] = {}
        self._blocks = cycle(PROFILE)

    async def everywhere(self) -> None:
        """Plant each content into every field."""
        for name, text in HOSTILE.items():
            await self._memories(name, text)
            await self._beside(name, text)
        await self._learned()
        large = await self.memory.store_episode(LARGE, butler="b")
        self.paths[f"/console/memory/episode/{large.id}"] = LARGE

    async def _memories(self, name: str, text: str) -> None:
        memory, short = self.memory, text[:120]
        details = {"tags": [short], "metadata": {short: text, "list": [text]}}
        episode = await self._try(
            name, "episode", memory.store_episode(text, butler=short, source=short, type="change", **details)
        )
        if episode is None:
            episode = await self._try(name, "episode", memory.store_episode(text, butler="b"))
        fact = await self._try(
            name,
            "fact",
            memory.store_fact(short, short, text, source=short, source_episode_id=episode and episode.id, **details),
        )
        if fact is None:
            fact = await self._try(name, "fact", memory.store_fact("user", f"about {name}", text))
        await self._try(name, "newer fact", memory.store_fact(short, short, f"newer {text}"))
        await self._try(name, "note", memory.store_note(f"The sign reads {text} today"))
        await self._try(name, "held note", memory.store_note(f"The sign does not read {text} today"))
        rule = await self._try(name, "rule", memory.store_rule(text, tags=[short]))
        if rule is None:
            rule = await self._try(name, "rule", memory.store_rule(text))
        for kind, stored in (("episode", episode), ("fact", fact), ("rule", rule)):
            if stored is not None:
                self.paths[f"/console/memory/{kind}/{stored.id}"] = text
        if rule is not None:
            await self._try(name, "reason", memory.mark_harmful(rule.id, text, {"task": text}))
        if fact is not None:
            await self._try(name, "revision", memory.edit("fact", fact.id, content=f"{text} edited"))
            await memory.edit("fact", fact.id, content=text)

    async def _beside(self, name: str, text: str) -> None:
        """What is not a memory itself."""
        memory, short = self.memory, text[:120]
        entity = memory.create_entity(short, "person", aliases=[f"also {short}"], metadata={short: text})
        await self._try(name, "entity", entity)
        await self._try(name, "profile", memory.set_profile(next(self._blocks), text))
        session = await self._try(name, "session", memory.start_session(project=short, butler=short))
        session = session or await memory.start_session()
        await self._try(name, "summary", memory.end_session(session.id, text, {short: 3}))
        bound = Administration(self.administration._env, Caller(memory.caller.tenant_id))
        await self._try(name, "token", bound.create_token(new_secret(), name=short, days=1))

    async def _learned(self) -> None:
        """A run whose rules wait for a person, since there are orders behind them."""
        memory = self.memory
        orders = [(await memory.store_episode(f"always do {text}", butler="learner")).id for text in HOSTILE.values()]
        leased = await memory.learn_prompt(butler="learner")
        rules = [
            {"content": f"Always do {text}", "evidence": [str(order)]}
            for order, text in zip(orders, HOSTILE.values(), strict=True)
        ]
        facts = [
            {"subject": "it", "predicate": f"p{at}", "content": text, "evidence": [str(orders[at])], "confidence": 0.9}
            for at, text in enumerate(HOSTILE.values())
        ]
        await memory.learn_apply(json.dumps({"new_rules": rules, "new_facts": facts}), leased.lease)

    async def _try(self, name: str, field: str, storing: Awaitable):
        try:
            stored = await storing
        except InvalidInput:
            return None
        self.kept[name].add(field)
        return stored


async def plant(memory: Memory) -> Planting:
    """Fill a memory with all of it."""
    planting = Planting(memory)
    await planting.everywhere()
    return planting
