"""Verbs on sessions: stretches of work, whose memories carry the session's id."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from tulving import storage
from tulving.domain import cursors, intake
from tulving.domain.model import SESSION_STATUSES, Kind, MemoryId, Page, Session, SessionStatus
from tulving.domain.records import Record
from tulving.domain.sessions import counted, idle_since
from tulving.errors import InvalidInput, NotFound
from tulving.services.operations import operation
from tulving.services.requests import once
from tulving.services.service import PAGE_SIZES, PageCursor, Service
from tulving.storage.connection import Connection

ABANDONED_AT_A_TIME = 200
END = "memory_session_end"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SessionReport(Record):
    """A session, and how many memories of each kind were made in it and not forgotten."""

    session: Session
    memories: Mapping[Kind, int]


class Abandoning(Service):
    """The upkeep of sessions: for one part of a tenant, or for all tenants."""

    async def close_abandoned(self, as_of: datetime | None = None, dry_run: bool = False) -> int:
        """Close the active sessions that have had no new memory for `session_idle_hours`; returns how many.

        Such a session has ended with its last memory.
        """
        now = intake.moment("as_of", as_of) or self._env.clock()
        whose = self._tenant_id, self.bound, idle_since(now, self._env.config.session_idle_hours)
        if dry_run:
            return await self._read(storage.sessions.count_idle, *whose)
        audit_of, done = self._audit_of(), 0
        while closed := await self._write(storage.sessions.abandon_idle, *whose, ABANDONED_AT_A_TIME, audit_of):
            done += closed
        return done


class Sessions(Abandoning):
    """Verbs on sessions."""

    @operation("memory_session_start", http="POST /v1/sessions", effect="write", standard=False, once_within=True)
    async def start_session(
        self,
        project: Annotated[str | None, "The project that is worked on"] = None,
        butler: Annotated[str | None, "The agent that works"] = None,
        metadata: Annotated[dict[str, Any] | None, "Further details, as a JSON object"] = None,
    ) -> Session:
        """Start a session: a stretch of work. Until it ends, what is stored on this connection carries its id.

        Over HTTP every request stands alone: pass the id as session_id to the tools that store. A session that nobody
        ends is closed as abandoned once it has had no new memory for some time, by default a day.
        """
        session = await self._start_session(project, butler, metadata)
        self._session.id = session.id
        self._session.calls.clear()
        return session

    @once
    async def _start_session(
        self, project: str | None, butler: str | None, metadata: Mapping[str, Any] | None
    ) -> Session:
        now, owner, audit_of = self._env.clock(), self.bound.owner, self._audit_of()
        session = Session(
            tenant_id=self.caller.tenant_id,
            id=self._env.ids(),
            owner=owner.key,
            user_id=owner.user_id,
            household_id=owner.household_id,
            persona_id=owner.persona_id,
            project=self.bound.project or intake.optional_name("project", project),
            butler=self.bound.scope or intake.optional_name("butler", butler),
            metadata=intake.metadata(metadata),
            started_at=now,
        )
        event = self._audit(now).event("session_started", "session", session.id)

        def start(conn: Connection) -> Session:
            before = idle_since(now, self._env.config.session_idle_hours)
            storage.sessions.abandon_idle(conn, session.tenant_id, self.bound, before, ABANDONED_AT_A_TIME, audit_of)
            return storage.sessions.start(conn, session, event)

        return await self._write_once(start)

    @operation(END, http="POST /v1/sessions/{session_id}/end", effect="write", standard=False)
    @once
    async def end_session(
        self,
        session_id: Annotated[MemoryId | None, "Which one; the current one of this connection if left out"] = None,
        summary: Annotated[str | None, "What was done, in plain words"] = None,
        tool_calls: Annotated[
            Mapping[str, int] | int | None, 'How often each tool was called, as {"edit": 3}; counted if left out'
        ] = None,
    ) -> Session:
        """End a session, with a summary of what was done. One that was abandoned can still be ended.

        The calls of this memory's own tools are counted during the current session of a connection.
        """
        id_ = intake.optional_id("session_id", session_id) or self._session.id
        if id_ is None:
            raise InvalidInput("session_id", "is missing: no session was started here", "the id of a session")
        if summary is not None:
            summary = intake.content(summary, "summary", self._env.config.max_content_characters)
        if tool_calls is None and self._session.id == id_:
            # The call that ends a session is no part of its work.
            tool_calls = {tool: calls for tool, calls in self._session.calls.items() if tool != END}
        total, by_tool = counted(0 if tool_calls is None else tool_calls)
        audit = self._audit(self._env.clock())

        def end(conn: Connection) -> Session:
            found = storage.sessions.get(conn, self.caller.tenant_id, id_, self.bound, to_change=True)
            if found is None:
                raise NotFound(f"there is no session {id_}")
            if found.status == "completed":
                raise InvalidInput("session_id", f"the session {id_} was ended before", "one that is not completed")
            details = {**found.metadata, "tool_calls": by_tool} if by_tool else found.metadata
            ended = replace(
                found, status="completed", ended_at=audit.now, summary=summary, tool_calls=total, metadata=details
            )
            return storage.sessions.end(conn, ended, audit.event("session_ended", "session", id_, tool_calls=total))

        try:
            ended = await self._write_once(end)
        except InvalidInput as error:
            if error.field == "session_id":  # somebody else has ended it
                self._leave(id_)
            raise
        self._leave(id_)
        return ended

    def _leave(self, id_: UUID) -> None:
        if self._session.id == id_:  # not if another one was started in the meantime
            self._session.id = None

    @operation("memory_sessions", http="GET /v1/sessions", effect="read", answer="sessions", standard=False)
    async def sessions(
        self,
        status: Annotated[SessionStatus | None, "Only those with this status"] = None,
        project: Annotated[str | None, "Only of this project"] = None,
        limit: Annotated[int, "How many at most, the newest first", PAGE_SIZES] = 20,
        cursor: PageCursor = None,
    ) -> Page[SessionReport]:
        """List sessions, newest first, and how many memories of each kind were made in each."""
        if status is not None:
            status = intake.one_of("status", status, SESSION_STATUSES)
        project, limit = intake.optional_name("project", project), intake.whole("limit", limit, *PAGE_SIZES)
        tenant_id, bound, after = self.caller.tenant_id, self.bound, cursors.read(cursor, datetime, UUID)

        def listed(conn: Connection) -> Page[SessionReport]:
            found = storage.sessions.listing(conn, tenant_id, bound, limit + 1, status, project, after)
            found, next_cursor = cursors.page(found, limit, lambda each: (each.started_at, each.id))
            return Page(items=self._reported(conn, found), next_cursor=next_cursor)

        return await self._read(listed)

    async def get_session(self, session_id: MemoryId) -> SessionReport | None:
        """One session; None if there is none that this connection may see."""
        id_ = intake.memory_id("session_id", session_id)

        def look(conn: Connection) -> list[SessionReport]:
            found = storage.sessions.get(conn, self.caller.tenant_id, id_, self.bound)
            return self._reported(conn, [found] if found else [])

        return next(iter(await self._read(look)), None)

    async def get_sessions(self, session_ids: Collection[UUID]) -> dict[UUID, SessionReport]:
        """Those of these sessions that there are and that this connection may see."""

        def look(conn: Connection) -> list[SessionReport]:
            found = storage.sessions.of_ids(conn, self.caller.tenant_id, self.bound, session_ids)
            return self._reported(conn, found)

        return {report.session.id: report for report in await self._read(look)} if session_ids else {}

    @asynccontextmanager
    async def session(
        self, project: str | None = None, butler: str | None = None, metadata: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Self]:
        """A session as a block. What is stored with the memory that it yields carries the session's id.

        The session ends with the block, unless the block has ended it itself, with a summary. If the block raises, the
        summary names the type of the error.
        """
        id_, problem = (await self._start_session(project, butler, metadata)).id, None
        work = self.bind(session_id=id_)
        try:
            yield work
        except BaseException as error:
            problem = f"ended by {type(error).__name__}"
            raise
        finally:
            with suppress(InvalidInput):  # it was ended before
                await work.end_session(id_, problem)

    def _reported(self, conn: Connection, found: Sequence[Session]) -> list[SessionReport]:
        ids = [session.id for session in found]
        counts = storage.sessions.count_memories(conn, self.caller.tenant_id, self.bound, ids) if ids else {}
        return [SessionReport(session=session, memories=counts[session.id]) for session in found]
