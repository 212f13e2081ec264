"""A chat bot that remembers across sessions. Put your own model where `answer` is.

python examples/chat_bot.py
"""

import asyncio

from tulving import Memory, open_memory

BOT = "concierge"


async def reply(memory: Memory, person: str, said: str) -> str:
    """One turn: what is known goes into the prompt, then what was said is kept."""
    about_you = memory.bind(user_id=person)
    known = await about_you.context(said, butler=BOT)
    await about_you.store_episode(said, butler=BOT, source=person)
    return answer(prompt=f"{known}\n\n{person}: {said}")


def answer(prompt: str) -> str:
    """Stands for a language model: it finds the answer if the prompt has it."""
    if "green tea" in prompt and "?" in prompt:
        return "You asked for green tea last time. Shall I bring one?"
    return "Noted."


async def main() -> None:
    async with open_memory("chat.db", embedder="hashing") as memory:  # the first session
        print(await reply(memory, "anna", "I'd like a green tea, please"))
        await memory.bind(user_id="anna").store_fact("anna", "favorite_drink", "green tea", importance=8)

    async with open_memory("chat.db", embedder="hashing") as memory:  # another day, another process
        print(await reply(memory, "anna", "What did I drink last time?"))
        print(await reply(memory, "bert", "What did I drink last time?"))  # knows nothing of Anna


asyncio.run(main())
