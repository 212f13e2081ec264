"""What a merge rule may say, as plain JSON: every key is known and every value is checked.

The keys of `arbitration` and `merge` are the fields of the two policies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal, get_args, get_origin

from tulving.domain import intake
from tulving.domain.arbitration import ArbitrationPolicy
from tulving.domain.merging import MergePolicy
from tulving.domain.text import fold
from tulving.errors import InvalidInput

DEFAULT = "default"
"""The rule for all facts that no other one is for. It has no conditions, is tried last, and is always there."""
MOST_RULES = 200
MOST_NAMES = 50
"""Values in one condition, and sources with a priority of their own."""
LONGEST_NAME = 100
LAST_VERSION = 1_000_000_000

Check = Callable[[str, Any], Any]
"""From where a value stands and the value to the checked one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """A rule as it was registered: what it says itself (000's MergeRuleConfig)."""

    name: str
    extends: str | None = None
    priority: int | None = None
    enabled: bool | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    arbitration: Mapping[str, Any] = field(default_factory=dict)
    merge: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1

    @property
    def config(self) -> dict[str, Any]:
        """A copy as plain JSON, without what the rule does not say."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _copied(value) for name, value in said.items() if value not in (None, {})}


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, list) else value


def read_rules(rules: Sequence[Mapping[str, Any]]) -> dict[str, MergeRule]:
    """Rules from a JSON list, by name."""
    read: dict[str, MergeRule] = {}
    for place, config in enumerate(intake.items("rules", rules, MOST_RULES, "a list of rules")):
        rule = read_rule(config, f"rules[{place}]")
        if rule.name in read:
            raise InvalidInput(f"rules[{place}].name", f"{rule.name} is there twice", "each rule once")
        read[rule.name] = rule
    return read


def read_rule(config: Mapping[str, Any], where: str = "") -> MergeRule:
    """A rule from a JSON object. A null says nothing."""
    values = overlaid({}, _table(_FIELDS, where, config))
    if "name" not in values:
        rule_name(_at(where, "name"), None)
    if values["name"] == DEFAULT and (wrong := {*values} - {"name", "arbitration", "merge", "version"}):
        problem = "the default rule is for all facts and is tried last"
        raise InvalidInput(_at(where, min(wrong)), problem, "arbitration, merge")
    return MergeRule(**values)


def read_updates(updates: Mapping[str, Any]) -> dict[str, Any]:
    """Changes of a rule from a JSON object. A null stays, and means that a value is removed."""
    return _table(_CHANGEABLE, "", updates)


def rule_name(where: str, value: Any) -> str:
    """The name of a rule."""
    if value is None or (isinstance(value, str) and not value.strip()):
        raise InvalidInput(where, "Rule name is required", f"1 to {LONGEST_NAME} characters")
    return intake.identifier(where, value, most=LONGEST_NAME)


def overlaid(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the changes, table by table. None removes a value; a table without values goes too."""
    merged = dict(base)
    for name, value in changes.items():
        merged[name] = overlaid(base.get(name, {}), value) if isinstance(value, dict) else value
    return {name: value for name, value in merged.items() if value not in (None, {})}


# -- checks ----------------------------------------------------------------------------------------------------


def _table(checks: Mapping[str, Check], where: str, value: Any) -> dict[str, Any]:
    """A JSON object of known keys, each value checked or null."""
    for key in _object(where or "rule", value):
        intake.one_of(where or "rule", key, tuple(checks))
    return {
        name: None if value[name] is None else check(_at(where, name), value[name])
        for name, check in checks.items()
        if name in value
    }


def _object(where: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(where, f"must be an object, not {type(value).__name__}", "a JSON object")
    return value


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _source(where: str, value: Any) -> str:
    """A source in the form that `source_of` gives it for a fact."""
    return fold(intake.identifier(where, value, most=200))


def _one_or_more(check: Check, where: str, value: Any) -> str | list[str]:
    """A text, or several of which one must be met."""
    if isinstance(value, str):
        return check(where, value)
    given = intake.items(where, value, MOST_NAMES, "a text, or a list of texts")
    if not given:
        raise InvalidInput(where, "is empty", "a text, or a list of texts")
    return list(dict.fromkeys(check(where, each) for each in given))


def _source_priorities(where: str, value: Any) -> dict[str, float | None]:
    priorities: dict[str, float | None] = {}
    for name, priority in _object(where, value).items():
        source = _source(where, name)
        if source in priorities:
            raise InvalidInput(where, f"{source} is there twice", "each source once, in capitals or not")
        priorities[source] = None if priority is None else intake.number(f"{where}.{source}", priority, 0, 1000)
    if len(priorities) > MOST_NAMES:
        raise InvalidInput(where, f"has {len(priorities)} sources", f"at most {MOST_NAMES}")
    return dict(sorted(priorities.items()))


def _of_policy(policy: type) -> dict[str, Check]:
    """The checks for the fields of a policy, by their types: one of several words, a flag, or a share."""
    return {each.name: _of_type(each.type) for each in fields(policy)}


def _of_type(hint: Any) -> Check:
    if get_origin(hint) is Literal:
        return partial(intake.one_of, allowed=get_args(hint))
    return intake.flag if hint is bool else _SHARE


_SHARE: Check = partial(intake.number, low=0, high=1)
_WHO: Check = partial(_one_or_more, partial(intake.identifier, most=200))
_CONDITIONS: dict[str, Check] = {
    "user_id": _WHO,
    "persona_id": _WHO,
    "source": partial(_one_or_more, _source),
    "importance_range": partial(_table, {"min": _SHARE, "max": _SHARE}),
}
_ARBITRATION = _of_policy(ArbitrationPolicy) | {
    "weights": partial(_table, dict.fromkeys(ArbitrationPolicy().weights, _SHARE)),
    "source_priorities": _source_priorities,
}
_CHANGEABLE: dict[str, Check] = {
    "extends": rule_name,
    "priority": partial(intake.whole, low=-1000, high=1000),
    "enabled": intake.flag,
    "conditions": partial(_table, _CONDITIONS),
    "arbitration": partial(_table, _ARBITRATION),
    "merge": partial(_table, _of_policy(MergePolicy)),
}
_FIELDS: dict[str, Check] = {
    "name": rule_name,
    **_CHANGEABLE,
    "version": partial(intake.whole, low=1, high=LAST_VERSION),
}
