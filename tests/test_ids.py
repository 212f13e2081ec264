"""Ids keep the order in which memories are stored, however fast and whatever the clock does."""

import os
from concurrent.futures import ThreadPoolExecutor
from uuid import RFC_4122

import pytest

from tulving import bootstrap
from tulving.bootstrap import TimeOrderedIds


def test_ids_come_in_order_and_carry_the_time(monkeypatch):
    monkeypatch.setattr(bootstrap.time, "time_ns", lambda: 1_700_000_000_123_000_000)
    draw = TimeOrderedIds()
    ids = [draw() for _ in range(5_000)]
    assert ids == sorted(set(ids)), "within one millisecond too"
    assert {(id_.version, id_.variant, id_.int >> 80) for id_ in ids} == {(7, RFC_4122, 1_700_000_000_123)}


@pytest.mark.parametrize("step", [-60_000, 0, 1])
def test_a_clock_that_is_set_back_does_not_change_the_order(monkeypatch, step):
    times = iter(1_700_000_000_000 + step * number for number in range(100))
    monkeypatch.setattr(bootstrap.time, "time_ns", lambda: next(times) * 1_000_000)
    draw = TimeOrderedIds()
    ids = [draw() for _ in range(100)]
    assert ids == sorted(set(ids))


def test_threads_never_draw_the_same_id():
    draw = TimeOrderedIds()
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda _: draw(), range(4_000)))
    assert len(set(ids)) == 4_000


def test_a_forked_process_draws_other_ids(monkeypatch):
    monkeypatch.setattr(bootstrap.time, "time_ns", lambda: 1_700_000_000_123_000_000)
    draw = TimeOrderedIds()
    draw()  # so that both have random numbers left
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, draw().bytes)
        os._exit(0)
    os.waitpid(child, 0)
    assert draw().bytes != os.read(reading, 16)
