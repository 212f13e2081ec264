"""The types of `blocking.py`. Written by scripts/blocking_stub.py: do not edit."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import asyncpg

from tulving.domain.editing import Revision
from tulving.domain.events import Event, Trail
from tulving.domain.layers import CompactFound, Detail, TimelineEntry
from tulving.domain.learning import Proposal
from tulving.domain.maturity import Mark
from tulving.domain.merge_rules import MergeRule, ResolvedRule
from tulving.domain.messages import Message
from tulving.domain.model import (
    Direction,
    EntitiesMerged,
    Entity,
    EntityCandidate,
    EntityCreated,
    EntityReport,
    EntityType,
    Fact,
    Found,
    Item,
    Kind,
    Link,
    MemoryId,
    MergePreview,
    NewEpisode,
    NewFact,
    NewRule,
    Page,
    Relation,
    Rule,
    Session,
    SessionStatus,
    Settlement,
    Similar,
    Stored,
)
from tulving.domain.offers import Offer, Taken
from tulving.domain.profile import Block, BlockName, ProfileOwner
from tulving.domain.ranking import Mode
from tulving.domain.scope import Bound, Caller
from tulving.domain.statistics import Fading, Growth, Overview, RuleCounts, Statistics
from tulving.domain.windows import Window
from tulving.location import Create
from tulving.ports import Clock, Embedder, Finding, Ids, Llm, Observer, Publisher, Reranker
from tulving.services.bridge import BridgeStatus
from tulving.services.bus import Handler, Topics
from tulving.services.conflicts import ConflictReport
from tulving.services.health import Glance, Health, JobState, Readiness
from tulving.services.learning import Consolidated, LearnPrompt
from tulving.services.lessons import Learned
from tulving.services.reviewing import RunReport
from tulving.services.service import NamedProgress, Progress
from tulving.services.sessions import SessionReport
from tulving.services.timeline import Rotated
from tulving.services.upkeep import CleanedUp
from tulving.settings import MemoryModuleConfig
from tulving.storage.undoing import Undone

class BlockingMemory:
    """A `Memory` whose asynchronous methods are plain calls. Made by `open_memory_sync`; threads may share it."""
    def subscribe(self, publisher: Publisher) -> None:
        """Receive the events of every change to this tenant's memory made in this process, after its commit."""
        ...
    def settle(self) -> None:
        """Wait until the references of all answers so far are counted. Only tests need this."""
        ...
    def graph(self, names: Sequence[str] | None = None) -> list[tuple[Entity, list[Fact]]]:
        """The entities that facts in use are about, or those of exactly these names, with these facts; the oldest
        first."""
        ...
    def forget_facts(self, ids: Sequence[UUID]) -> None:
        """Forget facts, all or none. Those that there are not, or not for this connection, are ignored."""
        ...
    def take_offers(
        self, offers: Sequence[Offer], *, source: str | None = None, strict: bool = False, dry_run: bool = False
    ) -> list[Taken]:
        """Take memories of another program, the `source`: those that are valid and new, in one transaction.

        What was taken before under the same key stays as it is, whatever became of it, and so does a fact that is in
        use and says the same: neither is confirmed. Notes are not compared with one another. Secrets are redacted or
        refused, as by every verb. With `strict` an invalid one is an error, and nothing is stored; with `dry_run`
        nothing changes.
        """
        ...
    def store_episode(
        self,
        content: str,
        butler: str | None = None,
        session_id: MemoryId | None = None,
        importance: float = 5.0,
        title: str | None = None,
        type: str | None = None,
        project: str | None = None,
        source: str | None = None,
        occurred_at: datetime | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Stored:
        """Remember something that happened.

        An episode expires after a week unless it is given a type, which makes it a lasting project memory. Text
        between <private> and </private> is removed before anything else is done with it.
        """
        ...
    def store_episodes(self, offers: Sequence[NewEpisode | Mapping[str, Any]]) -> list[Stored]:
        """Remember many things that happened: one embedding batch, one transaction, all or none. A mapping has the
        fields of `NewEpisode`."""
        ...
    def record_event(
        self,
        content: str,
        event_type: str,
        timestamp: datetime | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        importance: float = 5.0,
        source: str | None = None,
        butler: str | None = None,
        title: str | None = None,
        project: str | None = None,
        session_id: MemoryId | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Stored:
        """Record an event of a user's timeline.

        Events may come late and in any order: each takes its place by its timestamp. The same event again (same owner,
        type, timestamp and content) is a duplicate, and the answer has the id of the first. An event does not expire.
        """
        ...
    def record_events(
        self,
        offers: Sequence[NewEpisode | Mapping[str, Any]],
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
    ) -> list[Stored]:
        """Record many events of a user's timeline: one embedding batch, one transaction, all or none. Each needs a
        type; a mapping has the fields of `NewEpisode`."""
        ...
    def record_turns(self, offers: Sequence[NewEpisode]) -> list[Stored]:
        """Record what was said in a conversation, like `record_events`, but of no user in particular: the same turn
        again (same type, time and content) is a duplicate."""
        ...
    def query_window(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        last_days: float | None = None,
        top_k: int = 10,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        event_types: list[str] | None = None,
        min_importance: float | None = None,
        project: str | None = None,
        session_id: MemoryId | None = None,
        tags: list[str] | None = None,
        butler: str | None = None,
    ) -> Window:
        """List what happened in a window of time, newest first, archived episodes included.

        The diagnostics tell how many episodes there are in the caller's context (scanned), how many are returned, and
        how many were dropped for each reason: outside_window, other_type, other_butler, other_project, other_session,
        lacks_tags, less_important, over_limit. The numbers add up: an episode counts for the first reason that applies.
        On either side of the window at most 1,000 are counted.
        """
        ...
    def episodes(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        session_id: MemoryId | None = None,
        type: str | None = None,
        project: str | None = None,
        source: str | None = None,
        tags: list[str] | None = None,
        query: str | None = None,
        gone: bool = False,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Item]:
        """List what happened, the latest first, page by page, archived episodes included. Does not count as a
        reference."""
        ...
    def episode_days(
        self,
        days: Sequence[datetime],
        session_id: MemoryId | None = None,
        type: str | None = None,
        project: str | None = None,
        source: str | None = None,
        tags: list[str] | None = None,
        gone: bool = False,
    ) -> list[int]:
        """How many of these episodes happened on each of some days."""
        ...
    def conflicts(self, status: str | None = None, limit: int = 20, cursor: str | None = None) -> Page[ConflictReport]:
        """List the conflicts between notes: both sides, which one won or what was merged of them, and why."""
        ...
    def count_held_conflicts(self) -> int:
        """How many conflicts wait for a person."""
        ...
    def conflict(self, conflict_id: MemoryId) -> ConflictReport | None:
        """Read one conflict with both sides as they are today; nothing if there is none."""
        ...
    def revert_conflict(self, conflict_id: MemoryId) -> Settlement:
        """Put both sides of a settled conflict back into use, and retract what was merged of them."""
        ...
    def accept_conflict(self, conflict_id: MemoryId) -> Settlement:
        """Settle a conflict that was held, as it was proposed."""
        ...
    def dismiss_conflict(self, conflict_id: MemoryId) -> Settlement:
        """Leave both sides of a conflict that was held in use."""
        ...
    def runs(self, run_id: MemoryId | None = None, limit: int = 20, cursor: str | None = None) -> Page[RunReport]:
        """List the runs of language models that learned from episodes and conversations, and what they changed."""
        ...
    def undo(self, run_id: MemoryId, dry_run: bool = False) -> Undone:
        """Undo a run of a language model: retract what it added and restore what it replaced.

        What somebody has changed since stays as it is, and is named.
        """
        ...
    def proposals(self, limit: int = 50, cursor: str | None = None) -> Page[Proposal]:
        """List what runs would have done but a person must decide on, oldest first."""
        ...
    def count_held_proposals(self) -> int:
        """How many proposals wait for a person."""
        ...
    def accept(self, ids: Sequence[MemoryId] | MemoryId) -> Learned:
        """Accept proposals, which then take effect. One that no longer can is listed among the errors and stays."""
        ...
    def reject(self, ids: Sequence[MemoryId] | MemoryId) -> int:
        """Drop proposals, so that no model stores the same again; returns how many."""
        ...
    def learn(
        self,
        conversation: str | Sequence[Mapping[str, Any]],
        butler: str | None = None,
        session_id: MemoryId | None = None,
        cc_spawner: Any = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Learn facts about a person, and the person's profile, from a conversation, with the configured model or, if
        the host allows it, with the host's own.

        What is uncertain, known already or was forgotten by the person is skipped. A long conversation is read in
        parts.
        """
        ...
    def run_consolidation(
        self, cc_spawner: Any = None, butler: str | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> Consolidated:
        """Learn facts and rules from the episodes that wait for it, with the configured model or, if the host allows
        it, with the host's own.

        Without a model they are only counted. What was learned can be undone by the ids of the runs. Rules that follow
        orders found in episodes, and large changes, are held for a person.
        """
        ...
    def learn_prompt(
        self, conversation: str | None = None, butler: str | None = None, again: bool = False
    ) -> LearnPrompt:
        """Get a prompt for your own model: answer it, and pass the answer to memory_learn_apply with the lease.

        No key is needed. The lease reserves the episodes for you until it expires. Without a lease there is nothing to
        learn, or another lease holds the `episodes` that wait until `expires_at`.
        """
        ...
    def learn_apply(self, answer: str, lease: MemoryId | None = None) -> Learned:
        """Take a model's answer to a prompt of memory_learn_prompt. It is checked as that of the configured model."""
        ...
    def profile(
        self,
        max_tokens: int | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
    ) -> str:
        """Show what is known about the user: what they do now, their history, and facts by confidence.

        Empty if nothing is known.
        """
        ...
    def profile_blocks(self) -> dict[str, str]:
        """The text of each block that is not empty."""
        ...
    def profile_block(
        self,
        block: BlockName,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
    ) -> Block | None:
        """Read one block of the user's profile as it was written last; nothing if it never was."""
        ...
    def profile_versions(
        self,
        block: BlockName,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
    ) -> list[Block]:
        """List every version of a block of the user's profile, oldest first."""
        ...
    def profile_owners(self, limit: int = 100, cursor: str | None = None) -> Page[ProfileOwner]:
        """List whose profiles there are: of each the user, household and persona, and when it was written last."""
        ...
    def set_profile(
        self,
        block: BlockName,
        content: str,
        unchanged_since: datetime | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
    ) -> bool:
        """Correct a block of the user's profile. The answer says whether that changed it; earlier versions are kept."""
        ...
    def delete_profile(
        self,
        block: BlockName | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
    ) -> int:
        """Delete a block of the user's profile, or all of them, with every earlier version; facts are not deleted."""
        ...
    def create_entity(
        self,
        canonical_name: str,
        entity_type: EntityType,
        tenant_id: str = "default",
        aliases: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> EntityCreated:
        """Register a person, organization, place or other thing that facts can be about.

        Call entity_resolve first: a name that exists already with the same type is refused.
        """
        ...
    def get_entity(self, entity_id: MemoryId, tenant_id: str = "default") -> Entity | None:
        """Read one entity; nothing if there is none. A merged entity names the one it was merged into."""
        ...
    def list_entities(
        self, name: str | None = None, entity_type: EntityType | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[EntityReport]:
        """List entities by name, page by page, and how many facts are about each. Merged ones are left out."""
        ...
    def update_entity(
        self,
        entity_id: MemoryId,
        tenant_id: str = "default",
        canonical_name: str | None = None,
        aliases: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        unchanged_since: datetime | None = None,
    ) -> Entity | None:
        """Change an entity: its name and its aliases are replaced if given, metadata is added key by key."""
        ...
    def resolve_entity(
        self,
        name: str,
        tenant_id: str = "default",
        entity_type: EntityType | None = None,
        context_hints: dict[str, Any] | None = None,
        enable_fuzzy: bool = False,
        limit: int | None = None,
    ) -> list[EntityCandidate]:
        """Find out which entity a name refers to: candidates, best first. Nothing is created.

        An exact name scores 100, an alias 80, a part of a name 50, a similar name (only with enable_fuzzy) 20; facts
        that share words with the hints add up to 20. With enable_fuzzy, equal scores are ordered by similarity, and
        together with hints 80 x (similarity + 5 x overlap of the words) is added.
        """
        ...
    def preview_merge(self, source_entity_id: MemoryId, target_entity_id: MemoryId) -> MergePreview:
        """Preview a merge of two entities: the names and facts that would move, and those that would be superseded."""
        ...
    def merge_entities(
        self, source_entity_id: MemoryId, target_entity_id: MemoryId, tenant_id: str = "default"
    ) -> EntitiesMerged:
        """Merge two entities that are the same: facts and names of the source become the target's.

        Where both have a fact with the same predicate, the one with more confidence stays and the other is superseded.
        The source is no longer found. A merge can't be undone. A connection that is bound to one user, project or scope
        can't merge, since that changes the facts of others too.
        """
        ...
    def merge_rules(self) -> list[ResolvedRule]:
        """List all rules with what they inherit, in the order in which they are tried."""
        ...
    def merge_rule(self, name: str) -> ResolvedRule | None:
        """Read a rule with all that it inherits; nothing if there is none of this name."""
        ...
    def export_merge_rules(self) -> list[dict[str, Any]]:
        """What each rule says itself, as plain JSON; `load_merge_rules` takes it."""
        ...
    def register_merge_rule(self, config: Mapping[str, Any] | MergeRule) -> ResolvedRule:
        """Add a rule under a new name: what it changes, and the name of a rule that it extends, if any."""
        ...
    def update_merge_rule(self, name: str, updates: Mapping[str, Any]) -> ResolvedRule:
        """Change some values of a rule, table by table. Null removes the rule's own value, so that the inherited one
        applies again."""
        ...
    def delete_merge_rule(self, name: str) -> bool:
        """Delete a rule. The default rule, and one that others extend, can't be deleted."""
        ...
    def load_merge_rules(self, rules: Sequence[Mapping[str, Any]]) -> int:
        """Register exported rules, in any order, all of them or none; returns how many were new or changed. A rule of
        the same name is replaced, or left alone if it says the same."""
        ...
    def context(
        self,
        trigger_prompt: str,
        butler: str | None = None,
        token_budget: int | None = None,
        as_of: datetime | None = None,
        min_relevance: float | None = None,
    ) -> str:
        """Build the block that belongs in the prompt of a session: the user's profile, facts, rules and episodes.

        It is for the start of a session. Later, recall what is known about a topic.
        """
        ...
    def search_compact(
        self,
        query: str,
        types: list[Kind] | None = None,
        scope: str | None = None,
        mode: Mode | None = None,
        limit: int = 20,
        min_confidence: float = 0.2,
        type: str | None = None,
        project: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tags: list[str] | None = None,
        as_of: datetime | None = None,
        min_relevance: float | None = None,
    ) -> CompactFound:
        """Search as memory_search does, but answer each hit in one short line: id, title, type, score, time.

        Read what you need with memory_details, and what happened around it with memory_timeline.
        """
        ...
    def timeline(
        self,
        memory_id: MemoryId,
        memory_type: Kind = "episode",
        window: int = 5,
        types: list[Kind] | None = None,
        type: str | None = None,
        project: str | None = None,
        session_id: MemoryId | None = None,
    ) -> list[TimelineEntry]:
        """List what came before and after a memory, in the order of time; nothing if there is no such memory.

        An episode stands where it happened, a fact or rule where it was stored.
        """
        ...
    def details(self, ids: list[MemoryId]) -> list[Detail]:
        """Read some memories in full, in any state and in the order asked. Unknown ids are left out.

        Each counts as a reference, except from the command line.
        """
        ...
    def look_at(self, ids: list[MemoryId]) -> list[Detail]:
        """Read some memories in full as `details` does, without counting references."""
        ...
    def start_session(
        self, project: str | None = None, butler: str | None = None, metadata: dict[str, Any] | None = None
    ) -> Session:
        """Start a session: a stretch of work. Until it ends, what is stored on this connection carries its id.

        Over HTTP every request stands alone: pass the id as session_id to the tools that store. A session that nobody
        ends is closed as abandoned once it has had no new memory for some time, by default a day.
        """
        ...
    def end_session(
        self,
        session_id: MemoryId | None = None,
        summary: str | None = None,
        tool_calls: Mapping[str, int] | int | None = None,
    ) -> Session:
        """End a session, with a summary of what was done. One that was abandoned can still be ended.

        The calls of this memory's own tools are counted during the current session of a connection.
        """
        ...
    def sessions(
        self,
        status: SessionStatus | None = None,
        project: str | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[SessionReport]:
        """List sessions, newest first, and how many memories of each kind were made in each."""
        ...
    def get_session(self, session_id: MemoryId) -> SessionReport | None:
        """One session; None if there is none that this connection may see."""
        ...
    def get_sessions(self, session_ids: Collection[UUID]) -> dict[UUID, SessionReport]:
        """Those of these sessions that there are and that this connection may see."""
        ...
    def session(
        self, project: str | None = None, butler: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> AbstractContextManager[Self]:
        """A session as a block. What is stored with the memory that it yields carries the session's id.

        The session ends with the block, unless the block has ended it itself, with a summary. If the block raises, the
        summary names the type of the error.
        """
        ...
    def close_abandoned(self, as_of: datetime | None = None, dry_run: bool = False) -> int:
        """Close the active sessions that have had no new memory for `session_idle_hours`; returns how many.

        Such a session has ended with its last memory.
        """
        ...
    def stats(self, scope: str | None = None) -> Statistics:
        """Count the memories of each kind by state, and how long the oldest episode has waited for consolidation."""
        ...
    def count_rules(self, scope: str | None = None) -> RuleCounts:
        """The counts of `stats` for rules alone."""
        ...
    def growth(self, days: int = 28) -> Growth:
        """Count the memories of each kind that were stored on each of the last days (UTC), oldest first.

        At most 10,000 of each kind are counted per day.
        """
        ...
    def fading(self, days: int = 7, limit: int = 10) -> Fading:
        """Forecast which facts and rules will fade in the next days unless something confirms them: how many begin to
        fade and how many expire on each day (UTC), and the most important ones.

        At most 10,000 are counted per day.
        """
        ...
    def overview(self, scope: str | None = None) -> Overview:
        """The counts of `stats`, what learning has cost (the tokens spent today of those that may be spent), how many
        conflicts are held for a person, and how tool calls in plain text were read."""
        ...
    def count_tool_text(self, protocol: str, reason: str) -> None:
        """Count a model's text that was read for tool calls, and the reason if ABP was not used."""
        ...
    def audit(
        self,
        event_type: str | None = None,
        actor: str | None = None,
        item: MemoryId | None = None,
        run_id: MemoryId | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Trail:
        """List what was changed, the newest change first: what happened to which memory, by whom, and in which run.

        A page may have fewer events than the limit, or none, before the end of the trail: continue with next_cursor.
        """
        ...
    def complete_id(self, given: str, nouns: Sequence[str] = ..., field: str = "id") -> tuple[str | None, str]:
        """The whole id that a beginning of at least 4 characters stands for, and what it is the id of, among the
        memories, entities, sessions, conflicts, runs and proposals that this connection may read.

        A whole id, and what is none at all, is returned as it is, without being looked up.
        """
        ...
    def export(self, path: Path, progress: NamedProgress = ...) -> dict[str, int]:
        """Write everything as JSON lines; counts per table."""
        ...
    def import_(self, path: Path, progress: NamedProgress = ...) -> dict[str, dict[str, int]]:
        """Read an export in, all or none: into the caller's tenant, or each row of an export of all into its own.

        What is there already is skipped. Vectors of another embedder are left out and made anew.
        """
        ...
    def on(self, topics: Topics, handler: Handler) -> Callable[[], object]:
        """Call a function, which may be asynchronous, with each message from now on; returns what ends this.

        `topics` are names, or their beginnings such as `memory:episodic`; None means all but `audit:changed`. Messages
        come in order, one at a time, after the change is committed, also for changes by other processes. An error of
        the handler is logged, and the next message follows. What a handler must not miss while the process is down is
        read with `messages`.
        """
        ...
    def message_cursor(self, after: str | None = None) -> str:
        """The cursor at which `messages` begins: the given one, if it is valid for this store, or the present."""
        ...
    def messages(
        self, topics: Topics = None, *, after: str | None = None, poll: float | None = None
    ) -> Iterator[Message]:
        """All messages after a cursor, or from now on, as they come; it ends when the memory is closed.

        Each message has a `cursor`. A reader that stores it after handling the message, and continues after it, gets
        every message at least once, whichever process made the change. `poll` is how many seconds may pass before a
        change by another process is noticed, where the store can't announce it (SQLite).

        A connection that is bound to a part of the tenant gets messages about what it may read.
        """
        ...
    def run_bridge(self, *, from_start: bool = False) -> dict[str, int]:
        """Handle what has happened to episodes since the last time; counts of what came of it.

        The first run begins with the present, later ones continue where the last one ended, whichever process ran it.
        `from_start` begins with the oldest event; what was handled before is not done twice.
        """
        ...
    def bridge_status(self) -> BridgeStatus:
        """Tell how far the bridge has come that makes facts of important episodes, and whether it is suspended."""
        ...
    def carry_on(self) -> None:
        """Until the memory is closed: handle what happens to episodes, soon after it has."""
        ...
    def begin_bridge(self) -> None:
        """Begin with the present, if the bridge has not begun yet and the store can be written to."""
        ...
    def store_fact(
        self,
        subject: str,
        predicate: str,
        content: str,
        importance: float | None = None,
        permanence: str | None = None,
        scope: str = "global",
        tags: list[str] | None = None,
        entity_id: MemoryId | None = None,
        confidence: float | None = None,
        category: str | None = None,
        project: str | None = None,
        source: str | None = None,
        source_butler: str | None = None,
        source_episode_id: MemoryId | None = None,
        occurred_at: datetime | None = None,
        metadata: dict[str, Any] | None = None,
        session_id: MemoryId | None = None,
    ) -> Stored:
        """Remember that something is true of a subject.

        A fact with the same subject and predicate (or entity and predicate), in any case and with any separators,
        replaces the previous one, which is kept as superseded. One that is true since before the current one
        (occurred_at) is stored as history and does not replace it. The same content again confirms the fact and
        updates what is given here (importance, tags ...); what is left out stays as it was.
        """
        ...
    def store_note(
        self,
        content: str,
        category: str = "knowledge",
        importance: float = 5.0,
        confidence: float = 1.0,
        permanence: str = "standard",
        scope: str = "global",
        tags: list[str] | None = None,
        source: str | None = None,
        occurred_at: datetime | None = None,
        session_id: MemoryId | None = None,
    ) -> Stored:
        """Remember a fact that has no subject and predicate of its own.

        The same content again, whatever its case, is skipped as a duplicate. If a known note says the same in other
        words, or the opposite, one of them is superseded, or both are merged: the outcome and the conflict say which
        and why.
        """
        ...
    def save_semantic(
        self,
        content: str,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        importance: float = 5.0,
        embedding: Sequence[float] | None = None,
        category: str = "knowledge",
        confidence: float = 1.0,
        source: str | None = None,
        occurred_at: datetime | None = None,
        project: str | None = None,
        session_id: MemoryId | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Stored:
        """Save what is known about or for a user, to be found by its meaning.

        It is stored as a note: the same content again, of the same user, household and persona, is a duplicate, and the
        answer has the id of the first; one in conflict with it is settled.
        """
        ...
    def store_facts(self, offers: Sequence[NewFact | Mapping[str, Any]]) -> list[Stored]:
        """Remember many facts: one embedding batch, one transaction, in order, all or none. A mapping has the fields of
        `NewFact`."""
        ...
    def history(
        self,
        subject: str,
        predicate: str,
        scope: str | None = None,
        limit: int = 100,
        as_of: datetime | None = None,
        cursor: str | None = None,
    ) -> Page[Fact]:
        """List all facts that were ever stored for a subject and predicate, in any spelling, with the state of each.

        They come in the order in which they became true. The first page has the newest, the next one those before.
        """
        ...
    def facts(
        self,
        subject: str | None = None,
        entity_id: MemoryId | None = None,
        scope: str | None = None,
        state: str | None = None,
        category: str | None = None,
        project: str | None = None,
        tags: list[str] | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[Item]:
        """List keyed facts by subject and predicate, page by page, without notes. Does not count as a reference.

        Without a state, those in use are listed: one for each subject and predicate of an owner and namespace.
        """
        ...
    def store_rule(
        self,
        content: str,
        scope: str = "global",
        tags: list[str] | None = None,
        permanence: str | None = None,
        project: str | None = None,
        source_butler: str | None = None,
        source_episode_id: MemoryId | None = None,
        metadata: dict[str, Any] | None = None,
        session_id: MemoryId | None = None,
    ) -> Stored:
        """Remember how to act. A new rule is a candidate: use proves it or refutes it."""
        ...
    def store_rules(self, offers: Sequence[NewRule | Mapping[str, Any]]) -> list[Stored]:
        """Remember many rules: one embedding batch, one transaction, all or none. A mapping has the fields of
        `NewRule`."""
        ...
    def mark_helpful(self, rule_id: MemoryId, circumstances: dict[str, Any] | None = None) -> Rule:
        """Record that a rule was applied and helped. Enough of this makes a candidate established, and then proven."""
        ...
    def mark_harmful(
        self, rule_id: MemoryId, reason: str | None = None, circumstances: dict[str, Any] | None = None
    ) -> Rule:
        """Record that a rule was applied and did harm, which weighs four times as much as help.

        A rule that keeps doing harm becomes a warning against itself, with the reasons given here.
        """
        ...
    def rule_marks(self, rule_ids: Sequence[MemoryId], most: int = 40) -> dict[UUID, list[Mark]]:
        """How the last uses of some rules turned out, oldest first."""
        ...
    def invert_rule(self, rule_id: MemoryId) -> Rule | None:
        """Turn a refuted rule into a warning against itself; None for a rule that is not refuted.

        A rule that was inverted before stays as it is.
        """
        ...
    def now(self) -> datetime:
        """The time of this memory's clock, for displaying its memories."""
        ...
    def get(self, memory_type: Kind, memory_id: MemoryId) -> Item | None:
        """Read one memory in full, in any state; nothing if there is none.

        It counts as a reference, except from the command line.
        """
        ...
    def look(self, memory_type: Kind, memory_id: MemoryId) -> Item | None:
        """Read one memory in full as `get` does, without counting a reference."""
        ...
    def list_memories(
        self,
        memory_type: Kind,
        scope: str | None = None,
        type: str | None = None,
        project: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tags: list[str] | None = None,
        state: str | None = None,
        keyed: bool | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Item]:
        """List memories, newest first, page by page. Does not count as a reference."""
        ...
    def confirm(self, memory_type: Kind, memory_id: MemoryId) -> bool:
        """Confirm that a fact or rule still holds, so that its decay restarts; an expired one comes back.

        False if there is none, or if it was superseded or forgotten. An expired fact whose key another one has taken
        is refused.
        """
        ...
    def forget(self, memory_type: Kind, memory_id: MemoryId, derived: bool = False) -> bool:
        """Forget a memory: it is no longer found, but its row is kept; false if there is none.

        No model learns a forgotten fact or rule again; you may store it.
        """
        ...
    def derived(self, memory_type: Kind, memory_id: MemoryId) -> list[Item]:
        """List what was learned from a memory and from nothing else."""
        ...
    def delete(self, memory_type: Kind, memory_id: MemoryId) -> bool:
        """Delete a memory permanently. An event without content remains; an unknown id is an error."""
        ...
    def edit(
        self,
        memory_type: Kind,
        memory_id: MemoryId,
        content: str | None = None,
        tags: list[str] | None = None,
        importance: float | None = None,
        category: str | None = None,
        confidence: float | None = None,
        unchanged_since: datetime | None = None,
    ) -> Item:
        """Correct a memory in place. It keeps its id and its age, and its old version is kept as a revision.

        New content confirms a fact or rule. If something has become true only now, store a new fact instead.
        """
        ...
    def revisions(self, memory_type: Kind, memory_id: MemoryId) -> list[Revision]:
        """List what a memory was before each of its edits, oldest first."""
        ...
    def create_link(
        self, source_type: Kind, source_id: MemoryId, target_type: Kind, target_id: MemoryId, relation: Relation
    ) -> bool:
        """Link two memories. The answer says whether the link is new."""
        ...
    def get_links(self, memory_type: Kind, memory_id: MemoryId, direction: Direction = "both") -> list[Link]:
        """List the links of a memory: where it came from, what it replaced, what it supports."""
        ...
    def events(self, memory_type: Kind, memory_id: MemoryId) -> list[Event]:
        """List the audit events of a memory, oldest first; they remain after it is deleted.

        Then only a connection to the whole tenant can list them, since the row that named the owner is gone.
        """
        ...
    def run_decay_sweep(
        self, as_of: datetime | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> dict[str, int]:
        """Review all facts and rules that are due: let them fade, expire or recover.

        Nothing is due at a time before the last sweep. A dry run only counts.
        """
        ...
    def run_episode_cleanup(
        self, max_entries: int | None = None, as_of: datetime | None = None, dry_run: bool = False
    ) -> CleanedUp:
        """Delete episodes that have expired, and the oldest that were learned from if there are too many.

        An episode that was not learned from yet is never deleted to make room, and has a grace period of some days
        after it expires.
        """
        ...
    def invert_refuted(self) -> int:
        """Turn all refuted rules into warnings against themselves; returns how many."""
        ...
    def count_pending(self) -> int:
        """How many memories lack a vector."""
        ...
    def embed_pending(self, progress: Progress | None = None) -> int:
        """Add the vectors of memories that were stored while the embedder was not ready; returns how many.

        Rows that were inserted by plain SQL are completed first, whether the embedder is ready or not.
        """
        ...
    def search(
        self,
        query: str,
        types: list[Kind] | None = None,
        scope: str | None = None,
        mode: Mode | None = None,
        limit: int | None = None,
        min_confidence: float = 0.2,
        type: str | None = None,
        project: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        tags: list[str] | None = None,
        as_of: datetime | None = None,
        min_relevance: float | None = None,
        archived: bool = False,
    ) -> Found:
        """Look for particular memories by words and by meaning, of any type, time, project or tag.

        To learn what is known about a topic, recall it instead.
        """
        ...
    def search_similar(
        self,
        embedding: Sequence[float] | None = None,
        types: list[Kind] | None = None,
        scope: str | None = None,
        limit: int | None = None,
        min_confidence: float = 0.2,
        query: str | None = None,
        min_similarity: float | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        type: str | None = None,
        project: str | None = None,
        tags: list[str] | None = None,
    ) -> Similar:
        """Search by meaning alone, with words or a vector; the score is the cosine similarity.

        All filters apply before the limit. `filtered` tells what would have been found without a condition:
        below_similarity counts those of the nearest in the window that are not similar enough, outside_window those of
        the nearest of any time that are similar enough but outside the window. Nothing found, nothing filtered: there
        is nothing to find.
        """
        ...
    def recall(
        self,
        topic: str,
        scope: str | None = None,
        limit: int | None = None,
        types: list[Kind] | None = None,
        min_confidence: float = 0.2,
        project: str | None = None,
        tags: list[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        as_of: datetime | None = None,
        min_relevance: float | None = None,
    ) -> Found:
        """Recall what is known about a topic: the best by relevance, importance, recency and confidence.

        To look for one particular memory, search for it instead. Each memory returned counts one more reference.
        """
        ...
    def glance(self) -> Glance:
        """Count the memories and look at the jobs, without trying anything."""
        ...
    def jobs(self) -> list[JobState] | None:
        """The state of the scheduled jobs; None if the database user may not see them."""
        ...
    def health(self) -> Health:
        """Check whether the memory works: reading, writing, the embedder, and its scheduled jobs."""
        ...
    def readiness(self) -> Readiness:
        """The state of the store and the embedder, without trying them: for a host that asks often."""
        ...
    def readiness_findings(self) -> list[Finding]:
        """What the readiness follows from."""
        ...
    def ready(self, timeout: float | None = None) -> bool:
        """Wait until the indexes of the store are warm; False if that takes more than so many
        seconds."""
        ...
    def rotate_timeline(
        self, as_of: datetime | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> Rotated:
        """Archive the oldest episodes that were learned from if there are more than are kept at hand, merge small
        segments of the archive, and delete episodes past their retention. The settings say how many and how old."""
        ...
    def check_segments(self) -> int:
        """Read the segments that this process has not read yet, so that what is damaged is known before it is
        asked for, and a file that was put back counts again; returns how many can't be read."""
        ...
    caller: Caller
    bound: Bound
    def bind(
        self,
        *,
        caller: Caller | None = None,
        user_id: str | None = None,
        household_id: str | None = None,
        persona_id: str | None = None,
        project: str | None = None,
        scope: str | None = None,
        session_id: MemoryId | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """The same store for another caller, or restricted to one user, household, persona, project or scope; or for
        the memories of one session; or with an idempotency key, for one call that may be repeated.

        Only the latter stays in the current session, which belongs to one caller and owner."""
        ...
    @property
    def session_id(self) -> UUID | None:
        """The current session: memories that are stored without another session id carry this one."""
        ...
    @property
    def warning(self) -> str | None:
        """What users should know about this memory now: that it searches by keyword only, and why."""
        ...
    @property
    def config(self) -> MemoryModuleConfig:
        """The settings of this memory."""
        ...
    def observed(self, operation: str) -> AbstractContextManager[Any]:
        """A context manager around the call of an operation, for the observer of this memory."""
        ...
    def count_call(self, tool: str) -> None:
        """Count a tool call that a surface makes: a session knows how many there were since it began."""
        ...
    def close(self) -> None:
        """Finish what was begun and close the store, also for the memories that were bound from this one. A second time
        does nothing."""
        ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

def open_memory_sync(
    url: str | Path | asyncpg.Pool | None = None,
    *,
    tenant: str | None = None,
    actor: str | None = None,
    config: MemoryModuleConfig | None = None,
    embedder: str | Embedder | None = None,
    reranker: Reranker | None = None,
    llm: Llm | None = None,
    clock: Clock = ...,
    ids: Ids = ...,
    tokens: Callable[[str], int] = ...,
    observer: Observer = ...,
    background: bool = True,
    may_reembed: bool = False,
    create: Create = "file",
) -> BlockingMemory:
    """Open a memory as `open_memory` does, with the same arguments, for code that is not asynchronous.

    Either `memory = open_memory_sync(...)`, closed by `memory.close()`, or `with open_memory_sync(...) as memory:`,
    which closes it at the end of the block. What is still open when the interpreter ends is closed then.
    """
    ...
