"""Verbs on the profile: what is known about a person."""

from datetime import datetime
from typing import Annotated

from tulving import storage
from tulving.domain import cursors, intake, profile
from tulving.domain.decay import effective_confidence
from tulving.domain.model import Page
from tulving.domain.profile import BLOCKS, Block, BlockName, ProfileOwner
from tulving.domain.ranking import stable_order
from tulving.domain.scope import Owner
from tulving.domain.text import CHARACTERS_A_TOKEN
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import PAGE_SIZES, HouseholdId, PageCursor, PersonaId, Service, UserId
from tulving.storage.connection import Connection
from tulving.storage.rows import Row

BUDGETS = intake.Between(1, 1_000_000)
BLOCK = f"One of {', '.join(BLOCKS)}"


class Profiles(Service):
    """Verbs on the profile of one owner: the bound one, or one that the caller names within that."""

    @operation(
        "profile_get",
        http="GET /v1/profile",
        effect="read",
        command="profile",
        answer="profile",
        standard=False,
        defaults={"max_tokens": 2000},
    )
    async def profile(
        self,
        max_tokens: Annotated[int | None, "How long it may be, in tokens", BUDGETS] = None,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
    ) -> str:
        """Show what is known about the user: what they do now, their history, and facts by confidence.

        Empty if nothing is known.
        """
        bound = self._within(user_id, household_id, persona_id).bound
        given = self._env.config.learning.profile_tokens if max_tokens is None else max_tokens
        budget = intake.whole("max_tokens", given, *BUDGETS)
        now, tenant_id = self._env.clock(), self.caller.tenant_id

        def read(conn: Connection) -> tuple[dict[str, Block], list[Row]]:
            most = budget * CHARACTERS_A_TOKEN + 1
            return (
                storage.profiles.current(conn, tenant_id, bound.owner),
                storage.profiles.facts(conn, tenant_id, bound, most, now),
            )

        blocks, rows = await self._read(read)
        believed = {
            row["id"]: effective_confidence(row["confidence"], row["decay_rate"], row["last_confirmed_at"], now)
            for row in rows
        }
        rows.sort(key=lambda row: stable_order(believed[row["id"]], row["created_at"], row["id"]))
        facts = [(row["type"] or row["predicate"], believed[row["id"]], row["content"]) for row in rows]
        return profile.render(_contents(blocks), facts, budget, self._env.tokens)

    async def profile_blocks(self) -> dict[str, str]:
        """The text of each block that is not empty."""
        return _contents(await self._read(storage.profiles.current, self.caller.tenant_id, self.bound.owner))

    @operation(
        "profile_block",
        http="GET /v1/profile/{block}",
        effect="read",
        command="profile-block",
        positional=("block",),
        answer="block",
        standard=False,
    )
    async def profile_block(
        self,
        block: Annotated[BlockName, BLOCK],
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
    ) -> Block | None:
        """Read one block of the user's profile as it was written last; nothing if it never was."""
        name = intake.one_of("block", block, BLOCKS)
        owner = self._within(user_id, household_id, persona_id).bound.owner
        return (await self._read(storage.profiles.current, self.caller.tenant_id, owner)).get(name)

    @operation(
        "profile_versions",
        http="GET /v1/profile/{block}/versions",
        effect="read",
        command="profile-versions",
        positional=("block",),
        answer="versions",
        standard=False,
    )
    async def profile_versions(
        self,
        block: Annotated[BlockName, BLOCK],
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
    ) -> list[Block]:
        """List every version of a block of the user's profile, oldest first."""
        name = intake.one_of("block", block, BLOCKS)
        owner = self._within(user_id, household_id, persona_id).bound.owner
        return await self._read(storage.profiles.history, self.caller.tenant_id, owner, name)

    @operation(
        "profile_owners",
        http="GET /v1/profiles",
        effect="read",
        command="profiles",
        answer="owners",
        standard=False,
    )
    async def profile_owners(
        self,
        limit: Annotated[int, "How many at most, the last written first", PAGE_SIZES] = 100,
        cursor: PageCursor = None,
    ) -> Page[ProfileOwner]:
        """List whose profiles there are: of each the user, household and persona, and when it was written last."""
        limit, after = intake.whole("limit", limit, *PAGE_SIZES), cursors.read(cursor, datetime, str)
        found = await self._read(storage.profiles.owners, self.caller.tenant_id, self.bound, limit + 1, after)
        found, next_cursor = cursors.page(found, limit, _place)
        return Page(items=found, next_cursor=next_cursor)

    @operation(
        "profile_set",
        http="PUT /v1/profile/{block}",
        effect="write",
        command="set-profile",
        positional=("block", "content"),
        answer="updated",
        standard=False,
        idempotent=True,
    )
    @once
    async def set_profile(
        self,
        block: Annotated[BlockName, BLOCK],
        content: Annotated[str, "The whole new text; blank to empty the block"],
        unchanged_since: Annotated[
            datetime | None, "The created_at that you have read: refused if it was written since"
        ] = None,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
    ) -> bool:
        """Correct a block of the user's profile. The answer says whether that changed it; earlier versions are kept."""
        name = intake.one_of("block", block, BLOCKS)
        blank = isinstance(content, str) and not content.strip()
        said = {name: "" if blank else self._content(content)}
        audit, owner = self._audit(self._env.clock()), self._within(user_id, household_id, persona_id).bound.owner
        known = intake.moment("unchanged_since", unchanged_since)
        return await self._write_once(
            lambda conn: bool(storage.profiles.update(conn, self.caller.tenant_id, owner, said, audit, known))
        )

    @operation(
        "profile_delete",
        http="DELETE /v1/profile",
        effect="destroy",
        command="delete-profile",
        positional=("block",),
        answer="deleted",
        standard=False,
    )
    @once
    async def delete_profile(
        self,
        block: Annotated[BlockName | None, f"{BLOCK}; all if left out"] = None,
        user_id: UserId = None,
        household_id: HouseholdId = None,
        persona_id: PersonaId = None,
    ) -> int:
        """Delete a block of the user's profile, or all of them, with every earlier version; facts are not deleted."""
        name = None if block is None else intake.one_of("block", block, BLOCKS)
        audit, owner = self._audit(self._env.clock()), self._within(user_id, household_id, persona_id).bound.owner
        return await self._write_once(
            lambda conn: storage.profiles.delete(conn, self.caller.tenant_id, owner, name, audit)
        )


def _place(found: ProfileOwner) -> tuple[datetime, str]:
    return found.written_at, Owner(found.user_id, found.household_id, found.persona_id).key


def _contents(blocks: dict[str, Block]) -> dict[str, str]:
    return {name: block.content for name, block in blocks.items() if block.content}
