"""`tulving top`: figures made of two readings, one picture without a terminal, the terminal itself, and what is said
where no service is."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import httpx2
import pytest
from http_parts import Served, bearer
from rich.console import Console
from watched_service import watched

from tulving.errors import Forbidden, InvalidInput, StoreUnavailable
from tulving.interfaces.cli.screen import duration, screen
from tulving.interfaces.cli.top import Service, address_of
from tulving.interfaces.figures import Figures, Reading, percentile, read
from tulving.interfaces.http import families
from tulving.interfaces.http.metrics import Metrics

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\r")


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, 0.15), (0.9, 0.8), (1.0, 1.0), (0.2, 0.05), (0.0, 0.0)],
)
def test_a_percentile_is_estimated_within_its_bucket(share, expected):
    assert percentile(share, {"0.1": 40, "0.2": 60, "1.0": 100, "+Inf": 100}) == pytest.approx(expected)


def test_a_percentile_of_the_last_bucket_is_its_lower_bound():
    assert percentile(0.99, {"0.1": 1, "+Inf": 100}) == 0.1
    assert percentile(0.5, {"0.1": 0, "+Inf": 0}) is None
    assert percentile(0.5, {}) is None


def test_a_percentile_lies_evenly_in_its_bucket():
    assert percentile(0.5, {"1.0": 0, "2.0": 100, "+Inf": 100}) == 1.5


def told_by(*calls: tuple[str, float]) -> Reading:
    metrics = Metrics()
    metrics.look(None)
    for operation, seconds in calls:
        metrics._operation("ok", seconds, {"operation": operation, "tenant": "default"})
    return read(metrics.text().decode(), 0.0)


def between(before: Reading, now: Reading, seconds: float = 2.0):
    return Figures(before, Reading(before.at + seconds, now.samples)).told()


def test_rates_are_of_the_interval_and_percentiles_too():
    before = told_by(*[("memory_recall", 20.0)] * 10)
    now = told_by(*[("memory_recall", 20.0)] * 10, *[("memory_recall", 0.002)] * 8, ("memory_search", 0.01))
    recall, search = between(before, now)["operations"]
    assert (recall["operation"], recall["rate"], recall["calls"]) == ("memory_recall", 4.0, 18)
    assert 0.001 <= recall["p50"] <= 0.0025, "the slow calls were before"
    assert recall["recent"]
    assert (search["operation"], search["rate"]) == ("memory_search", 0.5)


def test_where_nothing_happened_the_percentiles_are_of_all_time():
    reading = told_by(("memory_recall", 0.002))
    [recall] = between(reading, reading)["operations"]
    assert recall["rate"] == 0
    assert not recall["recent"]
    assert recall["p50"] is not None


def test_a_service_that_was_started_again_counts_from_nothing():
    [recall] = between(told_by(*[("memory_recall", 0.1)] * 10), told_by(*[("memory_recall", 0.1)] * 4))["operations"]
    assert recall["rate"] == 2.0
    assert recall["p50"] is not None


@pytest.mark.parametrize("text", ["", "# nothing\n", "<html>", "other_metric 1\n", 'x{a="b" 1\n', "a b c d\n"])
def test_what_tells_no_figures_of_ours_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        read(text, 0.0)


async def test_the_picture_shows_what_a_service_tells(url):
    async with watched(url) as service:
        before = read((await service.web.get("/metrics")).text, 0.0)
        await service.post("/v1/facts", subject="Anna", predicate="drink", content="tea")
        await service.post("/v1/recall", topic="tea")
        await service.post("/v1/recall", topic="tea", limit=0)
        now = read((await service.web.get("/metrics")).text, 1.0)
    told = {"at": 0.0, "service": "http://x", "health": "ok", **Figures(before, now).told()}
    assert told["store_up"]
    assert told["tenants"] == [{"tenant": "default", "rate": 3.0, "calls": 3.0}]
    for width in (40, 60, 80, 120, 200):
        console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
        console.print(screen(told, width, 30))
        shown = console.export_text()
        assert "store fact" in shown
        assert "default" in shown
        assert all(len(line.rstrip()) <= width for line in shown.splitlines())
    assert re.search(r"recall +2\.0 .* - +2 +1", shown)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (60, 24), (200, 24), (60, 40), (80, 200)])
@pytest.mark.parametrize("count", [0, 2, 30])
def test_a_screen_shows_of_each_table_what_fits(width, height, count):
    """And how many rows do not; a job that fails comes first."""
    metrics = Metrics(tenants=count)
    metrics.look(None)
    for number in range(count):
        metrics._operation("ok", 0.1, {"operation": f"memory_do_{number}", "tenant": f"tenant {number}"})
        metrics._job("ok", 0.1, {"job": f"job_{number}"})
        metrics._of[families.JOB_FAILING].labels(f"job_{number}").set(number == count - 1)
    told = {"at": 0.0, "service": "http://127.0.0.1:8765", "health": "ready"}
    reading = read(metrics.text().decode(), 0.0)
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(screen(told | between(reading, reading), width, height))
    shown = console.export_text()
    lines = shown.rstrip().splitlines()
    assert len(lines) <= height and all(len(line.rstrip()) <= width for line in lines)
    assert "q quits" in shown
    for name in ("do", "job", "tenant") if count else ():
        rows = len(re.findall(rf"(?:^| ){name} \d", shown, re.MULTILINE))
        assert min(count, 2) <= rows <= count, name
    assert not count or re.search(rf"job {count - 1} +fails", shown)
    assert ("more" in shown) == (count == 30)
    if count == 30 and height == 24:
        assert len(lines) == height, "nothing is left empty"


def test_a_client_that_goes_away_is_no_error():
    metrics = Metrics()
    metrics.look(None)
    before = read(metrics.text().decode(), 0.0)
    for status in ("200", "404", "none", "500", "503"):
        metrics.answered("GET", "/v1/facts", status, 0.1)
    metrics.waiting(7)
    told = between(before, read(metrics.text().decode(), 0.0), seconds=1.0)["requests"]
    assert (told["rate"], told["errors"], told["waiting"]) == (5.0, 2.0, 7)


def test_no_label_controls_the_terminal():
    metrics = Metrics()
    metrics.look(None)
    metrics._operation("ok", 0.1, {"operation": "memory_\x1b[2Jrecall", "tenant": "a\x1b[2Jb"})
    metrics._job("ok", 0.1, {"job": "\x1b[5mdecay"})
    metrics.note("lookup", cache="\x1b[5mquery", result="hit")
    metrics._of[families.BUILD].labels("\x1b]0;x\x07", "sqlite").set(1)
    reading = read(metrics.text().decode(), 0.0)
    told = {"at": 0.0, "service": "http://x", "health": "\x1b[2J", **between(reading, reading)}
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(screen(told, 100, None))
    assert "\x1b" not in console.export_text()


@pytest.mark.parametrize("text", ["", "ftp://x", "http://", "http://u:p@x", "x/metrics", "x:99999", "http://x?y=1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidInput, match="not the address"):
        address_of(text)


@pytest.mark.parametrize(
    ("text", "url"),
    [("127.0.0.1:8765", "http://127.0.0.1:8765"), ("https://x/", "https://x"), ("[::1]:1", "http://[::1]:1")],
)
def test_an_address_is_a_url_or_a_host_with_its_port(text, url):
    assert address_of(text) == url


def test_durations_have_about_three_digits():
    assert [duration(each) for each in (None, 0.0012, 0.123, 1.26, 75, 7200)] == [
        "-",
        "1.2 ms",
        "123 ms",
        "1.3 s",
        "1 min",
        "2 h",
    ]
    assert duration(200_000) == "2 d"


@pytest.fixture
def busy(server, path) -> Served:
    """A server in a process of its own that was asked something."""
    served = server("--open")
    call = {"name": "memory_recall", "arguments": {"topic": "tea"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    assert served.post(body).status_code == 200
    return served


def test_without_a_terminal_one_picture_is_printed(busy, process, cli):
    ran = process("top", f"127.0.0.1:{busy.port}", "--interval", "0.2")
    assert ran.code == 0, ran.err
    assert re.search(r"^recall +- .* - +1 +-$", ran.out, re.MULTILINE), ran.out
    assert "\x1b" not in ran.out
    ran = cli("top", f"127.0.0.1:{busy.port}", "--interval", "0.2", "--json")
    told = json.loads(ran.out)
    assert told["operations"][0]["operation"] == "memory_recall"
    assert told["health"]


def test_in_a_terminal_it_goes_on_until_q(busy):
    screen_of, keys = terminal(["top", f"127.0.0.1:{busy.port}", "--interval", "0.2"])
    assert "q quits" in screen_of(lambda shown: "recall" in shown)
    busy.process.send_signal(signal.SIGTERM)
    assert "no service answers" in screen_of(lambda shown: "the last ones" in shown)
    assert keys("q") == 0


def terminal(arguments: list[str]) -> tuple[Callable[[Callable[[str], bool]], str], Callable[[str], int]]:
    """Run a command in a terminal of its own: a way to wait for what it shows, and one to press a key and wait for its
    end."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "tulving", *arguments]
    environ = os.environ | {"TERM": "xterm", "COLUMNS": "110", "LINES": "30"}
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environ, start_new_session=True)
    os.close(other)
    written = b""

    def wait_for(shows: Callable[[str], bool]) -> str:
        nonlocal written
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if select.select([main], [], [], 0.2)[0]:
                written += os.read(main, 65_536)
            shown = CONTROL.sub("", written.decode(errors="replace"))
            if shows(" ".join(shown.split())):
                return shown
        raise AssertionError(f"it never showed that: {written!r}")

    def press(key: str) -> int:
        os.write(main, key.encode())
        until = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < until:
            if select.select([main], [], [], 0.1)[0]:
                try:
                    os.read(main, 65_536)
                except OSError:
                    break
        return process.wait(timeout=30)

    return wait_for, press


@pytest.mark.usefixtures("path")
def test_where_no_service_is_that_is_said(cli):
    ran = cli("top", "127.0.0.1:9", "--once")
    assert ran.code == 1
    assert ran.err.startswith("error: no service answers at http://127.0.0.1:9 (")
    assert "tulving serve" in ran.err


def test_a_service_that_needs_a_token_says_which(server, token, cli, path, monkeypatch):
    secret = token("default", "--rights", "read,write,admin")["secret"]
    served = server(TULVING_ALLOWED_HOSTS="memory.example.com")
    place = f"127.0.0.1:{served.port}"
    assert httpx2.get(f"http://{place}/metrics").status_code == 401
    assert httpx2.get(f"http://{place}/metrics", headers=bearer(secret)).status_code == 200
    reader = token()["secret"]
    for given, said in ((None, r"TULVING_TOKEN: `tulving token create .*`$"), ("x", "unknown"), (reader, "lacks it")):
        with pytest.raises(Forbidden, match=said):
            Service(f"http://{place}", given).next(0.0)
    monkeypatch.setenv("TULVING_TOKEN", secret)
    ran = cli("top", place, "--once", "--interval", "0.2")
    assert ran.code == 0, ran.err
    assert secret not in ran.out


class Other(BaseHTTPRequestHandler):
    """Some other service."""

    status, endless = 200, False

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(b"<html>hello</html>")
            while self.endless:
                self.wfile.write(b"# more\n" * 10_000)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Endless(Other):
    endless = True


class Missing(Other):
    status = 404


class Ending(Other):
    status = 503


@pytest.fixture
def other_service(request) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), request.param) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("other_service", "said"),
    [
        (Other, "has no metrics of Tulving"),
        (Missing, "has no metrics of Tulving"),
        (Endless, "sends more than metrics of Tulving"),
        (Ending, "is busy or ending"),
    ],
    indirect=["other_service"],
)
def test_a_service_of_another_kind_is_told_apart(other_service, said):
    with pytest.raises(StoreUnavailable, match=said) as refused:
        Service(f"http://{other_service}").next(0.0)
    assert "hello" not in str(refused.value)
