"""Learning through a real language model over HTTP, which is too small for what it teaches to be asserted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tulving import open_memory
from tulving.config import parse
from tulving.errors import ModelUnavailable, UnusableAnswer
from tulving.testing import WordEmbedder

pytestmark = [pytest.mark.xdist_group("language-model"), pytest.mark.timeout(300)]


@pytest.fixture
def opened(path: Path, language_model_url: str) -> Callable[..., Any]:
    """On SQLite alone: what the model says does not depend on the engine, and it is slow."""

    def open_with(**settings: Any) -> Any:
        llm = {"url": language_model_url, "model": "smollm2", "retries": 0, "max_output_tokens": 60, "timeout": 120}
        return open_memory(path, config=parse({"llm": llm | settings}), embedder=WordEmbedder(), background=False)

    return open_with


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation(opened: Callable[..., Any], stream: bool) -> None:
    """Whatever the model says, either all of it can be taken or nothing is; it is counted and recorded either way."""
    async with opened(stream=stream) as memory:
        try:
            learned = await memory.learn("User: I moved to Lyon last week.\nAssistant: How is it?")
            taught = learned.facts_created
        except UnusableAnswer as error:
            print(f"unusable: {error}")
            taught = 0
        assert (await memory.stats()).facts.total == taught
        [report] = await memory.runs()
        assert report.run.status in ("done", "failed")
        assert report.run.model == f"smollm2 at {memory._env.config.llm.url}"
        assert report.run.input_tokens > 200 and 0 < report.run.output_tokens <= 60


async def test_episodes(opened: Callable[..., Any]) -> None:
    """An answer that was cut off, as so short a one always is, costs an attempt."""
    async with opened(max_output_tokens=16) as memory:
        stored = await memory.store_episode("Ann said that she has moved to Lyon.", butler="courier")
        result = await memory.run_consolidation()
        episode = await memory.get("episode", stored.id)
        assert (result["groups_consolidated"], result["facts_created"]) == (0, 0)
        assert (episode.consolidation_status, episode.consolidation_attempts) == ("pending", 1)
        assert episode.last_consolidation_error == "UnusableAnswer"
        assert (await memory.overview()).learning["tokens_today"] > 500


async def test_a_model_that_is_too_slow(opened: Callable[..., Any]) -> None:
    async with opened(timeout=0.05) as memory:
        stored = await memory.store_episode("Ann said that she has moved to Lyon.", butler="courier")
        result = await memory.run_consolidation()
        assert result["errors"] and "ModelUnavailable" in result["errors"][0]
        assert (await memory.get("episode", stored.id)).consolidation_attempts == 0
        with pytest.raises(ModelUnavailable):
            await memory.learn("User: I moved to Lyon.")
        assert (await memory.overview()).learning["tokens_today"] == 0
