"""Every error that Tulving raises on purpose.

    TulvingError
    ├── InvalidInput (ValueError)        a refused value: names the field, the problem and what is allowed
    │   └── ConfigError                  the same, in a configuration file or variable
    ├── NotFound (KeyError)              no such memory for this caller
    ├── Forbidden (PermissionError)      the caller lacks the right to this
    ├── ChangedSince                     somebody else has changed what the caller wants to change
    ├── IntegrityError                   the store or its meaning would be broken: always raised
    │   ├── DamagedStore                 the database file is not a healthy Tulving store
    │   ├── SchemaTooNew                 written by a newer version of Tulving
    │   └── EmbedderMismatch             the store holds vectors of another embedder
    ├── StoreUnavailable (OSError)       the store can't be reached or written now
    │   ├── StoreBusy                    another process held the write lock for too long
    │   ├── DiskFull                     no room; nothing was acknowledged, nothing is lost
    │   └── MemoryClosed (RuntimeError)  this memory was closed; open it again
    ├── EmbedderUnavailable (RuntimeError)
    │   └── WeightsError                 the model's weights are missing, incomplete or not the right ones
    ├── MissingExtra (ImportError)       a part that was not installed is needed; says how to install it
    ├── RerankerUnavailable (RuntimeError)
    └── ModelUnavailable (RuntimeError)  the language model can't be asked
        ├── SpendLimitReached            its tokens for this run or this day are used up
        └── UnusableAnswer               it answered nothing, or was cut off

Each is also the builtin that a caller would expect, so `except ValueError` works without importing Tulving.
"""


class TulvingError(Exception):
    """Base of all deliberate errors."""


class InvalidInput(TulvingError, ValueError):
    """A value that is refused. Says which field, what is wrong with it, and what is allowed."""

    def __init__(self, field: str, problem: str, allowed: str = "") -> None:
        self.field, self.problem, self.allowed = field, problem, allowed
        super().__init__(f"{field}: {problem}" + (f"; allowed: {allowed}" if allowed else ""))


class ConfigError(InvalidInput):
    """A setting that is refused."""


class NotFound(TulvingError, KeyError):
    """No such memory for this caller."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "not found"


class Forbidden(TulvingError, PermissionError):
    """The caller lacks the right to do this."""


class ChangedSince(TulvingError):
    """What the caller wants to change is not what it has read: somebody else has changed it since. Nothing was done."""


class MissingExtra(TulvingError, ImportError):
    """A part of Tulving is needed that was not installed. Says how to install it."""


class IntegrityError(TulvingError):
    """The store, or the meaning of what it holds, would be broken. Never swallowed."""


class DamagedStore(IntegrityError):
    """The database file is not a healthy Tulving store. It is not written to."""


class SchemaTooNew(IntegrityError):
    """The store was written by a newer version of Tulving."""


class EmbedderMismatch(IntegrityError):
    """The store holds vectors of another embedder than the one configured."""


class StoreUnavailable(TulvingError, OSError):
    """The store can't be reached or written at the moment."""


class StoreBusy(StoreUnavailable):
    """Another process held the write lock for too long."""


class DiskFull(StoreUnavailable):
    """There is no room to write. Nothing was acknowledged and nothing is lost."""


class MemoryClosed(StoreUnavailable, RuntimeError):
    """This memory was closed. Open it again."""

    def __init__(self, problem: str = "this memory was closed") -> None:
        super().__init__(problem)


class EmbedderUnavailable(TulvingError, RuntimeError):
    """The embedder can't make vectors now."""


class WeightsError(EmbedderUnavailable):
    """The model's weights are missing, incomplete or not the right ones."""


class RerankerUnavailable(TulvingError, RuntimeError):
    """The reranker can't judge texts now."""


class ModelUnavailable(TulvingError, RuntimeError):
    """The language model can't be asked now. `passing` if another attempt may succeed, after `wait` seconds if the
    service asks for that."""

    def __init__(self, problem: str, *, passing: bool = False, wait: float = 0.0) -> None:
        super().__init__(problem)
        self.passing, self.wait = passing, wait


class SpendLimitReached(ModelUnavailable):
    """The tokens that a tenant may spend are used up. Nothing was sent."""


class UnusableAnswer(ModelUnavailable):
    """The model answered with nothing, or its answer was cut off. That has cost tokens all the same."""

    def __init__(self, problem: str, *, input_tokens: int = 0, output_tokens: int = 0) -> None:
        super().__init__(problem)
        self.input_tokens, self.output_tokens = input_tokens, output_tokens
