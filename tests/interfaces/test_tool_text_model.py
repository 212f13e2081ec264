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

TASK = "\nAnswer with the JSON for memory_recall only. The topic is green tea, and the limit is 5."


async def test_what_a_real_model_says_is_answered(path: Path, language_model_url: str) -> None:
    """It seldom writes a block, so what it says is also tried as the inside of one."""
    llm = ChatEndpoint(url=language_model_url, model="smollm2", key_variable=None, stream=False, timeout=120.0)
    async with open_memory(path, embedder=WordEmbedder(), background=False) as memory:
        said = (
            await llm.complete(
                tool_prompt("standard", [described(OPERATIONS["memory_recall"], memory.config)]) + TASK, 40
            )
        ).text
        runner = ToolRunner(memory, dual=True)
        for text in (said, f"[[ABP_TOOL:memory_recall]]\n{said}\n[[END_ABP_TOOL]]"):
            answer = await runner.run(text)
            print(f"said {text!r}, answered {answer}")
            assert answer.called or (answer.prose, answer.text) == (text, "")
            assert all(each.ok or each.error for each in answer.results)
        assert sum(counted["texts"] for counted in (await memory.overview()).tool_text.values()) == 2
