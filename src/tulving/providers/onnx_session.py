"""How embedders use onnxruntime: without telemetry, one thread a run, with texts of similar length run together."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tulving.errors import EmbedderUnavailable

# A run of about this many tokens is the cheapest per token: fewer leave the processor idle, more overflow its cache.
TOKENS_PER_RUN = 512

_second = ThreadPoolExecutor(1, "tulving-embedding")
"""One more thread for the texts of all batches of this process, where it has a core for it."""


def open_session(model: bytes | Path, weights: Path | None = None) -> Any:
    """A session for a graph, or for a file with one; `weights` is the folder of the graph's external data. Several
    threads may run it."""
    # Otherwise onnxruntime, when imported, writes a device id into the home and looks up a host of its vendor.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    # For a host that has imported it before us.
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    # More threads do not make a short text faster, and spinning ones keep the processor busy between texts.
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if weights is not None:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights))
    graph = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def padded(rows: Sequence[Sequence[int]], padding: int = 0) -> tuple[Any, Any]:
    """Rows of token ids as one matrix, the shorter ones padded, and the mask of what is not padding."""
    import numpy

    if len(rows) == 1:
        ids = numpy.array(rows, numpy.int64)
        return ids, numpy.ones_like(ids)
    shape = len(rows), max(len(row) for row in rows)
    ids, mask = numpy.full(shape, padding, numpy.int64), numpy.zeros(shape, numpy.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    return ids, mask


def in_runs(
    rows: Sequence[Sequence[int]], vectors_of: Callable[[list[Sequence[int]]], list[list[float]]]
) -> list[list[float]]:
    """One vector per row, in their order. Rows of similar length are run together, to pad little.

    Several runs are shared with a second thread if the process may use two cores. While that thread is busy with
    another batch, this one does all of them. Who runs what does not change a vector.
    """
    if len(rows) == 1:  # most queries: nothing to sort or to share
        return vectors_of([*rows])
    vectors: list[list[float]] = [[]] * len(rows)
    waiting = deque(_runs([len(row) for row in rows]))

    def work() -> None:
        try:
            while positions := _next(waiting):
                found = vectors_of([rows[position] for position in positions])
                for position, vector in zip(positions, found, strict=True):
                    vectors[position] = vector
        except BaseException:
            waiting.clear()
            raise

    if len(waiting) == 1 or cores() == 1:
        work()
        return vectors
    second = _second.submit(work)
    try:
        work()
    finally:
        if not second.cancel():
            wait([second])
    if not second.cancelled():
        second.result()
    return vectors


def _next(waiting: deque[list[int]]) -> list[int] | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def cores() -> int:
    """How many cores this process may use, which can be fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def _runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Groups positions by length, so that each group, padded to its longest, fits into one run."""
    run: list[int] = []
    for position in sorted(range(len(lengths)), key=lengths.__getitem__):
        if run and (len(run) + 1) * lengths[position] > TOKENS_PER_RUN:
            yield run
            run = []
        run.append(position)
    if run:
        yield run


@contextmanager
def unavailable_unless(name: str, able: str) -> Iterator[None]:
    """Translate what onnxruntime raises: its errors have no common base, and the caller is not at fault."""
    try:
        yield
    except Exception as error:
        raise EmbedderUnavailable(f"{name} can't {able}: {error}") from error
