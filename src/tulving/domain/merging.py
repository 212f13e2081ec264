"""One fact made of two (000-032 to 000-036)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tulving.domain.arbitration import SOURCE_PRIORITIES, source_of, source_priority
from tulving.domain.intake import MAX_TAGS
from tulving.domain.model import Fact
from tulving.domain.sentences import keywords, sentences, unrepeated
from tulving.domain.text import clean
from tulving.domain.validity import start

ContentStrategy = Literal["concatenate", "replace", "summarize", "smart"]
ImportanceStrategy = Literal["max", "boost", "average"]
TimestampStrategy = Literal["max", "min"]
KeywordStrategy = Literal["union", "intersection"]
SourceStrategy = Literal["prefer-higher", "first", "second"]
SummaryStrategy = Literal["words", "model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """How two facts become one. `smart` summarizes texts that are more similar than `similarity_threshold`, and
    concatenates others; a summary is made of the words of both texts, or then written anew by the configured model. The
    keywords of 000 are tags here; `boost_amount` is on its scale of importance, 0 to 1."""

    content_strategy: ContentStrategy = "smart"
    similarity_threshold: float = 0.7
    deduplicate: bool = True
    deduplicate_threshold: float = 0.8
    importance: ImportanceStrategy = "boost"
    boost_amount: float = 0.1
    timestamp: TimestampStrategy = "max"
    keywords: KeywordStrategy = "union"
    source: SourceStrategy = "prefer-higher"
    summarize_with: SummaryStrategy = "words"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What the merged fact is made of, the content strategy that was used, and 000-036's statistics. `importance_delta`
    is the gain over the more important of both, from 0 to 1; `deduplicated_count` counts sentences left out."""

    content: str
    importance: float
    tags: tuple[str, ...]
    source: str
    occurred_at: datetime
    confidence: float
    permanence: str
    category: str
    strategy: ContentStrategy
    content_length: int
    keywords_count: int
    importance_delta: float
    deduplicated_count: int


def merge(
    first: Fact,
    second: Fact,
    policy: MergePolicy,
    *,
    similarity: float | None = None,
    source_priorities: Mapping[str, float] = SOURCE_PRIORITIES,
    summary: str | None = None,
) -> MergeResult:
    """The fact that two become: the known one, then the offered one. A `summary` of both, written by a model, is used
    where the strategy is to summarize. What is not combined comes from the primary one: the more important, or else the
    newer, or else the first. The merged fact is as certain as the less certain one, and lasts as long as the more
    lasting one."""
    primary, other = (second, first) if _standing(second) > _standing(first) else (first, second)
    strategy = content_strategy(first, second, policy, similarity)
    content, left_out = _content(first, second, policy, strategy, summary, primary is first)
    importance = _importance(first, second, policy)
    tags = _tags(first, second, policy)
    choices = {"first": first, "second": second}
    higher = max(primary, other, key=lambda fact: source_priority(fact, source_priorities))
    return MergeResult(
        content=content,
        importance=importance,
        tags=tags,
        source=_source(choices.get(policy.source, higher)),
        occurred_at=(max if policy.timestamp == "max" else min)(start(first), start(second)),
        confidence=min(first.confidence, second.confidence),
        permanence=min(primary, other, key=lambda fact: fact.decay_rate).permanence,
        category=primary.type or primary.predicate,
        strategy=strategy,
        content_length=len(content),
        keywords_count=len(tags),
        importance_delta=(importance - max(first.importance, second.importance)) / 10,
        deduplicated_count=left_out,
    )


def content_strategy(first: Fact, second: Fact, policy: MergePolicy, similarity: float | None) -> ContentStrategy:
    """What will be done with the texts. Without a similarity, that of their keywords tells whether they are similar."""
    if policy.content_strategy != "smart":
        return policy.content_strategy
    alike = _overlap(first.content, second.content) if similarity is None else similarity
    return "summarize" if alike > policy.similarity_threshold else "concatenate"


def _standing(fact: Fact) -> tuple[float, datetime]:
    return fact.importance, start(fact)


def _overlap(first: str, second: str) -> float:
    """The common keywords, as a share of the fewer ones."""
    ours, theirs = ({word for part in sentences(text) for word in keywords(part.words)} for text in (first, second))
    return len(ours & theirs) / (min(len(ours), len(theirs)) or 1)


def _content(
    first: Fact, second: Fact, policy: MergePolicy, strategy: ContentStrategy, summary: str | None, first_leads: bool
) -> tuple[str, int]:
    """The merged text, and how many sentences were left out of it."""
    if strategy == "replace":
        return second.content, 0
    if strategy == "summarize":
        written = clean(summary or "").strip()
        return (written, 0) if written else _summary(first.content, second.content, first_leads)
    if policy.deduplicate:
        return _added(first.content, second.content, policy.deduplicate_threshold)
    return f"{first.content}\n{second.content}", 0


def _added(first: str, second: str, threshold: float) -> tuple[str, int]:
    """000-035: the first text as it is, and of the second one what is new."""
    offered = sentences(second)
    new = unrepeated([part.words for part in offered], threshold, [part.words for part in sentences(first)])
    rest = "".join(offered[place].text for place in new).strip()
    return _lines(first.rstrip(), rest) if rest else first, len(offered) - len(new)


def _summary(first: str, second: str, first_leads: bool) -> tuple[str, int]:
    """The sentences with the most keywords, and all those whose keywords are not in one of these in the same order. Of
    equal ones, that of the leading text is taken."""
    ours, theirs = sentences(first), sentences(second)
    parts = [*ours, *theirs]
    told = [keywords(part.words) for part in parts]
    order = sorted(range(len(parts)), key=lambda at: (-len(told[at]), (at < len(ours)) != first_leads))
    kept = sorted(order[place] for place in unrepeated([told[at] for at in order], 0.0))
    from_first, from_second = (
        "".join(parts[at].text for at in kept if (at < len(ours)) == leading).strip() for leading in (True, False)
    )
    return _lines(from_first, from_second), len(parts) - len(kept)


def _lines(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


def _importance(first: Fact, second: Fact, policy: MergePolicy) -> float:
    """000-033, 000-034, on the scale of facts."""
    greatest = max(first.importance, second.importance)
    match policy.importance:
        case "max":
            return greatest
        case "boost":
            return min(10.0, greatest + 10 * policy.boost_amount)
        case "average":
            return (first.importance + second.importance) / 2


def _tags(first: Fact, second: Fact, policy: MergePolicy) -> tuple[str, ...]:
    """Those of the first, then of the second; no more than a fact may have."""
    if policy.keywords == "intersection":
        return tuple(tag for tag in first.tags if tag in second.tags)
    return tuple(dict.fromkeys((*first.tags, *second.tags)))[:MAX_TAGS]


def _source(fact: Fact) -> str:
    """The source of a fact, named even if the fact does not: the merged one may belong to a model's run."""
    return fact.source if fact.source and fact.source.strip() else source_of(fact)
