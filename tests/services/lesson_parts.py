"""A memory that learns from a scripted model, for the tests of what is learned, undone and reviewed."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace

from tulving import open_memory
from tulving.services.model import LanguageModel
from tulving.storage import learning
from tulving.testing import ScriptedLlm, SequentialIds, WordEmbedder

TALK = "User: hello\nAssistant: hello to you"


def ask(memory, *answers, forever=False):
    """Let these answers be the model's; objects are written as JSON. Returns the model."""
    llm = ScriptedLlm(*(each if isinstance(each, str) or callable(each) else _text(each) for each in answers))
    llm._forever = forever
    memory._env.model = LanguageModel(llm, retries=0, max_tokens=1000, jitter=lambda: 0.0)
    return llm


def _text(answer):
    return answer if isinstance(answer, Exception) else json.dumps(answer)


def said(content, confidence=0.9, category="knowledge"):
    return {"content": content, "category": category, "confidence": confidence}


async def learn(memory, *facts, profile=None, **options):
    """Learn these facts from a conversation."""
    ask(memory, {"facts": [said(fact) if isinstance(fact, str) else fact for fact in facts], "profile": profile or {}})
    return await memory.learn(TALK, **options)


def told(subject, predicate, content, **more):
    return {"subject": subject, "predicate": predicate, "content": content, **more}


def update(fact_id, content, **more):
    return {"target_id": str(fact_id), **told("x", "x", content), **more}


async def consolidate(memory, episodes=("something happened",), *, butler="chef", evidence=None, **answer):
    """Learn from new episodes what the model proposes. Returns the run's id, the counts and the ids of the episodes;
    `evidence` names those that every proposal cites, by their place."""
    stored = [(await memory.store_episode(text, butler=butler)).id for text in episodes]
    for section in ("new_facts", "updated_facts", "new_rules"):
        for entry in answer.get(section, ()):
            if evidence is not None:
                entry["evidence"] = [str(stored[place]) for place in evidence]
    ask(memory, {**answer, "confirmations": [str(id_) for id_ in answer.get("confirmations", ())]})
    result = await memory.run_consolidation(butler=butler)
    assert not result["warning"] and len(result["runs"]) == 1, result
    return result["runs"][0], result, stored


async def facts(memory, **options):
    """The contents of the facts in use."""
    page = await memory.list_memories("fact", limit=1000, **options)
    return sorted(item.content for item in page.items)


async def rules(memory):
    return sorted(item.content for item in (await memory.list_memories("rule", limit=1000)).items)


async def fact(memory, id_):
    return await memory.look("fact", id_)


@asynccontextmanager
async def reopened(url, clock, start=10**9, **options):
    """The same store, opened by somebody else."""
    given = {"embedder": WordEmbedder(), "clock": clock, "ids": SequentialIds(start), "background": False, **options}
    async with open_memory(url, **given) as memory:
        yield memory


def configure(memory, **learning_settings):
    """Change the settings of learning in an open memory."""
    env = memory._env
    env.config = replace(env.config, learning=replace(env.config.learning, **learning_settings))


async def due(memory):
    """How many episodes wait to be learned from."""
    bound = memory.bound
    return sum(g.episodes for g in await memory._read(learning.groups, "default", bound, memory._env.clock(), None))
