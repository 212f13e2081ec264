"""Tulving as a session of the OpenAI Agents SDK: `Runner.run(agent, "Hello", session=TulvingSession(memory, "1"))`."""

import json
from collections.abc import Mapping
from typing import Any, cast

try:
    from agents import SessionSettings, TResponseInputItem
    from agents.memory.session_settings import resolve_session_limit
except ImportError as error:
    raise ImportError("tulving.integrations.openai_agents needs the SDK: pip install openai-agents") from error

from tulving.integrations.home_loop import HomeLoop
from tulving.integrations.transcript import Transcript, Turn
from tulving.interfaces.blocking import BlockingMemory
from tulving.services.memory import Memory


class TulvingSession:
    """The items of a conversation, in a memory of Tulving: as lasting episodes, which are found and learned from too.

    `session_id` may be any text. `agent` is the name under which the episodes are stored. Private text in an item is
    removed, as everywhere.
    """

    def __init__(
        self,
        memory: Memory | BlockingMemory,
        session_id: str,
        *,
        agent: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        self.session_id, self.session_settings = session_id, session_settings
        self._home = HomeLoop(memory)
        self._transcript = Transcript(self._home.memory, "openai-agents", session_id, agent)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items in order; with a limit, the last ones."""
        limit = resolve_session_limit(limit, self.session_settings)
        most = None if limit is None or limit < 0 else limit
        found = await self._home.run(self._transcript.read(most))
        return [cast(TResponseInputItem, dict(item)) for item in found]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items at the end, all or none."""
        turns = [self._turn(cast(Mapping[str, Any], item)) for item in items]
        await self._home.run(self._transcript.add(turns))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item out; None if there is none."""
        item = await self._home.run(self._transcript.pop())
        return None if item is None else cast(TResponseInputItem, dict(item))

    async def clear_session(self) -> None:
        """Delete the items for good."""
        await self._home.run(self._transcript.clear())

    def _turn(self, item: Mapping[str, Any]) -> Turn:
        role = item.get("role") or item.get("type")
        speaker = self._home.memory.bound.owner.user_id if role == "user" else None
        return Turn(message=item, text=_said(item), speaker=speaker or (str(role) if role else None))


def _said(item: Mapping[str, Any]) -> str:
    """What an item says: its texts, or the tool that it calls, or what that answered."""
    if item.get("type") == "function_call":
        return f"{item.get('name')}({item.get('arguments')})"
    said = next((item[name] for name in ("content", "output", "summary") if item.get(name)), "")
    if isinstance(said, str):
        return said
    if isinstance(said, list):
        return "\n".join(str(part["text"]) for part in said if isinstance(part, Mapping) and part.get("text"))
    return json.dumps(said, ensure_ascii=False, default=str)
