"""The embedders and dialects that can be chosen by name. Importing these tables imports none of them."""

from typing import NamedTuple


class Provider(NamedTuple):
    """An embedder: `place` is its `module:class`, imported when one is made; `takes` names what the class is made
    with (`home`, the folder under which its files are, or `dimension`, if there is a choice), besides what is in its
    `table` of the settings. A `dimension` of None is known from the settings or the model only."""

    place: str
    dimension: int | None
    takes: tuple[str, ...]
    by_meaning: bool
    """Whether it finds texts without a common word."""
    table: str | None = None


EMBEDDERS = {
    "minilm": Provider("tulving.providers.minilm:MiniLm", 384, ("home",), by_meaning=True),
    "hashing": Provider("tulving.providers.hashing:Hashing", 256, ("dimension",), by_meaning=False),
    "endpoint": Provider(
        "tulving.providers.openai_compatible:OpenAiCompatible", None, ("dimension",), by_meaning=True, table="endpoint"
    ),
    "onnx": Provider(
        "tulving.providers.onnx_folder:OnnxFolder", None, ("home", "dimension"), by_meaning=True, table="onnx"
    ),
}

POOLINGS = ("mean", "cls", "last")
"""How the vectors of the tokens of a text can become its own."""

DIALECTS = ("openai", "anthropic")
"""How a language model behind an endpoint is asked."""
