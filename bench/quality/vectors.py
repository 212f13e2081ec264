"""Vectors that were made once: storing a conversation again costs no embedding, whatever has changed in the code."""

import hashlib
import sqlite3
from array import array
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from tulving.ports import Embedder


class Remembering:
    """Another embedder, and a file of the vectors that it made. While `live`, the file is not looked at, so that what
    is timed is the embedder itself."""

    def __init__(self, inner: Embedder, folder: Path) -> None:
        self._inner = inner
        self.model, self.version, self.dimension, self.light = inner.model, inner.version, inner.dimension, False
        self.live = False
        self._lock = Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(
            folder / f"vectors-{inner.model}.db", check_same_thread=False, isolation_level=None
        )
        self._file.execute("CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")

    def unready(self) -> str | None:
        return self._inner.unready()

    def embed(self, text: str | None) -> list[float]:
        return self.embed_batch([text])[0]

    def embed_batch(self, texts: Sequence[str | None]) -> list[list[float]]:
        if self.live:
            return self._inner.embed_batch(texts)
        with self._lock:
            keys = [hashlib.sha256(f"{self.version}\0{text or ''}".encode()).digest() for text in texts]
            known = {key: vector for key in set(keys) if (vector := self._read(key)) is not None}
            missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
            made = dict(zip(missing, self._inner.embed_batch(list(missing.values())), strict=True)) if missing else {}
            self._file.execute("BEGIN")
            rows = ((key, array("d", vector).tobytes()) for key, vector in made.items())
            self._file.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
            self._file.execute("COMMIT")
            return [made[key] if key in made else known[key] for key in keys]

    def _read(self, key: bytes) -> list[float] | None:
        row = self._file.execute("SELECT vector FROM vectors WHERE text = ?", (key,)).fetchone()
        return list(array("d", row[0])) if row else None
