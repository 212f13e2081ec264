"""Translates errors of asyncpg and the server into ours, never with a password in the message."""

from asyncpg import exceptions as pg

from tulving.errors import (
    ConfigError,
    DamagedStore,
    DiskFull,
    EmbedderMismatch,
    IntegrityError,
    StoreBusy,
    StoreUnavailable,
    TulvingError,
)
from tulving.storage.connection import Interrupted

URL_FORM = "postgresql://user@host:5432/database"
LOST = (
    ConnectionError,
    pg.PostgresConnectionError,
    pg.InterfaceError,
    pg.InternalClientError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
)
DRIVER_ERRORS = (
    pg.PostgresError,
    pg.InterfaceError,
    pg.InternalClientError,
    OSError,
    TimeoutError,
    UnicodeError,
    OverflowError,
)
CONFLICTS = (
    pg.SerializationError,
    pg.DeadlockDetectedError,
    pg.UniqueViolationError,
    pg.InvalidCachedStatementError,
)


class Conflict(IntegrityError):
    """Two writers conflicted. The loser is retried; after the last attempt this is an ordinary error."""


class Deadlock(Conflict, Interrupted):
    """Two writers waited for each other, and the server chose this one to give way."""


class ConnectionLost(StoreUnavailable):
    """The connection was lost or could not be established."""


def named_error(error: Exception) -> TulvingError:
    """The driver's error as one of ours."""
    if isinstance(error, TulvingError):
        return error
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, pg.ClientConfigurationError):
        return ConfigError("url", f"can't be read ({said})", URL_FORM)
    if isinstance(error, CONFLICTS):
        waited = isinstance(error, pg.SerializationError | pg.DeadlockDetectedError)
        return (Deadlock if waited else Conflict)(f"the store refused a change that would break it ({said})")
    if isinstance(error, pg.InvalidAuthorizationSpecificationError | pg.InvalidCatalogNameError):
        return StoreUnavailable(f"PostgreSQL refused the connection ({said}); check the user, password and database")
    if isinstance(error, pg.InsufficientPrivilegeError):
        return StoreUnavailable(f"this database user lacks a right ({said}); docs/deploy-postgres.md lists the rights")
    if isinstance(error, pg.DiskFullError):
        return DiskFull(f"the disk of the server is full ({said}); nothing was stored")
    if isinstance(error, pg.QueryCanceledError | pg.LockNotAvailableError):
        return StoreBusy(f"the server took too long ({said}); try again, or raise postgres.statement_timeout")
    if isinstance(error, pg.ReadOnlySQLTransactionError):
        return StoreUnavailable(f"this server is read only ({said}); write to the primary")
    if isinstance(error, pg.TooManyConnectionsError):
        return StoreBusy(f"the server has no free connection ({said}); lower postgres.pool_size")
    if isinstance(error, pg.DataCorruptedError | pg.IndexCorruptedError):
        return DamagedStore(f"the database is damaged ({said})")
    if isinstance(error, pg.UndefinedTableError | pg.UndefinedColumnError):
        return DamagedStore(f"the database lacks what this version needs ({said}); run `tulving migrate`")
    if isinstance(error, pg.DataError) and "dimensions" in said:
        return EmbedderMismatch(
            f"this store was re-embedded with another embedder ({said}); open it again with that one"
        )
    if isinstance(error, TimeoutError):
        return ConnectionLost("PostgreSQL did not answer in time; is the server running and reachable?")
    if isinstance(error, LOST) or (isinstance(error, OSError) and not isinstance(error, UnicodeError)):
        return ConnectionLost(f"can't reach PostgreSQL ({said}); is the server running?")
    return IntegrityError(f"the store refused a value or a change ({said})")
