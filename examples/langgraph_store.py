"""A LangGraph graph with a long-term memory: what is said in one thread is known in the next.

    pip install . langgraph        (in a clone: docs/install.md says why)
    python examples/langgraph_store.py

A real graph would ask a language model in `answer`. The store is the file memory.db in the current folder.
"""

import asyncio
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from tulving import open_memory
from tulving.integrations.langgraph import TulvingStore


class State(TypedDict):
    said: str
    answer: str


async def remember(state: State, runtime: Runtime) -> None:
    if not state["said"].endswith("?"):
        await runtime.store.aput(("notes", "ada"), state["said"], {"text": state["said"]})


async def answer(state: State, runtime: Runtime) -> dict[str, str]:
    known = await runtime.store.asearch(("notes", "ada"), query=state["said"], limit=1)
    return {"answer": known[0].value["text"] if known else "I don't know."}


async def main() -> None:
    async with open_memory("memory.db") as memory:
        graph = StateGraph(State)
        graph.add_node("remember", remember)
        graph.add_node("answer", answer)
        graph.add_edge(START, "remember")
        graph.add_edge("remember", "answer")
        graph.add_edge("answer", END)
        app = graph.compile(store=TulvingStore(memory))

        await app.ainvoke({"said": "The dog is called Rex"})
        await app.ainvoke({"said": "The deploy runs every Friday at noon"})
        asked = await app.ainvoke({"said": "What is the name of the dog?"})
        print(asked["answer"])


asyncio.run(main())

# Prints:
# The dog is called Rex
