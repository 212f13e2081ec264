"""A session of the OpenAI Agents SDK that stays between runs, in a memory that can be searched.

    pip install . openai-agents        (in a clone: docs/install.md says why)
    python examples/openai_agents_session.py

`Parrot` stands for a real model: leave `model=` out to use the SDK's own. The store is the file memory.db in the
current folder.
"""

import asyncio

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from tulving import open_memory
from tulving.integrations.openai_agents import TulvingSession


class Parrot(Model):
    """Says how many items it was given, and the first of them."""

    async def get_response(self, system_instructions, input, *args, **kwargs):
        said = f"I see {len(input)} items. You began with: {input[0]['content']}"
        part = ResponseOutputText(annotations=[], text=said, type="output_text")
        message = ResponseOutputMessage(id="1", content=[part], role="assistant", status="completed", type="message")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


async def main() -> None:
    agent = Agent("assistant", model=Parrot())
    async with open_memory("memory.db") as memory:
        ada = memory.bind(user_id="ada")
        for said in ("My train leaves at nine", "When does it leave?"):
            session = TulvingSession(ada, "monday")
            result = await Runner.run(agent, said, session=session, run_config=RunConfig(tracing_disabled=True))
            print(result.final_output)
        [hit, *_] = await ada.recall("the departure of the train")
        print("recalled:", hit.item.source, "said", repr(hit.item.content))


asyncio.run(main())

# Prints:
# I see 1 items. You began with: My train leaves at nine
# I see 3 items. You began with: My train leaves at nine
# recalled: ada said 'My train leaves at nine'
