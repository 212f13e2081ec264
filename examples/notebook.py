"""The cells of a notebook, in one file. In Jupyter a loop is running already, so `await` works at the top of a cell.

python examples/notebook.py
"""

from tulving import open_memory_sync

# %% Open the memory once. In a notebook, keep it open until you are done.
memory = open_memory_sync("notebook.db", embedder="hashing")

# %% Store what you find out.
memory.store_note("The second run was done with a dirty sensor", tags=["experiment"])
memory.store_fact("run 2", "temperature", "21 degrees")

# %% Ask, and look at why something was found.
for hit in memory.search("which run had a problem with the sensor?"):
    parts = {name: round(value, 2) for name, value in hit.parts.items() if value}
    print(f"{hit.score:.2f}  {hit.item.content}  {parts}")

# %% Close it at the end.
memory.close()
