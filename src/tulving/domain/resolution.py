"""Which entity a name means: four ways for a name to match, what else speaks for a candidate, and what is left of two
entities that turn out to be one."""

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
MOST_ALIASES = 1_000
SIMILAR = 0.3
SHORTEST_FUZZY = 3
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Names:
    """All names of an entity, as they are written and as they are compared."""

    entity_id: UUID
    entity_type: EntityType
    canonical_name: str
    folded_name: str
    aliases: Sequence[str]


@dataclass(frozen=True, slots=True)
class Match:
    """How a name met an entity."""

    names: Names
    by: NameMatch
    similarity: float


@dataclass(frozen=True, slots=True)
class Hints:
    """What is known of the context: its words, and scores from elsewhere. `skipped` are those that are no numbers."""

    terms: frozenset[str] = frozenset()
    scores: Mapping[UUID, float] | None = None
    skipped: tuple[str, ...] = ()


def folded(name: str) -> str:
    """The form in which two names are the same name: case, white space and ways to write a letter do not count."""
    if name.isascii():
        return fold(name)
    return unicodedata.normalize("NFKC", fold(unicodedata.normalize("NFKC", name)))


def aliases(value: object, most: int | None = MOST_ALIASES) -> list[str] | None:
    """Other names, each once, whatever its case. Merging may leave an entity with more of them than may be given."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInput("aliases", f"must be a list, not {type(value).__name__}", "a list of names")
    if most is not None and len(value) > most:
        raise InvalidInput("aliases", f"has {len(value)} entries", f"at most {most}")
    known: dict[str, str] = {}
    for name in value:
        name = " ".join(intake.name("aliases", name).split())
        known.setdefault(folded(name), name)
    return list(known.values())


def trigrams(text: str) -> frozenset[str]:
    """The letters of each word by threes, with two blanks before it and one behind: those of PostgreSQL's pg_trgm."""
    padded = [f"  {word} " for word in _WORD.findall(text.lower())]
    return frozenset(word[at : at + 3] for word in padded for at in range(len(word) - 2))


def similarity(asked: Set[str], text: str) -> float:
    """001-068: the share of trigrams that are in both. What is below the threshold may be told as 0."""
    # Sought in the text, which is faster than to take it apart: no trigram reaches over the gap between two words.
    shared = sum(map(f"  {'   '.join(_WORD.findall(text.lower()))} ".__contains__, asked))
    if not shared or shared < SIMILAR * len(asked):
        return 0.0
    return shared / (len(asked) + len(trigrams(text)) - shared)


def matching(name: str, known: Iterable[Names], fuzzy: bool) -> list[Match]:
    """001-065 to 001-068: those whom a folded name may mean, each by the best of the ways in which it does."""
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


def rank(matches: Iterable[Match], hints: Hints, facts: Mapping[UUID, Set[str]]) -> list[EntityCandidate]:
    """001-069 to 001-071: scores with what the context adds, best first, equals by name. `facts` are the words of each
    entity's facts. Whom the context rules out (a score of 0 or less) is no candidate."""
    scored = [
        (round(_base(match, hints) + boost(hints.terms, facts.get(match.names.entity_id, frozenset())), 4), match)
        for match in matches
    ]
    scored.sort(key=lambda each: (-each[0], *_name(each[1])))
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


def boost(terms: Set[str], facts: Set[str]) -> float:
    """The overlap of two sets of words (Jaccard's), from 0 to 20."""
    shared = len(terms & facts)
    return MOST_BOOST * shared / (len(terms) + len(facts) - shared) if shared else 0.0


def _base(match: Match, hints: Hints) -> float:
    return BASE_SCORES[match.by] + (hints.scores or {}).get(match.names.entity_id, 0.0)


def _name(match: Match) -> tuple[str, UUID]:
    return match.names.canonical_name, match.names.entity_id


def read_hints(value: object) -> Hints:
    """Hints as a caller gives them: `topic` and `mentioned_with` are texts or lists of texts, `domain_scores` numbers
    by entity id. What is neither is left to those who know it."""
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


# -- two that are one --------------------------------------------------------------------------------------------------


def new_aliases(target: Entity, source: Entity) -> list[str]:
    """001-075: the names that a merge adds to the target: the source's own and its aliases, each once."""
    known = {folded(name) for name in (target.canonical_name, *target.aliases)}
    added = []
    for name in (source.canonical_name, *source.aliases):
        if folded(name) not in known:
            known.add(folded(name))
            added.append(name)
    return added


def joined_metadata(target: Entity, source: Entity) -> dict[str, Any]:
    """001-075: both, and where they differ the target's."""
    return {**source.metadata, **target.metadata}


def source_wins(source_confidence: float, target_confidence: float) -> bool:
    """001-074: of two facts in one slot the surer one stays; equally sure, the target's."""
    return source_confidence > target_confidence
