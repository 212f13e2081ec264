"""The runs of a batch, which two threads may share."""

import os
from collections.abc import Sequence
from threading import Barrier, get_ident

import pytest

from tulving.errors import EmbedderUnavailable
from tulving.providers import onnx_session
from tulving.providers.minilm import MiniLm
from tulving.providers.onnx_session import TOKENS_PER_RUN, cores, in_runs

Rows = Sequence[Sequence[int]]
FULL = [[number] * TOKENS_PER_RUN for number in range(8)]
"""Each fills a run."""


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_session, "cores", lambda: 2)


def numbers(rows: Rows) -> list[list[float]]:
    return [[float(row[0]), float(len(row))] for row in rows]


@pytest.mark.usefixtures("two_cores")
def test_two_threads_share_the_runs_of_a_batch_and_keep_its_order() -> None:
    met, threads = Barrier(2), set[int]()

    def found(rows: Rows) -> list[list[float]]:
        if get_ident() not in threads:
            threads.add(get_ident())
            met.wait(20)  # both are at work
        return numbers(rows)

    assert in_runs(FULL[::-1], found) == numbers(FULL[::-1])
    assert len(threads) == 2 and get_ident() in threads


@pytest.mark.usefixtures("two_cores")
def test_one_run_and_all_on_one_core_stay_on_the_callers_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[int]()

    def found(rows: Rows) -> list[list[float]]:
        threads.add(get_ident())
        return numbers(rows)

    short = [[number] for number in range(9)]
    assert in_runs(short, found) == numbers(short)
    monkeypatch.setattr(onnx_session, "cores", lambda: 1)
    assert in_runs(FULL, found) == numbers(FULL)
    assert threads == {get_ident()}


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("of_the_caller", [True, False])
def test_an_error_of_either_thread_ends_the_batch(of_the_caller: bool) -> None:
    me, met, asked = get_ident(), Barrier(2), list[int]()

    def found(rows: Rows) -> list[list[float]]:
        asked.append(get_ident())
        if len(asked) <= 2:
            met.wait(20)  # both are at work
        if (get_ident() == me) == of_the_caller:
            raise EmbedderUnavailable("broken")
        return numbers(rows)

    with pytest.raises(EmbedderUnavailable, match="broken"):
        in_runs(FULL, found)
    assert {*asked} > {me}
    assert in_runs(FULL, numbers) == numbers(FULL), "and the next one is done"


def test_a_thread_that_is_busy_elsewhere_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, two_cores: None) -> None:
    let_go = Barrier(2)
    busy = onnx_session._second.submit(let_go.wait, 20)
    try:
        assert in_runs(FULL, numbers) == numbers(FULL)
        assert not busy.done()
    finally:
        let_go.wait(20)


def test_both_threads_give_the_vectors_of_one(minilm: MiniLm, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["word " * count + str(count) for count in (300, 1, 40, 2, 90, 3, 250, 17, 0, 5)] * 3
    vectors = dict[int, list[list[float]]]()
    for number in (1, 2):
        monkeypatch.setattr(onnx_session, "cores", lambda number=number: number)
        vectors[number] = minilm.embed_batch(texts)
    assert vectors[1] == vectors[2]


def test_the_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 7, 9}, raising=False)
    assert cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores() == 1
