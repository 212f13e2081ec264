"""Programs for two memories at once: calls made from a seed, over few names and words, so that they get in each other's
way. A call refers to memories by number, so that some may be left out of a program and the rest still runs.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Literal
from uuid import UUID
from zlib import crc32

from tulving.domain.model import ENTITY_TYPES, FACT_STATES, KINDS, RELATIONS, Kind
from tulving.domain.text import words

START = datetime(2026, 1, 1, tzinfo=UTC)

# Each line is one word in some of its forms.
VOCABULARY = """
garden gardens gardening gardened
paint paints painting painted
walk walks walking walked
train trains training trained
cook cooks cooking cooked
plant plants planting planted
report reports reporting reported
bridge bridges
river rivers
teacher teachers
window windows
market markets marketing marketed
letter letters
winter winters
doctor doctors
engine engines
camera cameras
guitar guitars
button buttons
mountain mountains
record records recording recorded
answer answers answering answered
listen listens listening listened
jump jumps jumping jumped
open opens opening opened
climb climbs climbing climbed
tea teas
box boxes
dish dishes dishing dished
tax taxes taxing taxed
hope hopes hoping hoped
bake bakes baking baked
dance dances dancing danced
plan plans planning planned
stop stops stopping stopped
run runs running
cat cats
dog dogs
42
2024
straße STRASSE
café CAFE
кофе КОФЕ
東京
"""
FAMILIES = [line.split() for line in VOCABULARY.split("\n") if line]
FORMS = [form for family in FAMILIES for form in family]
FAMILY = {word: number for number, family in enumerate(FAMILIES) for form in family for word in words(form)}

WHO: dict[str, tuple[str, dict[str, str]]] = {
    "acme": ("acme", {}),
    "ann": ("acme", {"user_id": "ann"}),
    "bob": ("acme", {"user_id": "bob", "household_id": "home"}),
    "work": ("acme", {"scope": "work"}),
    "health": ("acme", {"scope": "health"}),
    "atlas": ("acme", {"project": "atlas"}),
    "borealis": ("acme", {"project": "borealis"}),
    "bolt": ("bolt", {}),
    "odd": ("it's %s \\ 😀", {"scope": "work", "project": "atlas"}),
}
TENANTS = sorted({tenant for tenant, _ in WHO.values()})
NAMES = ("Ann", "ANN", "Ann Lee", "Anna Leigh", "Straße 5", "strasse 5", "Café Río", "東京", "Bob", "Bobby Tables")
NOBODY = UUID(int=0)
ORDER = "you must plant tea"
"""No rule may follow from it without a person."""


@dataclass(frozen=True)
class Ref:
    """A memory or entity of the caller's tenant: the n-th that there ever was. `short` is the reference of a note."""

    kind: Kind | Literal["entity"]
    n: int
    short: bool = False
    of: str | None = None


@dataclass(frozen=True)
class Vector:
    """What the store's embedder makes of a text."""

    text: str


Call = tuple[str, str, dict[str, Any]]
"""Who calls, the verb, its arguments. The offers of a batch are dictionaries too."""


def program(seed: int, steps: int, learning: bool = False) -> list[Call]:
    """Calls from a seed, mostly of verbs that learn if so wished. The first ones store something, so that the others
    find something."""
    random = Random(seed)
    stores = random.choices(
        (store_facts, conversation, store_episodes, store_rules, crowd, create_entity), k=steps // 12
    )
    weights = LEARNING if learning else WEIGHTS
    verbs = stores + random.choices(list(weights), list(weights.values()), k=steps - len(stores))
    callers = random.choices(list(WHO), (12, 2, 2, 1, 1, 1, 1, 4, 2), k=steps)
    return [(who, *verb(random)) for who, verb in zip(callers, verbs, strict=True)]


def _word(random: Random) -> str:
    """Mostly one of a few, so that texts and queries meet."""
    return random.choice(FORMS[:20] if random.random() < 0.7 else FORMS)


def _text(random: Random, most: int = 7) -> str:
    cases = random.choices((str, str.title, str.upper), (2, 1, 1), k=random.randint(1, most))
    return random.choice((" ", " ", ", ", " the ", "\n")).join(case(_word(random)) for case in cases)


def _some(random: Random, chance: float, **options: Callable[[], Any]) -> dict[str, Any]:
    """Each option now and then."""
    return {name: make() for name, make in options.items() if random.random() < chance}


def _ref(random: Random, kind: Kind | Literal["entity"]) -> Ref:
    """Often one of the first, so that much happens to the same few."""
    number = random.randrange(random.choice((3, 40)))
    if kind == "fact" and random.random() < 0.2:
        return Ref(kind, number, short=True)
    return Ref(kind, number, of=random.choice(list(WHO)) if random.random() < 0.1 else None)


def _moment(random: Random) -> datetime:
    return START + timedelta(days=random.randint(-30, 60), microseconds=random.choice((0, 0, 1, 999_999)))


def _common(random: Random) -> dict[str, Any]:
    return _some(
        random,
        0.25,
        project=lambda: random.choice(("atlas", "borealis")),
        tags=lambda: random.sample(["red", "green", "blue", "ünï ✓"], random.randint(0, 3)),
        metadata=lambda: random.choice(METADATA),
    )


METADATA: list[Any] = [
    {"b": 1, "a": [1.5, None, True, {"deep": "text"}]},
    {"key 😀": "värde \U0001f9e0", "empty": {}, "list": []},
    {"large": 10**30, "small": 1e-9, "negative": -7, "half": 0.5},
]


def _fact(random: Random) -> dict[str, Any]:
    return {
        "content": _text(random),
        **_common(random),
        **_some(
            random,
            0.25,
            importance=lambda: random.choice((0, 2.5, 10)),
            confidence=lambda: random.choice((0, 0.1, 0.5, 0.9)),
            permanence=lambda: random.choice(("permanent", "stable", "volatile", "ephemeral")),
            scope=lambda: random.choice(("global", "work", "health")),
            category=lambda: random.choice(("preference", "goal")),
            source_episode_id=lambda: _ref(random, "episode"),
            occurred_at=lambda: _moment(random),
            source=lambda: random.choice(("Ann", "letter")),
        ),
    }


def store_fact(random: Random) -> tuple[str, dict[str, Any]]:
    args = _fact(random)
    if random.random() < 0.15:
        args["entity_id"] = _ref(random, "entity")
    if random.random() < 0.5:
        args["content"] = random.choice(("tea", "Tea", "cats and dogs", "walking"))
    return "store_fact", {
        "subject": random.choice(("garden", "Garden", "river", "Café")),
        "predicate": random.choice(("plan", "PLAN", "paint_box", "Paint box")),
        **args,
    }


def store_facts(random: Random) -> tuple[str, dict[str, Any]]:
    offers = []
    for _ in range(random.randint(0, 6)):
        keyed = {"subject": random.choice(("garden", "river")), "predicate": random.choice(("plan", "box"))}
        offers.append({**_fact(random), **(keyed if random.random() < 0.6 else {})})
    return "store_facts", {"offers": offers}


def store_note(random: Random) -> tuple[str, dict[str, Any]]:
    scopes = ("global", "work")
    extra = _some(random, 0.25, scope=lambda: random.choice(scopes), confidence=lambda: random.choice((0.15, 0.7)))
    return "store_note", {"content": random.choice(("Tea for cats", "tea  for CATS", _text(random))), **extra}


NOTES = (
    *("Ann plants tea in the garden", "Ann does not plant tea in the garden", "ann plants green tea in the garden"),
    *("Ann paints the bridge", "Ann never paints the bridge", "Ann paints the bridge and the window in winter"),
    *("Ann has 2 cats", "Ann has 3 cats"),
)
"""Some say the same, some the opposite, and some neither."""


def _note(random: Random) -> dict[str, Any]:
    return {
        "content": random.choice(NOTES),
        **_some(
            random,
            0.25,
            importance=lambda: random.choice((0, 8, 10)),
            source=lambda: random.choice(("user", "inferred", "letter")),
            occurred_at=lambda: _moment(random),
            tags=lambda: random.sample(["red", "green", "blue"], 2),
            scope=lambda: "work",
        ),
    }


def store_contrary(random: Random) -> tuple[str, dict[str, Any]]:
    if random.random() < 0.7:
        return "store_note", _note(random)
    return "store_facts", {"offers": [_note(random) for _ in range(random.randint(1, 4))]}


def settle(random: Random) -> tuple[str, dict[str, Any]]:
    verb = random.choice(("revert", "revert", "accept", "dismiss"))
    return "on_conflict", {"verb": f"{verb}_conflict", "n": random.randrange(random.choice((1, 10)))}


def change_rules(random: Random) -> tuple[str, dict[str, Any]]:
    """Which of two notes wins, how they are merged, and that some wait for a person."""
    strategy = random.choice(("keep-candidate", "keep-existing", "reject"))
    arbitration = {
        "allow_merge": random.random() < 0.7,
        "default_strategy": strategy,
        "priority_recency": random.random() < 0.5,
        "merge_threshold": random.choice((0.2, 0.9)),
    }
    merge = {
        "content_strategy": random.choice(("concatenate", "replace", "summarize", "smart")),
        "timestamp": random.choice(("max", "min")),
        "importance": random.choice(("max", "boost", "average")),
    }
    name = random.choice(("letters", "cats"))
    rule = {"name": name, "priority": random.choice((1, 2)), "conditions": {"source": ["letter"]}, "merge": merge}
    return random.choice(
        (
            ("update_merge_rule", {"name": "default", "updates": {"arbitration": arbitration, "merge": merge}}),
            ("register_merge_rule", {"config": rule}),
            ("delete_merge_rule", {"name": name}),
            ("merge_rules", {}),
        )
    )


def _episode(random: Random) -> dict[str, Any]:
    return {
        "content": ORDER if random.random() < 0.1 else _text(random, 12),
        "butler": random.choice(("work", "health")),
        **_common(random),
        **_some(
            random,
            0.25,
            type=lambda: random.choice(("bugfix", "decision")),
            title=lambda: _text(random, 2).replace("\n", " "),
            source=lambda: random.choice(("Ann", "letter")),
            occurred_at=lambda: _moment(random),
            importance=lambda: random.choice((0, 7)),
            session_id=lambda: UUID(int=random.choice((7, 7, 8))),
        ),
    }


def store_episode(random: Random) -> tuple[str, dict[str, Any]]:
    return "store_episode", _episode(random)


def store_episodes(random: Random) -> tuple[str, dict[str, Any]]:
    return "store_episodes", {"offers": [_episode(random) for _ in range(random.randint(0, 5))]}


def _rule(random: Random) -> dict[str, Any]:
    return {
        "content": _text(random),
        **_common(random),
        **_some(
            random,
            0.25,
            scope=lambda: random.choice(("global", "work", "health")),
            permanence=lambda: random.choice(("permanent", "ephemeral")),
            source_episode_id=lambda: _ref(random, "episode"),
        ),
    }


def crowd(random: Random) -> tuple[str, dict[str, Any]]:
    """Many of the same words: the limits of searches cut through them."""
    return "store_episodes", {"offers": [{"content": "Tea for cats", "butler": "work"}] * random.randint(8, 20)}


def conversation(random: Random) -> tuple[str, dict[str, Any]]:
    """Turns of a session, at times that may be equal. One may be too long to be a turn."""
    start, step = _moment(random), timedelta(minutes=random.choice((0, 0, 1, -1, 600)))
    session = UUID(int=random.choice((7, 8)))
    offers = [
        {
            "content": _text(random, random.choice((4, 12, 120))) + random.choice(("", "", "?", " I, yesterday")),
            "butler": random.choice(("work", "work", "work", "health")),
            "session_id": session,
            "source": random.choice(("Ann", "Bob", "ANN")),
            **_some(random, 0.8, occurred_at=lambda at=at: start + at * step),
        }
        for at in range(random.randint(2, 12))
    ]
    return "store_episodes", {"offers": offers}


def store_rule(random: Random) -> tuple[str, dict[str, Any]]:
    return "store_rule", _rule(random)


def store_rules(random: Random) -> tuple[str, dict[str, Any]]:
    return "store_rules", {"offers": [_rule(random) for _ in range(random.randint(0, 5))]}


def _types(random: Random) -> list[Kind]:
    return random.choice((["fact"], ["rule"], ["episode"], ["rule", "episode"], ["fact", "fact"], list(KINDS)))


def _query(random: Random) -> str:
    asked = random.choice(("{}", "{}", "when did Ann like {}?", "what of Bob and {} in January 2026", "{} yesterday"))
    return asked.format(random.choice((_word(random), _text(random, 4), "tea", "cats tea")))


def search(random: Random) -> tuple[str, dict[str, Any]]:
    return "search", {
        "query": _query(random),
        "mode": random.choice(("semantic", "semantic", "keyword", "keyword", "hybrid")),
        "limit": random.choice((1, 2, 3, 5, 10, 50, 1000)),
        **_some(
            random,
            0.1,
            types=lambda: _types(random),
            scope=lambda: random.choice(("work", "health", "nowhere")),
            type=lambda: random.choice(("preference", "bugfix", "observation")),
            project=lambda: random.choice(("atlas", "nothing")),
            since=lambda: _moment(random),
            until=lambda: _moment(random),
            tags=lambda: random.sample(["red", "green", "ünï ✓"], random.randint(1, 2)),
            min_confidence=lambda: random.choice((0, 0.5, 0.9, 1)),
            as_of=lambda: _moment(random),
            min_relevance=lambda: random.choice((0, 0.3, 1)),
        ),
    }


def search_crowd(random: Random) -> tuple[str, dict[str, Any]]:
    mode, limit = random.choice(("keyword", "hybrid")), random.randint(1, 12)
    return "search", {"query": random.choice(("tea", "cat")), "types": ["episode"], "mode": mode, "limit": limit}


def search_similar(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(
        random, 0.1, types=lambda: _types(random), scope=lambda: "work", limit=lambda: random.choice((1, 4, 100))
    )
    return "search_similar", {"embedding": Vector(_text(random)), **extra}


def recall(random: Random) -> tuple[str, dict[str, Any]]:
    return "recall", {
        "topic": _query(random),
        "limit": random.choice((1, 3, 10, 30)),
        **_some(
            random,
            0.1,
            types=lambda: _types(random),
            scope=lambda: random.choice(("work", "health")),
            project=lambda: "atlas",
            tags=lambda: ["red"],
            min_confidence=lambda: random.choice((0, 0.6)),
            since=lambda: _moment(random),
            until=lambda: _moment(random),
            as_of=lambda: _moment(random),
            min_relevance=lambda: 0.4,
        ),
    }


def context(random: Random) -> tuple[str, dict[str, Any]]:
    budget = random.choice((5, 30, 80, 300, 3000))
    extra = _some(random, 0.2, as_of=lambda: _moment(random), min_relevance=lambda: 0.3)
    return "context", {"trigger_prompt": _query(random), "butler": "work", "token_budget": budget, **extra}


def list_memories(random: Random) -> tuple[str, dict[str, Any]]:
    kind = random.choice(KINDS)
    states = ("any", *FACT_STATES) if kind == "fact" else ("any",)
    return "all_pages", {
        "memory_type": kind,
        "limit": random.choice((1, 2, 7, 50)),
        **_some(
            random,
            0.1,
            state=lambda: random.choice(states),
            scope=lambda: random.choice(("work", "global")),
            tags=lambda: ["red"],
            since=lambda: _moment(random),
            until=lambda: _moment(random),
        ),
    }


def on_one(verb: str, **extra: Any) -> Callable[[Random], tuple[str, dict[str, Any]]]:
    def make(random: Random) -> tuple[str, dict[str, Any]]:
        kind = random.choice(KINDS)
        return verb, {"memory_type": kind, "memory_id": _ref(random, kind), **extra}

    return make


def mark_helpful(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(random, 0.2, circumstances=lambda: random.choice(METADATA))
    return "mark_helpful", {"rule_id": _ref(random, "rule"), **extra}


def mark_harmful(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(random, 0.4, reason=lambda: _text(random), circumstances=lambda: random.choice(METADATA))
    return "mark_harmful", {"rule_id": _ref(random, "rule"), **extra}


def invert(random: Random) -> tuple[str, dict[str, Any]]:
    one = ("invert_rule", {"rule_id": _ref(random, "rule")})
    return random.choice((("invert_refuted", {}), ("of_all_tenants", {"verb": "invert_refuted"}), one))


def edit(random: Random) -> tuple[str, dict[str, Any]]:
    kind = random.choice(KINDS)
    changes = _some(
        random,
        0.5,
        content=lambda: _text(random),
        tags=lambda: random.sample(["red", "green"], random.randint(0, 2)),
        importance=lambda: random.choice((0, 10)),
    )
    return "edit", {"memory_type": kind, "memory_id": _ref(random, kind), **changes}


def history(random: Random) -> tuple[str, dict[str, Any]]:
    key = {"subject": random.choice(("garden", "river")), "predicate": random.choice(("plan", "box"))}
    some = {"scope": lambda: "work", "limit": lambda: random.choice((1, 3)), "as_of": lambda: _moment(random)}
    return "history", {**key, **_some(random, 0.3, **some)}


def create_entity(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(random, 0.4, aliases=lambda: _names(random), metadata=lambda: random.choice(METADATA))
    return "create_entity", {
        "canonical_name": random.choice(NAMES),
        "entity_type": random.choice(ENTITY_TYPES),
        **extra,
    }


def _names(random: Random) -> list[str]:
    return random.sample(NAMES, random.randint(0, 3))


def get_entity(random: Random) -> tuple[str, dict[str, Any]]:
    return "get_entity", {"entity_id": _ref(random, "entity")}


def update_entity(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(
        random,
        0.4,
        canonical_name=lambda: random.choice(NAMES),
        aliases=lambda: _names(random),
        metadata=lambda: random.choice(METADATA),
    )
    return "update_entity", {"entity_id": _ref(random, "entity"), **extra}


def resolve_entity(random: Random) -> tuple[str, dict[str, Any]]:
    hints = {"topic": _text(random), "mentioned_with": _names(random)}
    extra = _some(
        random,
        0.4,
        entity_type=lambda: random.choice(ENTITY_TYPES),
        context_hints=lambda: hints,
        enable_fuzzy=lambda: True,
        limit=lambda: random.choice((1, 2, 50)),
    )
    return "resolve_entity", {"name": random.choice((*NAMES, "an", "Anne Lee", "cafe rio", "bob tables")), **extra}


def merge_entities(random: Random) -> tuple[str, dict[str, Any]]:
    source, target = _ref(random, "entity"), _ref(random, "entity")
    return "merge_entities", {"source_entity_id": source, "target_entity_id": target}


def sweep(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(random, 0.3, as_of=lambda: _moment(random), dry_run=lambda: True)
    return _of_one_or_all(random, "run_decay_sweep", extra)


def clean_up(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(random, 0.3, as_of=lambda: _moment(random), max_entries=lambda: random.choice((0, 5)))
    return _of_one_or_all(random, "run_episode_cleanup", {**extra, **_some(random, 0.3, dry_run=lambda: True)})


def _of_one_or_all(random: Random, verb: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return random.choice(((verb, args), ("of_all_tenants", {"verb": verb, **args})))


def stats(random: Random) -> tuple[str, dict[str, Any]]:
    return "stats", _some(random, 0.5, scope=lambda: random.choice(("work", "health", "nowhere")))


def learn(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(random, 0.3, butler=lambda: random.choice(("work", "health")), session_id=lambda: UUID(int=7))
    said = "\n".join(f"{who}: {_text(random, 5)}" for who in ("User", "Assistant", "User"))
    return "learn", {"conversation": said, **extra}


def consolidate(random: Random) -> tuple[str, dict[str, Any]]:
    extra = _some(random, 0.2, butler=lambda: random.choice(("work", "nowhere")), dry_run=lambda: True)
    return "run_consolidation", extra


def prompted(random: Random) -> tuple[str, dict[str, Any]]:
    """With a model of the caller's own, which sometimes never answers."""
    said = _some(random, 0.3, conversation=lambda: f"User: {_text(random)}")
    return "prompted", {**said, "answered": random.random() < 0.8, "named": random.random() < 0.5}


def undo(random: Random) -> tuple[str, dict[str, Any]]:
    return "on_run", {"verb": random.choice(("undo", "undo", "runs")), "n": random.randrange(random.choice((1, 10)))}


def decide(random: Random) -> tuple[str, dict[str, Any]]:
    whole = random.random() < 0.2
    return "on_proposal", {"verb": random.choice(("accept", "reject")), "n": random.randrange(10), "whole": whole}


def profile(random: Random) -> tuple[str, dict[str, Any]]:
    block = random.choice(("work", "topOfMind", "recent"))
    content = random.choice(("", "tea", _text(random)))
    calls = (
        ("profile", _some(random, 0.5, max_tokens=lambda: random.choice((1, 10, 50)))),
        ("set_profile", {"block": block, "content": content}),
        ("set_profile", {"block": block, "content": content}),
        ("delete_profile", _some(random, 0.5, block=lambda: block)),
    )
    return random.choice(calls)


_EPISODE = re.compile(r"^id: ([0-9a-f-]{36})$", re.MULTILINE)
_KNOWN = re.compile(r"^- \*\*([0-9a-f-]{36})\*\*", re.MULTILINE)


def answer(prompt: str) -> str:
    """What a language model answers: something for every kind of prompt, made from the prompt itself."""
    random = Random(crc32(prompt.encode()))
    episodes, known = _EPISODE.findall(prompt), _KNOWN.findall(prompt)
    if random.random() < 0.1:
        return random.choice(("nothing to learn", "```json\n{", '{"new_facts": 5}'))

    def some(ids: list[str], most: int = 3) -> list[str]:
        return random.sample(ids, min(len(ids), random.randint(0, most)))

    def fact() -> dict[str, Any]:
        key = {"subject": random.choice(("garden", "river")), "predicate": random.choice(("plan", "box"))}
        of = {"evidence": some(episodes), "content": random.choice(("tea", _text(random)))}
        return {**key, **of, **_some(random, 0.3, confidence=random.random, permanence=lambda: "stable")}

    learned = {
        "new_facts": [fact() for _ in range(random.randint(0, 3))],
        "updated_facts": [{**fact(), "target_id": id_} for id_ in some(known, 2)],
        "new_rules": [{"content": random.choice((ORDER, _text(random)))} for _ in some(["a rule"])],
        "confirmations": [*some(known), *some([str(NOBODY)], 1)],
        "newFacts": [
            {"content": random.choice(("tea", *NOTES[:3], _text(random))), "confidence": random.random()}
            for _ in range(3)
        ],
        "profile": {block: _text(random) for block in some(["work", "recent", "topOfMind"])},
    }
    return f"Here it is:\n```json\n{json.dumps(learned)}\n```"


def again(random: Random) -> tuple[str, dict[str, Any]]:
    return "again", {}


def create_link(random: Random) -> tuple[str, dict[str, Any]]:
    source, target = random.choice(KINDS), random.choice(KINDS)
    return "create_link", {
        "source_type": source,
        "source_id": _ref(random, source),
        "target_type": target,
        "target_id": _ref(random, target),
        "relation": random.choice(RELATIONS),
    }


def get_links(random: Random) -> tuple[str, dict[str, Any]]:
    kind = random.choice(KINDS)
    direction = random.choice(("incoming", "outgoing", "both"))
    return "get_links", {"memory_type": kind, "memory_id": _ref(random, kind), "direction": direction}


def advance(random: Random) -> tuple[str, dict[str, Any]]:
    steps = {"microseconds": 1}, {"seconds": 1}, {"hours": 5}, {"hours": -1}, {"days": 2}, {"days": 40}
    return "advance", random.choices(steps, (5, 5, 5, 3, 3, 1))[0]


def vectors(random: Random) -> tuple[str, dict[str, Any]]:
    verbs = "unready", "failing", "ready", "embed_pending", "count_pending"
    return random.choices(verbs, (1, 1, 6, 2, 1))[0], {}


def change_embedder(random: Random) -> tuple[str, dict[str, Any]]:
    if random.random() < 0.3:
        return "forced", {}
    return "change_embedder", {"dimension": random.choice((32, 64)), "version": random.choice("12")}


def carry(random: Random) -> tuple[str, dict[str, Any]]:
    return "carry", {"to": random.choice(list(WHO))}


def reopen(random: Random) -> tuple[str, dict[str, Any]]:
    return "reopen", {}


def refused(random: Random) -> tuple[str, dict[str, Any]]:
    return random.choice(REFUSED)


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "importance": 11}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "importance": math.nan}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "confidence": -0.1}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "permanence": "eternal"}),
    ("store_fact", {"subject": "a\x00", "predicate": "b", "content": "tea"}),
    ("store_fact", {"subject": " ", "predicate": "b", "content": "tea"}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "<private>tea</private>"}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "entity_id": NOBODY}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "entity_id": "tea"}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "source_episode_id": NOBODY}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "tags": "red"}),
    ("store_fact", {"subject": "a", "predicate": "b", "content": "tea", "metadata": {"x": object}}),
    ("store_facts", {"offers": [{"content": "tea"}, {"content": "box", "source_episode_id": NOBODY}]}),
    ("store_facts", {"offers": [{"content": "tea"}, {"content": "box", "subject": "half"}]}),
    ("store_rules", {"offers": [{"content": "tea"}, {"content": "box", "source_episode_id": NOBODY}]}),
    ("store_rule", {"content": "tea", "source_episode_id": Ref("episode", 0, of="bolt")}),
    ("mark_helpful", {"rule_id": NOBODY}),
    ("mark_harmful", {"rule_id": Ref("rule", 0), "reason": "a\x00b"}),
    ("mark_harmful", {"rule_id": Ref("rule", 0), "circumstances": {"x": "\ud800"}}),
    ("edit", {"memory_type": "rule", "memory_id": Ref("rule", 0), "importance": 5}),
    ("edit", {"memory_type": "fact", "memory_id": Ref("fact", 0)}),
    ("edit", {"memory_type": "fact", "memory_id": NOBODY, "content": "tea"}),
    ("create_entity", {"canonical_name": " ", "entity_type": "person"}),
    ("create_entity", {"canonical_name": "Ann", "entity_type": "ghost"}),
    ("create_entity", {"canonical_name": "Ann", "entity_type": "person", "aliases": ["\x00"]}),
    ("create_entity", {"canonical_name": "Ann", "entity_type": "person", "tenant_id": "somebody else"}),
    ("merge_entities", {"source_entity_id": NOBODY, "target_entity_id": Ref("entity", 0)}),
    ("merge_entities", {"source_entity_id": Ref("entity", 0), "target_entity_id": Ref("entity", 0)}),
    ("merge_entities", {"source_entity_id": Ref("entity", 0, of="bolt"), "target_entity_id": Ref("entity", 0)}),
    ("run_episode_cleanup", {"max_entries": -1}),
    ("run_episode_cleanup", {"as_of": datetime(9000, 1, 1)}),
    ("store_episode", {"content": "tea", "butler": ""}),
    ("store_episode", {"content": "tea", "butler": "b", "session_id": "seven"}),
    ("search", {"query": "tea", "mode": "fuzzy"}),
    ("search", {"query": "tea", "limit": 0}),
    ("search", {"query": "tea", "types": ["thought"]}),
    ("search", {"query": "tea", "since": START, "until": START}),
    ("search", {"query": "", "limit": 3}),
    ("search", {"query": "!?", "mode": "keyword"}),
    ("search", {"query": "the of and", "mode": "keyword"}),
    ("search_similar", {"embedding": [1.0, 2.0]}),
    ("search_similar", {"embedding": [0.0] * 64}),
    ("search_similar", {"embedding": [math.inf] * 64}),
    ("get", {"memory_type": "fact", "memory_id": "fact_ffffffff"}),
    ("get", {"memory_type": "fact", "memory_id": "?"}),
    ("get", {"memory_type": "thought", "memory_id": NOBODY}),
    ("confirm", {"memory_type": "episode", "memory_id": NOBODY}),
    ("delete", {"memory_type": "rule", "memory_id": NOBODY}),
    ("list_memories", {"memory_type": "rule", "state": "active"}),
    ("list_memories", {"memory_type": "rule", "cursor": "tea"}),
    ("context", {"trigger_prompt": "tea", "butler": "work", "token_budget": 1}),
    ("learn", {"conversation": " "}),
    ("learn", {"conversation": "User: tea", "session_id": "seven"}),
    ("learn_apply", {"answer": "{}", "lease": NOBODY}),
    ("learn_apply", {"answer": "tea"}),
    ("undo", {"run_id": NOBODY}),
    ("runs", {"run_id": "tea"}),
    ("set_profile", {"block": "play", "content": "tea"}),
    ("profile", {"max_tokens": 0}),
]

WEIGHTS = {
    store_fact: 11,
    store_facts: 4,
    store_note: 3,
    store_contrary: 6,
    settle: 4,
    change_rules: 2,
    store_episode: 6,
    store_episodes: 3,
    crowd: 2,
    conversation: 3,
    store_rule: 5,
    store_rules: 3,
    search: 20,
    search_crowd: 4,
    search_similar: 4,
    recall: 7,
    context: 3,
    list_memories: 4,
    on_one("get"): 4,
    on_one("confirm"): 4,
    on_one("forget"): 4,
    on_one("forget", derived=True): 2,
    on_one("derived"): 1,
    on_one("delete"): 4,
    on_one("events"): 2,
    on_one("revisions"): 2,
    edit: 5,
    history: 2,
    mark_helpful: 6,
    mark_harmful: 12,
    invert: 2,
    create_entity: 4,
    get_entity: 1,
    update_entity: 3,
    resolve_entity: 4,
    merge_entities: 3,
    sweep: 3,
    clean_up: 2,
    stats: 2,
    learn: 3,
    consolidate: 5,
    prompted: 3,
    undo: 3,
    decide: 3,
    profile: 3,
    again: 4,
    create_link: 4,
    get_links: 2,
    advance: 8,
    vectors: 5,
    change_embedder: 1,
    carry: 1,
    reopen: 1,
    refused: 5,
}

LEARNING = {
    store_contrary: 3,
    settle: 4,
    change_rules: 1,
    consolidate: 10,
    learn: 4,
    prompted: 5,
    undo: 7,
    decide: 7,
    profile: 3,
    store_episodes: 8,
    store_fact: 4,
    store_note: 2,
    on_one("get"): 1,
    on_one("confirm"): 2,
    on_one("forget"): 2,
    on_one("forget", derived=True): 3,
    on_one("derived"): 2,
    on_one("delete"): 2,
    edit: 2,
    mark_helpful: 2,
    sweep: 1,
    stats: 1,
    again: 3,
    advance: 6,
    carry: 1,
    reopen: 1,
    refused: 1,
}
