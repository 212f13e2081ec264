"""Verbs on merge rules: how conflicts between the facts of a tenant are settled."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from tulving import storage
from tulving.domain.merge_rules import MergeRule, ResolvedRule
from tulving.errors import InvalidInput
from tulving.services.operations import operation
from tulving.services.service import Service

if TYPE_CHECKING:
    from tulving.domain.merge_rules import MergeRuleRegistry

T = TypeVar("T")
Name = Annotated[str, "The name of the rule"]
Config = Annotated[
    Mapping[str, Any] | MergeRule,
    "Its name, what it changes (priority, enabled, conditions, arbitration, merge), and the rule that it extends",
]
Updates = Annotated[Mapping[str, Any], "The values that change, table by table; null removes the rule's own value"]


class MergeRules(Service):
    """Verbs on merge rules, for people. They are never offered to a model, which must not change how its own conflicts
    are settled."""

    @operation("memory_merge_rules", http="GET /v1/merge-rules", effect="review", answer="merge_rules", standard=False)
    async def merge_rules(self) -> list[ResolvedRule]:
        """List all rules with what they inherit, in the order in which they are tried."""
        return (await self._registry()).rules()

    @operation(
        "memory_merge_rule", http="GET /v1/merge-rules/{name}", effect="review", answer="merge_rule", standard=False
    )
    async def merge_rule(self, name: Name) -> ResolvedRule | None:
        """Read a rule with all that it inherits; nothing if there is none of this name."""
        return (await self._registry()).get_rule(name)

    async def export_merge_rules(self) -> list[dict[str, Any]]:
        """What each rule says itself, as plain JSON; `load_merge_rules` takes it."""
        return (await self._registry()).export_rules()

    @operation("memory_register_merge_rule", http="POST /v1/merge-rules", effect="review", standard=False)
    async def register_merge_rule(self, config: Config) -> ResolvedRule:
        """Add a rule under a new name: what it changes, and the name of a rule that it extends, if any."""
        return await self._change(lambda rules: rules.register_rule(config))

    @operation("memory_update_merge_rule", http="PATCH /v1/merge-rules/{name}", effect="review", standard=False)
    async def update_merge_rule(self, name: Name, updates: Updates) -> ResolvedRule:
        """Change some values of a rule, table by table. Null removes the rule's own value, so that the inherited one
        applies again."""
        return await self._change(lambda rules: rules.update_rule(name, updates))

    @operation(
        "memory_delete_merge_rule",
        http="DELETE /v1/merge-rules/{name}",
        effect="review",
        answer="deleted",
        standard=False,
    )
    async def delete_merge_rule(self, name: Name) -> bool:
        """Delete a rule. The default rule, and one that others extend, can't be deleted."""
        await self._change(lambda rules: rules.delete_rule(name))
        return True

    async def load_merge_rules(self, rules: Sequence[Mapping[str, Any]]) -> int:
        """Register exported rules, in any order, all of them or none; returns how many were new or changed. A rule of
        the same name is replaced, or left alone if it says the same."""
        return await self._change(lambda registry: registry.load_rules(rules))

    async def _registry(self) -> "MergeRuleRegistry":
        return await self._read(storage.merge_rules.load, self.caller.tenant_id)

    async def _change(self, verb: "Callable[[MergeRuleRegistry], T]") -> T:
        if not self.bound.everything:
            problem = "they hold for the whole tenant, and this connection is bound to a part of it"
            raise InvalidInput("merge_rules", problem, "a connection to the whole tenant")
        return await self._write(
            storage.merge_rules.change, self.caller.tenant_id, verb, self._audit(self._env.clock())
        )
