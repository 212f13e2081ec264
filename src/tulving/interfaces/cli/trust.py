"""`tulving trust`: whose settings and store count in a folder."""

from pathlib import Path
from typing import Annotated

import typer

from tulving import trust as record
from tulving.config import trust_record
from tulving.errors import InvalidInput
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import print_json, report, table
from tulving.project import FILES, STORE_FOLDER, read_settings, settings_in


def trust(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="[default: the working directory]")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="No longer trust it")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the folders that are trusted")] = False,
    as_json: AsJson = False,
) -> None:
    """Let the settings file and the store of a folder count; look at them first if they came from somewhere else.

    A settings file that changes has to be trusted again.
    """
    if list_:
        if remove or folder is not None:
            raise InvalidInput("list", "goes alone", "tulving trust --list")
        _list(as_json)
        return
    place = (folder or Path.cwd()).expanduser().resolve()
    settings: list[str] = []
    if not remove:
        settings = _trust(place)
    elif not record.remove(trust_record(), place):
        raise InvalidInput("folder", f"{place} is not trusted", "one that `tulving trust --list` shows")
    report(
        {"folder": str(place), "trusted": not remove, "settings": settings},
        as_json,
        f"{'no longer trusted' if remove else 'trusted'}: {place}",
        *([f"settings: {', '.join(settings)}"] if settings else []),
    )


def _trust(place: Path) -> list[str]:
    """Trust a folder as it is now; the names of the settings in it."""
    file = settings_in(place)
    if file is None and not (place / STORE_FOLDER).is_dir():
        allowed = f"a folder with {', '.join(FILES)} or {STORE_FOLDER}"
        raise InvalidInput("folder", f"{place} has nothing to trust", allowed)
    settings = read_settings(file) if file else None
    record.add(trust_record(), place, settings.sha256 if settings else None)
    return sorted(settings.values) if settings else []


def _list(as_json: bool) -> None:
    trusted = record.read(trust_record())
    states = {folder: _state(Path(folder), trusted[folder]) for folder in sorted(trusted)}
    if as_json:
        rows = [{"folder": each, "settings_sha256": trusted[each], "state": state} for each, state in states.items()]
        print_json({"folders": rows})
    else:
        styles = {"trusted": "green", "settings changed": "yellow", "gone": "dim"}
        table(list(states.items()), ("folder", "state"), styles, empty="no folder is trusted")


def _state(folder: Path, sha256: str | None) -> str:
    if not folder.is_dir():
        return "gone"
    file = settings_in(folder)
    unchanged = file is None or record.digest(file.read_bytes()) == sha256
    return "trusted" if unchanged else "settings changed"
