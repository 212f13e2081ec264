"""Explanations of search results: what each score is made of, and why near misses were left out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tulving.domain.layers import title
from tulving.domain.model import Episode, Fact, Found, Hit, Item
from tulving.domain.ranking import FACTORS
from tulving.domain.relevance import SIGNALS, WEAK, contributions, why

MINOR = "series-6"
MAJOR = ("meaning", "window", "words", "session", "speaker")
CLASSES = {name: f"series-{number}" for number, name in enumerate(MAJOR, 1)}
"""A signal has the same colour in every bar; minor ones share a colour."""
FACTOR_CLASSES = {name: f"series-{number}" for number, name in enumerate(FACTORS, 1)}

LONGEST_QUESTION = 80

Part = tuple[str, float, str]
"""A part of a stacked bar: its label, its value and its class."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A hit with its rank, the parts of its score, and the reasons in words."""

    hit: Hit
    place: int
    bar: Sequence[Part]
    bar_label: str
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Miss:
    """A near miss, and why it is not among the hits."""

    hit: Hit
    reason: str


def searched(found: Sequence[Hit], meaning: float) -> list[Shown]:
    """The hits of a search. `meaning` is the weight of the embedder's similarities."""
    return [
        Shown(hit, place, signal_bar(hit, meaning), "What its relevance is made of", _signals(hit))
        for place, hit in enumerate(found, 1)
    ]


def recalled(found: Sequence[Hit], weights: Mapping[str, float]) -> list[Shown]:
    """The hits of a recall, with the weights of its factors."""
    shown: list[Shown] = []
    for place, hit in enumerate(found, 1):
        bar = [(name, weights[name] * hit.parts[name], FACTOR_CLASSES[name]) for name in FACTORS if name in hit.parts]
        kept = [part for part in bar if part[1] > 0]
        shown.append(Shown(hit, place, kept, "What its score is made of", [*_factors(hit), *_signals(hit)]))
    return shown


def signal_bar(hit: Hit, meaning: float) -> list[Part]:
    """The contribution of each signal to the relevance of a hit, in a fixed order."""
    added = contributions(hit.parts, meaning)
    return [(name, added[name], CLASSES.get(name, MINOR)) for name in SIGNALS if name in added]


def misses(shown: Found, beyond: Found, min_confidence: float, min_relevance: float, most: int) -> list[Miss]:
    """The best hits of an unrestricted search that one with these thresholds left out."""
    known = {hit.id for hit in shown.hits}
    out = [hit for hit in beyond.hits if hit.id not in known]
    return [Miss(hit, _missed(hit, min_confidence, min_relevance, len(shown.hits))) for hit in out[:most]]


def _missed(hit: Hit, min_confidence: float, min_relevance: float, shown: int) -> str:
    confidence, relevance = hit.parts["confidence"], hit.parts["relevance"]
    if confidence < min_confidence:
        return f"Its confidence {_below(confidence)} is below {min_confidence:g}."
    if relevance < min_relevance:
        return f"Its relevance {_below(relevance)} is below {min_relevance:g}."
    return f"Its relevance {relevance:.2f} is less than that of the {shown} shown."


def _below(share: float) -> str:
    """Rounded down, so that it does not look equal to the threshold."""
    return f"{math.floor(share * 100) / 100:.2f}"


def _factors(hit: Hit) -> list[str]:
    parts, item = hit.parts, hit.item
    importance = getattr(item, "importance", None)
    said = {
        "relevance": "how well it answers the query",
        "importance": "a rule has none of its own" if importance is None else f"{importance:g} of 10",
        "recency": "how recently it happened" if hit.memory_type == "episode" else "how recently it was used",
        "confidence": "how firmly it is believed today",
    }
    return [f"{name} {parts[name]:.2f}: {said[name]}" for name in FACTORS if name in parts]


def _signals(hit: Hit) -> list[str]:
    parts = hit.parts
    said = [f"{name} {parts[name]:.2f}: {reason}" for name, reason in why(parts).items()]
    if not said and "rrf_score" in parts:
        said.append(f"place {parts['semantic_rank']} by meaning and {parts['keyword_rank']} by words")
    if "reranker" in parts:
        said.append(f"reranker {parts['reranker']:.2f}: a second model has read it together with the query")
    if hit.weak:
        said.append(f"weak: its relevance {parts['relevance']:.2f} is below {WEAK}, so it probably does not answer")
    if hit.newer:
        said.append("a newer memory seems to say the same")
    return said


def questions(recent: Sequence[Item], most: int) -> list[str]:
    """Example questions that this memory can answer, made from the newest memories."""
    about: dict[str, Fact] = {}
    for each in recent:
        if isinstance(each, Fact) and each.keyed:
            about.setdefault(each.subject, each)
    asked = [_question(fact, by_key=number % 2 == 1) for number, fact in enumerate(about.values())]
    speakers = dict.fromkeys(each.source for each in recent if isinstance(each, Episode) and each.source)
    said = [f"What did {speaker} say?" for speaker in speakers]
    others = [title(each) for each in recent if not (isinstance(each, Fact) and each.keyed)]
    chosen = dict.fromkeys([*asked[: most - 2], *said[:1], *asked[most - 2 :], *said[1:], *others])
    return [each for each in chosen if len(each) <= LONGEST_QUESTION][:most]


def _question(fact: Fact, by_key: bool) -> str:
    if by_key:
        return f"What about the {fact.predicate.replace('_', ' ')} of {fact.subject}?"
    return f"What is known about {fact.subject}?"
