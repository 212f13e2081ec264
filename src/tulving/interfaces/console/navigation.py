"""The pages of the console, and its navigation."""

import pkgutil
from importlib import import_module
from itertools import chain

from tulving.interfaces.console import pages
from tulving.interfaces.console.visit import Link, Page
from tulving.interfaces.principal import Principal

NAVIGATION = {
    "": [Link("Overview", "/console", "o"), Link("Ask", "/console/ask", "a")],
    "Memories": [
        Link("Timeline", "/console/timeline", "t"),
        Link("Facts", "/console/facts", "f"),
        Link("Entities", "/console/entities", "e"),
        Link("Rules", "/console/rules", "r"),
        Link("Profile", "/console/profile", "p"),
    ],
    "Decisions": [
        Link("Conflicts", "/console/conflicts", "c"),
        Link("Review", "/console/review", "v"),
        Link("Runs", "/console/runs", "n"),
    ],
    "Administration": [
        Link("Audit", "/console/audit", "u"),
        Link("Tenants", "/console/tenants", "d"),
        Link("Tokens", "/console/tokens", "k"),
        Link("Settings", "/console/settings", "s"),
        Link("Workers", "/console/workers", "w"),
    ],
}
"""The entries by group. An entry is hidden if the visitor lacks the right to its page."""


def all_pages() -> list[Page]:
    """The pages of all modules in `pages`, the Overview first."""
    names = sorted((found.name for found in pkgutil.iter_modules(pages.__path__)), key=lambda name: name != "overview")
    return list(chain.from_iterable(import_module(f"{pages.__name__}.{name}").PAGES for name in names))


def navigation(served: list[Page], principal: Principal) -> dict[str, list[Link]]:
    """The entries that a visitor may see."""
    open_to = {f"/console{page.path}".rstrip("/") for page in served if page.right in principal.rights}
    found = {group: [link for link in links if link.path in open_to] for group, links in NAVIGATION.items()}
    return {group: links for group, links in found.items() if links}
