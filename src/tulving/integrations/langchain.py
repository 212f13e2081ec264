"""Tulving as a chat history of LangChain, for instance of `RunnableWithMessageHistory`."""

import json
from collections.abc import Sequence

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, message_to_dict, messages_from_dict
except ImportError as error:
    raise ImportError("tulving.integrations.langchain needs LangChain: pip install langchain-core") from error

from tulving.integrations.home_loop import HomeLoop
from tulving.integrations.transcript import Transcript, Turn
from tulving.interfaces.blocking import BlockingMemory
from tulving.services.memory import Memory


class TulvingChatMessageHistory(BaseChatMessageHistory):
    """The messages of a session, in a memory of Tulving: as lasting episodes, which are found and learned from too.

    `session_id` may be any text. `agent` is the name under which the episodes are stored. Private text in a message is
    removed, as everywhere.
    """

    def __init__(self, memory: Memory | BlockingMemory, session_id: str, *, agent: str | None = None) -> None:
        self._home = HomeLoop(memory)
        self._transcript = Transcript(self._home.memory, "langchain", session_id, agent)

    @property
    def messages(self) -> list[BaseMessage]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The messages in order."""
        return self._home.wait(self._read())

    async def aget_messages(self) -> list[BaseMessage]:
        """The same as `messages`, from any event loop."""
        return await self._home.run(self._read())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end, all or none."""
        self._home.wait(self._transcript.add([self._turn(message) for message in messages]))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """The same as `add_messages`, from any event loop."""
        await self._home.run(self._transcript.add([self._turn(message) for message in messages]))

    def clear(self) -> None:
        """Delete the messages for good."""
        self._home.wait(self._transcript.clear())

    async def aclear(self) -> None:
        """The same as `clear`, from any event loop."""
        await self._home.run(self._transcript.clear())

    async def _read(self) -> list[BaseMessage]:
        return messages_from_dict([dict(message) for message in await self._transcript.read()])

    def _turn(self, message: BaseMessage) -> Turn:
        person = self._home.memory.bound.owner.user_id or "user"
        speaker = person if isinstance(message, HumanMessage) else message.type
        return Turn(message=message_to_dict(message), text=_said(message), speaker=message.name or speaker)


def _said(message: BaseMessage) -> str:
    """What a message says, with the tools that it calls."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    called = [f"{call['name']}({json.dumps(call['args'], ensure_ascii=False, default=str)})" for call in calls]
    return "\n".join([str(message.text), *called])
