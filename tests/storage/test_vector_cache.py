"""The cache of vectors beside SQLite: what it holds, what it costs, and what goes first."""

from types import SimpleNamespace

import pytest

from tulving import Caller, MemoryModuleConfig, NewEpisode
from tulving.storage.sqlite.partition import SMALLEST_PARTITION, Partition
from tulving.storage.sqlite.vectors import VectorCache

MEGABYTE = 1024 * 1024


class Weighed(Partition):
    """A partition that notes how often it is weighed."""

    weighings = 0

    @property
    def nbytes(self) -> int:
        Weighed.weighings += 1
        return super().nbytes


def used(cache: VectorCache) -> int:
    return sum(partition.nbytes for partition in cache._partitions.values())


@pytest.mark.parametrize("config", [MemoryModuleConfig(vector_cache_mb=1)])
async def test_thousands_of_strangers_are_dropped_and_cost_the_same_each(memory, path, monkeypatch):
    """Each search weighs its own tenant only, however many others are cached."""
    monkeypatch.setattr("tulving.storage.sqlite.vectors.Partition", Weighed)
    cache = memory._env.store.vectors
    await memory.store_rule("greet")
    await memory.search("greet", mode="semantic")
    for number in range(1500):
        Weighed.weighings = 0
        assert len(await memory.bind(caller=Caller(f"stranger-{number}")).search("greet", mode="semantic")) == 0
        assert Weighed.weighings <= 2
    assert len(cache._partitions) <= MEGABYTE // SMALLEST_PARTITION
    assert list(cache._partitions)[-1] == "stranger-1499"
    assert cache._used == used(cache) <= MEGABYTE
    assert len(await memory.search("greet", mode="semantic")) == 1


def test_the_least_recently_used_goes_first():
    cache = VectorCache(3 * SMALLEST_PARTITION)
    for tenant in ("a", "b", "c", "a", "d", "a", "e"):
        cache._weigh(cache._partition(tenant))
    assert list(cache._partitions) == ["d", "a", "e"]
    assert cache._used == 3 * SMALLEST_PARTITION


def test_the_total_follows_what_grows_shrinks_and_is_dropped():
    cache = VectorCache(100 * SMALLEST_PARTITION)
    large, small = cache._partition("large"), cache._partition("small")
    for size in (7, 90, 20):
        large.matrices = {"fact": SimpleNamespace(nbytes=size * SMALLEST_PARTITION)}  # type: ignore[dict-item]
        cache._weigh(large)
        assert cache._used == used(cache) == (size + 2) * SMALLEST_PARTITION
    large.matrices = {"fact": SimpleNamespace(nbytes=200 * SMALLEST_PARTITION)}  # type: ignore[dict-item]
    cache._weigh(large)
    assert list(cache._partitions) == ["large"], "what is in use stays, however large it is"
    cache._weigh(small)
    assert cache._used == used(cache), "one that was dropped while it was in use is not counted again"


@pytest.mark.parametrize("config", [MemoryModuleConfig(vector_cache_mb=1)])
async def test_a_dropped_tenant_is_read_again(memory, path):
    for tenant in range(12):
        mine = memory.bind(caller=Caller(f"tenant-{tenant}"))
        await mine.store_episodes([NewEpisode(content=f"word{n} of {tenant}", butler="b") for n in range(500)])
        await mine.search("word7", mode="semantic")
    cache = memory._env.store.vectors
    assert "tenant-0" not in cache._partitions
    (hit, *_) = await memory.bind(caller=Caller("tenant-0")).search("word7 of 0", mode="semantic", limit=3)
    assert hit.item.content == "word7 of 0"
    assert cache._used == used(cache) <= MEGABYTE


async def test_the_past_is_searched_without_the_cache(memory, path, clock):
    """It holds what is in use now; nothing of the past may get into it."""
    before = clock.now
    old = await memory.store_fact("tea", "kind", "green")
    clock.advance(days=2)
    await memory.store_fact("tea", "kind", "black")
    cache = memory._env.store.vectors
    (hit,) = await memory.search("tea kind", mode="semantic", as_of=before)
    assert (hit.item.id, hit.item.content) == (old.id, "green")
    assert not cache._partitions
    (hit,) = await memory.search("tea kind", mode="semantic")
    assert hit.item.content == "black"
    (partition,) = cache._partitions.values()
    held = set(partition.matrices["fact"].ids)
    assert len(await memory.search("tea kind", mode="semantic", as_of=before)) == 1
    assert set(partition.matrices["fact"].ids) == held and str(old.id) not in held
