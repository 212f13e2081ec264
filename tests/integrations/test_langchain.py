"""The chat history of LangChain: messages come back as they were, in order, and are episodes as well."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

from tulving import IntegrityError, InvalidInput, Memory, open_memory_sync
from tulving.integrations.langchain import TulvingChatMessageHistory
from tulving.settings import MemoryModuleConfig, TimelineConfig
from tulving.testing import ManualClock, WordEmbedder

pytestmark = pytest.mark.usefixtures("path")  # SQLite only: the verbs are those that both engines are tested with

MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief.", id="s1"),
    HumanMessage("What is the weather in Łódź? 😀", additional_kwargs={"seen": [1, 2.5, None]}, name="ada"),
    HumanMessage(
        [{"type": "text", "text": "and this?"}, {"type": "image_url", "image_url": {"url": "https://x.test"}}]
    ),
    AIMessage(
        "",
        tool_calls=[{"name": "weather", "args": {"city": "Łódź", "days": 2}, "id": "call_1"}],
        invalid_tool_calls=[{"name": "bad", "args": "{", "id": "call_2", "error": "no JSON"}],
        response_metadata={"model": "m", "logprobs": None},
        usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
    ),
    ToolMessage("12 °C", tool_call_id="call_1", name="weather", artifact={"raw": [1]}, status="success"),
    FunctionMessage("legacy", name="f"),
    ChatMessage("in a role of its own", role="critic"),
    AIMessage([{"type": "text", "text": "It is 12 °C."}, {"type": "reasoning", "reasoning": "easy"}]),
    AIMessage("  spaces stay \n"),
]


def history(memory: Any, session_id: str = "one", **options: Any) -> TulvingChatMessageHistory:
    return TulvingChatMessageHistory(memory, session_id, **options)


async def test_messages_come_back_as_they_were(memory: Memory) -> None:
    assert await history(memory).aget_messages() == []
    await history(memory).aadd_messages(MESSAGES)
    await history(memory).aadd_messages([])
    assert await history(memory).aget_messages() == MESSAGES


async def test_messages_stay_in_order_though_the_clock_stands_still_or_goes_back(
    memory: Memory, clock: ManualClock
) -> None:
    for place in range(6):
        if place == 4:
            clock.advance(minutes=-5)
        await history(memory).aadd_messages([HumanMessage(f"{place}a"), AIMessage(f"{place}b")])
    said = [message.text for message in await history(memory).aget_messages()]
    assert said == [f"{place}{side}" for place in range(6) for side in "ab"]


async def test_a_long_history_is_read_whole(memory: Memory) -> None:
    messages = [HumanMessage(str(place)) for place in range(2_001)]
    await history(memory).aadd_messages(messages)
    assert await history(memory).aget_messages() == messages


async def test_messages_are_kept_and_can_be_found_and_learned_from(memory: Memory, clock: ManualClock) -> None:
    await history(memory.bind(user_id="ada"), agent="helper").aadd_messages(MESSAGES[1:5])
    clock.advance(days=400)
    await memory.run_episode_cleanup()
    assert len(await history(memory.bind(user_id="ada")).aget_messages()) == 4
    hits = list(await memory.search("weather", types=["episode"]))
    found = {hit.item.content: hit.item for hit in hits}
    assert found["What is the weather in Łódź? 😀"].source == "ada"  # type: ignore[union-attr]
    assert 'weather({"city": "Łódź", "days": 2})' in found
    page = await memory.list_memories("episode")
    assert {(e.type, e.butler, e.consolidation_status, e.expires_at) for e in page.items} == {  # type: ignore[union-attr]
        ("conversation", "helper", "pending", None)
    }


@pytest.mark.parametrize("config", [MemoryModuleConfig(timeline=TimelineConfig(capacity=1))])
async def test_archived_messages_are_read_too(memory: Memory, config: MemoryModuleConfig, sql: Any) -> None:
    await history(memory).aadd_messages(MESSAGES)
    sql("UPDATE episodes SET consolidated = TRUE")
    assert (await memory.rotate_timeline())["archived"] == len(MESSAGES) - 1
    assert await history(memory).aget_messages() == MESSAGES


async def test_a_message_that_was_damaged_is_told(memory: Memory, sql: Any) -> None:
    await history(memory).aadd_messages(MESSAGES[:1])
    sql("UPDATE episodes SET metadata = '{}'")
    with pytest.raises(IntegrityError, match="can't be read"):
        await history(memory).aget_messages()


async def test_sessions_and_owners_are_apart(memory: Memory) -> None:
    ada, bob = memory.bind(user_id="ada"), memory.bind(user_id="bob")
    uuid = "01a1e56b-d5ee-71f7-9450-2bb1629cb848"
    places = [(each, session) for each in (memory, ada, bob) for session in ("one", "One", uuid)]
    for place, (each, session) in enumerate(places):
        await history(each, session).aadd_messages([HumanMessage(str(place))])
    await ada.store_episode("not of the chat", butler="b", session_id=uuid)
    for place, (each, session) in enumerate(places):
        assert [message.text for message in await history(each, session).aget_messages()] == [str(place)]
    assert {event.content for event in await ada.query_window(session_id=uuid)} == {"5", "not of the chat"}
    await history(memory, uuid).aclear()
    assert len(await history(ada, uuid).aget_messages()) == 1


async def test_clear_deletes_for_good(memory: Memory, sql: Any) -> None:
    await history(memory, "other").aadd_messages([HumanMessage("stays")])
    await history(memory).aadd_messages([HumanMessage(str(place)) for place in range(150)])
    await history(memory).aclear()
    await history(memory).aclear()
    assert await history(memory).aget_messages() == []
    assert len(sql("SELECT id FROM episodes")) == 1


async def test_private_text_is_removed(memory: Memory) -> None:
    await history(memory).aadd_messages([HumanMessage("<private>all of it"), HumanMessage("a <private>b</private> c")])
    assert [message.text for message in await history(memory).aget_messages()] == ["", "a  c"]


@pytest.mark.parametrize("config", [MemoryModuleConfig(max_content_characters=10)])
async def test_a_message_may_be_longer_than_a_content(memory: Memory, config: MemoryModuleConfig) -> None:
    await history(memory).aadd_messages([HumanMessage("word " * 100)])
    [message] = await history(memory).aget_messages()
    assert message.text == "word " * 100


async def test_what_cannot_be_kept_is_refused_whole(memory: Memory) -> None:
    bad = ToolMessage("x", tool_call_id="1", artifact=object())
    with pytest.raises(InvalidInput, match="artifact"):
        await history(memory).aadd_messages([HumanMessage("fine"), bad])
    with pytest.raises(InvalidInput, match="session_id"):
        history(memory, "")
    with pytest.raises(InvalidInput, match="session_id"):
        history(memory, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="session_id"):
        history(memory, "half \ud83d")
    assert await history(memory).aget_messages() == []


def conversation(get: Any) -> RunnableWithMessageHistory:
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("past"), ("human", "{said}")])
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello Ada"), AIMessage("You are Ada")]))
    return RunnableWithMessageHistory(prompt | model, get, input_messages_key="said", history_messages_key="past")


SAID = ["I am Ada", "Hello Ada", "Who am I?", "You are Ada"]


async def test_a_chain_with_a_history(memory: Memory) -> None:
    chain = conversation(lambda session_id: history(memory, session_id))
    for said in SAID[::2]:
        await chain.ainvoke({"said": said}, {"configurable": {"session_id": "chat"}})
    assert [message.text for message in await history(memory, "chat").aget_messages()] == SAID


def test_plain_calls(path: Path) -> None:
    with open_memory_sync(path, embedder=WordEmbedder(), background=False) as memory:
        chain = conversation(lambda session_id: history(memory, session_id))
        for said in SAID[::2]:
            chain.invoke({"said": said}, {"configurable": {"session_id": "chat"}})
    with open_memory_sync(path, embedder=WordEmbedder(), background=False) as memory:
        chat = history(memory, "chat")
        assert [message.text for message in chat.messages] == SAID
        chat.add_user_message("Bye")
        assert str(chat).endswith("Human: Bye")
        chat.clear()
        assert chat.messages == []
