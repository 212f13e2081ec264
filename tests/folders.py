"""Folders that a test trusts, as a person does with `tulving trust`."""

from collections.abc import Mapping
from pathlib import Path

from tulving import trust
from tulving.config import trust_record
from tulving.project import read_settings, settings_in


def trust_folder(folder: Path, environ: Mapping[str, str] | None = None) -> None:
    file = settings_in(folder)
    trust.add(trust_record(environ), folder, read_settings(file).sha256 if file else None)
