"""A real HTTP server with an embedder, a reranker and a language model, which can also misbehave."""

import contextlib
import json
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

from tulving.testing import WordEmbedder

HANG, DROP = "hang", "drop"


class Request(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class Reply(NamedTuple):
    """What is answered instead: a status, a body (bytes, or JSON) and headers."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = {}


class Stream(NamedTuple):
    """Server-sent events: each part is the data of one, as text or JSON. HANG and DROP end the answer early."""

    parts: Sequence[Any]
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}


class ModelServer:
    """`/v1/embeddings` answers with one direction per word, `/rerank` with the share of common words,
    `/v1/chat/completions` and `/v1/messages` with `text`. `replies` come first, each once: a `Reply`, a `Stream`, HANG
    (no answer) or DROP (the connection is closed)."""

    def __init__(self, dimension: int = 32) -> None:
        self.words = WordEmbedder(dimension)
        self.text = "Ann likes tea."
        self.replies: deque[Reply | Stream | str] = deque()
        self.requests: list[Request] = []
        self.tei = False
        self.most_characters = 100_000
        self.over = Event()
        self._address = ("127.0.0.1", 0)
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._address[1]}"

    def start(self) -> None:
        self._server = _Server(self._address, _handler(self))
        self._address = self._server.server_address[:2]
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """From now on connections are refused, and open ones are closed."""
        self._server.shutdown()
        self._server.server_close()
        self._server.hang_up()

    def answer(self, request: Request) -> Reply | Stream:
        if request.path.endswith("/chat/completions"):
            return chat(self.text, request.body.get("stream", False))
        if request.path.endswith("/messages"):
            return message(self.text, request.body.get("stream", False))
        if any(len(text) > self.most_characters for text in request.body.get("input", ())):
            return Reply(400, {"error": {"message": "maximum context length exceeded"}})
        return Reply(200, self._answer(request))

    def _answer(self, request: Request) -> Any:
        if request.path.endswith("/embeddings"):
            words = WordEmbedder(request.body.get("dimensions", self.words.dimension))
            vectors = words.embed_batch(request.body["input"])
            entries = [{"index": number, "embedding": vector} for number, vector in enumerate(vectors)]
            return {"object": "list", "data": entries[::-1], "model": request.body["model"]}
        texts = request.body["texts" if self.tei else "documents"]
        asked = set(request.body["query"].split())
        scores = [len(asked & set(text.split())) / len(asked) for text in texts]
        best = sorted(enumerate(scores), key=lambda scored: -scored[1])
        if self.tei:
            return [{"index": number, "score": score} for number, score in best]
        return {"results": [{"index": number, "relevance_score": score} for number, score in best]}


def chat(text: Any, stream: bool = False, ended: str = "stop") -> Reply | Stream:
    """An answer in OpenAI's dialect: 7 tokens asked, 5 answered."""
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    if not stream:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": ended}
        return Reply(200, {"object": "chat.completion", "choices": [choice], "usage": usage})
    deltas = [{"role": "assistant", "content": None}, *({"content": part} for part in _pieces(text))]
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": None} for delta in deltas]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": ended}]}
    return Stream([*events, end, {"choices": [], "usage": usage}, "[DONE]"])


def message(text: str, stream: bool = False, ended: str = "end_turn") -> Reply | Stream:
    """An answer in Anthropic's dialect: 7 tokens asked, 5 answered."""
    whole = {"type": "message", "role": "assistant", "stop_reason": ended}
    if not stream:
        content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text[:3]}, {"text": text[3:]}]
        return Reply(200, {**whole, "content": content, "usage": {"input_tokens": 7, "output_tokens": 5}})
    start = {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": 7, "output_tokens": 1}}
    deltas = [{"type": "text_delta", "text": part} for part in _pieces(text)]
    return Stream(
        [
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": ended}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
    )


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + 5] for start in range(0, len(text), 5))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.sockets: list[socket.socket] = []
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.sockets.append(request)
        super().process_request(request, client_address)

    def hang_up(self) -> None:
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error here."""


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            request = Request(self.path, dict(self.headers), body)
            server.requests.append(request)
            reply = server.replies.popleft() if server.replies else server.answer(request)
            if isinstance(reply, str):
                self.go_away(reply)
                return
            if isinstance(reply, Stream):
                self.stream(reply)
                return
            content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"content-length": str(len(content)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def go_away(self, how: str) -> None:
            if how == HANG:
                server.over.wait()
            self.close_connection = True

        def stream(self, reply: Stream) -> None:
            self.send_response(200)
            for name, value in {"transfer-encoding": "chunked", **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for part in reply.parts:
                if part in (HANG, DROP):
                    self.go_away(part)
                    return
                kind = f"event: {part['type']}\n" if isinstance(part, dict) and "type" in part else ""
                event = f"{kind}data: {part if isinstance(part, str) else json.dumps(part)}\n\n".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
