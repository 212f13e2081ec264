"""Runs of language models: begun and closed, leased to a model outside, and what they may spend."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Literal

from tulving import storage
from tulving.domain import intake
from tulving.domain.learning import LEASE, Run
from tulving.domain.model import MemoryId
from tulving.domain.scope import Owner
from tulving.errors import TulvingError, UnusableAnswer
from tulving.services.lessons import Lessons
from tulving.services.model import LONGEST_WAIT, LanguageModel, Spawned

MOST_LEASES = 100


class Runs(Lessons):
    """What the verbs that ask a model have in common."""

    def _new_run(
        self, job: Literal["consolidation", "extraction"], butler: str | None, model: str | None, owner: Owner
    ) -> Run:
        now = self._env.clock()
        return Run(
            tenant_id=self.caller.tenant_id,
            id=self._env.ids(),
            job=job,
            butler=self.bound.scope or intake.optional_name("butler", butler),
            owner=owner.key,
            user_id=owner.user_id,
            household_id=owner.household_id,
            persona_id=owner.persona_id,
            actor=self.caller.actor,
            spender=self.caller.allowance and self.caller.allowance.spender,
            model=model,
            lease_until=now + self._lease,
            created_at=now,
        )

    @property
    def _lease(self) -> timedelta:
        """Longer than any answer can take."""
        llm = self._env.config.llm
        return max(LEASE, timedelta(seconds=(llm.timeout + LONGEST_WAIT) * (llm.retries + 1)))

    async def _leased(self, lease: MemoryId | None) -> Run:
        """The run whose prompt was handed out under a lease."""
        now, tenant = self._env.clock(), self.caller.tenant_id
        if lease is None:
            found = await self._read(storage.runs.recent, tenant, self.bound, MOST_LEASES, "open")
        else:
            found = [await self._read(storage.runs.get, tenant, intake.memory_id("lease", lease))]
        for run in found:
            if (
                run is not None
                and run.model is None
                and run.status == "open"
                and (run.lease_until or now) > now
                and self.bound.owner.covers(run)
                and self.bound.scope in (None, run.butler)
            ):
                return run
        raise storage.runs.used_lease()

    async def _ask(self, run: Run, model: LanguageModel, prompt: str) -> str:
        """A model's answer, if the tenant and the caller may spend what it can cost."""
        now, cost = self._env.clock(), model.cost(prompt)
        allowance, limits = self.caller.allowance, self._env.config.llm
        await self._write(storage.runs.reserve, run, cost, limits, allowance, now, now + self._lease)
        spent = 0, 0
        try:
            completion = await model.ask(prompt)
            spent = model.spent(prompt, completion)
            return completion.text
        except UnusableAnswer as error:
            spent = error.input_tokens, error.output_tokens
            raise
        finally:
            await self._write(storage.runs.spend, run, cost, *spent)

    @asynccontextmanager
    async def _closing(self, run: Run) -> AsyncIterator[Callable[[], None]]:
        """Close a run, whatever comes of it, unless what this yields is called: then it waits for an answer."""
        problem, kept = None, list[bool]()
        try:
            yield lambda: kept.append(True)
        except BaseException as error:
            problem = described(error)
            raise
        finally:
            if not kept:
                await self._write(storage.runs.close, run, problem, self._env.clock())

    def _spawned(self, spawner: Any, trigger_source: str) -> LanguageModel:
        """001-045: a host's way to start a session of its own model. Its attempts are the host's matter."""
        most = self._env.config.llm.max_output_tokens
        given = {"retries": 0, "max_tokens": most, "jitter": lambda: 0.0, "observer": self._env.observer}
        return LanguageModel(Spawned(spawner, trigger_source), **given)


def described(error: BaseException) -> str:
    """An error as it is recorded: errors of ours name no text of a memory, others may."""
    return f"{type(error).__name__}: {error}"[:300] if isinstance(error, TulvingError) else type(error).__name__
