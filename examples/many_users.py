"""One store, many people: `bind` restricts a memory to one of them, and what it stores belongs to that one.

python examples/many_users.py
"""

from tulving import open_memory_sync

with open_memory_sync("users.db", embedder="hashing", tenant="acme") as memory:
    anna, bert = memory.bind(user_id="anna"), memory.bind(user_id="bert")
    anna.store_fact("user", "favorite_color", "deep green")
    bert.store_fact("user", "favorite_color", "yellow")  # another person's slot: nothing is superseded
    memory.store_rule("Greet people by their first name")  # nobody's: of the whole tenant

    for name, theirs in {"anna": anna, "bert": bert, "the tenant": memory}.items():
        found = theirs.recall("which color is the favorite?", types=["fact"])
        print(f"{name}: {', '.join(sorted(hit.item.content for hit in found))}")

    stored = anna.store_fact("user", "city", "Porto")
    assert bert.get("fact", stored.id) is None  # answered like an unknown id
