"""What the core needs from outside, as protocols. `bootstrap` chooses the implementations."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable
from uuid import UUID

from tulving.domain.events import Event
from tulving.domain.records import Record


class Clock(Protocol):
    """The only source of "now": an aware UTC time."""

    def __call__(self) -> datetime: ...


class Ids(Protocol):
    """The only source of identifiers."""

    def __call__(self) -> UUID: ...


class Embedder(Protocol):
    """Turns text into vectors of one fixed dimension. Deterministic; safe to call from any thread.

    `model` and `version` are recorded with the store: two embedders whose vectors must not be
    compared must differ in one of them. `light` means that a short text takes microseconds, less
    than handing it to a thread. An embedder may have `trust`, a number from 0 to 1 (the default) or a
    function of the query: how far its similarities count as evidence beside the words.

    An embedder that was ready but fails raises `EmbedderUnavailable`: memories are then stored without a vector and
    with a warning, and get the vector later. Any other error counts as a bug and propagates. The protocols below are
    optional abilities of an embedder.
    """

    model: str
    version: str
    dimension: int
    light: bool

    def unready(self) -> str | None:
        """Why it can't embed yet and what to do about it, as a message for people; None if it can."""
        ...

    def embed(self, text: str | None) -> list[float]:
        """The vector of a text."""
        ...

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """The vectors of some texts, in their order."""
        ...


@runtime_checkable
class Querying(Protocol):
    """An embedder that treats queries differently from what is stored: many models expect a prefix."""

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]: ...


@runtime_checkable
class Measurable(Protocol):
    """An embedder whose `dimension` is 0 until it is measured: only its service knows it."""

    def measure(self, recorded: int | None) -> None:
        """Take the dimension that the store has recorded for this model, else ask the service, and raise
        `EmbedderUnavailable` if it does not answer."""
        ...


@runtime_checkable
class Checkable(Protocol):
    """An embedder that can check what it depends on for damage."""

    def problems(self) -> list[str]:
        """Everything that is wrong and what to do about it, as messages for people; empty if all is well.

        Thorough rather than fast: it trusts no cached result and may take a second. Missing files are not reported
        here but by `unready`. `verify`, `health` and `config` call it.
        """
        ...


@runtime_checkable
class Installable(Protocol):
    """An embedder that can install the files that it depends on."""

    def install(self, source: Path | None = None) -> Path:
        """Download the files, or take them from `source`; returns their folder. Intact files are left alone.

        Progress is shown on standard error.
        """
        ...


class Reranker(Protocol):
    """Judges how well texts answer a query: better than a comparison of vectors, and slower. Safe to call from any
    thread. Raises `RerankerUnavailable` if it can't; the search then goes on without it."""

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """One score per text, in their order; higher is better. Only scores of one call can be compared."""
        ...


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model answered, and what that cost in tokens; None where the model does not tell."""

    text: str
    truncated: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None


class Llm(Protocol):
    """A language model. It is awaited, because an answer may take minutes, and cancelling the call must stop it.

    `name` is shown to people and recorded with what it taught. A failure is `ModelUnavailable`, `passing` if another
    attempt may succeed; who calls decides about attempts. Whether an answer is blank or truncated is for the caller
    to judge too.
    """

    name: str

    def unready(self) -> str | None:
        """Why it can't be asked and what to do about it; None if it can. It is not asked to find out."""
        ...

    async def complete(self, prompt: str, max_tokens: int) -> Completion:
        """The answer to a prompt, of at most so many tokens."""
        ...


class Publisher(Protocol):
    """Receives the events of a transaction after its commit."""

    def __call__(self, events: Sequence[Event]) -> None: ...


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Record):
    """The result of one check of `verify` or `health`. No problems means that it passed; `warming` says what is not
    ready yet; `note` is information worth showing either way."""

    check: str
    problems: tuple[str, ...] = ()
    note: str = ""
    warming: str = ""


Told = str | int | float
Activity = Literal["operation", "transaction", "embedding", "model", "job"]
Happening = Literal["commit", "lookup", "floor_miss"]


class Observation(Protocol):
    """One activity that is being observed."""

    def tell(self, **about: Told) -> None:
        """Add attributes that were not known when it began."""
        ...


class Observer(Protocol):
    """The hook for metrics, traces and logs. It is called from any thread, must be fast and must never raise.

    It gets names, ids, sizes and kinds, and sees the type of the exception that ends an activity. It never gets
    content: what is stored, asked or answered.
    """

    def during(self, activity: Activity, **about: Told) -> AbstractContextManager[Observation]:
        """A context manager around an activity, which measures it and sees how it ends."""
        ...

    def note(self, happening: Happening, amount: float = 1, **about: str) -> None:
        """Record an event without a duration."""
        ...


class Unobserved:
    """The observer that does nothing. It is its own context manager, so that it costs next to nothing."""

    def during(self, activity: Activity, **about: Told) -> AbstractContextManager[Observation]:
        return self

    def note(self, happening: Happening, amount: float = 1, **about: str) -> None:
        pass

    def tell(self, **about: Told) -> None:
        pass

    def __enter__(self) -> Observation:
        return self

    def __exit__(self, *error: object) -> None:
        pass


UNOBSERVED = Unobserved()


class Store(Protocol):
    """An engine: runs transaction functions and reads for one tenant or (None) for the whole store.

    A transaction function takes a connection and may be retried. After the commit its events go to `publish`.
    """

    publish: Callable[[Sequence[Event]], None]

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    async def read(self, tenant_id: str | None, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    async def look_up(self, tenant_id: str | None, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """A short read, which does not wait behind searches if the engine can do that."""
        ...

    async def reindex(
        self, method: str | None = None, *, only_outgrown: bool = False, progress: Any = None
    ) -> list[str]: ...

    async def identity(self) -> tuple[Any, ...]: ...

    async def used_bytes(self) -> int | None:
        """How much of its file holds something; None for an engine whose size is not limited here."""
        ...

    async def ready(self) -> None:
        """Wait until nothing is warming (`Finding.warming`)."""
        ...

    async def health(self) -> list[Finding]: ...

    async def close(self) -> None: ...


@runtime_checkable
class Announcing(Protocol):
    """A store that hears of changes by other processes, without being asked again and again."""

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when something may have changed; returns what ends this. An announcement may be lost."""
        ...
