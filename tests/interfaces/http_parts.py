"""A server over HTTP in a process of its own, and what is sent to it."""

import signal
import subprocess
from dataclasses import dataclass
from typing import Any

import httpx2

JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def bearer(secret: str | None) -> dict[str, str]:
    return {} if secret is None else {"authorization": f"Bearer {secret}"}


@dataclass
class Served:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    said: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def post(self, body: Any = LIST, secret: str | None = None, **headers: str) -> httpx2.Response:
        return httpx2.post(self.url, json=body, headers=JSON | bearer(secret) | headers, timeout=30)

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err
