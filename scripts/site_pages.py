"""What the site has beside docs/: the reference, made from the code, and pages that lie at the root of the repository.

A hook of MkDocs (`mkdocs.yml`). Links that leave docs/ lead to the page of the site that shows the file; a link to
code, which the site has not, becomes its text. At the end no page may load anything from another host.
"""

import os
import re
from html.parser import HTMLParser
from pathlib import Path
from posixpath import relpath
from typing import Any

import reference
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent
AT_THE_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
ELSEWHERE = re.compile(r"[a-z]+:|//", re.IGNORECASE)


def on_files(files: Any, *, config: Any) -> Any:
    texts = {page: (ROOT / name).read_text() for name, page in AT_THE_ROOT.items()}
    made = reference.pages()
    if reference.undescribed:
        raise PluginError("the reference lacks descriptions:\n" + "\n".join(reference.undescribed))
    for name, text in {**texts, **made}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    source = {shown: name for name, shown in AT_THE_ROOT.items()}.get(page.file.src_uri)
    here = ROOT / source if source else ROOT / "docs" / page.file.src_uri
    known = {file.src_uri for file in files if file.inclusion.is_included()}

    def adapt(found: re.Match[str]) -> str:
        picture, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target or ELSEWHERE.match(target):
            return found[0]
        path = os.path.relpath((here.parent / target).resolve(), ROOT)
        shown = AT_THE_ROOT.get(path) or (relpath(path, "docs") if path.startswith("docs/") else None)
        if shown and (ROOT / path).is_dir():
            shown = f"{shown}/README.md"
        if shown in known:
            return f"{picture}[{text}]({relpath(shown, os.path.dirname(page.file.src_uri) or '.')}{anchor})"
        if (ROOT / path).exists():
            return text
        raise PluginError(f"{here.relative_to(ROOT)}: there is no {target}")

    return LINK.sub(adapt, markdown)


def on_post_build(*, config: Any) -> None:
    site = Path(config.site_dir)
    outside = [f"{page.relative_to(site)}: {url}" for page in site.rglob("*.html") for url in loaded(page.read_text())]
    for sheet in site.rglob("*.css"):
        outside += [
            f"{sheet.relative_to(site)}: {url}" for url in re.findall(r"url\(['\"]?(https?:[^)]*)", sheet.read_text())
        ]
    if outside:
        raise PluginError("loaded from other hosts:\n" + "\n".join(sorted(set(outside))))


def loaded(html: str) -> list[str]:
    """What a page makes a browser fetch from other hosts."""
    found: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            name = "href" if tag == "link" else "data" if tag == "object" else "src"
            urls = [given.get(name), *(given.get("srcset") or "").split(",")] if tag != "a" else []
            found.extend(url.strip() for url in urls if url and re.match(r"\s*(https?:)?//", url))

    Parser().feed(html)
    return found
