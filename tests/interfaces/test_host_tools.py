"""Tools that a host adds, and how all tools are described to a model."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from tool_text_parts import abp, vcp

from tulving import InvalidInput, Memory, ToolRunner
from tulving.domain.text import count_tokens
from tulving.interfaces.instructions import Tool, described, tool_prompt
from tulving.interfaces.tool_text import tool_set
from tulving.parsing.tool_calls import read
from tulving.services.operations import OPERATIONS
from tulving.settings import MemoryModuleConfig


def forecast(
    city: str,
    days: Annotated[int, "How many days ahead"] = 1,
    unit: Literal["C", "F"] = "C",
    hours: list[int] | None = None,
) -> dict[str, Any]:
    """Tell the weather.

    Not for the high seas.
    """
    if city == "Atlantis":
        raise InvalidInput("city", "is under water", "a city on land")
    return {"city": city, "days": days, "unit": unit, "hours": hours}


async def test_a_host_adds_tools(memory: Memory, path: Path, caplog: pytest.LogCaptureFixture):
    runner = ToolRunner(memory, dual=True)
    heard: list[Any] = []

    async def play(song: dict[str, Any], volume: float = 0.5) -> None:
        heard.append((song, volume))

    schema = {
        "properties": {
            "x": {"type": "number", "minimum": 0},
            "deep": {"type": "object", "required": ["y"]},
            "any": {},
        }
    }
    runner.register("forecast", forecast)
    runner.register("play", play, description="Play a song")
    runner.register(
        "root",
        lambda x=4, deep=None, any=None: [x, deep, any],
        description="Take a root",
        parameters={**schema, "required": ["x"]},
    )
    runner.register("odd", lambda: {1, 2}, description="Not JSON")
    runner.register("nan", lambda: float("nan"), description="Not JSON either")
    runner.register("broken", lambda: 1 // 0, description="Fails")
    called = {
        abp("forecast", city="Lyon"): {"city": "Lyon", "days": 1, "unit": "C", "hours": None},
        abp("forecast", city="Lyon", days=None, hours=[1, 2]): {
            "city": "Lyon",
            "days": 1,
            "unit": "C",
            "hours": [1, 2],
        },
        vcp("forecast", city="5", days="3", unit="F"): {"city": "5", "days": 3, "unit": "F", "hours": None},
        abp("play", song={"by": "Bach"}, volume=1): None,
        vcp("play", song='{"by": "Bach"}'): None,
        abp("root", x=0, deep={"y": 1}, any=[1]): [0, {"y": 1}, [1]],
    }
    refused = {
        abp("forecast"): "parameters: 'city' is a required property",
        abp("forecast", city=5): "city: 5 is not of type 'string'",
        abp("forecast", city="Lyon", days="soon"): "days: 'soon' is not of type 'integer'",
        abp("forecast", city="Lyon", unit="K"): "unit: 'K' is not one of ['C', 'F']",
        abp("forecast", city="Lyon", hours=["x"]): "hours.0: 'x' is not of type 'integer'",
        abp("forecast", city="Lyon", sea=True): "'sea' was unexpected",
        abp("forecast", city="Atlantis"): "city: is under water; allowed: a city on land",
        abp("root", x=-1): "x: -1 is less than the minimum of 0",
        abp("root", x=1, deep={}): "deep: 'y' is a required property",
        abp("root", x=1, y=2): "'y' was unexpected",
        vcp("root", x="NaN"): "parameters: hold a number that is not finite",
        vcp("root", x="-1e999"): "parameters: hold a number that is not finite",
        abp("odd"): "odd failed unexpectedly (TypeError); its log says more",
        abp("nan"): "nan failed unexpectedly (ValueError); its log says more",
        abp("broken"): "broken failed unexpectedly (ZeroDivisionError); its log says more",
    }
    for text, value in called.items():
        [result] = (await runner.run(text)).results
        assert (result.ok, result.value) == (True, value), result.error
    assert heard == [({"by": "Bach"}, 1), ({"by": "Bach"}, 0.5)]
    for text, problem in refused.items():
        [result] = (await runner.run(text)).results
        assert not result.ok and problem in (result.error or ""), result
    assert "ZeroDivisionError" in caplog.text
    [result] = (await runner.run(abp("forcast"))).results
    assert result.error and result.error.endswith("allowed: forecast")
    assert runner.prompt.endswith("\nbroken: Fails\n")
    assert (
        "\nforecast: Tell the weather.\n- city* (string): city\n- days (integer, default 1): How many days ahead\n"
        '- unit (C | F, default "C"): unit\n- hours (list of integer): hours\n\n'
        "play: Play a song\n- song* (object): song\n- volume (number, default 0.5): volume\n\n"
        "root: Take a root\n- x* (number): x\n- deep (object): deep\n- any (any): any\n"
    ) in runner.prompt


async def test_a_tool_that_can_not_be_told_to_a_model_is_refused(memory: Memory, path: Path):
    runner = ToolRunner(memory)
    runner.register("ok", forecast)

    def untyped(a) -> None:
        """x"""

    def odd_type(a: Path) -> None:
        """x"""

    def many(*a: int) -> None:
        """x"""

    refused: list[tuple[str, Any, dict[str, Any], str]] = [
        ("memory_recall", forecast, {}, "there is a tool 'memory_recall' already"),
        ("memory_delete", forecast, {}, "there is a tool"),
        ("ok", forecast, {}, "there is a tool 'ok' already"),
        ("no good", forecast, {}, "name: 'no good'"),
        ("x]]", forecast, {}, "name: "),
        ("", forecast, {}, "name: "),
        ("x" * 65, forecast, {}, "name: "),
        ("quiet", lambda: 1, {}, "description: is missing"),
        ("untyped", untyped, {}, "'a' can't be described"),
        ("odd_type", odd_type, {}, "'a' can't be described"),
        ("many", many, {}, "'a' can't be described"),
        ("schema", many, {"parameters": {"type": "array"}}, "parameters: describes something else"),
        ("schema", many, {"parameters": {"properties": {"a": True}}}, "parameters: describes something else"),
        ("schema", many, {"parameters": {"properties": 5}}, "parameters: 5 is not of type 'object'"),
    ]
    for name, function, described_as, problem in refused:
        with pytest.raises(InvalidInput, match=re.escape(problem)):
            runner.register(name, function, **described_as)
    runner.register("x" * 64, forecast)
    assert len(re.findall(r"^\S+: Tell the weather\.$", runner.prompt, re.MULTILINE)) == 2


# -- the prompt ----------------------------------------------------------------------------------------------------


def test_the_prompt_tells_every_tool_in_few_tokens():
    config = MemoryModuleConfig()
    standard, every = (
        tool_prompt(tools, (described(each, config) for each in tool_set(tools).values()))
        for tools in ("standard", "all")
    )
    assert count_tokens(standard) <= 3_000
    for name, operation in OPERATIONS.items():
        assert (f"\n{name}: " in every) is operation.for_models
        assert (f"\n{name}: " in standard) is operation.standard
    assert "- limit (integer, default 10): How many at most\n" in standard
    assert "- memory_type* (episode | fact | rule): " in standard
    assert "- types (list of episode | fact | rule): " in standard
    assert "- since (time): Not earlier than this\n" in standard
    assert "- importance (number, default 5.0): How much it matters, 0 to 10\n" in standard
    [example] = read(standard, dual=True).calls
    assert (example.tool, dict(example.parameters)) == ("memory_recall", {"topic": "Anna's favorite color"})


def test_a_host_may_leave_a_lot_open():
    schema = {"properties": {"a": {}, "b": {"type": ["string", "null"]}, "c": {"enum": [1, None]}}}
    assert tool_prompt("standard", [Tool("x", "Does x.\n\nAnd more.", schema)]).endswith(
        "\nx: Does x.\n- a (any): a\n- b (string | null): b\n- c (1 | None): c\n"
    )
