"""all-MiniLM-L6-v2 on onnxruntime: true MiniLM vectors of 384 numbers without torch.

The shipped graph (`data/minilm.onnx`, made by `scripts/build_minilm_graph.py`) holds no weights: it refers to
the tensors where they lie in `model.safetensors`, so they are mapped into memory and never converted or copied.
"""

from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from threading import Lock

from tulving.errors import WeightsError
from tulving.providers import weights

# A run of about this many tokens is the cheapest per token: fewer leave the processor idle, more leave its cache.
_TOKENS_PER_RUN = 512


class MiniLm:
    """The default embedder. Nothing heavy is imported or loaded before the first text is embedded."""

    model: str = weights.MODEL_NAME
    version: str = weights.MODEL.sha256[:8]
    dimension: int = 384
    light: bool = False

    def __init__(self, home: Path | None = None) -> None:
        self._home = home
        self._folder: Path | None = None
        self._network: _Network | None = None
        self._loading = Lock()

    def unready(self) -> str | None:
        """What to do when the weights are not installed; None when they are."""
        if self._folder is None:
            self._folder = weights.find(self._home)
        return None if self._folder else weights.advice()

    def embed(self, text: str | None) -> list[float]:
        """The unit vector of a text, of which the first 256 tokens count. No text is taken for a space."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """One vector per text, in their order. Texts of like length are run together, to pad little."""
        if not texts:
            return []
        network = self._loaded()
        tokens = [network.tokens(text or " ") for text in texts]
        vectors: list[list[float]] = [[]] * len(texts)
        for positions in _runs([len(row) for row in tokens]):
            found = network.vectors([tokens[position] for position in positions])
            for position, vector in zip(positions, found, strict=True):
                vectors[position] = vector
        return vectors

    def _loaded(self) -> "_Network":
        if self._network is None:
            with self._loading:
                if self._network is None:
                    if problem := self.unready():
                        raise WeightsError(problem)
                    assert self._folder is not None
                    self._network = _Network(self._folder)
        return self._network


class _Network:
    """The loaded model. onnxruntime lets several threads run one session."""

    def __init__(self, folder: Path) -> None:
        import numpy
        import onnxruntime

        from tulving.providers.wordpiece import WordPiece

        weights.recognise(folder)
        options = onnxruntime.SessionOptions()
        # More threads do not make a short text faster, and spinning ones burn the processor between texts.
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path",
            str((folder / weights.MODEL.name).resolve().parent),
        )
        graph = resources.files("tulving.providers").joinpath("data", "minilm.onnx").read_bytes()
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._numpy = numpy
        self.tokens = WordPiece.from_file(folder / weights.VOCABULARY.name).ids

    def vectors(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """One run: the vectors of rows of token ids, shorter rows padded and masked."""
        shape = len(rows), max(len(row) for row in rows)
        ids = self._numpy.zeros(shape, self._numpy.int64)
        mask = self._numpy.zeros(shape, self._numpy.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        (vectors,) = self._session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})
        return self._numpy.asarray(vectors).tolist()


def _runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Groups positions by length, so that each group, padded to its longest, fits into one run."""
    run: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if run and (len(run) + 1) * lengths[position] > _TOKENS_PER_RUN:
            yield run
            run = []
        run.append(position)
    if run:
        yield run
