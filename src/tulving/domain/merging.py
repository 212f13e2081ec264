"""One fact made of two (000-032 to 000-036)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tulving.domain.arbitration import SOURCE_PRIORITIES
from tulving.domain.model import Fact

ContentStrategy = Literal["concatenate", "replace", "summarize", "smart"]
ImportanceStrategy = Literal["max", "boost", "average"]
TimestampStrategy = Literal["max", "min"]
KeywordStrategy = Literal["union", "intersection"]
SourceStrategy = Literal["prefer-higher", "first", "second"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """How two facts become one. The keywords of 000 are tags here."""

    content_strategy: ContentStrategy = "smart"
    similarity_threshold: float = 0.7
    deduplicate: bool = True
    deduplicate_threshold: float = 0.8
    importance: ImportanceStrategy = "boost"
    boost_amount: float = 0.1
    timestamp: TimestampStrategy = "max"
    keywords: KeywordStrategy = "union"
    source: SourceStrategy = "prefer-higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    content: str
    importance: float
    tags: tuple[str, ...]
    source: str | None
    occurred_at: datetime
    confidence: float
    permanence: str
    category: str
    strategy: str
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
) -> MergeResult: ...
