"""What the core needs from outside, as protocols. `bootstrap` chooses who fulfils them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable
from uuid import UUID

from tulving.domain.events import Event


class Clock(Protocol):
    """The only source of "now": an aware UTC time."""

    def __call__(self) -> datetime: ...


class Ids(Protocol):
    """The only source of identifiers."""

    def __call__(self) -> UUID: ...


class Embedder(Protocol):
    """Turns text into vectors of one fixed dimension. Deterministic; safe to call from any thread.

    `model` and `version` are recorded with the store: two embedders whose vectors may not be
    compared must differ in one of them. `light` means a short text costs microseconds, so that no
    thread is worth its hand-over.

    An embedder that was ready but fails raises `EmbedderUnavailable`: memories are then stored without a vector and
    with a warning, and get the vector later. Any other error counts as a bug and rises. An embedder that depends on
    files or services can also be `Checkable`, one whose files are not shipped `Installable`.
    """

    model: str
    version: str
    dimension: int
    light: bool

    def unready(self) -> str | None:
        """Why it can't embed yet and what to do about it, in words for a person; None when it can."""
        ...

    def embed(self, text: str | None) -> list[float]: ...

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]: ...


@runtime_checkable
class Checkable(Protocol):
    """What an embedder may offer beside its port: to look for damage in what it depends on."""

    def problems(self) -> list[str]:
        """All that is wrong, in words for a person, with what to do about it; empty when nothing is.

        Thorough rather than fast: it trusts no record and may take a second. What is missing altogether is not
        damaged; `unready` reports that. `verify`, `health` and `config` call it.
        """
        ...


@runtime_checkable
class Installable(Protocol):
    """What an embedder may offer beside its port: to install the files that it depends on."""

    def install(self, source: Path | None = None) -> Path:
        """Fetch the files, or take them from `source`; the folder they are in. What is there and whole is left alone.

        Progress is shown on standard error.
        """
        ...


class Publisher(Protocol):
    """Receives the events of a transaction after it has been committed."""

    def __call__(self, events: Sequence[Event]) -> None: ...


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of `verify` or `health`. No problems means that it passed; `note` is information worth
    showing either way."""

    check: str
    problems: tuple[str, ...] = ()
    note: str = ""


class Store(Protocol):
    """An engine: runs transaction functions and reads, on behalf of one tenant or (None) of the whole store.

    A transaction function takes a connection and may be run again. When it has committed, its events go to `publish`.
    """

    publish: Callable[[Sequence[Event]], None]

    async def write(self, tenant_id: str | None, transaction: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    async def read(self, tenant_id: str | None, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any: ...

    async def reindex(
        self, method: str | None = None, *, only_outgrown: bool = False, progress: Any = None
    ) -> list[str]: ...

    async def identity(self) -> tuple[Any, ...]: ...

    async def health(self) -> list[Finding]: ...

    async def close(self) -> None: ...
