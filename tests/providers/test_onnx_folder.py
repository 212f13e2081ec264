"""The embedder in a folder: real onnxruntime and tokenizers, with tiny models, and with MiniLM's own weights."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import tokenizers
from onnx_model import POOLING, TABLE, graph, says, write_model

from tulving import embedders, extras, open_memory
from tulving.config import parse
from tulving.embedders import choose_embedder
from tulving.errors import ConfigError, EmbedderMismatch, EmbedderUnavailable
from tulving.providers import weights
from tulving.providers.minilm import MiniLm
from tulving.providers.onnx_folder import OnnxFolder
from tulving.testing import CLOSE

Make = Callable[..., OnnxFolder]


@pytest.fixture(autouse=True)
def no_engines_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(embedders, "_engines", {})
    monkeypatch.setenv("TULVING_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def make(folder: Path) -> Make:
    def make(dimension: int | None = None, **settings: Any) -> OnnxFolder:
        given = {"folder": str(folder), **settings}
        engine = choose_embedder(parse({"embedder": "onnx", "dimension": dimension, "onnx": given}))
        assert isinstance(engine, OnnxFolder)
        return engine

    return make


def direction(*vector: float) -> Any:
    length = sum(number * number for number in vector) ** 0.5
    return pytest.approx([number / length for number in vector], abs=1e-6)


def test_the_mean_of_the_tokens(make: Make) -> None:
    engine = make()
    assert (engine.model, engine.dimension, engine.light, engine.unready(), engine.problems()) == (
        "onnx",
        4,
        False,
        None,
        [],
    )
    assert engine.embed("cat dog") == direction(1, 1, 0, 3)
    assert engine.embed(None) == direction(0, 0, 0, 3)
    assert engine.embed_batch([]) == []


def test_what_the_tokenizer_says_of_padding_and_length_does_not_count(make: Make) -> None:
    """Its file pads to four tokens and cuts there."""
    texts = ["cat", "cat dog tea cat dog tea", "", "tea"]
    found = make().embed_batch(texts)
    assert found == [direction(1, 0, 0, 3), direction(2, 2, 2, 3), direction(0, 0, 0, 3), direction(0, 0, 1, 3)]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({**POOLING, "pooling_mode_cls_token": True}, (0, 0, 0, 1)),
        ({**POOLING, "pooling_mode_lasttoken": True, "include_prompt": True}, (0, 0, 0, 2)),
        ({"embedding_dimension": 4, "pooling_mode": "mean"}, (1, 1, 0, 3)),
        ({"embedding_dimension": 4, "pooling_mode": "lasttoken"}, (0, 0, 0, 2)),
    ],
)
def test_pooling_is_read_from_the_folder(folder: Path, make: Make, told: dict[str, Any], expected: Any) -> None:
    says(folder, "1_Pooling/config.json", told)
    assert make().embed_batch(["cat dog", "tea cat dog tea"])[0] == direction(*expected)


@pytest.mark.parametrize(
    ("pooling", "expected"), [("cls", (0, 0, 0, 1)), ("last", (0, 0, 0, 2)), ("mean", (1, 1, 0, 3))]
)
def test_pooling_by_the_settings(make: Make, pooling: str, expected: Any) -> None:
    assert make(pooling=pooling).embed_batch(["cat dog", "tea tea tea"])[0] == direction(*expected)


@pytest.mark.parametrize(
    "told",
    [
        {**POOLING, "pooling_mode_max_tokens": True},
        {**POOLING, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
        {"embedding_dimension": 4, "pooling_mode": "weightedmean"},
        {"embedding_dimension": 4, "pooling_mode": ["mean", "max"]},
    ],
)
def test_pooling_that_is_not_known_is_refused(folder: Path, make: Make, told: dict[str, Any]) -> None:
    says(folder, "1_Pooling/config.json", told)
    with pytest.raises(ConfigError, match=r"onnx\.pooling: .* not supported; allowed: mean, cls, last"):
        make()


def test_a_graph_that_pools_by_itself(folder: Path, make: Make) -> None:
    onnx.save(graph(outputs=("last_hidden_state", "sentence_embedding")), str(folder / "onnx" / "model.onnx"))
    assert make().embed("cat dog") == direction(1, 1, 0, 2)


def test_as_fastembed_lays_it_out(folder: Path, make: Make) -> None:
    shutil.rmtree(folder / "1_Pooling")
    (folder / "modules.json").unlink()
    (folder / "onnx" / "model.onnx").rename(folder / "model_optimized.onnx")
    says(folder, "config.json", {"hidden_size": 4, "pad_token_id": 0})
    assert make(pooling="cls").embed("cat") == direction(0, 0, 0, 1)
    with pytest.raises(EmbedderUnavailable, match=r"set onnx\.pooling"):
        make().embed("cat")


@pytest.mark.parametrize("integer", [onnx.TensorProto.INT64, onnx.TensorProto.INT32])
@pytest.mark.parametrize("inputs", [("input_ids",), ("input_ids", "attention_mask", "token_type_ids")])
def test_the_inputs_of_the_graph(folder: Path, make: Make, inputs: tuple[str, ...], integer: int) -> None:
    onnx.save(graph(inputs=inputs, integer=integer), str(folder / "onnx" / "model.onnx"))
    assert make().embed_batch(["cat", "cat dog"])[0] == direction(1, 0, 0, 3)


def test_an_unknown_input_is_told(folder: Path, make: Make) -> None:
    onnx.save(graph(inputs=("input_ids", "pixel_values")), str(folder / "onnx" / "model.onnx"))
    with pytest.raises(EmbedderUnavailable, match=r"pixel_values.*known are input_ids"):
        make().embed("cat")


@pytest.mark.parametrize(
    ("prompts", "settings", "query", "document"),
    [
        ({}, {}, (1, 0, 0, 3), (1, 0, 0, 3)),
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, {}, (1, 0, 5, 3), (1, 5, 0, 3)),
        ({"prompts": {"query": "query: ", "document": ""}}, {}, (1, 0, 5, 3), (1, 0, 0, 3)),
        ({"prompts": {"all": "tea "}, "default_prompt_name": "all"}, {}, (1, 0, 1, 3), (1, 0, 1, 3)),
        ({"prompts": {"query": "query: "}}, {"query_prefix": "dog "}, (1, 1, 0, 3), (1, 0, 0, 3)),
        ({"prompts": {"query": "query: "}}, {"query_prefix": ""}, (1, 0, 0, 3), (1, 0, 0, 3)),
        ({}, {"document_prefix": "dog "}, (1, 0, 0, 3), (1, 1, 0, 3)),
    ],
)
def test_prefixes(folder: Path, make: Make, prompts: Any, settings: Any, query: Any, document: Any) -> None:
    says(folder, "config_sentence_transformers.json", prompts)
    engine = make(**settings)
    assert engine.embed_queries(["cat"]) == [direction(*query)]
    assert engine.embed_batch(["cat"]) == [direction(*document)]


@pytest.mark.parametrize(
    ("files", "settings", "tokens"),
    [
        ({}, {}, 512),
        ({"config.json": {"max_position_embeddings": 20}}, {}, 20),
        ({"config.json": {"max_position_embeddings": 20}, "tokenizer_config.json": {"model_max_length": 1e30}}, {}, 20),
        ({"tokenizer_config.json": {"model_max_length": 16}, "config.json": {"max_position_embeddings": 20}}, {}, 16),
        (
            {"sentence_bert_config.json": {"max_seq_length": 12}, "tokenizer_config.json": {"model_max_length": 16}},
            {},
            12,
        ),
        ({"sentence_bert_config.json": {"max_seq_length": None}}, {}, 512),
        ({"sentence_bert_config.json": {"max_seq_length": 12}}, {"max_tokens": 8}, 8),
    ],
)
def test_the_longest_text(folder: Path, make: Make, files: dict[str, Any], settings: Any, tokens: int) -> None:
    for name, content in files.items():
        says(folder, name, content)
    engine = make(**settings)
    cats = tokens - 2  # beside the start and the end
    assert engine.embed("cat " * 2000) == direction(cats, 0, 0, 3)
    assert engine.embed("cat " * (cats - 1)) == direction(cats - 1, 0, 0, 3)


def test_fewer_dimensions_are_the_first_ones(make: Make) -> None:
    engine = make(dimension=2)
    assert engine.dimension == 2
    assert engine.embed("cat dog dog tea") == direction(1, 2)
    for bad in (0, 5):
        with pytest.raises(ConfigError, match=rf"dimension: {bad} can't be used; allowed: 1 to 4"):
            make(dimension=bad)


def test_a_dimension_that_the_folder_does_not_say(folder: Path, make: Make) -> None:
    shutil.rmtree(folder / "1_Pooling")
    with pytest.raises(ConfigError, match="dimension"):
        make(pooling="mean")
    assert len(make(pooling="mean", dimension=3).embed("cat")) == 3
    with pytest.raises(EmbedderUnavailable, match="4 dimensions; allowed: 5"):
        make(pooling="mean", dimension=5).embed("cat")


def test_vectors_that_are_not_numbers(folder: Path, make: Make) -> None:
    onnx.save(graph(table=[[float("nan")] * 4] * len(TABLE)), str(folder / "onnx" / "model.onnx"))
    with pytest.raises(EmbedderUnavailable, match="wrong vectors"):
        make().embed("cat")


def test_its_version_is_that_of_the_files(folder: Path, make: Make, tmp_path: Path) -> None:
    first = make().version
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert make(folder=str(moved)).version == first
    assert make(query_prefix="query: ", max_tokens=16).version == first, "stored vectors stay comparable"
    others = {make(pooling="cls").version, make(document_prefix="passage: ").version}
    onnx.save(graph(table=[[*row[:3], 7.0] for row in TABLE]), str(moved / "onnx" / "model.onnx"))
    others.add(make(folder=str(moved), max_tokens=32).version)
    (folder / "onnx" / "model.onnx_data").write_bytes(b"weights that the graph refers to")
    others.add(make(max_tokens=64).version)
    assert len(others | {first}) == 5


def test_a_model_that_changes_while_it_is_open(folder: Path, make: Make) -> None:
    engine = make()
    onnx.save(graph(table=TABLE[::-1]), str(folder / "onnx" / "model.onnx"))
    assert "has changed" in engine.problems()[0]
    (folder / "tokenizer.json").unlink()
    assert "tokenizer.json" in engine.problems()[0]


@pytest.mark.parametrize(
    ("spoil", "field", "said"),
    [
        (lambda folder: shutil.rmtree(folder), "onnx.folder", "is not a folder"),
        (lambda folder: shutil.rmtree(folder / "onnx"), "onnx.folder", "has no ONNX model"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "onnx.folder", "has no tokenizer.json"),
        (lambda folder: (folder / "modules.json").write_text("{"), "onnx.folder", "modules.json can't be read"),
        (lambda folder: (folder / "onnx" / "model.onnx_data").mkdir(), "onnx.folder", r"can't be read .*onnx_data"),
        (
            lambda folder: says(folder, "modules.json", [{"type": "sentence_transformers.models.Dense"}]),
            "onnx.folder",
            "Dense",
        ),
    ],
)
def test_a_folder_that_can_not_be_used(
    folder: Path, make: Make, spoil: Callable[[Path], Any], field: str, said: str
) -> None:
    spoil(folder)
    with pytest.raises(ConfigError, match=said) as refused:
        make()
    assert refused.value.field == field


def test_a_file_that_is_named(folder: Path, make: Make) -> None:
    onnx.save(graph(table=[[row[0], 0.0, 0.0, 0.0] for row in TABLE]), str(folder / "onnx" / "model_quint8.onnx"))
    assert make(file="onnx/model_quint8.onnx").embed("cat") == direction(1, 0, 0, 0)
    with pytest.raises(ConfigError, match=r"onnx\.file: .* has no other\.onnx"):
        make(file="other.onnx")
    with pytest.raises(ConfigError, match=r"onnx\.folder"):
        make(folder="")


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json"])
def test_a_damaged_file_makes_it_unavailable(folder: Path, make: Make, name: str) -> None:
    (folder / name).write_bytes(b"nonsense")
    with pytest.raises(EmbedderUnavailable, match="can't be loaded"):
        make().embed("cat")


def test_without_the_package_it_says_what_to_do(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    engine = make()
    assert engine.unready() == "the embedder `onnx` needs the extra `onnx`: pip install 'tulving[onnx]'"
    with pytest.raises(EmbedderUnavailable, match=r"tulving\[onnx\]"):
        engine.embed("cat")


def test_odd_texts(make: Make) -> None:
    engine = make()
    assert engine.embed("cat \ud800") == engine.embed("cat ")
    assert engine.embed("x" * 1_000_000) == direction(1, 1, 0, 3)


async def test_a_memory_with_it(folder: Path, path: Path) -> None:
    config = parse({"embedder": "onnx", "onnx": {"folder": str(folder)}})
    async with open_memory(path, config=config, background=False) as memory:
        await memory.store_fact(subject="Mira", predicate="pet", content="cat")
        await memory.store_fact(subject="Mira", predicate="drink", content="tea")
        found = await memory.search("tea", mode="semantic")
        assert [hit.item.content for hit in found.hits] == ["tea", "cat"]
        assert (await memory.health()).ok
    config = parse({"embedder": "onnx", "onnx": {"folder": str(folder), "pooling": "cls"}})
    with pytest.raises(EmbedderMismatch):
        async with open_memory(path, config=config):
            pass


@pytest.fixture(scope="module")
def minilm_folder(minilm_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """all-MiniLM-L6-v2 as sentence-transformers exports it: the graph up to the last hidden state."""
    import build_minilm_graph as script

    folder = tmp_path_factory.mktemp("all-MiniLM-L6-v2")
    source = weights.directory(minilm_home)
    (folder / "onnx").mkdir()
    shutil.copy(source / weights.MODEL.name, folder / "onnx")
    model = onnx.load(str(script.GRAPH), load_external_data=False)
    [tokens] = [node for node in model.graph.node if node.op_type == "Mul" and node.output[0] in _summed(model)]
    hidden = onnx.helper.make_tensor_value_info(tokens.input[0], onnx.TensorProto.FLOAT, ["batch", "tokens", 384])
    del model.graph.output[:]
    model.graph.output.append(hidden)
    (folder / "onnx" / "model.onnx").write_bytes(model.SerializeToString())
    tokenizer = tokenizers.BertWordPieceTokenizer(str(source / weights.VOCABULARY.name), lowercase=True)
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(folder / "tokenizer.json"))
    says(folder, "1_Pooling/config.json", {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True})
    says(folder, "sentence_bert_config.json", {"max_seq_length": 256, "do_lower_case": False})
    return folder


def _summed(model: Any) -> set[str]:
    return {name for node in model.graph.node if node.op_type == "ReduceSum" for name in node.input}


def test_minilm_in_a_folder_gives_its_own_vectors(minilm: MiniLm, minilm_folder: Path) -> None:
    engine = choose_embedder(parse({"embedder": "onnx", "onnx": {"folder": str(minilm_folder)}}))
    texts = ["The weather is lovely today.", "", None, "Grüße aus Köln", "word " * 1000, "猫は眠る", "a, b; c!"]
    assert engine.dimension == minilm.dimension
    for ours, theirs in zip(engine.embed_batch(texts), minilm.embed_batch(texts), strict=True):
        assert sum(a * b for a, b in zip(ours, theirs, strict=True)) == pytest.approx(1, abs=CLOSE)
        assert ours == pytest.approx(theirs, abs=1e-5)
