"""A real language model reads our instructions, and what it says is carried out: it is too small for that to be
asserted, but whatever it says is answered."""

from pathlib import Path

import pytest

from tulving import ToolRunner, open_memory
from tulving.interfaces.instructions import described, tool_prompt
from tulving.providers.chat_endpoint import ChatEndpoint
from tulving.services.operations import OPERATIONS
from tulving.testing import WordEmbedder

pytestmark = [pytest.mark.xdist_group("language-model"), pytest.mark.timeout(300)]

TASK = "\nThe person says: I am Anna, and I like green tea. Write the block that stores this fact."


async def test_what_a_real_model_says_is_answered(path: Path, language_model_url: str) -> None:
    llm = ChatEndpoint(url=language_model_url, model="smollm2", key_variable=None, stream=False, timeout=120.0)
    async with open_memory(path, embedder=WordEmbedder(), background=False) as memory:
        known = [described(OPERATIONS[name], memory.config) for name in ("memory_recall", "memory_store_rule")]
        said = (await llm.complete(tool_prompt(known) + TASK, 60)).text
        answer = await ToolRunner(memory, dual=True).run(said)
        print(f"said {said!r}, answered {answer}")
        assert answer.called or (answer.prose, answer.text) == (said, "")
        assert all(each.ok or each.error for each in answer.results)
        assert sum(counted["texts"] for counted in (await memory.overview())["tool_text"].values()) == 1
