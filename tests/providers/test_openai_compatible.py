"""The embedder behind an OpenAI-compatible endpoint, against a real server."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import hypot
from typing import Any

import pytest
from model_server import DROP, HANG, ModelServer, Reply

from tulving.config import parse
from tulving.embedders import choose_embedder
from tulving.errors import ConfigError, EmbedderUnavailable, InvalidInput
from tulving.providers.json_endpoint import LONGEST_PAUSE, LONGEST_WAIT, PAUSE, JsonEndpoint, address
from tulving.providers.openai_compatible import OpenAiCompatible

KEY = "sk-very-secret-0123456789"
TEXTS = ["the cat sleeps", "a dog barks", "rain in Porto", "", None, "tea", "coffee"]

Make = Callable[..., OpenAiCompatible]


class Time:
    """Stands still except for the waits that are asked for."""

    def __init__(self) -> None:
        self.now, self.waits = 1000.0, []

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def elapsed(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def make(server: ModelServer, time: Time) -> Make:
    def make(dimension: int | None = None, **settings: Any) -> OpenAiCompatible:
        endpoint = {"url": server.url, "model": "words", **settings}
        engine = choose_embedder(parse({"embedder": "endpoint", "dimension": dimension, "endpoint": endpoint}))
        assert isinstance(engine, OpenAiCompatible)
        engine._endpoint._sleep, engine._endpoint._elapsed = time.sleep, time.elapsed
        return engine

    return make


def embeddings(*vectors: Any, **more: Any) -> Reply:
    return Reply(200, {"data": [{"index": n, "embedding": vector, **more} for n, vector in enumerate(vectors)]})


def test_texts_go_in_batches_and_come_back_in_order(server: ModelServer, make: Make) -> None:
    vectors = make(batch_size=3).embed_batch(TEXTS)
    assert [len(request.body["input"]) for request in server.requests] == [3, 3, 1]
    assert vectors == [pytest.approx(server.words.embed(text), abs=1e-6) for text in TEXTS]
    sent = [text for request in server.requests for text in request.body["input"]]
    assert sent == [text or " " for text in TEXTS], "no text at all counts as a space"
    assert {request.path for request in server.requests} == {"/v1/embeddings"}
    assert server.requests[0].body.keys() == {"model", "input"}


def test_no_texts_need_no_request(server: ModelServer, make: Make) -> None:
    assert make().embed_batch([]) == []
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "posted"),
    [
        ("http://h:1", "http://h:1/v1/embeddings"),
        ("http://h:1/", "http://h:1/v1/embeddings"),
        ("https://h/api/v1", "https://h/api/v1/embeddings"),
        ("https://h/api/v1/", "https://h/api/v1/embeddings"),
        ("https://h/v1beta/openai/embeddings", "https://h/v1beta/openai/embeddings"),
    ],
)
def test_the_address(url: str, posted: str) -> None:
    assert address(url, "embeddings") == posted


def test_the_dimension_is_that_of_the_first_answer(make: Make) -> None:
    engine = make()
    assert engine.dimension == 0
    engine.embed("x")
    assert engine.dimension == 32


def test_a_given_dimension_is_asked_for(server: ModelServer, make: Make) -> None:
    engine = make(dimension=8)
    assert engine.dimension == 8
    assert len(engine.embed("x")) == 8
    assert server.requests[0].body["dimensions"] == 8
    assert make(dimension=16_000).dimension == 16_000
    for bad in (0, 16_001):
        with pytest.raises(InvalidInput, match="dimension"):
            make(dimension=bad)


def test_a_recorded_dimension_needs_no_request(server: ModelServer, make: Make) -> None:
    engine = make()
    engine.measure(32)
    assert (engine.dimension, server.requests) == (32, [])
    engine.measure(None)
    assert (engine.dimension, server.requests) == (32, []), "it is known by now"


def test_without_a_recorded_one_it_is_measured(server: ModelServer, make: Make) -> None:
    engine = make()
    engine.measure(None)
    assert (engine.dimension, len(server.requests)) == (32, 1)
    server.stop()
    with pytest.raises(EmbedderUnavailable, match="start it, or set `dimension`"):
        make(model="other").measure(None)
    server.start()


def test_prefixes_and_the_length(server: ModelServer, make: Make) -> None:
    engine = make(query_prefix="query: ", document_prefix="passage: ", max_characters=5)
    engine.embed_batch(["abcdefgh"])
    engine.embed_queries(["abcdefgh"])
    engine.embed("abcdefgh")
    assert [request.body["input"] for request in server.requests] == [
        ["passage: abcde"],
        ["query: abcde"],
        ["passage: abcde"],
    ]


def test_what_is_too_long_for_the_server_is_cut(server: ModelServer, make: Make) -> None:
    server.most_characters = 1500
    long, short = "cat " * 1500, "dog"
    assert make().embed_batch([short, long])[1] == pytest.approx(server.words.embed("cat"), abs=1e-6)
    assert [[len(text) for text in request.body["input"]] for request in server.requests] == [
        [3, 6000],
        [3, 3000],
        [3, 1500],
    ]


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refusal_for_another_reason_ends(server: ModelServer, make: Make, time: Time, status: int) -> None:
    server.replies += [Reply(status, {"error": "dimensions are not supported"})] * 10
    engine = make()
    with pytest.raises(EmbedderUnavailable, match=f"{status}: dimensions are not supported"):
        engine.embed_batch(["cat " * 300])
    assert (len(server.requests), time.waits) == (3, []), "1,200, 600 and 300 characters"
    server.replies.clear()
    assert engine.embed("cat")


def test_its_name_says_what_may_be_compared(make: Make) -> None:
    plain = make()
    assert (plain.model, plain.version, plain.light) == ("words", "endpoint", False)
    assert make(query_prefix="q: ").version == plain.version
    assert len({plain.version, make(document_prefix="a: ").version, make(document_prefix="b: ").version}) == 3


def test_vectors_get_the_length_one(server: ModelServer, make: Make) -> None:
    server.replies.append(embeddings([3, 4]))
    vector = make().embed("x")
    assert vector == [0.6, 0.8]
    assert hypot(*vector) == 1


def test_lone_surrogates_are_left_out(server: ModelServer, make: Make) -> None:
    make().embed("a\ud800b é")
    assert server.requests[0].body["input"] == ["ab é"]


@pytest.mark.parametrize("status", [408, 429, 500, 503, 599])
def test_a_refusal_that_may_pass_is_retried(server: ModelServer, make: Make, time: Time, status: int) -> None:
    server.replies += [Reply(status, b"busy")] * 3
    assert make(retries=3).embed_batch(["x"])
    assert time.waits == [0.5, 1.0, 2.0]
    assert len(server.requests) == 4


def test_a_broken_connection_is_retried(server: ModelServer, make: Make, time: Time) -> None:
    server.replies.append(DROP)
    assert make().embed_batch(["x"])
    assert time.waits == [0.5]


def test_the_servers_wait_is_kept(server: ModelServer, make: Make, time: Time) -> None:
    server.replies += [Reply(429, b"", {"retry-after": "7"}), Reply(503, b"", {"Retry-After": "Wed, 21 Oct 2026"})]
    assert make().embed_batch(["x"])
    assert time.waits == [7.0, 1.0], "a date is not read"


@pytest.mark.parametrize("asked", [LONGEST_WAIT + 1, 10**400])
def test_a_long_wait_is_not_sat_out(server: ModelServer, make: Make, time: Time, asked: int) -> None:
    server.replies.append(Reply(429, {"error": {"message": "quota"}}, {"retry-after": str(int(asked))}))
    engine = make()
    with pytest.raises(EmbedderUnavailable, match="429: quota"):
        engine.embed_batch(["x"])
    with pytest.raises(EmbedderUnavailable, match="429: quota"):
        engine.embed_batch(["x"])
    assert (time.waits, len(server.requests)) == ([], 1), "nothing is asked before the time that the server gave"
    time.now += min(asked, LONGEST_PAUSE)
    assert engine.embed_batch(["x"])


def test_it_gives_up_after_the_retries_and_pauses(server: ModelServer, make: Make, time: Time) -> None:
    server.replies += [Reply(500, b"")] * 3
    engine = make(retries=2)
    with pytest.raises(EmbedderUnavailable, match="answered 500"):
        engine.embed_batch(["x"])
    assert len(server.requests) == 3
    time.now += PAUSE - 0.01
    with pytest.raises(EmbedderUnavailable, match="answered 500"):
        engine.embed_batch(["x"])
    assert len(server.requests) == 3
    time.now += 0.02
    assert engine.embed_batch(["x"])


def test_a_query_waits_for_one_retry_only(server: ModelServer, make: Make, time: Time) -> None:
    server.replies += [Reply(500, b"")] * 3
    with pytest.raises(EmbedderUnavailable):
        make(retries=3).embed_queries(["x"])
    assert (time.waits, len(server.requests)) == ([0.5], 2)
    server.replies.clear()
    server.replies.append(Reply(500, b""))
    with pytest.raises(EmbedderUnavailable):
        make(retries=0, model="other").embed_queries(["x"])


def test_nobody_listens(server: ModelServer, make: Make, time: Time) -> None:
    server.stop()
    with pytest.raises(EmbedderUnavailable, match=r"127.0.0.1:\d+/v1/embeddings can't be reached"):
        make(retries=1).embed_batch(["x"])
    assert time.waits == [0.5]
    server.start()


def test_a_server_that_does_not_answer(server: ModelServer, make: Make, time: Time) -> None:
    server.replies.append(HANG)
    with pytest.raises(EmbedderUnavailable, match=r"did not answer within 0\.2 seconds"):
        make(timeout=0.2).embed_batch(["x"])
    assert (time.waits, len(server.requests)) == ([], 1), "a second attempt would take as long"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(200, b"<html>"), "not JSON"),
        (Reply(200, b"\xff\xfe"), "not JSON"),
        (Reply(200, b"[" * 100_000), "not JSON"),
        (Reply(200, []), "`index` and `embedding`"),
        (Reply(200, {"data": None}), "`index` and `embedding`"),
        (Reply(200, {"data": [{"index": 0}, {"index": 1}]}), "`index` and `embedding`"),
        (Reply(200, {"data": []}), "each of 2 texts"),
        (embeddings([1, 0]), "each of 2 texts"),
        (embeddings([1, 0], [1, 0], [1, 0]), "each of 2 texts"),
        (embeddings([1, 0], [1, 0], index=0), "each of 2 texts"),
        (embeddings([1, 0], [1, 0, 0]), "3 dimensions; allowed: 2"),
        (embeddings([1, 0], [1, "a"]), "finite numbers"),
        (embeddings([1, 0], [1, None]), "finite numbers"),
        (Reply(200, b'{"data":[{"index":0,"embedding":[1,NaN]},{"index":1,"embedding":[1,2]}]}'), "finite"),
        (Reply(200, b'{"data":[{"index":0,"embedding":[1,1e999]},{"index":1,"embedding":[1,2]}]}'), "finite"),
        (embeddings("AACAPw==", "AACAPw=="), "finite numbers"),
        (embeddings(5, 5), "wrong answer"),
        (embeddings([], []), "empty vectors"),
        (Reply(302, b"", {"location": "http://elsewhere/"}), "answered 302"),
        (Reply(404, {"error": {"message": "The model `words` does not exist"}}), "404: The model `words` does not"),
        (Reply(400, {"error": "too long"}), "400: too long"),
        (Reply(422, {"detail": [{"input": "private"}]}), r"answered 422$"),
        (Reply(400, {"message": "x" * 1000}), r"400: x{200}$"),
    ],
)
def test_a_wrong_answer_is_told_and_not_asked_for_again(
    server: ModelServer, make: Make, time: Time, reply: Reply, said: str
) -> None:
    server.replies.append(reply)
    engine = make()
    with pytest.raises(EmbedderUnavailable, match=said):
        engine.embed_batch(["one", "two"])
    assert len(server.requests) == 1
    assert engine.dimension == 0, "nothing is learned from it"
    assert engine.embed_batch(["one", "two"]), "and the next call is not refused"


def test_another_dimension_than_recorded_is_refused(make: Make) -> None:
    engine = make()
    engine.measure(31)
    with pytest.raises(EmbedderUnavailable, match="32 dimensions; allowed: 31 numbers, as recorded"):
        engine.embed("x")


def test_the_key_is_sent_and_never_told(
    server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MODEL_KEY", f"{KEY}\n")
    engine = make(key_variable="MODEL_KEY", retries=0)
    assert engine.embed("x")
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    server.replies += [
        Reply(401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
        Reply(500, {"error": KEY}),
        DROP,
    ]
    told = []
    for _ in range(3):
        with pytest.raises(EmbedderUnavailable) as refused:
            engine.embed("x")
        told.append(str(refused.value))
        engine._endpoint._paused = (0.0, "")
    assert "401: Incorrect API key: ..." in told[0]
    assert "POST" in caplog.text
    assert KEY not in "".join((caplog.text, *told, repr(engine), repr(vars(engine)), repr(vars(engine._endpoint))))


def test_a_missing_key_makes_it_unready(server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MODEL_KEY", raising=False)
    engine = make(key_variable="MODEL_KEY")
    assert engine.unready() == "endpoint.key_variable names MODEL_KEY, which is not set in the environment"
    with pytest.raises(EmbedderUnavailable, match="MODEL_KEY"):
        engine.embed("x")
    assert server.requests == []
    for bad in ("two\nlines", "clé"):
        monkeypatch.setenv("MODEL_KEY", bad)
        assert bad not in str(engine.unready())
        assert "MODEL_KEY" in str(engine.unready())
    monkeypatch.setenv("MODEL_KEY", KEY)
    assert engine.unready() is None
    assert make().unready() is None


def test_a_refusal_that_quotes_a_text_is_not_repeated(server: ModelServer, make: Make) -> None:
    """Messages are logged, and memories must not be."""
    server.replies.append(Reply(400, {"error": {"message": "can't embed 'my diary, page one' (too long)"}}))
    with pytest.raises(EmbedderUnavailable, match=r"answered 400$"):
        make().embed("my diary, page one")


@pytest.mark.parametrize(("name", "value"), [("url", ""), ("model", "")])
def test_what_must_be_set(server: ModelServer, make: Make, name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"endpoint\.{name}: is not set"):
        make(**{name: value})


def test_threads_share_it(server: ModelServer, make: Make) -> None:
    engine = make()
    words = [f"word{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(engine.embed, words))
    assert found == [pytest.approx(server.words.embed(word), abs=1e-6) for word in words]


def test_settings_of_the_machine_that_can_not_be_used(
    server: ModelServer, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "ftp://proxy")
    with pytest.raises(EmbedderUnavailable, match="can't be asked"):
        make().embed("x")


def test_real_time_is_the_default() -> None:
    import time

    endpoint = JsonEndpoint("endpoint", "http://h", None, 1.0, EmbedderUnavailable)
    assert (endpoint._sleep, endpoint._elapsed) == (time.sleep, time.monotonic)
