"""Access tokens: stored by the hash of their secret and never deleted, so that the audit trail stays complete."""

from dataclasses import fields
from datetime import datetime
from uuid import UUID

from tulving.domain.access import Token
from tulving.domain.events import Event
from tulving.errors import InvalidInput
from tulving.storage import events
from tulving.storage.connection import Connection
from tulving.storage.rows import Row, insert_statement

_COLUMNS = tuple(field.name for field in fields(Token))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM access_tokens"
_INSERT = f"{insert_statement('access_tokens', (*_COLUMNS, 'hash'))} ON CONFLICT (hash) DO NOTHING"


def create(conn: Connection, token: Token, hash_: str, event: Event) -> None:
    """Store a token; raises if its secret is already in use."""
    row = {name: getattr(token, name) for name in _COLUMNS} | {"rights": ",".join(token.rights), "hash": hash_}
    if not conn.execute(_INSERT, row):
        raise InvalidInput("secret", "is that of another token", "a new one")
    events.append(conn, event)


def everyone(conn: Connection) -> list[Token]:
    """The tokens of all tenants in any state, oldest first."""
    return [_token(row) for row in conn.fetch_all(f"{_SELECT} ORDER BY created_at, id")]


def revoke(conn: Connection, id_: UUID, now: datetime, event: Event) -> bool:
    """Revoke a token; False if it was revoked already."""
    done = conn.execute(
        "UPDATE access_tokens SET revoked_at = :now WHERE tenant_id = :tenant_id AND id = :id AND revoked_at IS NULL",
        {"tenant_id": event.tenant_id, "id": id_, "now": now},
    )
    if done:
        events.append(conn, event)
    return bool(done)


def find(conn: Connection, hash_: str, now: datetime) -> Token | None:
    """The token with this hash, if it is neither revoked nor expired."""
    row = conn.fetch_one(
        f"{_SELECT} WHERE hash = :hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)",
        {"hash": hash_, "now": now},
    )
    return None if row is None else _token(row)


def any_kept(conn: Connection) -> bool:
    """Whether there is an unrevoked token. An expired one counts: the passage of time must not grant open access."""
    return conn.fetch_one("SELECT 1 AS found FROM access_tokens WHERE revoked_at IS NULL LIMIT 1") is not None


def _token(row: Row) -> Token:
    row["rights"] = tuple(row["rights"].split(","))
    return Token(**row)
