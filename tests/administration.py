"""The whole store behind a memory that a test has open."""

from tulving.services.administration import Administration
from tulving.services.memory import Memory
from tulving.services.tokens import Authentication


def administer(memory: Memory) -> Administration:
    return Administration(memory._env, memory.caller)


def authentication(memory: Memory) -> Authentication:
    return Authentication(memory._env, memory.caller)
