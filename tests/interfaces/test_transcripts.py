"""The transcripts of coding agents, as each writes them: what the person asked, and the last answer to it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tulving.interfaces.hosts.transcripts import BLOCK, Said, read


def at(second: int) -> str:
    return f"2026-11-18T10:00:{second:02}.000Z"


def written(folder: Path, *entries: object, name: str = "session.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def claude(kind: str, content: object, second: int, **more: object) -> dict:
    return {"type": kind, "message": {"role": kind, "content": content}, "timestamp": at(second), "uuid": "u", **more}


def codex(of: str, second: int, **payload: object) -> dict:
    return {"timestamp": at(second), "type": of, "payload": payload}


def item(second: int, text: str) -> dict:
    content = [{"type": "input_text", "text": text}]
    return codex("response_item", second, type="message", role="user", content=content)


ASKED = Said(True, "Why does it fail?", datetime(2026, 11, 18, 10, 0, 1, tzinfo=UTC))
ANSWERED = Said(False, "The port was taken.", datetime(2026, 11, 18, 10, 0, 9, tzinfo=UTC))


def test_claude_code(tmp_path: Path):
    injected = (
        f"<{BLOCK}>\n# Memory Context\n\n## Key Facts\n- x\n</{BLOCK}>\n<system-reminder>be nice</system-reminder>"
    )
    path = written(
        tmp_path,
        {"type": "summary", "summary": "Ports", "leafUuid": "u"},
        claude("user", "Caveat: generated", 0, isMeta=True),
        claude("user", f"{injected}Why does it fail?", 1),
        claude("assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me look."}], 2),
        claude("assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}}], 3),
        claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": "a secret"}], 4),
        claude("assistant", [{"type": "text", "text": "from a helper"}], 5, isSidechain=True),
        claude("user", [{"type": "text", "text": "[Request interrupted by user]"}], 6),
        claude("user", "<command-name>/cost</command-name><command-args></command-args>", 7),
        claude("assistant", [{"type": "text", "text": "The port was taken."}], 9),
        {"type": "user", "message": {"role": "user", "content": "without a time"}},
    )
    with path.open("a") as file:
        file.write('[1]\nnull\n{"type": "user", "mess')  # being written
    assert read("claude-code", path) == [ASKED, ANSWERED]


@pytest.mark.parametrize("newer", [True, False])
def test_codex(newer: bool, tmp_path: Path):
    def message(second: int, kind: str, text: str) -> dict:
        if not newer:
            return codex(
                "event_msg", second, type={"User": "user_message", "Agent": "agent_message"}[kind], message=text
            )
        content = [{"type": "text" if kind == "User" else "Text", "text": text}]
        return codex("event_msg", second, type="item_completed", item={"type": f"{kind}Message", "content": content})

    path = written(
        tmp_path,
        codex("session_meta", 0, id="s", cwd="/p"),
        item(0, "<environment_context>Linux</environment_context>"),
        item(1, "Why does it fail?"),
        message(1, "User", "Why does it fail?"),
        message(1, "User", "Why does it fail?"),
        codex("event_msg", 2, type="agent_reasoning", text="**Looking**"),
        message(3, "Agent", "I look."),
        codex("response_item", 4, type="function_call_output", call_id="c", output="a secret"),
        message(9, "Agent", "The port was taken."),
        codex("event_msg", 10, type="token_count", info=None),
        codex("event_msg", 11, type=["another"]),
    )
    assert read("codex", path) == [ASKED, ANSWERED]


@pytest.mark.parametrize("as_log", [True, False])
def test_gemini(tmp_path: Path, as_log: bool):
    about = {
        "id": "0",
        "timestamp": at(0),
        "type": "user",
        "content": [{"text": "<session_context>\nx</session_context>"}],
    }
    ours = f"<hook_context>&lt;{BLOCK}&gt;\n# Memory Context\n- x\n&lt;/{BLOCK}&gt;</hook_context>"
    asked = {"id": "1", "timestamp": at(1), "type": "user", "content": [{"text": f"{ours}\n\nWhy does it fail?"}]}
    asked["content"].append({"text": ours})
    draft = {"id": "2", "timestamp": at(9), "type": "gemini", "content": ""}
    answered = {**draft, "content": "The port was taken.", "toolCalls": [{"name": "x", "result": "a secret"}]}
    told = {"id": "3", "timestamp": at(9), "type": "info", "content": "Update available"}
    session = {"sessionId": "s", "projectHash": "h", "startTime": at(0), "lastUpdated": at(9)}
    if as_log:
        begun = {"$set": {"messages": [about], "lastUpdated": at(0)}}
        path = written(
            tmp_path, session, begun, asked, draft, answered, told, {"$set": {"messages": [asked, answered]}}
        )
    else:
        path = written(tmp_path, {**session, "messages": [about, asked, answered, told]}, name="session.json")
    assert read("gemini", path) == [ASKED, ANSWERED]


@pytest.mark.parametrize("text", ["[1]", '{"messages": [', '{"messages": [{"id": [1], "type": "user", "content": 1}]}'])
def test_a_strange_file_of_gemini_says_nothing(text: str, tmp_path: Path):
    (tmp_path / "session.json").write_text(text)
    assert read("gemini", tmp_path / "session.json") == []
