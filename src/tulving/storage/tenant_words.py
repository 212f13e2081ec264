"""The tenant prefix of words in the keyword index, on both engines (ADR 0014)."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

_CONSONANTS = "bcdfghjklmnpqrstvwxz"
_PREFIX_LENGTH = 7


@lru_cache(4096)
def tenant_prefix(tenant_id: str) -> str:
    """The prefix of each word of a tenant in the keyword index, so that a query reads only that tenant's part.

    Consonants, because they do not change how a stemmer treats the word after them. Two tenants may get the same
    prefix: the filter still separates their rows.
    """
    digest = int.from_bytes(hashlib.blake2b(tenant_id.encode(), digest_size=8).digest())
    letters = []
    for _ in range(_PREFIX_LENGTH):
        digest, letter = divmod(digest, len(_CONSONANTS))
        letters.append(_CONSONANTS[letter])
    return "".join(letters)


def prefixed(tenant_id: str, words: Sequence[str], between: str = " ") -> str:
    prefix = tenant_prefix(tenant_id)
    return prefix + (between + prefix).join(words)
