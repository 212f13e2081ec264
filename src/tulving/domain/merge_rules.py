"""Merge rules: how a conflict between two facts is settled, and for which facts that holds.

A rule says only what it changes. The rest comes from the rule that it extends (priority, conditions and whether it is
enabled as well), and in the end from the defaults of the policies. A base is never copied into a rule, so a changed
base is felt at once. The default rule is a base only for rules that extend it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, Literal

from tulving.domain.arbitration import ArbitrationPolicy, source_of, weight
from tulving.domain.merge_rule_config import (
    DEFAULT,
    LAST_VERSION,
    MOST_RULES,
    MergeRule,
    overlaid,
    read_rule,
    read_rules,
    read_updates,
    rule_name,
)
from tulving.domain.merging import MergePolicy
from tulving.domain.model import Fact
from tulving.domain.records import Record
from tulving.errors import InvalidInput, NotFound

MOST_BASES = 10

Change = Literal["rule:registered", "rule:updated", "rule:deleted"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ResolvedRule(Record):
    """A rule as it is applied: with all that it inherits. `own` is what it says itself."""

    name: str
    extends: str | None
    priority: int
    enabled: bool
    conditions: Mapping[str, Any]
    arbitration: ArbitrationPolicy
    merge: MergePolicy
    version: int
    own: Mapping[str, Any]

    def matches(self, candidate: Fact, existing: Fact) -> bool:
        """Whether every condition is met: user and persona by both facts, source and importance by the candidate."""
        span = self.conditions.get("importance_range", {})
        return (
            self._wants("user_id", candidate.user_id, existing.user_id)
            and self._wants("persona_id", candidate.persona_id, existing.persona_id)
            and self._wants("source", source_of(candidate))
            and span.get("min", 0) <= round(weight(candidate), 9) <= span.get("max", 1)
        )

    def _wants(self, condition: str, *values: str | None) -> bool:
        wanted = self.conditions.get(condition)
        return wanted is None or {*values} <= ({wanted} if isinstance(wanted, str) else {*wanted})


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """A change of a registry: the rule's name and what it says itself, or said before it was deleted."""

    type: Change
    name: str
    config: Mapping[str, Any]


class MergeRuleRegistry:
    """The rules of one tenant. A change that is refused leaves all as it was.

    `version` is 1 at first and grows by one with each registered, updated or deleted rule; each of these is also an
    event for the listeners.
    """

    def __init__(self, rules: Sequence[Mapping[str, Any]] = (), version: int = 1) -> None:
        self.version = version
        self._listeners: list[Callable[[RuleEvent], object]] = []
        self._rules = {DEFAULT: MergeRule(name=DEFAULT)} | read_rules(rules)
        self._resolved = _resolve(self._rules)

    def register_rule(self, config: Mapping[str, Any] | MergeRule) -> ResolvedRule:
        """Add a rule under a new name."""
        rule = read_rule(config.config if isinstance(config, MergeRule) else config)
        if rule.name in self._rules:
            raise InvalidInput("name", f"there is a rule {rule.name} already", "a new name, or an update of that rule")
        return self._put(rule, "rule:registered")

    def update_rule(self, name: str, updates: Mapping[str, Any]) -> ResolvedRule:
        """Change some values of a rule, table by table; None removes the rule's own value, so that the inherited one
        holds again."""
        rule = self._known(name)
        changed = overlaid(rule.config, read_updates(updates))
        return self._put(read_rule({**changed, "version": _next(rule.version)}), "rule:updated")

    def delete_rule(self, name: str) -> None:
        """Remove a rule. The default rule, and a rule that others extend, can't be removed."""
        rule = self._known(name)
        if name == DEFAULT:
            raise InvalidInput("name", "Cannot delete default rule", "any other rule")
        if heirs := [each.name for each in self._rules.values() if each.extends == name]:
            raise InvalidInput("name", f"{name} is extended by {', '.join(heirs)}", "a rule that no other one extends")
        rest = {other: each for other, each in self._rules.items() if other != name}
        self._commit(rest, [RuleEvent("rule:deleted", name, rule.config)])

    def load_rules(self, rules: Sequence[Mapping[str, Any]]) -> int:
        """Register exported rules, in any order; returns how many were new or changed. A rule of the same name is
        replaced, or left alone if it says the same."""
        merged, events = dict(self._rules), list[RuleEvent]()
        for name, rule in read_rules(rules).items():
            old = self._rules.get(name)
            if old is not None:
                if rule.version <= old.version and replace(rule, version=old.version) == old:
                    continue
                rule = replace(rule, version=max(rule.version, _next(old.version)))
            merged[name] = rule
            events.append(RuleEvent("rule:updated" if old else "rule:registered", name, rule.config))
        self._commit(merged, events)
        return len(events)

    def reset(self) -> None:
        """Delete all rules but the default one, and take back what was changed in that."""
        default = self._rules[DEFAULT]
        events = [RuleEvent("rule:deleted", name, rule.config) for name, rule in self._rules.items() if name != DEFAULT]
        if default.arbitration or default.merge:
            default = MergeRule(name=DEFAULT, version=_next(default.version))
            events.append(RuleEvent("rule:updated", DEFAULT, default.config))
        self._commit({DEFAULT: default}, events)

    def get_rule(self, name: str) -> ResolvedRule | None:
        """A rule with all that it inherits, or None if there is none of this name."""
        return self._resolved.get(rule_name("name", name))

    def rules(self) -> list[ResolvedRule]:
        """All rules with what they inherit, in the order in which they are tried: by priority, the highest first, then
        as they were registered; the default rule last."""
        return sorted(self._resolved.values(), key=lambda rule: (rule.name == DEFAULT, -rule.priority))

    def find_matching_rule(self, candidate: Fact, existing: Fact) -> ResolvedRule:
        """000-040: the first enabled rule whose conditions are met, else the default rule."""
        return next(rule for rule in self.rules() if rule.enabled and rule.matches(candidate, existing))

    def export_rules(self) -> list[dict[str, Any]]:
        """What each rule says itself, as plain JSON in the order of registration; `load_rules` takes it."""
        return [rule.config for rule in self._rules.values()]

    def subscribe(self, listener: Callable[[RuleEvent], object]) -> None:
        """Tell a listener of each change once it is made. An error of the listener rises, but the change stays."""
        self._listeners.append(listener)

    def _known(self, name: str) -> MergeRule:
        if (rule := self._rules.get(rule_name("name", name))) is None:
            raise NotFound(f"Rule not found: {name}")
        return rule

    def _put(self, rule: MergeRule, change: Change) -> ResolvedRule:
        rules = self._rules | {rule.name: rule}
        _chain(rules, rule.name)  # first of all, so that the error begins with this rule
        self._commit(rules, [RuleEvent(change, rule.name, rule.config)])
        return self._resolved[rule.name]

    def _commit(self, rules: dict[str, MergeRule], events: Sequence[RuleEvent]) -> None:
        self._resolved = _resolve(rules)
        self._rules = rules
        self.version += len(events)
        for event in events:
            for listener in self._listeners:
                listener(event)


def _resolve(rules: Mapping[str, MergeRule]) -> dict[str, ResolvedRule]:
    """Each rule with what it inherits. Rules that make no sense together are refused."""
    if len(rules) > MOST_RULES:
        raise InvalidInput("rules", f"there would be {len(rules)}", f"at most {MOST_RULES}")
    return {name: _resolved([rules[each] for each in _chain(rules, name)]) for name in rules}


def _chain(rules: Mapping[str, MergeRule], name: str) -> list[str]:
    """A rule, its base, the base of that, and so on."""
    chain = [name]
    while (base := rules[chain[-1]].extends) is not None:
        chain.append(base)
        said = " extends ".join(chain)
        if base in chain[:-1]:
            raise InvalidInput("extends", f"{said}, which is a circle", "a rule that does not extend this one")
        if base not in rules:
            raise InvalidInput("extends", f"{said}, which is not there", "a registered rule")
        if len(chain) > MOST_BASES + 1:
            raise InvalidInput("extends", f"{said}, which is too deep", f"at most {MOST_BASES} bases")
    return chain


def _resolved(chain: Sequence[MergeRule]) -> ResolvedRule:
    rule = chain[0]
    values = reduce(overlaid, (each.config for each in reversed(chain)), _BUILT_IN)
    conditions = values.get("conditions", {})
    span = conditions.get("importance_range", {})
    if span.get("min", 0) > span.get("max", 1):
        problem = f"of {rule.name} would be empty: from {span['min']:g} to {span['max']:g}"
        raise InvalidInput("conditions.importance_range", problem, "a min up to the max")
    return ResolvedRule(
        name=rule.name,
        extends=rule.extends,
        priority=values["priority"],
        enabled=values["enabled"],
        conditions=conditions,
        arbitration=ArbitrationPolicy(**values["arbitration"]),
        merge=MergePolicy(**values["merge"]),
        version=rule.version,
        own=rule.config,
    )


def _next(version: int) -> int:
    return min(version + 1, LAST_VERSION)


_BUILT_IN: dict[str, Any] = {
    "priority": 0,
    "enabled": True,
    **{
        name: {each.name: getattr(policy, each.name) for each in fields(policy)}
        for name, policy in (("arbitration", ArbitrationPolicy()), ("merge", MergePolicy()))
    },
}
