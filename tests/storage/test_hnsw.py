"""The graph of a large vector index: what it finds, how it follows changes, and that searches never wait for it."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy
import pytest
from vector_parts import CONFIG, ROWS, SMALL, Dense, Stored, fill, found, linked, matrix_of, recall, texts

from tulving import Memory, MemoryModuleConfig, NewEpisode
from tulving.settings import VectorsConfig
from tulving.storage.sqlite import hnsw, vectors

pytestmark = pytest.mark.usefixtures("path")


@pytest.fixture
def embedder() -> Dense:
    return Dense()


@pytest.fixture
def config() -> MemoryModuleConfig:
    return CONFIG


def gaussian(count: int, dimension: int = 32, seed: int = 3):
    return numpy.random.default_rng(seed).normal(size=(count, dimension)).astype("f4")


def unit(vector):
    return (vector / numpy.linalg.norm(vector)).astype("f4")


# -- one graph -------------------------------------------------------------------------------------------------------


@pytest.mark.scenario("002-006")
def test_the_graph_has_the_specified_parameters():
    index = hnsw.Graph(8, SMALL.ef)._index
    assert (index.connectivity, index.expansion_add, index.expansion_search) == (16, 200, 50)
    assert (str(index.metric_kind).rpartition(".")[2], index.ndim) == ("Cos", 8)
    assert VectorsConfig().ef == 100


@pytest.mark.scenario("002-007")
def test_the_nearest_are_found_with_their_exact_similarities():
    rows = gaussian(1_000)
    matrix = linked(rows)
    assert recall(matrix, gaussian(50, seed=4)) >= 0.98
    query = unit(gaussian(1, seed=5)[0])
    exact = dict(matrix.ranked(query).best(1_000))
    best = matrix.nearest(query).best(10)
    assert all(exact[id_] == similarity for id_, similarity in best)
    assert [similarity for _, similarity in best] == sorted((s for _, s in best), reverse=True)
    assert matrix.nearest(query).of(["00007", "unknown"]) == {"00007": exact["00007"]}


def test_other_libraries_can_be_loaded_after_it():
    """onnxruntime crashes if usearch brings its C++ library first."""
    code = "from tulving.storage.sqlite.hnsw import Graph; Graph(8, 50); import onnxruntime; print('well')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_the_same_vectors_make_the_same_graph():
    assert linked(gaussian(300)).parts()["graph"] == linked(gaussian(300)).parts()["graph"]


@pytest.mark.parametrize("count", [1, 10, 74, 75, 299, 300, 1_000])
def test_as_many_as_are_wanted_are_found(count: int):
    """More than there are: all of them."""
    nearest = linked(gaussian(300)).nearest(unit(gaussian(1, seed=9)[0]))
    assert len(nearest.best(count)) == min(count, 300)


def test_a_graph_that_finds_too_few_is_not_trusted(monkeypatch):
    matrix, query = linked(gaussian(300)), unit(gaussian(1, seed=9)[0])
    nearest = hnsw.Graph.nearest
    monkeypatch.setattr(hnsw.Graph, "nearest", lambda self, *args: nearest(self, *args)[5:])
    assert matrix.nearest(query).best(10) == matrix.ranked(query).best(10)


def test_what_was_kept_finds_the_same_in_the_same_order():
    graph, query = linked(gaussian(300)).graph, unit(gaussian(1, seed=9)[0])
    again = hnsw.Graph(32, SMALL.ef, graph.image())
    assert again.nearest(query, 50).tolist() == graph.nearest(query, 50).tolist()


def test_a_filter_comes_before_the_choice_of_the_best():
    """Those that pass it may be the least similar of all."""
    matrix = linked(gaussian(600))
    query = unit(gaussian(1, seed=6)[0])
    worst = matrix.ranked(query).best(600)[-7:]
    nearest = matrix.nearest(query)
    assert nearest.best(5, among={id_ for id_, _ in worst} | {"unknown"}) == worst[:5]
    assert nearest.best(50, among={id_ for id_, _ in worst}) == worst


def test_equal_vectors_keep_their_order():
    """Newest first, then by id, though the graph finds any of them."""
    rows = numpy.concatenate([gaussian(300), numpy.tile(gaussian(1, seed=8), (300, 1))])
    matrix = linked(rows)
    matrix.put("00450", rows[450].tobytes(), "2027-01-01T00:00:00+00:00")
    best = matrix.nearest(unit(rows[-1])).best(5)
    assert [id_ for id_, _ in best] == ["00450", "00300", "00301", "00302", "00303"]


def test_vectors_of_length_zero_are_nobodys_neighbours():
    rows = gaussian(400)
    rows[::2] = 0
    matrix = linked(rows)
    assert (matrix.graph.size, matrix.linked) == (200, 400)
    query = unit(gaussian(1, seed=6)[0])
    assert matrix.nearest(query).best(400) == matrix.ranked(query).best(400)
    for id_ in ("00000", "00001"):
        matrix.drop(id_)
    assert not matrix.misplaced()


def test_a_vector_of_length_zero_is_nearer_than_a_contrary_one():
    rows = -abs(gaussian(300))
    rows[:5] *= -1
    rows[5:15] = 0
    query = unit(numpy.ones(32))
    matrix = linked(rows)
    best = matrix.nearest(query).best(12)
    assert best == matrix.ranked(query).best(12) and [similarity for _, similarity in best[5:]] == [0.0] * 7


def test_changes_are_followed():
    """Added, replaced, removed, unknown, the entry, the last one: after each the graph has what the rows have, and a
    search gives what a comparison of all gives."""
    chance = numpy.random.default_rng(11)
    rows = {f"{number:05}": row for number, row in enumerate(gaussian(400))}
    matrix = linked(list(rows.values()))
    for step in range(400):
        id_ = f"{chance.integers(700):05}"
        if step % 3:
            rows[id_] = chance.normal(size=32).astype("f4")
            matrix.put(id_, rows[id_].tobytes())
        else:
            rows.pop(id_, None)
            matrix.drop(id_)
        if step % 5 == 0:
            matrix.link()
        if step % 40 == 0:
            assert not matrix.misplaced()
            assert matrix.content().keys() == rows.keys()
            query = unit(chance.normal(size=32))
            assert matrix.nearest(query).best(10)[:3] == matrix.ranked(query).best(3)
    while matrix.link():
        pass
    assert recall(matrix, gaussian(30, seed=12)) >= 0.98
    again = hnsw.Graph(32, SMALL.ef, matrix.graph.image())
    assert (again.size, again.dead) == (matrix.graph.size, matrix.graph.dead) and again.dead
    for id_ in list(rows):
        matrix.drop(id_)
        assert matrix.nearest(query).best(3) == matrix.ranked(query).best(3)
    assert (matrix.graph.size, matrix.linked, len(matrix.ids)) == (0, 0, 0)
    matrix.put("again", gaussian(1)[0].tobytes())
    matrix.link()
    assert [id_ for id_, _ in matrix.nearest(query).best(3)] == ["again"]


def test_a_graph_comes_goes_and_is_built_anew():
    matrix = Stored(32)
    rows = gaussian(300)
    for number, row in enumerate(rows[:100]):
        matrix.put(f"{number:05}", row.tobytes())
    assert not matrix.resize(SMALL) and matrix.graph is None
    for number, row in enumerate(rows):
        matrix.put(f"{number:05}", row.tobytes())
    assert matrix.resize(SMALL) and not matrix.searchable
    while matrix.link():
        pass
    first = matrix.graph
    assert matrix.searchable and not matrix.resize(SMALL) and matrix.graph is first
    for number in range(60):
        matrix.drop(f"{number:05}")
    assert not matrix.resize(SMALL) and matrix.graph is first, "60 of 300 places are of removed ones"
    matrix.drop("00060")
    assert matrix.resize(SMALL) and matrix.graph is not first and matrix.linked == 0
    for number in range(61, 249):
        matrix.drop(f"{number:05}")
    assert matrix.resize(SMALL) and matrix.graph, "51 rows: it does not come and go with each row"
    matrix.drop("00249")
    assert not matrix.resize(SMALL) and matrix.graph is None


def test_recall_on_real_vectors(minilm):
    sentences = [f"{a} {b} {c}" for a, b, c in zip(*(PEOPLE * 60, DEEDS * 45, THINGS * 36), strict=False)][:500]
    matrix = linked(numpy.array(minilm.embed_batch(sentences), "f4"))
    queries = [f"what about the {thing}?" for thing in THINGS]
    assert recall(matrix, numpy.array(minilm.embed_batch(queries), "f4")) >= 0.98


PEOPLE = "Anna|the doctor|my brother|our neighbour|a customer|the new colleague|the landlord|Marco|the coach".split("|")
DEEDS = (
    "wants to sell|has repaired|forgot about|dreams of|paid for|complains about|is afraid of|wrote to me about|"
    "has lost|never mentions|is proud of"
).split("|")
THINGS = (
    "the old piano|a train to Vienna|the broken server|his knee|that recipe for soup|the invoice of March|her garden|"
    "the dog|a new language|the rent|the exam in physics|the wedding|a camera"
).split("|")


# -- in a memory -----------------------------------------------------------------------------------------------------


@pytest.mark.scenario("000-009")
async def test_an_index_is_built_from_the_rows_and_says_when_it_is_ready(memory, monkeypatch):
    store = memory._env.store
    monkeypatch.setattr(vectors.VectorCache, "_build", lambda cache: None)
    await memory.store_episodes([NewEpisode(content=text, butler="b") for text in texts(ROWS)])
    before = {query: await found(memory, query) for query in texts(5, seed=7)}
    assert len(before[texts(5, seed=7)[0]]) == 10, "it answers while the graph is built"
    (finding,) = (each for each in await store.health() if each.check == "vector index")
    assert finding.warming == "the graph is being built: 0 of 260 vectors; the others are compared one by one"
    assert store.vectors.progress() == (0, ROWS)
    monkeypatch.undo()
    store.vectors._builder = None  # the one that did nothing is gone
    await memory.store_episode("one more", butler="b")
    await store.ready()
    (finding,) = (each for each in await store.health() if each.check == "vector index")
    assert (finding.warming, finding.note) == ("", "261 vectors, 261 of them in a graph")
    assert matrix_of(memory).searchable and store.vectors.progress() == (261, 261)
    assert {query: await found(memory, query) for query in before} == before


async def test_what_is_deleted_or_forgotten_or_changed_is_found_no_more(memory):
    ids = await fill(memory)
    query = texts(1)[0]
    (first, second, third, *_) = [id_ for id_, _ in await found(memory, query)]
    assert first == str(ids[0])
    await memory.delete("episode", first)
    await memory.forget("episode", second)
    left = [id_ for id_, _ in await found(memory, query)]
    assert left[0] == third and len(left) == 10 and not {first, second} & set(left)
    stored = await memory.store_episode(query, butler="b")
    assert (await found(memory, query, limit=1))[0][0] == str(stored.id), "found before the graph has it"


async def test_a_filter_finds_the_few_that_pass_it(memory):
    await fill(memory)
    mine = await memory.store_episodes([NewEpisode(content=f"other{n}", butler="mine") for n in range(3)])
    await memory._env.store.ready()
    hits = await found(memory, texts(1)[0], scope="mine")
    assert {id_ for id_, _ in hits} == {str(each.id) for each in mine}


async def test_it_is_built_while_others_write(memory):
    """Nothing is lost, doubled or found twice, whatever happens between its steps."""
    await fill(memory)

    async def writer(name: int) -> None:
        for text in texts(12, seed=20 + name):
            stored = await memory.store_episode(text, butler="b")
            assert (await found(memory, text, limit=1))[0][0] == str(stored.id)
            if stored.id.int % 3 == 0:
                await memory.delete("episode", stored.id)

    await asyncio.gather(*map(writer, range(3)))
    await memory._env.store.ready()
    matrix = matrix_of(memory)
    assert not matrix.misplaced() and matrix.linked == len(matrix.ids) == len(set(matrix.ids))


async def test_an_import_leaves_what_has_not_changed_in_the_graph(memory, path):
    """It is counted in the file, and then all rows are read again."""
    ids = await fill(memory)
    graph = matrix_of(memory).graph
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DELETE FROM episodes WHERE id = ?", (str(ids[0]),))
        raw.execute("PRAGMA user_version = 9")
    assert str(ids[0]) not in {id_ for id_, _ in await found(memory, texts(1)[0])}
    assert (matrix_of(memory).graph, graph.size, matrix_of(memory).linked) == (graph, ROWS - 1, ROWS - 1)
    assert await memory._env.store.read(None, memory._env.store.vectors.mismatches, 1, 64) == []


async def test_verification_compares_the_graph_with_the_rows(memory):
    await fill(memory)
    cache, store = memory._env.store.vectors, memory._env.store

    async def mismatches() -> list[str]:
        return await store.read(None, cache.mismatches, 1, 64)

    assert await mismatches() == []
    graph, problem = matrix_of(memory).graph, "the graph of the episode vectors of default differs from them"
    graph.add(numpy.array([ROWS]), gaussian(1, 64))
    assert await mismatches() == [problem]
    graph.remove(ROWS)
    assert await mismatches() == []
    graph.remove(5)
    assert await mismatches() == [problem]


async def test_the_budget_counts_the_graph(memory):
    await fill(memory)
    cache, matrix = memory._env.store.vectors, matrix_of(memory)
    assert matrix.nbytes >= matrix.graph.nbytes + matrix._codes.nbytes
    assert cache._used == sum(each.nbytes for each in cache._partitions.values()) > matrix.graph.nbytes > 0


async def test_without_the_extra_all_are_compared_and_health_says_so(memory, monkeypatch):
    monkeypatch.setattr(hnsw, "available", lambda: False)
    await fill(memory)
    assert matrix_of(memory).graph is None and len(await found(memory, "word1 word2")) == 10
    (finding,) = (each for each in await memory._env.store.health() if each.check == "vector index")
    assert finding.problems == () and finding.warming == ""
    assert finding.note == (
        "260 vectors, compared one by one; searches of many are faster with a graph: `pip install 'tulving[hnsw]'`"
    )


@pytest.mark.parametrize("config", [MemoryModuleConfig(vectors=VectorsConfig(capacity=3))])
async def test_more_vectors_than_the_capacity_are_a_problem(memory: Memory, config, sql, monkeypatch):
    monkeypatch.setattr(hnsw, "available", lambda: False)  # which does not matter to so few
    for number in range(3):
        await memory.store_rule(f"rule {number}")
    (finding,) = (each for each in await memory._env.store.health() if each.check == "vector index")
    assert (finding.problems, finding.note) == ((), "3 vectors, compared one by one")
    await memory.store_episode("archived", butler="b")
    sql("UPDATE episodes SET segment_id = ?", memory._env.ids())
    (finding,) = (each for each in await memory._env.store.health() if each.check == "vector index")
    assert finding.problems == ()
    await memory.store_fact("tea", "kind", "green")
    (problem,) = next(each for each in await memory._env.store.health() if each.check == "vector index").problems
    assert problem.startswith("there are 4 vectors, more than `vectors.capacity` (3): archive or delete old memories")
