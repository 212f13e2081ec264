"""How long tool calls in a model's text take to be read: `python -m bench --only tool_text`."""

import json
from collections.abc import Callable

from bench.report import Report, Timings, Watch, milliseconds
from tulving.parsing.tool_calls import ToolText, read

LENGTH = 100_000
TARGET = 0.020
ROUNDS = 9
PROSE = "The user asked about the trip to Kyoto; I will note what was decided and look up the rest. "
END = "[[END_ABP_TOOL]]"
FACT = json.dumps({"subject": "user", "predicate": "trip", "content": PROSE * 4, "tags": ["travel"], "importance": 7})
CALL = f"{PROSE}\n[[ABP_TOOL:memory_store_fact]]\n{FACT}\n{END}\n"
QUOTED = f"```\n{CALL}\n```\nUse `{END}` at the end, and {{braces}} around.\n"
REQUEST = (
    f"<<<[TOOL_REQUEST]>>>\ntool_name:「始」memory_recall「末」,\ntopic:「始」{PROSE}「末」\n<<<[END_TOOL_REQUEST]>>>\n"
)
BROKEN = f"[[ABP_TOOL:memory_search]]\n{{'query': 'Kyoto, \"limit\": 3,}}\n{END}\n"
OUTPUTS = {
    "prose without calls": PROSE,
    "prose with a call per 300 characters": CALL,
    "calls and quoted calls": CALL + QUOTED,
    "requests in the older form": REQUEST,
}
HOSTILE = (
    *("[[ABP_TOOL:", "[[ABP_TOOL:x]]{", '[[ABP_TOOL:x]]{"a":"', f'[[ABP_TOOL:x]]{{\\"{END}\n" "', "[[ABP_TOOL:x]]{}"),
    *(BROKEN, "{", '"', "```\n", "` ``", "<<<[TOOL_REQUEST]>>>", "key:「始」", "[1]"),
)


def run(report: Report) -> None:
    """Texts as models write them, against the target; and repetitions that must not take longer than in proportion."""
    report.section(f"Tool calls in {LENGTH // 1000} kB of text")
    for name, unit in OUTPUTS.items():
        timings, found = _timed(lambda length, unit=unit: unit * (length // len(unit)), LENGTH)
        met = timings.cpu_p50 <= TARGET
        report.row(f"{name}: {len(found.calls)} calls", str(timings), target=f"<= {milliseconds(TARGET)}", met=met)
    for unit in HOSTILE:
        text = _repeated(unit)
        half, _ = _timed(text, LENGTH // 2)
        whole, _ = _timed(text, LENGTH)
        ratio = min(whole.cpu) / max(min(half.cpu), 1e-6)
        what = json.dumps(unit if len(unit) < 40 else unit[:40] + "...", ensure_ascii=False)
        report.row(f"repeated {what} between a call and a request", str(whole), ratio=f"{ratio:.1f} times half of it")


def _repeated(unit: str) -> Callable[[int], str]:
    return lambda length: f"[[ABP_TOOL:x]]{END}\n{unit * (length // len(unit))}\n{REQUEST}"


def _timed(text_of: Callable[[int], str], length: int) -> tuple[Timings, ToolText]:
    timings, text = Timings(), text_of(length)
    found = read(text, dual=True)
    for _ in range(ROUNDS):
        with Watch(timings):
            found = read(text, dual=True)
    return timings, found
