"""`tulving trust`: whose settings and store count in a folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tulving import trust as record
from tulving.config import trust_record
from tulving.errors import InvalidInput
from tulving.interfaces.terminal import AsJson, print_json, visible
from tulving.project import FILES, STORE_FOLDER, read_settings, settings_in


def trust(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="[default: the working directory]")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Trust it no more")] = False,
    list_: Annotated[bool, typer.Option("--list", help="Show the folders that are trusted")] = False,
    as_json: AsJson = False,
) -> None:
    """Let the settings file and the store of a folder count; look at them first if they came from somewhere else.

    A settings file that changes has to be trusted again.
    """
    if list_:
        if remove or folder is not None:
            raise InvalidInput("list", "goes alone", "tulving trust --list")
        _show_all(as_json)
        return
    place = (folder or Path.cwd()).expanduser().resolve()
    file, values = settings_in(place), {}
    if remove:
        if not record.remove(trust_record(), place):
            raise InvalidInput("folder", f"{place} is not trusted", "one that `tulving trust --list` shows")
    else:
        if file is None and not (place / STORE_FOLDER).is_dir():
            problem = f"{place} has nothing to trust"
            raise InvalidInput("folder", problem, f"a folder with {', '.join(FILES)} or {STORE_FOLDER}")
        settings = read_settings(file) if file else None
        record.add(trust_record(), place, settings.sha256 if settings else None)
        values = settings.values if settings else {}
    if as_json:
        print_json({"folder": str(place), "trusted": not remove, "settings": sorted(values)})
        return
    typer.echo(visible(f"{'trusted no more' if remove else 'trusted'}: {place}"))
    if values:
        typer.echo(visible(f"settings: {', '.join(sorted(values))}"))


def _show_all(as_json: bool) -> None:
    folders: list[dict[str, Any]] = [
        {"folder": folder, "settings_sha256": sha256, "state": _state(Path(folder), sha256)}
        for folder, sha256 in sorted(record.read(trust_record()).items())
    ]
    if as_json:
        print_json({"folders": folders})
    elif not folders:
        typer.echo("no folder is trusted")
    else:
        from tulving.interfaces import show

        rows = [(each["folder"], each["state"]) for each in folders]
        show.table(("folder", "state"), rows, {"trusted": "green", "settings changed": "yellow", "gone": "dim"})


def _state(folder: Path, sha256: str | None) -> str:
    if not folder.is_dir():
        return "gone"
    file = settings_in(folder)
    unchanged = file is None or record.digest(file.read_bytes()) == sha256
    return "trusted" if unchanged else "settings changed"
