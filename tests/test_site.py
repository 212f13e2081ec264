"""The hook that completes the site: links that leave docs/, and what a page may load."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import site_pages
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import InclusionLevel


def adapted(markdown: str, at: str = "guides/docker.md") -> str:
    names = ("index.md", "install.md", "quality.md", "adr/README.md", "changelog.md", "guides/docker.md")
    files = [SimpleNamespace(src_uri=name, inclusion=InclusionLevel.INCLUDED) for name in names]
    page = SimpleNamespace(file=SimpleNamespace(src_uri=at))
    return site_pages.on_page_markdown(markdown, page=page, config=None, files=files)


@pytest.mark.parametrize(
    ("given", "at", "expected"),
    [
        ("[i](../install.md#extras)", "guides/docker.md", "[i](../install.md#extras)"),
        ("[c](../../CHANGELOG.md)", "guides/docker.md", "[c](../changelog.md)"),
        ("[q](docs/quality.md)", "index.md", "[q](quality.md)"),
        ("[d](docs/adr/)", "index.md", "[d](adr/README.md)"),
        ("[code](../src/tulving/errors.py) here", "quality.md", "code here"),
        ("[web](https://semver.org) [here](#there)", "quality.md", "[web](https://semver.org) [here](#there)"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(given: str, at: str, expected: str) -> None:
    assert adapted(given, at) == expected


def test_a_link_to_nothing_is_an_error() -> None:
    with pytest.raises(PluginError, match=r"there is no \.\./dreams\.md"):
        adapted("[x](../dreams.md)")


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example.com/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example.com/css">',
        '<img alt="" src="http://example.com/x.png">',
        '<img alt="" srcset="a.png, https://example.com/x.png 2x">',
        '<iframe src="https://example.com"></iframe>',
    ],
)
def test_what_another_host_would_be_asked_for_is_found(html: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(html)
    with pytest.raises(PluginError, match=r"page\.html: (https?:)?//"):
        site_pages.on_post_build(config=SimpleNamespace(site_dir=tmp_path))


def test_a_page_may_link_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<a href="https://semver.org">x</a><script src="assets/x.js"></script>')
    (tmp_path / "sheet.css").write_text("body { background: url('x.png') }")
    site_pages.on_post_build(config=SimpleNamespace(site_dir=tmp_path))
    (tmp_path / "sheet.css").write_text("body { background: url('https://example.com/x.png') }")
    with pytest.raises(PluginError, match=r"sheet\.css"):
        site_pages.on_post_build(config=SimpleNamespace(site_dir=tmp_path))
