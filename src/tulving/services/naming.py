"""Ids by their beginning, for people who type them."""

import re
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from tulving import storage
from tulving.domain.model import KINDS
from tulving.errors import InvalidInput, NotFound
from tulving.services.service import Service

SHORTEST_PREFIX = 4
MOST_NAMED = 5
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)


class Naming(Service):
    """The verb that completes an id."""

    async def complete_id(self, given: str, nouns: Sequence[str] = KINDS, field: str = "id") -> tuple[str | None, str]:
        """The whole id that a beginning of at least 4 characters stands for, and what it is the id of, among the
        memories, entities, sessions, conflicts, runs and proposals that this connection may read.

        A whole id, and what is none at all, is returned as it is, without being looked up.
        """
        digits = given.replace("-", "")
        with suppress(ValueError):
            return None, str(UUID(given))
        if not _HEX.fullmatch(digits) or len(digits) > 32:
            return None, given
        if len(digits) < SHORTEST_PREFIX:
            allowed = f"an id, or its first {SHORTEST_PREFIX} or more characters"
            raise InvalidInput(field, f"{given!r} is too short", allowed)
        found = await self._read(
            storage.prefixes.find, self.caller.tenant_id, self.bound, nouns, digits.lower(), MOST_NAMED + 1
        )
        if not found:
            raise NotFound(f"there is no {' or '.join(nouns)} {given}")
        if len(found) > 1:
            named = ", ".join(f"{noun} {id_}" for noun, id_ in found[:MOST_NAMED])
            more = ", ..." if len(found) > MOST_NAMED else ""
            raise InvalidInput(field, f"{given} is the beginning of several ids: {named}{more}", "more of the id")
        [(noun, id_)] = found
        return noun, str(id_)
