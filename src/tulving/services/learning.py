"""Verbs that learn with a language model: facts from a conversation, facts and rules from episodes."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, TypedDict
from uuid import UUID

from tulving import storage
from tulving.domain import intake, prompts
from tulving.domain.echo import without_injected
from tulving.domain.learning import ConsolidationResult, Extraction, Group, Run, unreadable
from tulving.domain.model import MemoryId
from tulving.domain.records import Record
from tulving.domain.scope import GLOBAL, Owner
from tulving.errors import IntegrityError, InvalidInput, ModelUnavailable, StoreUnavailable, UnusableAnswer
from tulving.parsing.consolidation import parse_consolidation_output
from tulving.parsing.extraction import parse_extraction_output
from tulving.services.lessons import Learned
from tulving.services.model import LanguageModel
from tulving.services.operations import operation
from tulving.services.runs import Runs, described
from tulving.services.service import Progress
from tulving.storage.learning import Material
from tulving.storage.lessons import Withdrawn

log = logging.getLogger("tulving")

TRIGGER = "schedule:consolidation"
NO_MODEL = (
    "no language model is configured: set `llm.url` and `llm.model`, or `llm.command`; or let a model of your own"
    " answer the prompt of memory_learn_prompt (`tulving learn --prompt`)"
)
SUMMED = ("facts_created", "facts_updated", "rules_created", "confirmations_made", "episodes_consolidated", "held")

Butler = Annotated[str | None, "The agent whose episodes are learned from, and whose namespace the facts belong to"]


class Consolidated(TypedDict):
    """What a consolidation did. `held` waits for a person; `runs` are the ids by which it can be undone."""

    episodes_processed: int
    butlers_processed: int
    groups: dict[str, int]
    groups_consolidated: int
    facts_created: int
    facts_updated: int
    rules_created: int
    confirmations_made: int
    episodes_consolidated: int
    held: int
    runs: list[str]
    errors: list[str]
    warning: str | None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LearnPrompt(Record):
    """A prompt for any model, and the lease under which its answer is taken. Without a lease there is nothing to learn,
    or others are learning from the `episodes` that wait."""

    lease: UUID | None
    prompt: str
    episodes: int = 0
    expires_at: datetime | None = None


class Learning(Runs):
    """Verbs that learn."""

    @operation("memory_learn", http="POST /v1/learn", effect="write", standard=False)
    async def learn(
        self,
        conversation: Annotated[str | Sequence[Mapping[str, Any]], "What was said, as lines `User: ...`"],
        butler: Butler = None,
        session_id: Annotated[MemoryId | None, "The session of the conversation (a UUID)"] = None,
        cc_spawner: Any = None,
        progress: Progress | None = None,
    ) -> Learned:
        """Learn facts about a person, and the person's profile, from a conversation, with the configured model or, if
        the host allows it, with the host's own.

        What is uncertain, known already or was forgotten by the person is skipped. A long conversation is read in
        parts.
        """
        turns, session = self._own_words(conversation), intake.optional_id("session_id", session_id)
        model = self._env.model if cc_spawner is None else self._spawned(cc_spawner, "learn")
        if model is None or model.unready():
            raise ModelUnavailable(NO_MODEL if model is None else str(model.unready()))
        run = self._new_run("extraction", butler, model.name, self.bound.owner)
        await self._write(storage.runs.begin, run)
        learned, left = Learned(run_id=run.id), turns
        async with self._closing(run):
            while left:
                prompt, left = await self._extraction_prompt(run, left)
                extraction = parse_extraction_output(await self._ask(run, model, prompt))
                if problem := unreadable(extraction):
                    raise UnusableAnswer(problem)
                learned += await self._extract(run, extraction, session)
                if progress:
                    progress(len(turns) - len(left), len(turns))
        return learned

    @operation("memory_run_consolidation", http="POST /v1/learn/consolidate", effect="write", command="consolidate")
    async def run_consolidation(
        self,
        cc_spawner: Any = None,
        butler: Annotated[str | None, "Only the episodes of this agent"] = None,
        dry_run: Annotated[bool, "Only count the episodes that would be learned from"] = False,
        progress: Progress | None = None,
    ) -> Consolidated:
        """Learn facts and rules from the episodes that wait for it, with the configured model or, if the host allows
        it, with the host's own.

        Without a model they are only counted. What was learned can be undone by the ids of the runs. Rules that follow
        orders found in episodes, and large changes, are held for a person.
        """
        butler = intake.optional_name("butler", butler)
        found = await self._read(storage.learning.groups, self.caller.tenant_id, self.bound, self._env.clock(), butler)
        waiting: Counter[str] = Counter()
        for group in found:
            waiting[group.butler] += group.episodes
        result: dict[str, Any] = {
            "episodes_processed": waiting.total(),
            "butlers_processed": len(waiting),
            "groups": dict(waiting),
            "groups_consolidated": 0,
            **dict.fromkeys(SUMMED, 0),
            **{"runs": [], "errors": [], "warning": None},
        }
        model = self._env.model if cc_spawner is None else self._spawned(cc_spawner, TRIGGER)
        problem = NO_MODEL if model is None else model.unready()
        if dry_run or model is None or problem:
            return Consolidated(**{**result, "warning": None if dry_run else f"nothing was learned: {problem}"})
        done = told = 0

        def tell(read: int) -> None:
            nonlocal told
            if progress and done + read > told:  # a batch that ends a group is told once
                told = min(done + read, waiting.total())
                progress(told, waiting.total())

        for group in found:
            await self._consolidate(group, model, result, tell)
            done += group.episodes
            tell(0)
        return Consolidated(**result)

    @operation("memory_learn_prompt", http="POST /v1/learn/prompt", effect="write", standard=False)
    async def learn_prompt(
        self,
        conversation: Annotated[str | None, "What was said; if left out, the episodes that wait are shown"] = None,
        butler: Butler = None,
        again: Annotated[bool, "Hand out anew what you were given and have not answered"] = False,
    ) -> LearnPrompt:
        """Get a prompt for your own model: answer it, and pass the answer to memory_learn_apply with the lease.

        No key is needed. The lease reserves the episodes for you until it expires. Without a lease there is nothing to
        learn, or another lease holds the `episodes` that wait until `expires_at`.
        """
        if conversation is not None:
            turns = self._own_words(conversation)
            run = self._new_run("extraction", butler, None, self.bound.owner)
            prompt, left = await self._extraction_prompt(run, turns)
            if left:
                problem, most = f"only {len(turns) - len(left)} of its {len(turns)} turns fit", "llm.max_characters"
                raise InvalidInput("conversation", f"is too long: {problem}", f"as much as {most} has room for")
            await self._write(storage.runs.begin, run)
            return LearnPrompt(lease=run.id, prompt=prompt, expires_at=run.lease_until)
        name, now, taken = intake.optional_name("butler", butler), self._env.clock(), LearnPrompt(lease=None, prompt="")
        for group in await self._read(storage.learning.groups, self.caller.tenant_id, self.bound, now, name):
            own, run = self._for(group.owner), self._new_run("consolidation", group.butler, None, group.owner)
            if (until := await self._write(storage.runs.begin, run, again)) is not None:
                taken = replace(taken, episodes=taken.episodes + group.episodes, expires_at=until)
                continue
            async with own._closing(run) as keep_open:
                shown, prompt = await own._consolidation_prompt(run)
                while not prompt and shown.silent:
                    with suppress(Withdrawn):
                        await own._apply(run, ConsolidationResult(), shown)
                    shown, prompt = await own._consolidation_prompt(run)
                if prompt:
                    await self._write(storage.runs.change, run, shown=shown.ids)
                    keep_open()
                    count = len(shown.episodes)
                    return LearnPrompt(lease=run.id, prompt=prompt, episodes=count, expires_at=run.lease_until)
        return taken

    @operation("memory_learn_apply", http="POST /v1/learn/apply", effect="write", standard=False)
    async def learn_apply(
        self,
        answer: Annotated[str, "The model's whole answer to the prompt"],
        lease: Annotated[MemoryId | None, "The lease of the prompt; the newest open one if left out"] = None,
    ) -> Learned:
        """Take a model's answer to a prompt of memory_learn_prompt. It is checked as that of the configured model."""
        run = await self._leased(lease)
        if not isinstance(answer, str):
            raise InvalidInput("answer", f"must be text, not {type(answer).__name__}", "the model's whole answer")
        own = self._for(Owner(run.user_id, run.household_id, run.persona_id))
        shown = await self._read(storage.learning.shown, run)
        if not all(map(self.bound.covers, shown.episodes)):
            raise storage.runs.used_lease()
        parsed = _parsed(run, answer, shown)
        if problem := unreadable(parsed):
            raise InvalidInput("answer", problem, "the JSON that the prompt asks for")
        await self._write(storage.runs.claim, run)
        async with own._closing(run):
            if isinstance(parsed, Extraction):
                return await own._extract(run, parsed, None)
            return await own._apply(run, parsed, shown)

    def _for(self, owner: Owner) -> "Learning":
        own = super()._for(owner)
        assert isinstance(own, Learning)
        return own

    # -- conversations -----------------------------------------------------------------------------------------

    def _own_words(self, conversation: str | Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
        """The turns of a conversation without secrets, and without what this memory itself has told."""
        screen = self._env.screen
        said = [
            (role, without_injected(screen.text("conversation", text)[0])) for role, text in prompts.turns(conversation)
        ]
        said = [(role, text) for role, text in said if text.strip()]
        if not said:
            raise InvalidInput("conversation", "holds nothing but what this memory has told", "what a person said")
        return said

    async def _extraction_prompt(self, run: Run, turns: Sequence[tuple[str, str]]) -> tuple[str, Sequence[Any]]:
        """The prompt for as many turns as it has room for, and the others."""
        owner = self.bound.owner
        facts, _ = await self._read(storage.learning.known, run.tenant_id, owner, run.butler or GLOBAL)
        blocks = await self._read(storage.profiles.current, run.tenant_id, owner)
        texts = {name: block.content for name, block in blocks.items()}
        most = self._env.config.llm.max_characters
        return prompts.next_extraction(instructions("extraction"), turns, texts, facts, most)

    async def _extract(self, run: Run, extraction: Extraction, session_id: UUID | None) -> Learned:
        """003-003: store what is certain enough."""
        threshold = self._env.config.learning.confidence_threshold
        certain = [fact for fact in extraction.facts if fact.confidence >= threshold]
        for fact in extraction.facts:
            if fact.confidence < threshold:
                log.info("the run %s skipped a fact of low confidence (%.2f)", run.id, fact.confidence)
        learned = await self._teach(
            run,
            certain,
            Material(),
            profile=extraction.profile,
            origin={"session_id": session_id},
            errors=extraction.parse_errors,
        )
        return replace(learned, below_threshold=len(extraction.facts) - len(certain))

    # -- episodes ----------------------------------------------------------------------------------------------

    async def _consolidate(
        self, group: Group, model: LanguageModel, result: dict[str, Any], tell: Callable[[int], None]
    ) -> None:
        """001-045, 001-101: learn from one group. What goes wrong concerns this group alone. `tell` is told how many of
        its episodes have been learned from so far."""
        run = self._new_run("consolidation", group.butler, model.name, group.owner)
        until = await self._write(storage.runs.begin, run)
        if until is not None:
            result["errors"].append(f"{group.butler}: somebody else is learning from it, until {until:%H:%M} at most")
            return
        learned, problem = Learned(run_id=run.id), None
        own = self._for(group.owner)
        try:
            async with own._closing(run):
                while (batch := await own._learn_batch(run, model)) is not None:
                    learned += batch
                    tell(learned.episodes_consolidated)
        except (IntegrityError, StoreUnavailable):
            raise
        except Exception as error:
            problem = described(error)
            log.warning("no more is learned from the episodes of %s: %s", group.butler, problem)
        for name in SUMMED:
            result[name] += getattr(learned, name)
        result["runs"].append(str(run.id))
        result["errors"] += [f"{group.butler}: {each}" for each in (*learned.errors, problem) if each]
        result["groups_consolidated"] += problem is None

    async def _learn_batch(self, run: Run, model: LanguageModel) -> Learned | None:
        """Learn from as many episodes as one prompt may show; None if there are no more. A useless answer costs each of
        them an attempt; a model that can't be asked does not."""
        shown, prompt = await self._consolidation_prompt(run)
        if not prompt and not shown.silent:
            return None
        try:
            parsed = _parsed(run, await self._ask(run, model, prompt) if prompt else "{}", shown)
            if problem := unreadable(parsed):
                raise UnusableAnswer(problem)
        except UnusableAnswer as error:
            ids, most = [episode.id for episode in shown.episodes], self._env.config.learning.max_attempts
            await self._write(storage.learning.fail, run, ids, type(error).__name__, most, self._env.clock())
            raise
        assert isinstance(parsed, ConsolidationResult)
        try:
            return await self._apply(run, parsed, shown)
        except Withdrawn:
            return Learned(run_id=run.id)  # the next prompt does not show that episode

    async def _consolidation_prompt(self, run: Run) -> tuple[Material, str]:
        """The next episodes of a run, and the prompt that shows them, without what this memory itself once told; empty
        if nothing else is left."""
        settings, now, butler = self._env.config, self._env.clock(), str(run.butler)
        found = await self._read(storage.learning.material, run.tenant_id, self.bound, butler, settings.learning, now)
        own_words = [replace(episode, content=without_injected(episode.content)) for episode in found.episodes]
        silent = [episode for episode in own_words if not episode.content.strip()]
        told = [episode for episode in own_words if episode.content.strip()]
        if not told:
            return replace(found, episodes=(), silent=silent), ""
        template, room = instructions("consolidation"), settings.llm.max_characters
        fitting = prompts.fit(template, butler, told, found.facts, found.rules, room)
        return Material(*fitting, silent), prompts.consolidation(template, butler, *fitting)

    async def _apply(self, run: Run, result: ConsolidationResult, shown: Material) -> Learned:
        offers = (*result.confirmations, *result.updated_facts, *result.new_facts, *result.new_rules)
        shown_by_lease = map(UUID, run.shown.get("episodes", ()))
        ids = {*shown_by_lease, *(episode.id for episode in (*shown.episodes, *shown.silent))}
        return await self._teach(run, offers, shown, learned_from=ids, errors=result.parse_errors)


def _parsed(run: Run, answer: str, shown: Material) -> Extraction | ConsolidationResult:
    if run.job == "extraction":
        return parse_extraction_output(answer)
    episodes = {episode.id for episode in shown.episodes}
    return parse_consolidation_output(answer, episodes, {item.id for item in (*shown.facts, *shown.rules)})


@cache
def instructions(name: str) -> str:
    """The instructions of a prompt."""
    return files("tulving").joinpath("prompts", name, "SKILL.md").read_text(encoding="utf-8")
