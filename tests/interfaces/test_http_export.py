"""Export and import over HTTP: one snapshot out, all or nothing in, and neither in memory."""

import asyncio
import gc
import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import httpx2
import pytest
from bus_parts import until
from service_parts import Service, service

from tulving import Caller, Memory
from tulving.interfaces.http import transfers
from tulving.interfaces.http.transfers import BEGINNING, MEDIA_TYPE, MEGABYTE
from tulving.storage import moving as rows_moving
from tulving.storage.postgres import connection as postgres
from tulving.storage.sqlite import connection as sqlite

ALL = ["read", "write", "review"]
LINES = {"content-type": MEDIA_TYPE}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what is on its way lies, and must not stay."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def fill(memory: Memory, word: str = "garden") -> None:
    entity = await memory.create_entity("Anna", "person")
    await memory.store_fact("Anna", "color", f"green, like the {word}", entity_id=entity.entity_id)
    episode = await memory.store_episode(f"went to the {word} ☃ with\nAnna", butler="b")
    rule = await memory.store_rule(f"water the {word}")
    await memory.create_link("rule", rule.id, "episode", episode.id, "derived_from")
    await memory.edit("rule", rule.id, content=f"water the {word} twice")


async def post(here: Service, secret: str, content: Any, **headers: str) -> httpx2.Response:
    async with here.client(secret) as client:
        return await client.post("/v1/import", content=content, headers=LINES | headers)


async def test_what_is_exported_is_what_the_command_exports(environ, tmp_path, process):
    async with service() as here:
        secret, memory = await here.create(rights=ALL), await here.memory()
        await fill(memory)
        async with here.client(secret) as client:
            answer = await client.get("/v1/export")
        assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE)
        assert int(answer.headers["content-length"]) == len(answer.content)
        await memory.export(tmp_path / "there.jsonl")
        assert answer.content == (tmp_path / "there.jsonl").read_bytes()
        assert "secret" not in {json.loads(line).get("table") for line in answer.text.splitlines()}
        assert secret not in answer.text


async def test_it_arrives_in_another_tenant_and_a_second_time_changes_nothing(environ, temporary):
    async with service() as here:
        mine, theirs = await here.create("anna", rights=ALL), await here.create("bert", rights=ALL)
        memory = await here.memory()
        bert = memory.bind(caller=Caller("bert"))
        await fill(memory.bind(caller=Caller("anna")))
        async with here.client(mine) as client:
            export = (await client.get("/v1/export")).content

        async def slowly():
            for start in range(0, len(export), 100):
                yield export[start : start + 100]

        first = await post(here, theirs, slowly())
        assert first.status_code == 200, first.text
        counts = first.json()
        assert counts["facts"] == {"added": 1, "skipped": 0} and counts["revisions"]["added"] == 1
        again = (await post(here, theirs, export)).json()
        assert {table: each["added"] for table, each in again.items() if each["added"]} == {}
        assert {table: each["skipped"] for table, each in again.items()} == {
            table: each["added"] for table, each in counts.items()
        }
        [hit] = (await bert.search("garden", types=["rule"])).hits
        assert hit.content == "water the garden twice"
        assert [*temporary.iterdir()] == []


async def test_each_tenant_exports_its_own(environ):
    async with service() as here:
        mine = await here.create("anna", rights=ALL)
        memory = await here.memory()
        await fill(memory.bind(caller=Caller("bert")), "heliotrope")
        await fill(memory.bind(caller=Caller("anna")))
        async with here.client(mine) as client:
            said = (await client.get("/v1/export")).text
        assert "garden" in said and "heliotrope" not in said and "bert" not in said


@pytest.mark.parametrize("spoilt", ["cut", "line", "row", "foreign", "not json"])
async def test_what_is_spoilt_is_refused_and_nothing_of_it_is_taken(environ, temporary, spoilt):
    async with service() as here:
        mine, theirs = await here.create("anna", rights=ALL), await here.create("bert", rights=ALL)
        memory = await here.memory()
        await fill(memory.bind(caller=Caller("anna")))
        async with here.client(mine) as client:
            lines = (await client.get("/v1/export")).text.splitlines()
        match spoilt:
            case "cut":
                lines[-1] = lines[-1][:-3]
            case "line":
                lines[2] = lines[2].replace('"id":"', '"id":"x')
            case "row":
                lines[3] = json.dumps({"table": "passwords", "row": {}})
            case "foreign":
                lines = [line for line in lines if '"table":"rules"' not in line]
            case "not json":
                lines.append("}")
        refused = await post(here, theirs, "\n".join(lines).encode())
        assert refused.status_code in (409, 422), refused.text
        said = refused.json()
        assert "line" in said["detail"] or "fit together" in said["detail"]
        for table in ("facts", "episodes", "rules", "entities"):
            async with here.client(theirs) as client:
                assert f'"table":"{table}"' not in (await client.get("/v1/export")).text
        assert [*temporary.iterdir()] == []


async def test_what_is_no_export_is_refused_before_it_is_whole(environ, temporary):
    async with service() as here:
        secret = await here.create(rights=ALL)
        status, said = await endlessly(here, secret, b"", b'{"content": "not an export"}\n' * 1_000)
        assert (status, said["field"]) == (422, "file")
        for content in (b"", b"{}", b"x" * BEGINNING, b"\xff\x00"):
            refused = await post(here, secret, content)
            assert (refused.status_code, refused.json()["field"]) == (422, "file"), content
        assert [*temporary.iterdir()] == []


async def test_a_body_that_is_too_large_is_refused(environ, temporary, monkeypatch):
    begin = b'{"format":"tulving-export-1","all_tenants":false,"embedder":null}\n' + b" " * BEGINNING
    async with service({"max_import_mb": 1}) as here:
        secret = await here.create(rights=ALL)
        refused = await post(here, secret, begin + b"\n" * MEGABYTE)
        assert (refused.status_code, refused.json()["type"]) == (413, "/v1/problems/body-too-large")
        status, said = await endlessly(here, secret, begin, b"\n" * 65_536)
        assert (status, said["type"]) == (413, "/v1/problems/body-too-large")
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        head = f"POST /v1/import HTTP/1.1\r\nhost: 127.0.0.1:{here.port}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        writer.write(f"{head}authorization: Bearer {secret}\r\ncontent-length: {MEGABYTE + 1}\r\n\r\n".encode())
        async with asyncio.timeout(20):
            assert (await reader.readline()).split()[1] == b"413", "before any of it was sent"
        writer.transport.abort()
        monkeypatch.setattr(transfers, "LONGEST_LINE", 200_000)
        status, said = await endlessly(here, secret, begin, b"x" * 65_536)
        assert status == 422 and "line" in said["problem"]
        assert [*temporary.iterdir()] == []


async def endlessly(here: Service, secret: str, begin: bytes, more: bytes) -> tuple[int, dict[str, Any]]:
    """The answer to a client that goes on sending, and reads meanwhile."""
    reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
    head = f"POST /v1/import HTTP/1.1\r\nhost: 127.0.0.1:{here.port}\r\ncontent-type: {MEDIA_TYPE}\r\n"
    head += f"authorization: Bearer {secret}\r\ntransfer-encoding: chunked\r\n\r\n"
    writer.write(head.encode() + (b"%x\r\n%b\r\n" % (len(begin), begin) if begin else b""))

    async def send() -> None:
        while True:
            writer.write(b"%x\r\n%b\r\n" % (len(more), more))
            await writer.drain()

    sending = asyncio.create_task(send())
    try:
        async with asyncio.timeout(20):
            answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = int(answer.split("content-length: ")[1].split("\r\n")[0])
            return int(answer.split()[1]), json.loads(await reader.readexactly(length))
    finally:
        sending.cancel()
        await asyncio.wait([sending])
        writer.transport.abort()


async def test_an_upload_that_breaks_off_changes_nothing(environ, temporary):
    async with service() as here:
        mine, theirs = await here.create("anna", rights=ALL), await here.create("bert", rights=ALL)
        await fill((await here.memory()).bind(caller=Caller("anna")))
        async with here.client(mine) as client:
            export = (await client.get("/v1/export")).content
            before = (await here.memory()).bind(caller=Caller("bert"))
        for length in (len(export) - 1, len(export) // 2, 1):
            _, writer = await asyncio.open_connection("127.0.0.1", here.port)
            head = f"POST /v1/import HTTP/1.1\r\nhost: 127.0.0.1:{here.port}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            head += f"authorization: Bearer {theirs}\r\ncontent-length: {len(export)}\r\n\r\n"
            writer.write(head.encode() + export[:length])
            await writer.drain()
            await until(lambda: any(temporary.iterdir()))
            writer.transport.abort()
            await until(lambda: not any(temporary.iterdir()) and not here.connections)
        assert (await before.stats()).facts.active == 0
        assert (await post(here, theirs, export)).status_code == 200


@pytest.mark.parametrize("headers", [{"content-type": "text/plain"}, {"content-encoding": "gzip"}])
async def test_only_lines_of_json_are_taken(environ, headers):
    async with service() as here:
        refused = await post(here, await here.create(rights=ALL), b"{}", **headers)
        assert refused.status_code == 415 and MEDIA_TYPE in refused.headers["accept-post"]


async def test_rights_and_what_an_access_is_bound_to(environ, monkeypatch):
    async with service() as here:
        reading, writing = await here.create(rights=["read"]), await here.create(rights=["write"])
        async with here.client(reading) as client, here.client(writing) as writer, here.client() as stranger:
            assert (await client.get("/v1/export")).status_code == 200
            assert (await client.head("/v1/export")).content == b""
            assert (await client.post("/v1/import", content=b"{}", headers=LINES)).status_code == 403
            refused = await writer.post("/v1/import", content=b"{}", headers=LINES)
            assert refused.status_code == 403 and "review" in refused.json()["detail"], "merge rules, decisions, audit"
            assert (await writer.get("/v1/export")).status_code == 403
            assert (await stranger.get("/v1/export")).status_code == 401
            assert (await stranger.post("/v1/import", content=b"{}", headers=LINES)).status_code == 401
            narrow = await client.get("/v1/export", headers={"tulving-user": "ann"})
            assert narrow.status_code == 403 and "bound" in narrow.json()["detail"]
            assert (await client.get("/v1/export?all=1")).status_code == 422
    monkeypatch.setenv("TULVING_PROJECT", "p")
    async with service() as here, here.client(await here.create(rights=ALL)) as client:
        assert (await client.get("/v1/export")).status_code == 403
        assert (await client.post("/v1/import", content=b"{}", headers=LINES)).status_code == 403


@pytest.mark.parametrize(("limit", "others"), [("AT_ONCE", 429), ("OF_A_TENANT", 200)])
async def test_few_are_under_way_at_once(environ, monkeypatch, limit: str, others: int):
    monkeypatch.setattr(transfers, limit, 1)
    async with service() as here:
        secret, other = await here.create(rights=ALL), await here.create("acme", rights=ALL)
        head = f"POST /v1/import HTTP/1.1\r\nhost: 127.0.0.1:{here.port}\r\ncontent-type: {MEDIA_TYPE}\r\n"
        begun = (head + f"authorization: Bearer {secret}\r\ncontent-length: 1000\r\n\r\n{{").encode()

        async def upload() -> tuple[asyncio.Task[bytes], asyncio.StreamWriter]:
            """One that stops in the middle. What it is answered is a refusal."""
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(begun)
            return asyncio.create_task(reader.read(1)), writer

        async with here.client(secret) as client:
            refused, writer = await upload()

            async def status() -> int:
                answered = await client.get("/v1/export")
                assert (answered.status_code == 429) == ("retry-after" in answered.headers)
                return answered.status_code

            async with asyncio.timeout(20):
                while await status() != 429:
                    await asyncio.sleep(0.01)
                    if refused.done():  # an export was still under way
                        writer.close()
                        refused, writer = await upload()
            async with here.client(other) as elsewhere:
                assert (await elsewhere.get("/v1/export")).status_code == others
            writer.transport.abort()
            await asyncio.wait([refused])
            async with asyncio.timeout(20):
                while await status() != 200:
                    await asyncio.sleep(0.01)


async def test_neither_is_held_in_memory(environ, monkeypatch):
    """Much more goes out and comes in than a batch of rows, of which there are fewer if they are long."""
    async with service() as here:
        mine, theirs = await here.create("anna", rights=ALL), await here.create("bert", rights=ALL)
        anna = (await here.memory()).bind(caller=Caller("anna"))
        monkeypatch.setattr(rows_moving, "BATCH_CHARACTERS", 200_000)
        for connection in (postgres, sqlite):
            monkeypatch.setattr(connection, "ROWS_AT_A_TIME", 10)
        for part in range(4):
            offers = [{"content": f"{part} {each} " + "x" * 20_000, "butler": "b"} for each in range(125)]
            await anna.store_episodes(offers)
        file = Path("export.jsonl")
        gc.collect()
        tracemalloc.start()
        try:
            with file.open("wb") as saved:
                async with here.client(mine) as client, client.stream("GET", "/v1/export") as answer:
                    async for piece in answer.aiter_raw():
                        saved.write(piece)
            _, out = tracemalloc.get_traced_memory()

            async def pieces():
                with file.open("rb") as read:
                    while piece := read.read(65_536):
                        yield piece

            tracemalloc.reset_peak()
            answer = await post(here, theirs, pieces())
            _, in_ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert answer.json()["episodes"]["added"] == 500
        assert max(out, in_) < file.stat().st_size / 2


async def test_a_download_that_is_left_leaves_nothing(environ, temporary):
    async with service({"request_timeout": 1}) as here:
        secret, memory = await here.create(rights=ALL), await here.memory()
        await memory.store_episodes([{"content": f"{each} " + "x" * 100_000, "butler": "b"} for each in range(100)])
        for _ in range(3):
            async with here.client(secret) as client, client.stream("GET", "/v1/export") as answer:
                await anext(answer.aiter_raw())
        await until(lambda: not here.connections and not any(temporary.iterdir()))
        async with here.client(secret) as client:
            assert (await client.get("/v1/export")).status_code == 200
