"""Labels that frameworks' own names are found by: exact where Tulving's names are not, and of any length."""

import base64
import hashlib
import json

from tulving.services.memory import Memory

_BYTES = 15


def digest(memory: Memory, *names: str) -> str:
    """Names as 24 letters and digits. Those of another owner, project or scope differ, so that a memory that reaches
    several of them does not mix them up."""
    bound = memory.bound
    exact = json.dumps([bound.owner.key, bound.project, bound.scope, *names])
    return base64.b32encode(hashlib.sha256(exact.encode()).digest()[:_BYTES]).decode().lower()
