"""CrewAI's memory, kept by Tulving.

    pip install . crewai        (in a clone: docs/install.md says why)
    python examples/crewai_memory.py

Everything about a memory is said here, so that CrewAI needs no language model. The store is the file memory.db in the
current folder.
"""

from crewai.memory.unified_memory import Memory

from tulving import open_memory_sync
from tulving.integrations.crewai import TulvingStorage

with open_memory_sync("memory.db") as opened:
    storage = TulvingStorage(opened)
    memory = Memory(storage=storage, embedder=storage.embed)
    memory.remember("The deploy runs every Friday at noon", scope="/ops", categories=["work"], importance=0.8)
    memory.remember("The dog is called Rex", scope="/home", categories=["pets"], importance=0.5)
    [match] = memory.recall("What is the name of the dog?", depth="shallow", limit=1)
    memory.close()
    print(match.record.scope, match.record.content)

# Prints:
# /home The dog is called Rex
