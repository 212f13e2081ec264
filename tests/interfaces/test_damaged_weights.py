"""What a person is told when the weights of the embedder are damaged, and the command that mends them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tulving.providers import weights


@pytest.fixture
def damaged(environ: dict[str, str], minilm_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose weights have one wrong byte."""
    folder = weights.directory(Path(environ["TULVING_HOME"]))
    folder.mkdir(parents=True)
    for file in weights.FILES:
        shutil.copyfile(weights.directory(minilm_home) / file.name, folder / file.name)
    with (folder / weights.MODEL.name).open("r+b") as model:
        model.seek(60_000_003)
        model.write(b"\x7f")
    monkeypatch.setenv("TULVING_EMBEDDER", "minilm")
    return folder


@pytest.mark.usefixtures("path")
def test_damaged_weights_are_told_of_and_mended(damaged: Path, minilm_home: Path, cli: Callable[..., Any]) -> None:
    stored = cli("store", "rule", "greet every guest")
    assert stored.code == 0 and "`tulving init`" in " ".join(stored.err.split())
    assert "greet every guest" in cli("recall", "guest").out
    verified = cli("verify", "--json")
    (finding,) = [each for each in json.loads(verified.out)["findings"] if each["problems"]]
    assert verified.code != 0 and finding["check"] == "embedder"
    assert str(damaged / weights.MODEL.name) in finding["problems"][0]
    assert finding["problems"] == [json.loads(cli("config", "--json").out)["embedder"]]

    mended = cli("init", "--from", str(weights.directory(minilm_home)))
    assert mended.code == 0 and "embedded  1 memories" in mended.out
    assert json.loads(cli("config", "--json").out)["embedder"] == "ready"
    assert cli("verify").code == 0
    assert cli("store", "rule", "and every host").err == ""
