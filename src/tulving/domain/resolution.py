"""Entity resolution: how a name matches, what the context adds to a candidate's score, and how two entities merge."""

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tulving.domain import intake
from tulving.domain.model import Entity, EntityCandidate, EntityType, NameMatch
from tulving.domain.text import fold, words
from tulving.errors import InvalidInput

BASE_SCORES: dict[NameMatch, float] = {"exact": 100.0, "alias": 80.0, "prefix": 50.0, "fuzzy": 20.0}
MOST_BOOST = 20.0
EVIDENCE = 80.0
"""The points of a similarity of 1, where similar names are asked for in a context. Enough for a context that fits to
outrank a name that merely contains the one asked for, or even equals it."""
CONTEXT = 5.0
"""How much more an overlap with the context counts than similarity."""
MOST_ALIASES = 1_000
SIMILAR = 0.3
SHORTEST_FUZZY = 3
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class NamedEntity:
    """All names of an entity, as written; the canonical one also as it is compared."""

    entity_id: UUID
    entity_type: EntityType
    canonical_name: str
    folded_name: str
    aliases: Sequence[str]


@dataclass(frozen=True, slots=True)
class Match:
    """How a name matched an entity."""

    names: NamedEntity
    by: NameMatch
    similarity: float


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known of the context: its words, and scores by entity. `skipped`: scores that are not numbers."""

    terms: frozenset[str] = frozenset()
    scores: Mapping[UUID, float] | None = None
    skipped: tuple[str, ...] = ()


def folded(name: str) -> str:
    """The form in which names are compared: without case, extra white space and compatibility variants of letters."""
    if name.isascii():
        return fold(name)
    return unicodedata.normalize("NFKC", fold(unicodedata.normalize("NFKC", name)))


def place(entity: Entity) -> tuple[str, UUID]:
    """Where an entity stands in a list by name."""
    return folded(entity.canonical_name), entity.id


def aliases(value: object, most: int | None = MOST_ALIASES) -> list[str] | None:
    """Other names, without duplicates in any case. A merge may leave an entity with more than a caller may give."""
    if value is None:
        return None
    known: dict[str, str] = {}
    for name in intake.items("aliases", value, most, "a list of names"):
        name = " ".join(intake.name("aliases", name).split())
        known.setdefault(folded(name), name)
    return list(known.values())


def trigrams(text: str) -> frozenset[str]:
    """The trigrams of each word, with two blanks before it and one behind, as PostgreSQL's pg_trgm forms them."""
    padded = [f"  {word} " for word in _WORD.findall(text.lower())]
    return frozenset(word[at : at + 3] for word in padded for at in range(len(word) - 2))


def similarity(asked: Set[str], text: str) -> float:
    """001-068: the share of trigrams that are in both; 0 where it is below the threshold anyway."""
    # Searching the text is faster than splitting it; the gap between two words keeps trigrams from spanning them.
    shared = sum(map(f"  {'   '.join(_WORD.findall(text.lower()))} ".__contains__, asked))
    if not shared or shared < SIMILAR * len(asked):
        return 0.0
    return shared / (len(asked) + len(trigrams(text)) - shared)


def matching(name: str, known: Iterable[NamedEntity], fuzzy: bool) -> list[Match]:
    """001-065 to 001-068: the entities that a folded name may mean, each by its best kind of match."""
    asked = trigrams(name)
    fuzzy = fuzzy and len(name) >= SHORTEST_FUZZY
    found = []
    for names in known:
        all_names = [names.folded_name, *map(folded, names.aliases)]
        by = _exactly(name, all_names)
        if by is None and not fuzzy:
            continue
        likeness = 1.0 if by in ("exact", "alias") else max(similarity(asked, each) for each in all_names)
        if by is not None or likeness >= SIMILAR:
            found.append(Match(names, by or "fuzzy", likeness))
    return found


def _exactly(name: str, all_names: Sequence[str]) -> NameMatch | None:
    if name == all_names[0]:
        return "exact"
    if name in all_names:
        return "alias"
    return "prefix" if any(name in each for each in all_names) else None


def rank(
    matches: Iterable[Match], hints: Hints, facts: Mapping[UUID, Set[str]], fuzzy: bool = False
) -> list[EntityCandidate]:
    """001-069 to 001-071: candidates with the context's part in their scores, best first, equal ones by name.

    `facts` are the words of each entity's facts. A score of 0 or less rules a candidate out. If similar names were
    asked for (`fuzzy`), similarity counts too: of equal scores, the more similar name is first.
    """
    scored: list[tuple[float, Match]] = []
    for match in matches:
        context = overlap(hints.terms, facts.get(match.names.entity_id, frozenset()))
        scored.append((round(_score(match, hints, context, fuzzy), 4), match))
    scored.sort(key=lambda each: (each[1].names.canonical_name, each[1].names.entity_id))
    scored.sort(key=lambda each: (each[0], each[1].similarity if fuzzy else 0), reverse=True)
    return [
        EntityCandidate(
            entity_id=match.names.entity_id,
            canonical_name=match.names.canonical_name,
            entity_type=match.names.entity_type,
            score=score,
            name_match=match.by,
            aliases=match.names.aliases,
            similarity=round(match.similarity, 4),
        )
        for score, match in scored
        if score > 0
    ]


def overlap(terms: Set[str], facts: Set[str]) -> float:
    """The Jaccard similarity of two sets of words."""
    shared = len(terms & facts)
    return shared / (len(terms) + len(facts) - shared) if shared else 0.0


def _score(match: Match, hints: Hints, context: float, fuzzy: bool) -> float:
    score = BASE_SCORES[match.by] + MOST_BOOST * context + (hints.scores or {}).get(match.names.entity_id, 0.0)
    if fuzzy and hints.terms:
        score += EVIDENCE * (match.similarity + CONTEXT * context)
    return score


def read_hints(value: object) -> Hints:
    """Hints as a caller gives them: `topic` and `mentioned_with` are texts or lists of texts, `domain_scores` numbers
    by entity id. Other keys are ignored."""
    if value is None:
        return Hints()
    if not isinstance(value, Mapping):
        raise _refused(f"must be an object, not {type(value).__name__}")
    terms = {
        word for part in ("topic", "mentioned_with") for text in _texts(part, value.get(part)) for word in words(text)
    }
    given = value.get("domain_scores")
    if not isinstance(given, Mapping | None):
        raise _refused(f"domain_scores must be an object, not {type(given).__name__}")
    scores: dict[UUID, float] = {}
    skipped = []
    for key, score in (given or {}).items():
        id_, number = _id(key), _number(score)
        if number is None:
            skipped.append(f"{key!s:.80}")
        elif id_ is not None:
            scores[id_] = number
    return Hints(frozenset(terms), scores, tuple(skipped))


def _texts(part: str, value: object) -> list[str]:
    texts = [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise _refused(f"{part} holds a {type(text).__name__}")
    return texts  # pyright: ignore[reportReturnType]


def _refused(problem: str) -> InvalidInput:
    allowed = "topic (text), mentioned_with (a list of names), domain_scores (numbers by entity id)"
    return InvalidInput("context_hints", problem, allowed)


def _id(key: object) -> UUID | None:
    try:
        return key if isinstance(key, UUID) else UUID(str(key))
    except ValueError:
        return None


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def new_aliases(target: Entity, source: Entity) -> list[str]:
    """001-075: the names that a merge adds to the target: the source's name and aliases that it does not have yet."""
    known = {folded(name) for name in (target.canonical_name, *target.aliases)}
    added: dict[str, str] = {}
    for name in (source.canonical_name, *source.aliases):
        added.setdefault(folded(name), name)
    return [name for form, name in added.items() if form not in known]


def joined_metadata(target: Entity, source: Entity) -> dict[str, Any]:
    """001-075: the metadata of both; where they differ, the target's."""
    return {**source.metadata, **target.metadata}


def source_wins(source_confidence: float, target_confidence: float) -> bool:
    """001-074: of two facts with the same key the more confident one stays; of equal ones, the target's."""
    return source_confidence > target_confidence
