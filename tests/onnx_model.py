"""A tiny embedding model as files: a graph, its tokenizer, and what sentence-transformers says of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import tokenizers

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "cat": 4, "dog": 5, "tea": 6, "query:": 7, "passage:": 8}
TABLE = [
    [9.0, 9.0, 9.0, 9.0],  # padding, which must not count
    [1.0, 1.0, 0.0, 0.0],
    [0.0, 0.0, 0.0, 1.0],
    [0.0, 0.0, 0.0, 2.0],
    [1.0, 0.0, 0.0, 0.0],
    [0.0, 1.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 0.0],
    [0.0, 0.0, 5.0, 0.0],
    [0.0, 5.0, 0.0, 0.0],
]
POOLING = {"word_embedding_dimension": 4, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False}


def graph(
    inputs: Sequence[str] = ("input_ids", "attention_mask"),
    outputs: Sequence[str] = ("last_hidden_state",),
    table: Sequence[Sequence[float]] = TABLE,
    integer: int = onnx.TensorProto.INT64,
) -> Any:
    """A model whose tokens are rows of the table; as `sentence_embedding` it gives the largest value of each column."""
    helper, kind = onnx.helper, onnx.TensorProto
    width = len(table[0])
    flat = [value for row in table for value in row]
    initial = [
        helper.make_tensor("table", kind.FLOAT, (len(table), width), flat),
        helper.make_tensor("axis", kind.INT64, (1,), [1]),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"]),
        helper.make_node("ReduceMax", ["last_hidden_state", "axis"], ["sentence_embedding"], keepdims=0),
    ]
    shapes = {"last_hidden_state": ["batch", "tokens", width], "sentence_embedding": ["batch", width]}
    made = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, integer, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(name, kind.FLOAT, shapes[name]) for name in outputs],
        initial,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def write_tokenizer(path: Path) -> None:
    """As many models have it: padding and truncation to a fixed length are written into the file."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    tokenizer.save(str(path))


def write_model(folder: Path) -> Path:
    """As sentence-transformers lays a model out, with mean pooling."""
    (folder / "onnx").mkdir(parents=True)
    onnx.save(graph(), str(folder / "onnx" / "model.onnx"))
    write_tokenizer(folder / "tokenizer.json")
    says(folder, "1_Pooling/config.json", {**POOLING, "pooling_mode_mean_tokens": True})
    modules = ["sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"]
    paths = ["", "1_Pooling"]
    says(folder, "modules.json", [{"path": path, "type": kind} for path, kind in zip(paths, modules, strict=True)])
    return folder


def says(folder: Path, name: str, content: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))
