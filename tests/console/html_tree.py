"""HTML as a tree: what a reader without scripts sees of a page, and the forms and links that they can use."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
SVG_SHAPES = {"path", "rect", "circle", "line", "polyline", "polygon", "use", "stop", "ellipse"}
UNSEEN = {"head", "script", "style", "template"}
BLOCKS = {"p", "div", "li", "h1", "h2", "h3", "h4", "td", "th", "tr", "section", "form", "label", "dt", "dd", "option"}


@dataclass(eq=False)
class Element:
    """An element with its attributes and what is in it."""

    tag: str
    attributes: dict[str, str]
    parent: "Element | None" = None
    children: "list[Element | str]" = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attributes.get(name, "")

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    @property
    def text(self) -> str:
        """What can be read in it, with one space where there is any. What lies in a closed <details> counts too."""
        return " ".join("".join(self._texts()).split())

    @property
    def raw_text(self) -> str:
        """Its text as it is."""
        return "".join(child if isinstance(child, str) else child.raw_text for child in self.children)

    @property
    def label(self) -> str:
        """The name of a link or a button."""
        return self["aria-label"] or self.text

    def _texts(self) -> Iterator[str]:
        if self.tag in UNSEEN or "hidden" in self.attributes:
            return
        if self.tag in BLOCKS:
            yield " "
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._texts()
        if self.tag in BLOCKS:
            yield " "

    def within(self) -> Iterator["Element"]:
        """The elements around it, the closest first."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    def all(self, *tags: str) -> "Iterator[Element]":
        """The elements in it, in their order; of some kinds only."""
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)

    def one(self, tag: str) -> "Element":
        """The first of a kind."""
        return next(self.all(tag))


class Tree(HTMLParser):
    """Reads a page. What is not closed, or closed wrongly, is an error: escaped too little, or a template is wrong."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]
        self.feed(page)
        self.close()
        if len(self._open) > 1:
            raise ValueError(f"<{self._open[-1].tag}> is not closed")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            raise ValueError(f"<{tag}> has an attribute twice: {names}")
        made = Element(tag, {name: value or "" for name, value in attrs}, self._open[-1])
        self._open[-1].children.append(made)
        if tag not in VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            if tag not in SVG_SHAPES:
                raise ValueError(f"<{tag}/> closes itself")
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or self._open[-1].tag != tag:
            raise ValueError(f"</{tag}> closes <{self._open[-1].tag}>, line {self.getpos()[0]}")
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)
