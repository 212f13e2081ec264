"""A connection that is bound to a user, household, persona, project or scope reaches that part of its tenant only."""

import ast
import gc
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from administration import administer
from fault_parts import everything, opened
from raw_sql import run_sql

import tulving
from tulving import InvalidInput, Memory, NotFound
from tulving.domain.model import KINDS, Kind
from tulving.testing import ManualClock

PARTS = pytest.mark.parametrize("part", ["user_id", "household_id", "persona_id", "project", "scope"])
NOBODY = UUID(int=404)


async def sow(memory: Memory) -> dict[str, UUID]:
    """One memory of each kind, with a link, a revision and something learned."""
    episode = await memory.store_episode("common episode", butler="b")
    fact = await memory.store_fact("subject", "predicate", "common fact", source_episode_id=episode.id)
    rule = await memory.store_rule("common rule", source_episode_id=episode.id)
    note = await memory.store_note("common note")
    await memory.create_link("fact", fact.id, "episode", episode.id, "derived_from")
    await memory.edit("rule", rule.id, content="common rule, better")
    for _ in range(4):
        await memory.mark_harmful(rule.id, "it hurt")
    return {"episode": episode.id, "fact": fact.id, "rule": rule.id, "note": note.id}


async def state_of(memory: Memory) -> list[Any]:
    await memory.settle()
    items = await everything(memory)
    kinds: list[Kind] = [kind for kind in KINDS for _ in items]
    ids = [*items] * len(KINDS)
    read = (memory.events, memory.get_links, memory.revisions)
    return [items, [[await look(kind, id_) for kind, id_ in zip(kinds, ids, strict=True)] for look in read]]


Attempt = Callable[[Memory, Kind, Any], Awaitable[Any]]
SILENT: dict[str, tuple[Attempt, Any]] = {
    "get": (lambda memory, kind, id_: memory.get(kind, id_), None),
    "events": (lambda memory, kind, id_: memory.events(kind, id_), []),
    "get_links": (lambda memory, kind, id_: memory.get_links(kind, id_), []),
    "revisions": (lambda memory, kind, id_: memory.revisions(kind, id_), []),
    "forget": (lambda memory, kind, id_: memory.forget(kind, id_), False),
}
REFUSED: dict[str, tuple[Attempt, type[Exception]]] = {
    "delete": (lambda memory, kind, id_: memory.delete(kind, id_), NotFound),
    "edit": (lambda memory, kind, id_: memory.edit(kind, id_, content="mine now"), NotFound),
    "link from": (lambda memory, kind, id_: memory.create_link(kind, id_, kind, id_, "related_to"), InvalidInput),
    "link to": (lambda memory, kind, id_: _link_own(memory, kind, id_), InvalidInput),
}
OF_KIND: dict[tuple[str, Kind], tuple[Attempt, type[Exception]]] = {
    ("mark_helpful", "rule"): (lambda memory, kind, id_: memory.mark_helpful(id_), NotFound),
    ("mark_harmful", "rule"): (lambda memory, kind, id_: memory.mark_harmful(id_), NotFound),
    ("invert_rule", "rule"): (lambda memory, kind, id_: memory.invert_rule(id_), NotFound),
    ("cite in a fact", "episode"): (
        lambda memory, kind, id_: memory.store_fact("s", "p", "c", source_episode_id=id_),
        InvalidInput,
    ),
    ("cite in a rule", "episode"): (
        lambda memory, kind, id_: memory.store_rule("c", source_episode_id=id_),
        InvalidInput,
    ),
}


async def _link_own(memory: Memory, kind: Kind, id_: Any) -> bool:
    own = (await memory.list_memories("rule")).items[0]
    return await memory.create_link("rule", own.id, kind, id_, "related_to")


async def refusal(attempt: Attempt, memory: Memory, kind: Kind, id_: Any, error: type[Exception]) -> str:
    """The words of a refusal, without the id."""
    with pytest.raises(error) as refused:
        await attempt(memory, kind, id_)
    return str(refused.value).replace(str(id_), "ID")


@PARTS
@pytest.mark.scenario("001-117")
async def test_what_lies_outside_is_like_what_does_not_exist(url: str, part: str) -> None:
    """For every verb on one memory, by its id and by its short reference, in the same words."""
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ann, bob = memory.bind(**{part: "ann"}), memory.bind(**{part: "bob"})
        ids = await sow(bob)
        await ann.store_rule("own rule")
        note: Any = await bob.look("fact", ids["note"])
        before = await state_of(memory)
        targets: list[tuple[Kind, Any, Any]] = [(kind, ids[kind], NOBODY) for kind in KINDS]
        for kind, id_, unknown in [*targets, ("fact", note.ref, "fact_00000404")]:
            for verb, (attempt, nothing) in SILENT.items():
                assert await attempt(ann, kind, id_) == nothing == await attempt(ann, kind, unknown), verb
            if kind != "episode":
                assert await ann.confirm(kind, id_) is False
            of_kind = {verb: attempt for (verb, for_kind), attempt in OF_KIND.items() if for_kind == kind}
            for verb, (attempt, error) in {**REFUSED, **of_kind}.items():
                words = await refusal(attempt, ann, kind, id_, error)
                assert words == await refusal(attempt, ann, kind, unknown, error), verb
        assert await state_of(memory) == before
        assert [item.content for item in (await everything(ann)).values()] == ["own rule"]


@PARTS
@pytest.mark.scenario("001-026")
async def test_what_a_bound_connection_stores_it_finds_and_may_change(url: str, part: str) -> None:
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ann = memory.bind(**{part: "ann"})
        ids = await sow(ann)
        assert {*await everything(ann)} == {*ids.values()}
        assert {hit.item.id for hit in await ann.search("common")} == {*ids.values()}
        assert [link.target_id for link in await ann.get_links("fact", ids["fact"])] == [ids["episode"]]
        assert [revision.number for revision in await ann.revisions("rule", ids["rule"])] == [1]
        inverted = await ann.invert_rule(ids["rule"])
        assert inverted is not None and inverted.maturity == "anti_pattern"
        for kind in KINDS:
            item = await ann.get(kind, ids[kind])
            assert (
                item is not None and getattr(item, "butler" if part == "scope" and kind == "episode" else part) == "ann"
            )
            assert (await ann.edit(kind, ids[kind], content=f"other {kind}")).content == f"other {kind}"
            assert kind == "episode" or await ann.confirm(kind, ids[kind])
            assert await ann.forget(kind, ids[kind])
            assert await ann.delete(kind, ids[kind])
            assert await ann.events(kind, ids[kind]) == [], "the row that named the owner is gone"
            assert [event.event_type for event in await memory.events(kind, ids[kind])][-1] == f"{kind}_deleted"


@pytest.mark.scenario("001-117")
async def test_a_connection_bound_to_a_scope_reads_and_judges_what_is_global_but_does_not_change_it(url: str) -> None:
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ids = await sow(memory)
        health = memory.bind(scope="health")
        own = await health.store_fact("user", "sleeps", "eight hours")
        assert (await health.get("rule", ids["rule"])) is not None
        assert [revision.number for revision in await health.revisions("rule", ids["rule"])] == [1]
        assert await health.confirm("fact", ids["fact"])
        assert (await health.mark_helpful(ids["rule"])).success_count == 1
        assert await health.create_link("fact", own.id, "fact", ids["fact"], "supports")
        assert await health.get("episode", ids["episode"]) is None, "an episode is its agent's, never global"
        assert await health.get_links("fact", ids["fact"], "outgoing") == []
        before = await state_of(memory)
        changes: list[Callable[[], Awaitable[Any]]] = []
        for kind in ("fact", "rule"):
            changes += [
                lambda kind=kind: health.edit(kind, ids[kind], content="mine now"),
                lambda kind=kind: health.forget(kind, ids[kind]),
                lambda kind=kind: health.delete(kind, ids[kind]),
                lambda kind=kind: health.create_link(kind, ids[kind], "fact", own.id, "related_to"),
            ]
        changes.append(lambda: health.invert_rule(ids["rule"]))
        for change in changes:
            with pytest.raises(
                InvalidInput, match=r"is global, which a connection bound to a scope may read"
            ) as refused:
                await change()
            assert "of the scope health" in refused.value.allowed
        assert await state_of(memory) == before
        assert await memory.bind(scope="global").forget("fact", ids["fact"]), "one bound to that scope may"


@PARTS
async def test_a_link_is_shown_only_where_both_ends_are_seen(url: str, part: str) -> None:
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ann, bob = memory.bind(**{part: "ann"}), memory.bind(**{part: "bob"})
        mine, own, theirs = await ann.store_rule("a"), await ann.store_rule("b"), await bob.store_rule("c")
        await memory.create_link("rule", mine.id, "rule", theirs.id, "related_to")
        await memory.create_link("rule", own.id, "rule", mine.id, "supports")
        assert [link.source_id for link in await ann.get_links("rule", mine.id)] == [own.id]
        assert await bob.get_links("rule", theirs.id) == []
        assert len(await memory.get_links("rule", mine.id)) == 2


async def test_what_covers_a_memory_is_what_lists_it(url: str) -> None:
    """The rule is written twice, in Python for one memory and in SQL for many."""
    async with opened(url, clock=ManualClock(), background=False) as memory:
        for user, project, scope in product((None, "ann"), (None, "atlas"), (None, "work")):
            part = memory.bind(user_id=user, project=project, scope=scope)
            await part.store_episode(f"{user} {project} {scope}", butler="global")
            await part.store_fact("s", f"{project}", f"{user} {project} {scope}")
            await part.store_rule(f"{user} {project} {scope}")
        items = (await everything(memory)).values()
        assert len(items) == 24
        for user, project, scope in product((None, "ann", "bob"), (None, "atlas"), (None, "work", "global", "b")):
            part = memory.bind(user_id=user, project=project, scope=scope)
            assert {*await everything(part)} == {item.id for item in items if part.bound.covers(item)}, part.bound
            changed = {item.id for item in items if part.bound.may_change(item)}
            assert changed <= {*await everything(part)}


@PARTS
async def test_a_conflict_that_lies_outside_is_like_one_that_does_not_exist(url: str, part: str) -> None:
    """Seen and changed by those whose notes it is about. Who is bound to a scope sees global ones and changes none."""
    clock = ManualClock()
    async with opened(url, clock=clock, background=False) as memory:
        ann, bob = memory.bind(**{part: "ann"}), memory.bind(**{part: "bob"})
        for who, drink in ((bob, "green tea"), (memory, "hot milk")):
            await who.store_note(f"The user drinks {drink} in the morning")
            clock.advance(days=1)
            settled = await who.store_note(f"The user does not drink {drink} in the morning")
            assert settled.outcome == "superseded" and settled.conflict is not None
        theirs, general = [report.settlement for report in reversed(await memory.conflicts())]
        assert [report.settlement for report in await ann.conflicts()] == ([general] if part == "scope" else [])
        before = await state_of(memory)
        verbs = (ann.revert_conflict, ann.accept_conflict, ann.dismiss_conflict)
        for verb in verbs:
            said = []
            for id_ in (theirs.id, NOBODY):
                with pytest.raises(NotFound) as refused:
                    await verb(id_)
                said.append(str(refused.value).replace(str(id_), "ID"))
            assert said[0] == said[1]
            with pytest.raises(NotFound):
                await verb(general.id)
        assert await state_of(memory) == before
        assert (await bob.revert_conflict(theirs.id)).status == "reverted"
        back = [
            fact for fact in (await everything(bob)).values() if fact.id in (theirs.candidate_id, theirs.existing_id)
        ]
        assert [fact.validity for fact in back] == ["active", "active"]  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_connection_to_the_whole_tenant_pays_no_look_at_the_memory(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ids = await sow(memory)
        store = memory._env.store
        reads: list[str] = []
        read = store.read

        async def counted(tenant_id: str | None, query: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            reads.append(query.__name__)
            return await read(tenant_id, query, *args, **kwargs)

        monkeypatch.setattr(store, "read", counted)
        await memory.get("fact", ids["fact"])
        assert reads == ["get"]
        reads.clear()
        await memory.confirm("fact", ids["fact"])
        await memory.mark_helpful(ids["rule"])
        await memory.create_link("fact", ids["fact"], "rule", ids["rule"], "supports")
        await memory.forget("fact", ids["fact"])
        await memory.delete("fact", ids["fact"])
        assert reads == []
        await memory.bind(user_id="ann").forget("rule", ids["rule"])
        assert reads == ["locate"]


# -- the cleanup -----------------------------------------------------------------------------------------------


@PARTS
@pytest.mark.scenario("001-058", "001-059", "001-060")
async def test_a_cleanup_is_of_ones_own_episodes(url: str, part: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock, background=False) as memory:
        ann, bob = memory.bind(**{part: "ann"}), memory.bind(**{part: "bob"})
        for who in (ann, bob, memory):
            for word in ("kept", "gone"):
                stored = await who.store_episode(word, butler="b", type="note")
                if word == "gone":
                    await who.forget("episode", stored.id)
        clock.advance(seconds=1)
        expected = {"expired_deleted": 1, "capacity_deleted": 0, "remaining": 1}
        assert await ann.run_episode_cleanup(dry_run=True) == expected
        assert await ann.run_episode_cleanup() == expected
        assert await ann.run_episode_cleanup() == expected | {"expired_deleted": 0}
        assert len(await everything(bob)) == 2
        assert await memory.run_episode_cleanup(dry_run=True) == {
            "expired_deleted": 2,
            "capacity_deleted": 0,
            "remaining": 3,
        }
        assert (await administer(memory).run_episode_cleanup())["remaining"] == 3


@PARTS
async def test_a_capacity_counts_and_takes_ones_own_episodes_only(url: str, part: str) -> None:
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ann, bob = memory.bind(**{part: "ann"}), memory.bind(**{part: "bob"})
        for who in (ann, bob):
            for number in range(3):
                await who.store_episode(f"learned {number}", butler="b")
        run_sql(url, "UPDATE episodes SET consolidated = ?, consolidation_status = 'consolidated'", True)
        assert (await ann.run_episode_cleanup(max_entries=3))["capacity_deleted"] == 0, "the others' do not count"
        for dry_run in (True, False):
            cleaned = await ann.run_episode_cleanup(max_entries=1, dry_run=dry_run)
            assert cleaned == {"expired_deleted": 0, "capacity_deleted": 2, "remaining": 1}
        assert len(await everything(bob)) == 3


# -- entities --------------------------------------------------------------------------------------------------


@PARTS
@pytest.mark.scenario("001-069")
async def test_a_name_is_not_resolved_by_facts_that_lie_outside(url: str, part: str) -> None:
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ann, bob = memory.bind(**{part: "ann"}), memory.bind(**{part: "bob"})
        entity = (await memory.create_entity("Ada", "person")).entity_id
        await bob.store_fact("Ada", "plays", "chess", entity_id=entity)
        hints = {"topic": "chess"}
        scores = [(await who.resolve_entity("Ada", context_hints=hints))[0].score for who in (ann, bob)]
        assert scores[0] == 100 < scores[1]


@PARTS
@pytest.mark.scenario("001-073")
async def test_a_merge_is_for_a_connection_to_the_whole_tenant(url: str, part: str) -> None:
    async with opened(url, clock=ManualClock(), background=False) as memory:
        ann, bob = memory.bind(**{part: "ann"}), memory.bind(**{part: "bob"})
        source, target = [(await ann.create_entity(name, "person")).entity_id for name in ("Ada", "Countess")]
        await bob.store_fact("Ada", "plays", "chess", entity_id=source)
        before = await state_of(memory)
        with pytest.raises(InvalidInput, match="a merge changes facts of the whole tenant"):
            await ann.merge_entities(source, target)
        assert await state_of(memory) == before
        assert (await memory.merge_entities(source, target)).facts_repointed == 1


# -- addresses -------------------------------------------------------------------------------------------------

MAKERS = {
    ("services/items.py", "_address"): "the check",
    ("domain/scope.py", "address_of"): "of a memory that was read",
    ("domain/provenance.py", "own_links"): "of what such a memory names; who looks it up checks what it may read",
    ("storage/facts.py", "_known"): "of the fact that has the offer's own key",
    ("storage/settlements.py", "_sides"): "of the two notes of a settlement that the caller may change",
    ("storage/settlements.py", "revert"): "of what was merged of them",
    ("storage/links.py", "derived_alone"): "of the other end of a link; who asks checks what it may change",
    ("storage/links.py", "_sources"): "the same",
    ("storage/undoing.py", "undo"): "of what a run of the caller has changed",
    ("services/reviewing.py", "_changes"): "the same",
    ("services/reviewing.py", "_accepting"): "of what a proposal of the caller has just stored",
    ("services/reviewing.py", "decide"): "the same",
    ("storage/layers.py", "find"): "of what was just found to be in reach",
    ("storage/bridge.py", "_reconcile"): "of a fact that the bridge has made in the same tenant",
    ("storage/requests.py", "_unpacked"): "of the answer to an earlier request of the same caller",
}


def test_only_the_check_makes_addresses() -> None:
    """Functions of the storage take them instead of ids, so that no verb reaches a memory without the check."""
    gc.collect()  # if garbage is collected while it parses, CPython 3.11 may raise SystemError
    root = Path(tulving.__file__).parent
    made = set()
    for file in root.rglob("*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                if any(isinstance(called, ast.Name) and called.id == "Address" for called in calls):
                    made.add((file.relative_to(root).as_posix(), function.name))
    assert {place for place in made if not place[0].startswith("testing/")} == set(MAKERS)
