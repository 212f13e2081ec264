"""What the readers make of other programs' files, and of files that are none."""

import io
import json
import os
import sqlite3
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tulving import InvalidInput
from tulving.domain.model import NewEpisode, NewRule
from tulving.domain.offers import Offer
from tulving.integrations.importers import FORMATS, Mapped, files, read
from tulving.integrations.importers.detecting import detect
from tulving.integrations.importers.files import LeftOut, Meter, Refused, elements
from tulving.integrations.importers.values import moment

GRAPH = [
    {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["is a vet", "likes tea"]},
    {"type": "entity", "name": "Acme", "entityType": "Company", "observations": []},
    {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works_at"},
]
MEM0 = {"results": [{"id": "m1", "memory": "Loves hiking", "user_id": "ann", "agent_id": "coach", "run_id": "r1"}]}
NOTE = """---
title: Pour over
type: Method
tags: [coffee, "slow"]
permalink: coffee/pour-over
---
# Pour over

The slow way.

## Observations
- [method] Thirty grams a cup #ratio (tried twice)
- [ ] buy filters
- [/] half done
- [00:11:02] a line of a transcript
```
- [code] is no observation
```

## Relations
- requires [[Grinder]] (a good one)
- [[Tea|other]]
"""


def chat(*nodes: tuple[str, str | None, str, str], id: str = "c1", **more: Any) -> dict[str, Any]:
    """A conversation of ChatGPT; a node is its name, its parent, who speaks, and what is said."""
    tree: dict[str, Any] = {"root": {"id": "root", "parent": None, "message": None}}
    for name, parent, role, text in nodes:
        content = {"content_type": "text", "parts": [text]}
        message = {"id": name, "author": {"role": role}, "create_time": None, "content": content}
        tree[name] = {"id": name, "parent": parent, "message": message}
    last = nodes[-1][0]
    return {"id": id, "title": "Trip", "create_time": 1700000000, "current_node": last, "mapping": tree, **more}


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


def lines(path: Path, values: list[Any]) -> Path:
    return write(path, "\n".join(json.dumps(value) for value in values))


def records(name: str, path: Path, mapped: Mapped = Mapped()) -> list[Any]:  # noqa: B008 (it is frozen)
    return list(read(name, path, Meter(), mapped))


def said(found: list[Any]) -> list[str]:
    return [each.memory.content for each in found if isinstance(each, Offer)]


def facts(found: list[Any]) -> list[tuple[str | None, str | None, str]]:
    memories = [each.memory for each in found if isinstance(each, Offer)]
    return [(fact.subject, (fact.predicate or "").split()[0], fact.content) for fact in memories]


class TestFormats:
    def test_server_memory(self, tmp_path: Path):
        found = records("server-memory", lines(tmp_path / "memory.json", GRAPH))
        assert facts(found) == [
            ("Ann", "entity", "person"),
            ("Ann", "observation", "is a vet"),
            ("Ann", "observation", "likes tea"),
            ("Acme", "entity", "Company"),
            ("Ann", "works_at", "Ann works at Acme"),
        ]
        assert [each.entity_type for each in found] == ["person", "person", "person", "organization", "other"]
        assert len({each.key for each in found}) == len({each.memory.predicate for each in found}) + 1

    def test_mem0_as_json(self, tmp_path: Path):
        for value in (MEM0, MEM0["results"], {"count": 1, "next": None, "memories": MEM0["results"]}):
            [offer] = records("mem0", write(tmp_path / "memories.json", value))
            assert (offer.memory.content, offer.user_id, offer.memory.source_butler) == ("Loves hiking", "ann", "coach")
            assert offer.key == offer.origin["id"] == "m1"
            assert offer.memory.session_id is not None

    def test_mem0_history(self, tmp_path: Path):
        with sqlite3.connect(tmp_path / "history.db") as conn:
            conn.execute(
                "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT,"
                " event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
            )
            conn.executemany(
                "INSERT INTO history VALUES (?, ?, ?, ?, ?, '2025-03-01T10:00:00+00:00', ?, ?, NULL, NULL)",
                [
                    ("h1", "m1", None, "Likes hiking", "ADD", None, 0),
                    ("h2", "m2", None, "Has a dog", "ADD", None, 0),
                    ("h3", "m1", "Likes hiking", "Loves hiking", "UPDATE", "2025-04-01T12:00:00+02:00", 0),
                    ("h4", "m2", "Has a dog", None, "DELETE", None, 1),
                ],
            )
        found = records("mem0", tmp_path / "history.db")
        assert said(found) == ["Loves hiking"]
        assert found[0].memory.occurred_at == datetime(2025, 4, 1, 10, tzinfo=UTC)
        assert found[1:] == [LeftOut("memories that were deleted")]

    def test_chatgpt_follows_the_current_branch(self, tmp_path: Path):
        nodes = [
            ("a", "root", "user", "I go to Lisbon"),
            ("b", "a", "assistant", "an answer that was regenerated"),
            ("s", "a", "system", "hidden"),
            ("c", "s", "assistant", "Lovely"),
        ]
        found = records("chatgpt", write(tmp_path / "conversations.json", [chat(*nodes)]))
        assert said(found) == ["I go to Lisbon", "Lovely"]
        first = found[0].memory
        assert (first.title, first.source, first.type, first.butler) == ("Trip", "user", "conversation", "chatgpt")
        assert first.occurred_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
        assert first.session_id == found[2].memory.session_id
        assert sum(each.count for each in found if isinstance(each, LeftOut)) == 2

    def test_chatgpt_keeps_what_was_spoken_and_written_beside_pictures(self, tmp_path: Path):
        talk = chat(("a", "root", "user", ""), ("b", "a", "assistant", ""))
        parts = [{"content_type": "image_asset_pointer"}, "look", {"content_type": "audio_transcription", "text": "hi"}]
        talk["mapping"]["a"]["message"]["content"] = {"content_type": "multimodal_text", "parts": parts}
        talk["mapping"]["b"]["message"]["content"] = {"content_type": "code", "text": "print(1)"}
        found = records("chatgpt", write(tmp_path / "conversations.json", [talk]))
        assert said(found) == ["look\n\nhi"]

    def test_a_zip_of_several_files(self, tmp_path: Path):
        with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                "../../etc/conversations-001.json", json.dumps([chat(("b", "root", "user", "two"), id="2")])
            )
            archive.writestr("conversations-000.json", json.dumps([chat(("a", "root", "user", "one"), id="1")]))
            archive.writestr("chat.html", "<html>")
        assert sorted(said(records("chatgpt", tmp_path / "export.zip"))) == ["one", "two"]
        assert detect(tmp_path / "export.zip") == "chatgpt"
        assert [each.name for each in tmp_path.iterdir()] == ["export.zip"]

    def test_claude(self, tmp_path: Path):
        text = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "My dog is Rex"}]
        attached = [{"file_name": "rex.txt", "extracted_content": "Rex is 4"}]
        messages = [
            {
                "uuid": "1",
                "sender": "human",
                "created_at": "2025-01-02T03:04:05.5Z",
                "content": text,
                "attachments": attached,
            },
            {"uuid": "2", "sender": "assistant", "text": "Hello Rex", "created_at": None},
            {"uuid": "3", "sender": "assistant", "text": "", "content": [{"type": "tool_use"}]},
        ]
        talk = {"uuid": "u", "name": "", "created_at": "2025-01-02T00:00:00Z", "chat_messages": messages}
        found = records("claude", write(tmp_path / "conversations.json", [talk]))
        assert said(found) == ["My dog is Rex\n\n[rex.txt]\nRex is 4", "Hello Rex"]
        assert [each.memory.source for each in found[:2]] == ["user", "assistant"]
        assert found[1].memory.occurred_at == datetime(2025, 1, 2, tzinfo=UTC)
        assert found[2:] == [LeftOut("messages without text")]

    def test_basic_memory(self, tmp_path: Path):
        (tmp_path / "notes" / ".git").mkdir(parents=True)
        write(tmp_path / "notes" / ".git" / "x.md", "- [not] read")
        write(tmp_path / "notes" / "pour.md", NOTE)
        write(tmp_path / "notes" / "bare.md", "Only text.")
        found = records("basic-memory", tmp_path / "notes")
        assert facts(found)[:3] == [
            ("bare", "entity", "note"),
            ("bare", "note", "Only text."),
            ("Pour over", "entity", "Method"),
        ]
        assert facts(found)[3:-1] == [
            ("Pour over", "method", "Thirty grams a cup #ratio"),
            ("Pour over", "requires", "Pour over requires Grinder"),
            ("Pour over", "links_to", "Pour over links to Tea"),
        ]
        observation, note = found[3], found[-1].memory
        assert observation.memory.tags == ["coffee", "slow", "ratio"]
        assert observation.memory.metadata["context"] == "tried twice"
        assert observation.origin == {"file": "pour.md", "permalink": "coffee/pour-over"}
        assert observation.place == "pour.md, line 12"
        assert (
            "The slow way." in note.content
            and "- [ ] buy filters\n- [/] half done\n- [00:11:02] a" in note.content
            and "[code]" in note.content
        )
        assert "Relations" not in note.content

    def test_json_lines_with_a_mapping(self, tmp_path: Path):
        path = lines(tmp_path / "log.jsonl", [{"m": {"t": "hello"}, "ts": 1700000000000, "who": "Ann", "n": 1}])
        mapped = Mapped("episode", {"content": "m.t", "occurred_at": "ts", "speaker": "who"})
        [offer] = records("jsonl", path, mapped)
        assert isinstance(offer.memory, NewEpisode)
        assert (offer.memory.content, offer.memory.source, offer.memory.metadata) == ("hello", "Ann", {"n": 1})
        assert offer.memory.occurred_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
        [rule] = records("jsonl", path, Mapped("rule", {"content": "who"}))
        assert isinstance(rule.memory, NewRule)

    def test_a_table(self, tmp_path: Path):
        path = tmp_path / "table.csv"
        path.write_text(
            '\ufeffid,about,what,value\n1,Ann,city,"Bath,\n\nUK"\n2,Bob,city,\n3,too,few\n', encoding="utf-8"
        )
        mapped = Mapped("fact", {"content": "value", "entity": "about", "predicate": "what", "key": "id"})
        found = records("csv", path, mapped)
        assert facts(found[:1]) == [("Ann", "city", "Bath,\n\nUK")]
        assert (found[0].key, found[0].entity_type) == ("1", "other")
        assert found[1].problem.startswith("value: is missing or empty")
        assert found[2] == Refused("table.csv, row 3", "has 3 cells; allowed: 4, as the heading")


class TestDetecting:
    @pytest.mark.parametrize(
        ("name", "value", "format_"),
        [
            ("a.json", "\n".join(map(json.dumps, GRAPH)), "server-memory"),
            ("a.json", MEM0, "mem0"),
            ("a.json", [chat(("a", "root", "user", "x"))], "chatgpt"),
            ("a.json", [{"uuid": "1", "chat_messages": []}], "claude"),
            ("a.jsonl", {"namespace": ["a"], "key": "k", "value": {}}, "langgraph"),
            ("a.md", NOTE, "basic-memory"),
        ],
    )
    def test_by_the_first_record(self, tmp_path: Path, name: str, value: Any, format_: str):
        assert detect(write(tmp_path / name, value)) == format_

    @pytest.mark.parametrize("value", ["", "a,b\n1,2", "[]", '{"a": 1}', "[1", '"x"', "\x00\x01"])
    def test_no_guesses(self, tmp_path: Path, value: str):
        with pytest.raises(InvalidInput, match="is not a Tulving export"):
            detect(write(tmp_path / "a.json", value))


class TestHostileFiles:
    def test_a_note_that_leads_out_of_its_folder_is_refused(self, tmp_path: Path):
        """Whoever made the folder must not choose what else of this disk is read. A pipe would never end."""
        notes, outside = tmp_path / "notes", tmp_path / "diary.md"
        notes.mkdir()
        outside.write_text("- [secret] not to be imported")
        (notes / "real.md").write_text("- [fact] to be imported")
        (notes / "linked.md").symlink_to(outside)
        (notes / "same.md").symlink_to(notes / "real.md")
        (notes / "folder.md").mkdir()
        os.mkfifo(notes / "pipe.md")
        found = records("basic-memory", notes)
        assert [each.problem for each in found if isinstance(each, Refused)] == [
            "note: is a link that leads out of the folder; allowed: notes of this folder"
        ]
        assert [content for _, predicate, content in facts(found) if predicate == "fact"] == ["to be imported"] * 2

    def test_every_format_says_what_is_wrong(self, tmp_path: Path):
        """Whatever a file holds, a reader refuses records or the file, and nothing else is raised."""
        deep = "[" * 100_000
        samples = [
            b"",
            b"\0",
            b"\xff\xfe\x00",
            b"{",
            b"[{}]",
            b"[1, null]",
            b"null\n3\n[]",
            deep.encode(),
            b"[" + b"9" * 5000,
        ]
        samples += [
            b'{"type":"entity","name":1}',
            b'{"results": 3}',
            b'[{"mapping": []}]',
            b"PK\x03\x04",
            b"[{} {}]",
            b'["a',
        ]
        for number, sample in enumerate(samples):
            path = tmp_path / f"{number}.json"
            path.write_bytes(sample)
            for name in FORMATS:
                try:
                    found = records(name, path)
                except InvalidInput:
                    continue
                assert not any(isinstance(each, Offer) for each in found) or name == "basic-memory", (name, sample)

    @pytest.mark.parametrize(
        ("nodes", "problem"),
        [
            ([("a", "b", "user", "x"), ("b", "a", "user", "y")], "answers itself"),
            ([("a", "gone", "user", "x")], "there is no message gone"),
        ],
    )
    def test_a_chat_that_is_no_tree(self, tmp_path: Path, nodes: list[Any], problem: str):
        good = chat(("z", "root", "user", "kept"), id="2")
        [refused, offer] = records("chatgpt", write(tmp_path / "conversations.json", [chat(*nodes), good]))
        assert problem in refused.problem and refused.place == "conversations.json, record 1"
        assert offer.memory.content == "kept"

    def test_a_file_that_breaks_off_gives_what_was_before(self, tmp_path: Path):
        text = json.dumps([chat(("a", "root", "user", "one"), id="1"), chat(("b", "root", "user", "two"), id="2")])
        found, reading = [], read("chatgpt", write(tmp_path / "conversations.json", text[:-30]), Meter(), Mapped())
        with pytest.raises(InvalidInput, match=r"conversations.json, character \d+"):
            found.extend(reading)
        assert said(found or []) in ([], ["one"])

    def test_a_damaged_zip(self, tmp_path: Path):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("conversations.json", json.dumps([chat(("a", "root", "user", "x" * 5000))]))
        broken = bytearray(data.getvalue())
        broken[60:80] = bytes(20)
        (tmp_path / "export.zip").write_bytes(broken)
        with pytest.raises(InvalidInput, match="can't be read"):
            records("chatgpt", tmp_path / "export.zip")

    def test_a_zip_bomb(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(files, "LARGE", 1 << 20)
        with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("conversations.json", " " * (4 << 20))
        with pytest.raises(InvalidInput, match="would unpack to 4,194,304 bytes"):
            records("chatgpt", tmp_path / "bomb.zip")

    def test_titles_and_speakers_that_no_memory_can_have(self, tmp_path: Path):
        talk = chat(("a", "root", "user", "x"), title="two\nlines\0" + "y" * 5000)
        [offer] = records("chatgpt", write(tmp_path / "conversations.json", [talk]))
        assert offer.memory.title.startswith("two lines y") and len(offer.memory.title) == 200


class TestStreaming:
    def test_no_more_than_a_piece_is_read_ahead(self):
        data = json.dumps([{"text": "x" * 1000, "n": number} for number in range(6000)]).encode()
        meter, seen = Meter(), 0
        for _, value in elements("a", io.BytesIO(data), meter):
            assert meter.done <= seen * 1100 + 3 * files.CHUNK
            seen += 1
            assert value["n"] == seen - 1
        assert (seen, meter.done) == (6000, len(data))

    @pytest.mark.parametrize("piece", [1, 2, 7])
    def test_pieces_may_end_anywhere(self, piece: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(files, "CHUNK", piece)
        values = [{"ä": "\U0001f600\u2028", "n": [-1.5e10, 12345, True, None]}, "x\\", 12, 345, {}, []]
        for text in (json.dumps(values), json.dumps(values, ensure_ascii=False, indent=2)):
            found = [value for _, value in elements("a", io.BytesIO(text.encode("utf-8-sig")), Meter())]
            assert found == values

    def test_a_record_has_a_largest_size(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(files, "LARGEST_RECORD", 3 << 20)
        with pytest.raises(InvalidInput, match="a record is longer than"):
            list(elements("a", io.BytesIO(b'["' + b"x" * (5 << 20)), Meter()))


@pytest.mark.parametrize(
    ("value", "year"),
    [(1700000000, 2023), ("1700000000.5", 2023), (1700000000123, 2023), ("2024-05-01T00:00:00Z", 2024)],
)
def test_times(value: Any, year: int):
    found = moment(value)
    assert found is not None and found.year == year


@pytest.mark.parametrize("value", ["yesterday", True, {}, 1e300, float("nan"), "9" * 400])
def test_what_is_no_time(value: Any):
    with pytest.raises(InvalidInput, match="is not a time"):
        moment(value)
