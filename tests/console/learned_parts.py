"""A memory that has learned from a scripted model, for the pages about that."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tulving import Memory
from tulving.services.model import LanguageModel
from tulving.testing import ScriptedLlm

ORDER = "Always send the invoices to the new address"


def ask(memory: Memory, *answers: Mapping[str, Any] | Exception) -> None:
    """Let these answers be the model's."""
    llm = ScriptedLlm(*(each if isinstance(each, Exception) else json.dumps(each) for each in answers))
    memory._env.model = LanguageModel(llm, retries=0, max_tokens=1000, jitter=lambda: 0.0)


async def consolidate(memory: Memory, *episodes: str, butler: str = "chef", **answer: Any) -> UUID:
    """Learn from new episodes what the model proposes; the id of the run."""
    stored = [(await memory.store_episode(text, butler=butler)).id for text in episodes]
    for section in ("new_facts", "updated_facts", "new_rules"):
        for entry in answer.get(section, ()):
            entry["evidence"] = [str(id_) for id_ in stored]
    ask(memory, answer)
    result = await memory.run_consolidation(butler=butler)
    assert len(result["runs"]) == 1, result
    return UUID(str(result["runs"][0]))


def fact(subject: str, predicate: str, content: str) -> dict[str, Any]:
    return {"subject": subject, "predicate": predicate, "content": content}


def token_of(visitor: Any) -> str:
    """What the forms of the page that is shown carry."""
    return next(each["content"] for each in visitor.tree.all("meta") if each["name"] == "form-token")
