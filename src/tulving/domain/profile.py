"""A person's profile: six blocks of text about the person, shown with the facts that are known."""

from collections.abc import Mapping

CONTEXT: Mapping[str, str] = {"work": "Work", "personal": "Personal", "topOfMind": "Current Focus"}
HISTORY: Mapping[str, str] = {"recent": "Recent", "earlier": "Earlier", "background": "Background"}
BLOCKS = (*CONTEXT, *HISTORY)
"""The blocks in their order; the tables have the labels under which they are shown."""
