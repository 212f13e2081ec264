"""The tool calls in a model's text, for models that have no tool calling of their own."""

from dataclasses import dataclass
from typing import Literal

from tulving.parsing.text_call import Protocol, TextCall

__all__ = ["Fallback", "Protocol", "TextCall", "ToolText", "read"]

Fallback = Literal["no ABP marker", "ABP call can't be read", "too long"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolText:
    """A model's text, the calls in it, and what kept others from being read."""

    text: str
    calls: tuple[TextCall, ...] = ()
    protocol: Protocol = "plain-text"
    fallback: Fallback | None = None
    """Why ABP was not used."""
    problems: tuple[str, ...] = ()
    """For the model: which calls it marked could not be read, and why."""

    @property
    def prose(self) -> str:
        """What the model says beside its calls."""
        pieces: list[str] = []
        at = 0
        for call in self.calls:
            pieces.append(self.text[at : call.start])
            at = call.end
        return "".join([*pieces, self.text[at:]]).strip()


def read(text: str, *, dual: bool = False) -> ToolText:
    """The calls in a text: ABP ones; where there are none and `dual` is set, VCP ones. Never raises."""
    return ToolText(text=text, fallback="no ABP marker")
