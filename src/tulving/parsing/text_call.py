"""A tool call that a model wrote into its text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Protocol = Literal["abp", "vcp", "plain-text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCall:
    """One call: the tool as the model named it, its parameters (texts only in VCP), and where it stands in the text."""

    tool: str
    parameters: Mapping[str, Any]
    protocol: Protocol
    start: int
    end: int
    repaired: bool = False
    """Whether its JSON was malformed, and is read as it was probably meant."""


class Reading(NamedTuple):
    """What a text holds in one protocol."""

    calls: tuple[TextCall, ...]
    problems: tuple[str, ...]
