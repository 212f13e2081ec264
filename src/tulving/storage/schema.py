"""The revisions of the schema, in order: the files in `migrations/versions`."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from tulving.errors import SchemaTooNew

_VERSIONS = "tulving.storage.migrations.versions"
_MODULES = {name[:7]: name for _, name, _ in iter_modules([str(Path(__file__).parent / "migrations" / "versions")])}
REVISIONS = tuple(sorted(_MODULES))
HEAD = REVISIONS[-1]


def migration(revision: str) -> ModuleType:
    """The module of a revision: its `STATEMENTS`, and the `DIGEST` of the resulting SQLite schema, by which a file is
    recognised without running the migrations."""
    return import_module(f"{_VERSIONS}.{_MODULES[revision]}")


def known(store: str, revision: str | None) -> str:
    """The revision of a store; raises if this version does not know it."""
    if revision is None or revision not in REVISIONS:
        raise SchemaTooNew(
            f"{store} has schema {revision}, which this Tulving ({HEAD}) does not know: it was made by a newer version,"
            " or by one from before the first release; install the version that made it"
        )
    return revision


def missing(found: str | None) -> tuple[str, ...]:
    """The revisions that a store at this revision lacks."""
    return REVISIONS if found is None else REVISIONS[REVISIONS.index(found) + 1 :]
