"""Takes the screenshots of the console for README and docs/console.md, with the made-up memories of the demo:

    python scripts/console_pictures.py

Needs Playwright and a Chromium in PATH. The screenshots are written to docs/assets.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ASSETS = Path(__file__).parent.parent / "docs" / "assets"
SIZE = {"width": 1280, "height": 800}
LARGEST = 200_000
"""The largest screenshot in bytes."""
QUESTION = "When is Jon's birthday?"


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a demo, and give the link to its console."""
    said = folder / "said"
    with said.open("w") as log:
        command = [sys.executable, "-m", "tulving", "serve", "--demo", "127.0.0.1:0"]
        process = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=os.environ | {"TMPDIR": str(folder)}
        )
    try:
        while not (link := re.search(r"^Console: (\S+)$", said.read_text(), re.MULTILINE)):
            if process.poll() is not None:
                sys.exit(said.read_text())
            time.sleep(0.1)
        yield link[1]
    finally:
        process.terminate()
        process.wait()


def take(page: Page, name: str, theme: str) -> None:
    """Take a screenshot of the window."""
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.wait_for_timeout(700)
    file = ASSETS / f"console-{name}.png"
    page.screenshot(path=file)
    size = file.stat().st_size
    print(f"{file.relative_to(ASSETS.parent.parent)}: {size / 1000:.0f} kB")
    if size > LARGEST:
        sys.exit(f"{file} has more than {LARGEST} bytes")


def pictures(page: Page, link: str) -> None:
    """Take the screenshots: the overview, a question with its hits, and a memory with its provenance."""
    page.goto(link)
    take(page, "overview", "light")
    page.goto(f"{link.partition('/login')[0]}/ask?q={QUESTION}")
    take(page, "ask", "light")
    page.get_by_role("link", name=re.compile("12 March")).first.click()
    take(page, "memory", "dark")


def main() -> None:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        sys.exit("there is no Chromium in PATH")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as link, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--disable-gpu", *sandbox])
        pictures(browser.new_page(viewport=SIZE, locale="en-GB"), link)
        browser.close()


if __name__ == "__main__":
    main()
