"""Damaged weights: noticed, reported with what to do about it, and repaired."""

import os
import shutil
from pathlib import Path

import pytest
from administration import administer

from tulving import EmbedderUnavailable, open_memory
from tulving.errors import WeightsError
from tulving.providers import digests, weights
from tulving.providers import minilm as module
from tulving.providers.minilm import MiniLm

FELT, UNFELT = 60_000_003, 40_000_000
"""A byte of the weights that changes every vector, and one that changes only those of texts with a rare word."""


@pytest.fixture
def real(minilm_home: Path) -> Path:
    return weights.directory(minilm_home)


@pytest.fixture
def home(real: Path, tmp_path: Path) -> Path:
    """A home with weights of its own, to be damaged."""
    home = tmp_path / "home"
    weights.directory(home).mkdir(parents=True)
    for file in weights.FILES:
        shutil.copyfile(real / file.name, weights.directory(home) / file.name)
    return home


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are hashed."""
    names: list[str] = []
    sha256 = digests.sha256

    def noted(path: Path) -> str:
        names.append(path.name)
        return sha256(path)

    monkeypatch.setattr(digests, "sha256", noted)
    return names


def damage(home: Path, name: str = "model.safetensors", at: int = FELT, *, unseen: bool = False) -> None:
    """Changes one byte in place; with `unseen`, size and times stay as they were."""
    path = weights.directory(home) / name
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)
        file.seek(at)
        file.write(b"\x7f" if old != b"\x7f" else b"\x00")
    os.utime(path, ns=times if unseen else (times[0], times[1] + 1_000_000))


@pytest.mark.parametrize(
    ("name", "at"), [("model.safetensors", FELT), ("model.safetensors", -1), ("vocab.txt", 77_777)]
)
def test_one_wrong_byte_makes_it_unready(home: Path, real: Path, name: str, at: int) -> None:
    assert MiniLm(home).unready() is None
    damage(home, name, at % (real / name).stat().st_size)
    engine = MiniLm(home)
    for problem in (engine.unready(), *engine.problems()):
        assert problem is not None and str(weights.directory(home) / name) in problem and "`tulving init`" in problem
    with pytest.raises(WeightsError, match="is damaged"):
        engine.embed("anything")
    weights.install(home, source=real)
    assert (engine.unready(), engine.problems()) == (None, [])
    assert len(engine.embed("anything")) == 384


def test_weights_are_hashed_again_only_when_they_have_changed(home: Path, hashed: list[str]) -> None:
    for unchanged in range(3):
        assert MiniLm(home).unready() is None
        assert hashed == ([] if unchanged else ["vocab.txt", "model.safetensors"])
        hashed.clear()
    model = weights.directory(home) / "model.safetensors"
    os.utime(model, ns=(0, 0))
    assert MiniLm(home).unready() is None and hashed == ["model.safetensors"]
    hashed.clear()
    shutil.copy2(model, model.with_suffix(".new"))
    model.with_suffix(".new").replace(model)
    assert MiniLm(home).unready() is None and hashed == ["model.safetensors"], "another inode"
    hashed.clear()
    damage(home)
    for unchanged in range(3):
        assert MiniLm(home).unready()
        assert hashed == ([] if unchanged else ["model.safetensors"]), "what was found damaged is not hashed again"
        hashed.clear()
    assert MiniLm(home).problems() and hashed == ["vocab.txt", "model.safetensors"], "here nothing is taken on trust"


@pytest.mark.parametrize("kept", [b"", b"[]", b"{\xff", None], ids=repr)
def test_a_record_that_can_not_be_used_costs_time_only(home: Path, hashed: list[str], kept: bytes | None) -> None:
    record = home / "models" / "digests.json"
    if kept is None:
        record.mkdir()
    else:
        record.write_bytes(kept)
    engine = MiniLm(home)
    assert (engine.unready(), engine.unready(), engine.problems()) == (None, None, [])
    assert len(engine.embed("anything")) == 384
    assert record.is_dir() or MiniLm(home).unready() is None
    assert len(hashed) == 4, "once to be ready, once to be sure"
    assert [path.name for path in record.parent.iterdir() if path.suffix == ".part"] == []


def test_damage_that_nothing_tells_of_is_noticed_by_the_probe(home: Path) -> None:
    assert MiniLm(home).unready() is None
    damage(home, unseen=True)
    engine = MiniLm(home)
    assert engine.unready() is None, "by what was recorded"
    with pytest.raises(WeightsError, match=r"model\.safetensors is damaged.*`tulving init`"):
        engine.embed("anything")
    for later in (engine, MiniLm(home)):
        assert "is damaged" in str(later.unready())


def test_damage_that_the_probe_does_not_feel_is_found_by_looking(home: Path) -> None:
    engine = MiniLm(home)
    engine.embed("anything")
    damage(home, at=UNFELT, unseen=True)
    assert (engine.unready(), MiniLm(home).unready()) == (None, None)
    (problem,) = engine.problems()
    assert "model.safetensors is damaged" in problem
    assert engine.unready() == MiniLm(home).unready() == problem
    with pytest.raises(WeightsError):
        engine.embed("anything")


def test_whole_weights_with_wrong_vectors_are_refused(minilm_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBE_BEGINS", tuple(reversed(module.PROBE_BEGINS)))
    engine = MiniLm(minilm_home)
    with pytest.raises(WeightsError, match=r"wrong vectors.*onnxruntime"):
        engine.embed("anything")
    assert "wrong vectors" in engine.problems()[0]


def test_missing_weights_are_not_damaged(tmp_path: Path, real: Path) -> None:
    assert MiniLm(tmp_path).problems() == []
    weights.directory(tmp_path).mkdir(parents=True)
    shutil.copyfile(real / "vocab.txt", weights.directory(tmp_path) / "vocab.txt")
    engine = MiniLm(tmp_path)
    assert engine.problems() == [] and "not installed" in str(engine.unready())
    (weights.directory(tmp_path) / "model.safetensors").write_bytes(b"half of it")
    assert "model.safetensors is damaged" in engine.problems()[0]


def test_a_folder_that_was_named_is_for_its_owner_to_mend(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(home)
    monkeypatch.setenv("TULVING_WEIGHTS", str(weights.directory(home)))
    problem = MiniLm(tmp_path / "other").unready()
    assert problem is not None and "correct TULVING_WEIGHTS, or unset it and run `tulving init`" in problem


def test_what_onnxruntime_raises_is_the_embedders_error(minilm: MiniLm, tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match="can't be loaded"):
        module._Network(tmp_path)
    with pytest.raises(EmbedderUnavailable, match="can't embed"):
        minilm._loaded().vectors([[10**9]])


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
async def test_memories_are_kept_and_found_by_their_words(url: str, home: Path, real: Path, name: str) -> None:
    damage(home, name, 77_777)
    engine = MiniLm(home)
    async with open_memory(url, embedder=engine, background=False) as memory:
        stored = await memory.store_fact("Anna", "drinks", "green tea")
        assert "`tulving init`" in str(stored.warning) and stored.warning == memory.warning
        found = await memory.search("tea")
        assert [hit.item.id for hit in found] == [stored.id] and found.warning == stored.warning
        verification = await administer(memory).verify()
        problems = {finding.check: finding.problems for finding in verification.findings if finding.problems}
        assert list(problems) == ["embedder"] and name in problems["embedder"][0]
        weights.install(home, source=real)
        assert (memory.warning, await memory.embed_pending()) == (None, 1)
        assert (await administer(memory).verify()).ok
