"""Settings: the effective values and their sources, read only."""

from itertools import groupby

from starlette.responses import Response

from tulving.config import data_directory, find_project
from tulving.interfaces.console.visit import Page, Visit
from tulving.interfaces.effective_settings import Setting, effective_settings
from tulving.location import store_name


async def show(visit: Visit) -> Response:
    """The settings, table by table."""
    changed = bool(visit.query.get("changed"))
    found = effective_settings(visit.config)
    shown = [each for each in found if each.source != "default" or not changed]
    file = find_project().settings_file
    places = {
        "Store": store_name(visit.config.url),
        "Settings file": None if file is None else str(file),
        "Data directory": str(data_directory()),
    }
    groups = [(name, [*settings]) for name, settings in groupby(sorted(shown, key=_table), key=_table)]
    return visit.render("settings.html", groups=groups, places=places, changed=changed)


def _table(setting: Setting) -> str:
    """The table of the settings file that a setting stands in; empty for those outside of any."""
    return setting.setting.rpartition(".")[0]


PAGES = [Page("/settings", show, right="admin")]
