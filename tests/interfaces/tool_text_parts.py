"""What tests of tool calls in text share: how a model writes a call, and how it reads a result."""

import json
import re
from typing import Any

from tulving import Memory

RESULT = re.compile(r"^\[\[ABP_RESULT:([\w.-]+)\]\]\n(.*)\n\[\[END_ABP_RESULT\]\]$", re.MULTILINE)
VCP_RESULT = re.compile(
    r"^<<<\[TOOL_RESULT\]>>>\ntool_name:「始」([\w.-]+)「末」,\nresult:「始」(.*)「末」\n<<<\[END_TOOL_RESULT\]>>>$",
    re.MULTILINE,
)


def abp(tool: str, **parameters: Any) -> str:
    return f"[[ABP_TOOL:{tool}]]\n{json.dumps(parameters, ensure_ascii=False)}\n[[END_ABP_TOOL]]\n"


def vcp(tool: str, **parameters: str) -> str:
    pairs = ",\n".join(f"{name}:「始」{value}「末」" for name, value in {"tool_name": tool, **parameters}.items())
    return f"<<<[TOOL_REQUEST]>>>\n{pairs}\n<<<[END_TOOL_REQUEST]>>>\n"


def results(text: str, form: re.Pattern[str] = RESULT) -> list[tuple[str, Any]]:
    """What a model reads: each tool and its decoded result."""
    return [(name, json.loads(value)) for name, value in form.findall(text)]


async def events(memory: Memory) -> list[str]:
    found = await memory._env.store.read(
        None, lambda conn: conn.fetch_all("SELECT event_type FROM memory_events ORDER BY seq")
    )
    return [row["event_type"] for row in found]
