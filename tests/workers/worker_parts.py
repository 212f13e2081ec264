"""Workers in processes of their own, which may be stopped and killed."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tulving

SOURCE = str(Path(tulving.__file__).parent.parent)
CHILD = Path(__file__).with_name("worker_child.py")


class Workers:
    """Processes that share a store, and the log of what they did."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, **orders: Any) -> subprocess.Popen[bytes]:
        order = json.dumps({"url": self.url, "log": str(self.log), **orders})
        environment = {**os.environ, "PYTHONPATH": SOURCE, "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen([sys.executable, str(CHILD), order], env=environment)
        self._running.append(process)
        return process

    def start_together(self, count: int, **orders: Any) -> list[subprocess.Popen[bytes]]:
        """And wait until all of them are at work."""
        before = len(self.said("ready"))
        processes = [self.start(**orders) for _ in range(count)]
        self.wait(lambda: len(self.said("ready")) == before + count)
        return processes

    def said(self, what: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        said = [json.loads(line) for line in lines]
        wanted = fields if what is None else {"what": what, **fields}
        return [each for each in said if wanted.items() <= each.items()]

    def wait(self, condition: Callable[[], Any], seconds: float = 30) -> Any:
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            for process in self._running:
                assert process.poll() in (None, 0, -signal.SIGKILL), "a worker failed"
            assert time.monotonic() < deadline, self.said()[-20:]
            time.sleep(0.02)
        return found

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def stop(self, *processes: subprocess.Popen[bytes]) -> list[int]:
        """The exit codes."""
        for process in processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(20) for process in processes]

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                self.kill(process)
