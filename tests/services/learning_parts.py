"""What the tests of learning have in common: a model that answers from a script, and short forms of its answers."""

import inspect
import json
import re
from typing import Any

from tulving import Memory, NewEpisode
from tulving.domain.model import Fact
from tulving.ports import Completion

_ID = re.compile(r"^id: (\S+)$", re.MULTILINE)


class Spawner:
    """A host's spawner that answers from a script: a text, an object, an error to raise, or a function of the prompt
    that returns one of these. The last answer is repeated."""

    name = "spawner"

    def __init__(self, *answers: Any) -> None:
        self._answers, self.prompts, self.sources = list(answers), list[str](), list[str]()

    async def trigger(self, prompt: str, trigger_source: str) -> Any:
        self.prompts.append(prompt)
        self.sources.append(trigger_source)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if callable(answer):
            answer = answer(prompt)
            answer = await answer if inspect.isawaitable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer


NOTHING = "{}"
TRUNCATED = Completion('{"new_facts": [', truncated=True)


def said(**sections: Any) -> str:
    """An answer with these sections."""
    return f"Here it is:\n```json\n{json.dumps(sections, default=str)}\n```"


def fact(content: str, predicate: str = "likes", subject: str = "user", **more: Any) -> dict[str, Any]:
    return {"subject": subject, "predicate": predicate, "content": content, **more}


def shown(prompt: str) -> list[str]:
    """The ids of the episodes that a prompt shows, in its order."""
    return _ID.findall(prompt)


def noting(prompt: str) -> str:
    """The answer of a model that learns one fact from each episode."""
    return said(new_facts=[fact(f"learned from {id_}", f"p-{id_}", evidence=[id_]) for id_ in shown(prompt)])


async def tell(memory: Memory, *contents: str, butler: str = "b", **more: Any) -> list[str]:
    """The ids of new episodes."""
    stored = await memory.store_episodes([NewEpisode(content=text, butler=butler, **more) for text in contents])
    return [str(each.id) for each in stored]


async def facts(memory: Memory, state: str | None = None) -> list[Fact]:
    """The facts in a state, the oldest first; by default those in use."""
    page = await memory.list_memories("fact", limit=200, state=state)
    return [item for item in reversed(page.items) if isinstance(item, Fact)]


async def sources(memory: Memory, kind: str, id_: Any) -> set[str]:
    """The episodes that a memory was derived from."""
    links = await memory.get_links(kind, id_, "outgoing")
    return {str(link.target_id) for link in links if link.relation == "derived_from"}
