"""Where a memory comes from and what became of it."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated

from tulving import storage
from tulving.domain import intake
from tulving.domain.model import Fact
from tulving.services.operations import operation
from tulving.services.service import Service

LONGEST = 1000


class Lineage(Service):
    """Verbs that look back."""

    def now(self) -> datetime:
        """The time by this memory's clock, for whoever looks at it."""
        return self._env.clock()

    @operation(
        "memory_fact_history",
        effect="read",
        command="history",
        positional=("subject", "predicate"),
        answer="facts",
        standard=False,
    )
    async def fact_history(
        self,
        subject: Annotated[str, "What or whom it is about"],
        predicate: Annotated[str, "Which property, such as favorite_color"],
        scope: Annotated[str | None, "Only this namespace and the global one"] = None,
        limit: Annotated[int, "How many at most, the newest of them"] = 100,
    ) -> list[Fact]:
        """List what was ever said of a subject and predicate, oldest first, with what became of each."""
        wanted = replace(self._filter(scope=scope), state="any")
        return await self._read(
            storage.lineage.of_key,
            self.caller.tenant_id,
            wanted,
            intake.name("subject", subject),
            intake.name("predicate", predicate),
            self._env.clock(),
            intake.whole("limit", limit, 1, LONGEST),
        )
