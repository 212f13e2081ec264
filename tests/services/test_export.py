"""The file of an export: private, not redirected by a link, and whole or not there at all."""

import os
import resource

import pytest

from tulving import DiskFull, InvalidInput, StoreUnavailable, open_memory
from tulving.domain.model import NewFact
from tulving.storage import moving


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "exports").mkdir()
    return tmp_path / "exports"


async def test_a_link_in_the_way_is_not_followed(memory, folder, tmp_path):
    await memory.store_rule("a secret")
    (tmp_path / "victim").write_text("precious")
    for name in ("a.jsonl", "a.jsonl.part", ".a.jsonl.part"):
        (folder / name).symlink_to(tmp_path / "victim")
    await memory.export(folder / "a.jsonl")
    assert (tmp_path / "victim").read_text() == "precious"
    assert not (folder / "a.jsonl").is_symlink()
    assert "a secret" in (folder / "a.jsonl").read_text()


async def test_only_its_owner_can_read_it(memory, folder):
    await memory.store_rule("a secret")
    before = os.umask(0)
    try:
        for name in ("a.jsonl", "a.jsonl.part"):
            (folder / name).touch(mode=0o666)
        await memory.export(folder / "a.jsonl")
    finally:
        os.umask(before)
    assert (folder / "a.jsonl").stat().st_mode & 0o777 == 0o600


async def test_both_ways_tell_how_far_they_are(memory, new_url, folder, monkeypatch):
    """Also while the vectors of another embedder are made, which takes the longest."""
    monkeypatch.setattr(moving, "BATCH", 2)
    await memory.store_facts([NewFact(content=f"note number {number}") for number in range(5)])
    steps: list[tuple[int, int, str]] = []
    await memory.export(folder / "a.jsonl", lambda *step: steps.append(step))
    assert (steps[0], steps[-1]) == ((2, 10, "facts"), (10, 10, "memory_events"))
    steps.clear()
    async with open_memory(new_url(), embedder="hashing", background=False) as other:
        await other.import_(folder / "a.jsonl", lambda *step: steps.append(step))
    assert (steps[0], steps[-1]) == ((2, 10, "facts"), (5, 5, "vectors"))
    assert (10, 10, "memory_events") in steps


async def test_the_longest_name_will_do(memory, folder):
    await memory.export(folder / ("x" * 255))
    assert [file.name for file in folder.iterdir()] == ["x" * 255]


async def test_without_room_nothing_is_left(url, embedder, folder):
    """As on a full disk: the system refuses to make the file any longer."""
    async with open_memory(url, embedder=embedder, background=False) as memory:
        for number in range(50):
            await memory.store_rule(f"rule {number} " * 100)
        (folder / "a.jsonl").write_text("the last export")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        try:
            with pytest.raises(DiskFull, match=r"exports/a\.jsonl"):
                await memory.export(folder / "a.jsonl")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [file.name for file in folder.iterdir()] == ["a.jsonl"]
    assert (folder / "a.jsonl").read_text() == "the last export"


async def test_a_store_that_fails_leaves_nothing(url, embedder, folder):
    async with open_memory(url, embedder=embedder, background=False) as memory:
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        await memory.export(folder / "a.jsonl")
    assert not list(folder.iterdir())


async def test_a_place_that_can_not_be_written_is_named_as_it_was_given(memory, folder):
    os.mkfifo(folder / "pipe")
    (folder / "file").touch()
    for place, problem in (
        (folder / "nowhere" / "x", r"file: there is no folder .*/nowhere for .*/nowhere/x;"),
        (folder / "file" / "x", r"file: there is no folder .*/file for .*/file/x;"),
        (folder, r"file: .*/exports is a folder"),
        (folder / "pipe", r"file: .*/pipe is not a regular file"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            await memory.export(place)
    with pytest.raises(StoreUnavailable, match=r"can't write .*x{256}: File name too long"):
        await memory.export(folder / ("x" * 256))
    assert sorted(file.name for file in folder.iterdir()) == ["file", "pipe"]
