"""Where a store is: the file or database of a URL, and whether it may be created."""

from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from tulving.config import find_database
from tulving.errors import ConfigError

Create = Literal["never", "file", "folders"]
"""What may be created where there is no store: nothing, the store in an existing folder, or missing folders too. The
default location also gets its folders, except with "never"."""


def new_file(url: str | None, create: Create = "file", field: str = "url") -> Path | None:
    """The file that opening this URL would create, None if it exists. Raises if it may not be created, so that a
    mistyped path does not become an empty memory."""
    path = database_path(url)
    try:
        if path.exists():
            return None
        folder_is_there = path.parent.exists()
    except OSError:
        return None  # the engine will report what is wrong
    if create == "never":
        raise no_memory(field, url)
    if create == "file" and url is not None and not folder_is_there:
        allowed = "a path in an existing folder; `tulving init` creates folders too"
        raise ConfigError(field, f"there is no folder {path.parent.absolute()} for a memory", allowed)
    return path.absolute()


def no_memory(field: str, url: str | None) -> ConfigError:
    """The error that there is no store where one must be."""
    allowed = "the location of an existing memory; `tulving init` creates a new one"
    return ConfigError(field, f"there is no memory at {store_name(url)}", allowed)


def is_postgres(url: str | None) -> bool:
    return url is not None and url.partition("://")[0] in ("postgresql", "postgres")


def store_name(url: str | None) -> str:
    """The location of a store as shown to people: its file, or its URL without the password, wherever it stands."""
    if url is None or not is_postgres(url):
        return str(database_path(url).absolute())
    parts = urlsplit(url)
    who, at, host = parts.netloc.rpartition("@")
    options = [each for each in parts.query.split("&") if "password" not in unquote(each.partition("=")[0])]
    return urlunsplit(parts._replace(netloc=who.partition(":")[0] + at + host, query="&".join(options)))


def database_path(url: str | None) -> Path:
    """The file of a `sqlite:///` URL or a plain path; by default the project's or the user's."""
    if url is None:
        return find_database()
    if not url.strip():
        raise ConfigError("url", "is empty", "a path, sqlite:///path/to/memory.db or postgresql://user@host/database")
    if "://" not in url:
        return Path(url).expanduser()
    parts = urlsplit(url)
    if parts.scheme != "sqlite":
        allowed = "sqlite:///path/to/memory.db, postgresql://user@host/database"
        raise ConfigError("url", f"the scheme {parts.scheme!r:.40} is not supported", allowed)
    path = unquote(parts.path[1:])
    if parts.netloc or not path or path == ":memory:":
        raise ConfigError("url", "does not name a file", "sqlite:///path/to/memory.db")
    return Path(path)
