"""The reference is made from the code: every name that a user can meet is in it, with a description."""

from dataclasses import fields

import event_kinds
import pytest
import reference

import tulving
from tulving import errors
from tulving.config import _TABLES
from tulving.interfaces.cli.commands import application
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig

pytestmark = pytest.mark.xdist_group("reference")  # so that one process of the tests makes the pages


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def headings(text: str) -> set[str]:
    return {line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")}


def test_everything_has_a_description(pages: dict[str, str]) -> None:
    assert pages
    assert reference.undescribed == []


def test_every_public_name_is_there(pages: dict[str, str]) -> None:
    told = headings(pages["reference/library.md"]) | headings(pages["reference/errors.md"])
    assert set(tulving.__all__) - told == set()


def test_every_verb_is_there(pages: dict[str, str]) -> None:
    told = headings(pages["reference/library.md"])
    for face in (tulving.Memory, tulving.Administration):
        verbs = {f"{face.__name__}.{name}" for name in dir(face) if not name.startswith("_")}
        assert verbs - told == set()


def test_every_tool_is_there_with_its_parameters(pages: dict[str, str]) -> None:
    text = pages["reference/tools.md"]
    assert set(OPERATIONS) - headings(text) == set()
    section = text.partition("\n## memory_recall\n")[2].partition("\n## ")[0]
    assert "| `topic` | string | required |" in section
    assert "`episode`, `fact`, `rule`" in section


def test_every_route_is_there_with_its_right_and_tool(pages: dict[str, str]) -> None:
    text = pages["reference/http.md"]
    for name, operation in OPERATIONS.items():
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{operation.http}` |"))
        assert f"| {operation.effect} |" in row and f"(tools.md#{name})" in row
    assert "| `POST /v1/facts/batch` |" in text and "| `GET /v1/openapi.json` | This document | none |" in text


def test_every_command_is_there_with_its_options(pages: dict[str, str]) -> None:
    text = pages["reference/commands.md"]
    paths = dict(reference._commands(application()))
    assert {"tulving recall", "tulving token create", "tulving merge-rules show"} <= set(paths)
    assert set(paths) - headings(text) == set()
    section = text.partition("\n## tulving mcp\n")[2].partition("\n## ")[0]
    assert "| `--http` | `HOST:PORT` |" in section


def test_every_setting_is_there_with_its_default_and_what_is_allowed(pages: dict[str, str]) -> None:
    text = pages["reference/settings.md"]
    for prefix, cls in {"": MemoryModuleConfig, **{f"{name}.": table for name, table in _TABLES.items()}}.items():
        for each in fields(cls):
            if (name := f"{prefix}{each.name}") not in _TABLES:
                assert f"`TULVING_{name.replace('.', '__').upper()}`" in text
                assert f"\n`{name}`\n:   " in text
    assert (
        "| `request_timeout` | `float` | `30.0` | more than 0, to 3600 seconds | `TULVING_HTTP__REQUEST_TIMEOUT` |"
        in text
    )


def test_every_event_that_is_written_is_there(pages: dict[str, str]) -> None:
    text = pages["reference/events.md"]
    assert {"fact_created", "conflict_settled", "rule_fading", "memories_imported"} <= set(event_kinds.written())
    assert [kind for kind in event_kinds.written() if f"| `{kind}` |" not in text] == []


async def test_the_events_of_a_store_are_known(memory) -> None:
    """What the calls were read as is what really happens."""
    stored = await memory.store_fact("Anna", "city", "Rome")
    await memory.store_fact("Anna", "city", "Oslo")
    await memory.confirm("fact", (await memory.store_note("Plays the cello")).id)
    await memory.forget("fact", stored.id)
    written = event_kinds.written()
    seen = [
        event
        for item in (await memory.list_memories("fact", state="any")).items
        for event in await memory.events("fact", item.id)
    ]
    assert {event.event_type for event in seen} >= {
        "fact_created",
        "fact_superseded",
        "fact_confirmed",
        "fact_forgotten",
    }
    for event in seen:
        known = written[event.event_type]
        assert known.more or set(event.payload) <= known.keys


def test_every_error_has_a_cause_and_a_cure() -> None:
    text = (reference.DOCS / "troubleshooting.md").read_text()
    named = [name for name in tulving.__all__ if hasattr(errors, name)]
    assert named
    assert [name for name in named if f"**`{name}`**" not in text] == []


def test_a_missing_description_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_kinds, "MEANINGS", {"dream_had": "nothing of the kind"})
    monkeypatch.setattr(tulving.Memory.recall, "__doc__", None)
    reference.pages()
    found = set(reference.undescribed)
    assert {
        "Memory.recall",
        "tool memory_recall",
        "command tulving recall",
        "event dream_had: nothing writes it",
    } <= found
    assert "event fact_created: no meaning in scripts/event_kinds.py" in found


def test_nothing_of_this_process_is_in_it(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert text.startswith("# "), name
        assert "<tulving." not in text and " at 0x" not in text, name
