"""An embedder in a folder: an ONNX model and its tokenizer, as sentence-transformers and fastembed lay them out."""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from tulving import extras
from tulving.domain.vectors import unit
from tulving.errors import ConfigError, EmbedderUnavailable, InvalidInput
from tulving.providers import POOLINGS
from tulving.providers.digests import Digests
from tulving.providers.onnx_session import in_runs, open_session, padded, unavailable_unless

FILES = ("onnx/model.onnx", "model.onnx", "model_optimized.onnx", "onnx/model_optimized.onnx")
TOKENIZER = "tokenizer.json"
MAX_TOKENS = 512
UNLIMITED = 1_000_000
"""From here on a `model_max_length` means that there is no limit."""
CHARACTERS_PER_TOKEN = 100
"""No more of a text is tokenized: a longer word becomes one unknown token."""
MODULES = ("Transformer", "Pooling", "Normalize")
POOLED = "sentence_embedding"
"""The output of a graph that pools by itself."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class OnnxFolder:
    """A model of the user's own. Settings that are None are read from the folder. Vectors have length 1; of a model
    with more dimensions than wanted, the first ones are taken, as Matryoshka models allow.

    It is named by a digest of all that a vector depends on, so that the folder can be renamed or copied.
    """

    model: str = "onnx"
    light: bool = False

    def __init__(
        self,
        *,
        home: Path,
        dimension: int | None,
        folder: str,
        file: str | None,
        pooling: str | None,
        max_tokens: int | None,
        query_prefix: str | None,
        document_prefix: str | None,
    ) -> None:
        self._folder = Path(folder).expanduser()
        if not folder or not self._folder.is_dir():
            raise ConfigError("onnx.folder", f"{folder!r} is not a folder", f"a folder with a model and {TOKENIZER}")
        self._file = self._found(file)
        if not (self._folder / TOKENIZER).is_file():
            raise ConfigError("onnx.folder", f"{folder!r} has no {TOKENIZER}", "a model with its fast tokenizer")
        config, prompts = self._json("config.json"), self._json("config_sentence_transformers.json")
        pools = self._json(f"{self._modules().get('Pooling', '1_Pooling')}/config.json")
        self._pooling = pooling or self._read_pooling(pools)
        self.dimension = self._read_dimension(dimension, pools, config)
        self._max_tokens = max_tokens or self._read_max_tokens(config)
        self._padding = config.get("pad_token_id") or 0
        self._query_prefix = _prompt(prompts, "query") if query_prefix is None else query_prefix
        self._document_prefix = _prompt(prompts, "document", "passage") if document_prefix is None else document_prefix
        self._digests = Digests(home / "models" / "digests.json")
        self.version = self._digest(self._digests.of)
        self._network: _Network | None = None
        self._loading = Lock()

    def unready(self) -> str | None:
        """Whether the package that reads the tokenizer is missing."""
        return extras.missing("onnx", "the embedder `onnx`")

    def problems(self) -> list[str]:
        """Hashes the files, whatever was recorded."""
        try:
            same = self._digest(self._digests.take) == self.version
        except ConfigError as error:
            return [str(error)]
        return [] if same else [f"the model in {self._folder} has changed since it was opened: open the memory again"]

    def embed(self, text: str | None) -> list[float]:
        """The vector of a text. None counts as a space."""
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        """One vector per text, in their order."""
        return self._vectors(texts, self._document_prefix)

    def embed_queries(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of queries, which get a prefix of their own."""
        return self._vectors(texts, self._query_prefix)

    def _vectors(self, texts: Sequence[str | None], prefix: str) -> list[list[float]]:
        if not texts:
            return []
        network = self._loaded()
        most = self._max_tokens * CHARACTERS_PER_TOKEN
        found = in_runs([network.tokens((prefix + (text or " "))[:most]) for text in texts], network.vectors)
        try:
            return [list(unit(vector[: self.dimension], self.dimension)) for vector in found]
        except InvalidInput as error:
            raise EmbedderUnavailable(f"{self._file} gives wrong vectors: {error}") from error

    def _loaded(self) -> "_Network":
        if problem := self.unready():
            raise EmbedderUnavailable(problem)
        with self._loading:
            if self._network is None:
                tokenizer = self._folder / TOKENIZER
                self._network = _Network(self._file, tokenizer, self._pooling, self._max_tokens, self._padding)
            return self._network

    def _found(self, name: str | None) -> Path:
        candidates = [self._folder / each for each in ((name,) if name else FILES)]
        found = next((path for path in candidates if path.is_file()), None)
        if found is None:
            problem = f"{self._folder} has no {name or 'ONNX model'}"
            raise ConfigError("onnx.file" if name else "onnx.folder", problem, ", ".join(FILES))
        return found

    def _json(self, name: str) -> dict[str, Any]:
        """A settings file of the model; empty if there is none."""
        try:
            read = json.loads((self._folder / name).read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigError("onnx.folder", f"{self._folder / name} can't be read ({error})") from error
        return read if isinstance(read, dict) else {"modules": read}

    def _modules(self) -> dict[str, str]:
        """The parts of a sentence-transformers model, and the folder of each."""
        listed = [each for each in self._json("modules.json").get("modules", ()) if isinstance(each, dict)]
        found = {str(each.get("type")).rpartition(".")[2]: str(each.get("path", "")) for each in listed}
        if unknown := found.keys() - set(MODULES):
            problem = f"{self._folder} has the modules {sorted(unknown)}, which an ONNX file does not hold"
            raise ConfigError("onnx.folder", problem, f"a model of {', '.join(MODULES)}")
        return found

    def _read_pooling(self, given: dict[str, Any]) -> str | None:
        """None if the folder does not say: then the graph must pool."""
        prefix = "pooling_mode_"
        chosen = [name.removeprefix(prefix) for name, on in given.items() if name.startswith(prefix) and on is True]
        mode = given.get("pooling_mode") or "+".join(name.partition("_token")[0] for name in chosen) or None
        mode = "last" if mode == "lasttoken" else mode
        if mode not in (None, *POOLINGS):
            raise ConfigError(
                "onnx.pooling", f"{self._folder} says {mode}, which is not supported", ", ".join(POOLINGS)
            )
        return mode

    def _read_dimension(self, wanted: int | None, pooling: dict[str, Any], config: dict[str, Any]) -> int:
        told = [pooling.get(name) for name in ("word_embedding_dimension", "embedding_dimension")]
        told += [config.get(name) for name in ("hidden_size", "dim", "d_model")]
        most = next((number for number in told if isinstance(number, int)), None)
        if wanted is None and most is None:
            raise ConfigError("dimension", f"{self._folder} does not say how long its vectors are", "that of the model")
        if wanted is not None and not 1 <= wanted <= (most or wanted):
            raise ConfigError("dimension", f"{wanted} can't be used", f"1 to {most}, that of the model")
        return wanted or most or 0

    def _read_max_tokens(self, config: dict[str, Any]) -> int:
        told = (
            self._json("sentence_bert_config.json").get("max_seq_length"),
            self._json("tokenizer_config.json").get("model_max_length"),
            config.get("max_position_embeddings"),
        )
        return next((int(most) for most in told if isinstance(most, int | float) and 0 < most < UNLIMITED), MAX_TOKENS)

    def _digest(self, of: Callable[[Path], str]) -> str:
        """Of the model with its external data, the tokenizer, and what is done before and after it."""
        files = [*sorted(self._file.parent.glob(f"{self._file.name}*")), self._folder / TOKENIZER]
        try:
            parts = [*(of(path) for path in files), self._pooling or "", self._document_prefix]
        except OSError as error:
            raise ConfigError("onnx.folder", f"a file of the model can't be read ({error})") from error
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


class _Network:
    """The loaded model and its tokenizer."""

    def __init__(self, model: Path, tokenizer: Path, pooling: str | None, max_tokens: int, padding: int) -> None:
        self._name, self._pooling, self._padding = str(model), pooling, padding
        with unavailable_unless(self._name, "be loaded"):
            from tokenizers import Tokenizer

            self._session = open_session(model)
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            # The file may say that short texts are padded and long ones cut at a length of its own.
            self._tokenizer.no_padding()
            self._tokenizer.enable_truncation(max_tokens)
        self._inputs = {each.name: "int32" if "int32" in each.type else "int64" for each in self._session.get_inputs()}
        if unknown := self._inputs.keys() - set(INPUTS):
            raise EmbedderUnavailable(f"{model} wants the inputs {sorted(unknown)}; known are {', '.join(INPUTS)}")
        outputs = [each.name for each in self._session.get_outputs()]
        self._output = POOLED if POOLED in outputs else outputs[0]

    def tokens(self, text: str) -> list[int]:
        # Lone surrogates can't be passed on, and a row can't be empty.
        return self._tokenizer.encode(text.encode(errors="ignore").decode()).ids or [self._padding]

    def vectors(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """One run: the vectors of rows of token ids."""
        ids, mask = padded(rows, self._padding)
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": mask * 0}
        with unavailable_unless(self._name, "embed"):
            given = {name: values[name].astype(kind) for name, kind in self._inputs.items()}
            (found,) = self._session.run([self._output], given)
            return self._pooled(found.astype("float64"), mask).tolist()

    def _pooled(self, found: Any, mask: Any) -> Any:
        if found.ndim == 2:
            return found
        if self._pooling == "cls":
            return found[:, 0]
        if self._pooling == "last":
            return found[range(len(found)), mask.sum(1) - 1]
        if self._pooling == "mean":
            return (found * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        raise ValueError("neither it nor its folder says how its tokens become one vector; set onnx.pooling")


def _prompt(settings: dict[str, Any], *names: str) -> str:
    """The prefix that a model has under one of these names, else its default one."""
    prompts = settings.get("prompts") or {}
    return next((prompts[name] for name in (*names, settings.get("default_prompt_name")) if name in prompts), "")
