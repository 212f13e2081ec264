"""Vectors on other processors than this one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from vector_parts import Stored

from tulving.testing import CLOSE

TESTS = Path(__file__).parent.parent
VECTOR_TESTS = ("conformance", "services/test_search.py", "storage/test_processors.py")
ABOUT_VECTORS = (
    "(vector or similar or semantic or hybrid or equal or zero)"
    # PostgreSQL adds up its vectors itself, so only SQLite has to be tried again.
    " and not postgres and not lesser_processor"
)
KERNELS = (("FMA3", "Haswell"), ("SSE42", "Nehalem"), ("ASIMD", "ARMV8"))
"""Features, and the kernels of OpenBLAS that need no more than these. numpy's own settings do not reach them."""


@pytest.fixture
def lesser_processor() -> dict[str, str]:
    """The environment in which numpy and OpenBLAS use no more than the oldest processors of this kind have."""
    newer = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    kernels = [kernel for feature, kernel in KERNELS if __cpu_features__.get(feature)]
    wanted = {"NPY_DISABLE_CPU_FEATURES": " ".join(newer), "OPENBLAS_CORETYPE": next(iter(kernels), "")}
    return {name: value for name, value in wanted.items() if value}


def test_the_vector_tests_pass_on_a_lesser_processor(lesser_processor: dict[str, str]) -> None:
    chosen = [str(TESTS / name) for name in VECTOR_TESTS]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *chosen, "-k", ABOUT_VECTORS]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | lesser_processor
    done = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=TESTS.parent)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 20, "some are chosen"


@pytest.mark.parametrize("dimension", [4, 64, 256, 384, 2000])
def test_equal_vectors_tie_in_the_order_of_their_ids(dimension: int) -> None:
    """Wherever they lie, beside whatever else, after some were replaced and removed."""
    import numpy

    chance = numpy.random.default_rng(dimension)
    same, query = chance.normal(size=(2, dimension))
    matrix = Stored(dimension)
    for number in range(200):
        vector = same if number % 3 else chance.normal(size=dimension)
        matrix.put(f"{number:03}", vector.astype("<f4").tobytes())
    for number in range(0, 60, 3):
        matrix.drop(f"{number:03}")
    ranked = matrix.ranked((query / numpy.linalg.norm(query)).astype("f4")).best(200)
    equals = [(id_, similarity) for id_, similarity in ranked if int(id_) % 3]
    assert len({similarity for _, similarity in equals}) == 1
    assert [id_ for id_, _ in equals] == sorted(id_ for id_, _ in equals)
    exact = numpy.dot(same, query) / numpy.linalg.norm(same) / numpy.linalg.norm(query)
    assert equals[0][1] == pytest.approx(exact, abs=CLOSE)


@pytest.mark.parametrize("dimension", [4, 64, 256, 384, 2000])
def test_a_vector_is_wholly_similar_to_itself(dimension: int) -> None:
    import numpy

    matrix = Stored(dimension)
    matrix.put("it", numpy.ones(dimension, "<f4").tobytes())
    matrix.put("its opposite", (-numpy.ones(dimension, "<f4")).tobytes())
    query = numpy.full(dimension, dimension**-0.5, "f4")
    assert matrix.ranked(query).best(2) == [("it", 1.0), ("its opposite", -1.0)]


def test_there_is_no_negative_zero() -> None:
    import numpy

    matrix = Stored(4)
    matrix.put("it", numpy.array([-1e-9, 1, 0, 0], "<f4").tobytes())
    (found,) = matrix.ranked(numpy.array([1, 0, 0, 0], "f4")).best(1)
    assert str(found[1]) == "0.0"
