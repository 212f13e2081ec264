"""Builds src/tulving/providers/data/minilm.onnx, the graph of all-MiniLM-L6-v2 without its weights.

    python scripts/build_minilm_graph.py MODEL_FOLDER

MODEL_FOLDER holds the installed model.safetensors. Every weight becomes ONNX external data: a place in that
file. The graph ends with what sentence-transformers does after BERT: the mean over the unmasked tokens, scaled
to length 1. It uses standard operators only and the same input gives the same bytes. Needs the `onnx` package.
"""

import json
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from tulving.providers.digests import sha256
from tulving.providers.weights import MODEL, damage

GRAPH = Path(__file__).parents[1] / "src" / "tulving" / "providers" / "data" / "minilm.onnx"

LAYERS, HEADS, WIDTH = 6, 12, 384
HEAD_WIDTH = WIDTH // HEADS
NORM_EPSILON = 1e-12
MASKED = -1e9

# Gelu is a standard operator from opset 20 on; onnxruntime reads IR 9 since the same release.
OPSET, IR_VERSION = 20, 9


class Tensors:
    """Where each tensor is in a safetensors file: 8 bytes of length, a JSON header, then the data."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            self._header = json.loads(file.read(length))
        self._start = 8 + length

    def refer(self, name: str) -> TensorProto:
        """An initializer that stands for the tensor in the file."""
        entry = self._header[name]
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        tensor = TensorProto(
            name=name, data_type=TensorProto.FLOAT, dims=entry["shape"], data_location=TensorProto.EXTERNAL
        )
        place = {"location": MODEL.name, "offset": self._start + begin, "length": end - begin}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class Graph:
    """Collects nodes and initializers. Each method adds one operation and returns the name of its output."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def weight(self, name: str) -> str:
        if name not in self._initializers:
            self._initializers[name] = self._tensors.refer(name)
        return name

    def integers(self, *values: int) -> str:
        return self._constant(TensorProto.INT64, values)

    def number(self, value: float) -> str:
        return self._constant(TensorProto.FLOAT, (value,))

    def linear(self, x: str, name: str) -> str:
        """A dense layer over rows. Its weights are stored [out, in], hence transB."""
        return self.add("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)

    def norm(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=NORM_EPSILON)

    def model(self) -> onnx.ModelProto:
        shape = ["batch", "tokens"]
        graph = helper.make_graph(
            self._nodes,
            "all-MiniLM-L6-v2",
            [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in (IDS, MASK)],
            [helper.make_tensor_value_info(EMBEDDING, TensorProto.FLOAT, ["batch", WIDTH])],
            list(self._initializers.values()),
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="tulving"
        )

    def _constant(self, kind: int, values: Sequence[float]) -> str:
        name = "constant_" + "_".join(str(value) for value in values)
        self._initializers.setdefault(name, helper.make_tensor(name, kind, [len(values)], values))
        return name


IDS, MASK, EMBEDDING = "input_ids", "attention_mask", "embedding"


def build(tensors: Tensors) -> onnx.ModelProto:
    graph = Graph(tensors)
    add = graph.add
    shape = add("Shape", IDS)
    as_sequences = add("Concat", shape, graph.integers(WIDTH), axis=0)
    as_rows = graph.integers(-1, WIDTH)
    mask = add("Cast", MASK, to=TensorProto.FLOAT)
    hidden = add("Mul", add("Sub", graph.number(1.0), mask), graph.number(MASKED))
    hidden = add("Unsqueeze", hidden, graph.integers(1, 2))

    x = add("Reshape", embeddings(graph, shape), as_rows)
    for number in range(LAYERS):
        layer = f"encoder.layer.{number}"
        context = add("Reshape", attention(graph, x, f"{layer}.attention.self", hidden, as_sequences), as_rows)
        attended = graph.linear(context, f"{layer}.attention.output.dense")
        x = graph.norm(add("Add", attended, x), f"{layer}.attention.output.LayerNorm")
        inner = add("Gelu", graph.linear(x, f"{layer}.intermediate.dense"))
        x = graph.norm(add("Add", graph.linear(inner, f"{layer}.output.dense"), x), f"{layer}.output.LayerNorm")

    tokens = add("Mul", add("Reshape", x, as_sequences), add("Unsqueeze", mask, graph.integers(2)))
    total = add("ReduceSum", tokens, graph.integers(1), keepdims=0)
    mean = add("Div", total, add("ReduceSum", mask, graph.integers(1), keepdims=1))
    add("LpNormalization", mean, output=EMBEDDING, axis=-1, p=2)
    return graph.model()


def embeddings(graph: Graph, shape: str) -> str:
    """Word, position and the one token type that single texts have."""
    zero = graph.integers(0)
    words = graph.add("Gather", graph.weight("embeddings.word_embeddings.weight"), IDS, axis=0)
    length = graph.add("Gather", shape, graph.integers(1), axis=0)
    positions = graph.weight("embeddings.position_embeddings.weight")
    positions = graph.add("Slice", positions, zero, length, zero)
    kind = graph.add("Gather", graph.weight("embeddings.token_type_embeddings.weight"), zero, axis=0)
    return graph.norm(graph.add("Add", words, graph.add("Add", positions, kind)), "embeddings.LayerNorm")


def attention(graph: Graph, x: str, name: str, hidden: str, as_sequences: str) -> str:
    def heads(part: str, order: Sequence[int]) -> str:
        rows = graph.add("Reshape", graph.linear(x, f"{name}.{part}"), as_sequences)
        split = graph.add("Reshape", rows, graph.integers(0, 0, HEADS, HEAD_WIDTH))
        return graph.add("Transpose", split, perm=order)

    scores = graph.add("MatMul", heads("query", (0, 2, 1, 3)), heads("key", (0, 2, 3, 1)))
    scores = graph.add("Add", graph.add("Mul", scores, graph.number(HEAD_WIDTH**-0.5)), hidden)
    shares = graph.add("Softmax", scores, axis=-1)
    context = graph.add("MatMul", shares, heads("value", (0, 2, 1, 3)))
    return graph.add("Transpose", context, perm=(0, 2, 1, 3))


def main() -> None:
    folder = Path(sys.argv[1])
    if problems := damage(folder, sha256):
        raise SystemExit("\n".join(problems))
    content = build(Tensors(folder / MODEL.name)).SerializeToString(deterministic=True)
    GRAPH.parent.mkdir(exist_ok=True)
    GRAPH.write_bytes(content)
    print(f"{GRAPH}: {len(content)} bytes")


if __name__ == "__main__":
    main()
