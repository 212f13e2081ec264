"""Verbs on merge rules: how conflicts between the facts of a tenant are settled."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tulving import storage
from tulving.errors import InvalidInput
from tulving.services.service import Service

if TYPE_CHECKING:
    from tulving.domain.merge_rules import MergeRule, MergeRuleRegistry, ResolvedRule

T = TypeVar("T")


class MergeRules(Service):
    """Verbs on merge rules, for the library and the command line. They are no tools: a model must not change how its
    own conflicts are settled."""

    async def merge_rules(self) -> "list[ResolvedRule]":
        """All rules with what they inherit, in the order in which they are tried."""
        return (await self._registry()).rules()

    async def merge_rule(self, name: str) -> "ResolvedRule | None":
        """A rule with all that it inherits, or None."""
        return (await self._registry()).get_rule(name)

    async def export_merge_rules(self) -> list[dict[str, Any]]:
        """What each rule says itself, as plain JSON; `load_merge_rules` takes it."""
        return (await self._registry()).export_rules()

    async def register_merge_rule(self, config: "Mapping[str, Any] | MergeRule") -> "ResolvedRule":
        """Add a rule under a new name: what it changes, and the name of a rule that it extends, if any."""
        return await self._change(lambda rules: rules.register_rule(config))

    async def update_merge_rule(self, name: str, updates: Mapping[str, Any]) -> "ResolvedRule":
        """Change some values of a rule, table by table; None removes the rule's own value, so that the inherited one
        holds again."""
        return await self._change(lambda rules: rules.update_rule(name, updates))

    async def delete_merge_rule(self, name: str) -> None:
        """Remove a rule; raises if it is not there, is the default rule, or is extended by others."""
        await self._change(lambda rules: rules.delete_rule(name))

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
