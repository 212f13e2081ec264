"""A Pydantic AI agent with the memory as its tools.

    pip install . pydantic-ai-slim        (in a clone: docs/install.md says why)
    python examples/pydantic_ai_tools.py

`play` stands for a real model: pass the name of yours instead, such as "openai:gpt-5". The store is the file memory.db
in the current folder.
"""

import asyncio

from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tulving import open_memory
from tulving.integrations.pydantic_ai import tulving_toolset

CALLS = [
    ToolCallPart("memory_store_fact", {"subject": "Ada", "predicate": "favourite_tea", "content": "Darjeeling"}),
    ToolCallPart("memory_recall", {"topic": "Ada's favourite tea", "limit": 1}),
]


def play(messages, info):
    """Stores a fact, recalls it, and reads out what it found."""
    turns = sum(isinstance(message, ModelResponse) for message in messages)
    if turns < len(CALLS):
        return ModelResponse([CALLS[turns]])
    found = messages[-1].parts[0].content
    return ModelResponse([TextPart(f"Ada likes {found['results'][0]['content']}")])


async def main() -> None:
    async with open_memory("memory.db") as memory:
        agent = Agent(FunctionModel(play), toolsets=[tulving_toolset(memory.bind(user_id="ada"))])
        print((await agent.run("Which tea does Ada like?")).output)


asyncio.run(main())

# Prints:
# Ada likes Darjeeling
