"""`tulving merge-rules`: how conflicts between facts are settled, and for which facts."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tulving.domain.merge_rule_config import DEFAULT
from tulving.domain.merge_rules import ResolvedRule
from tulving.errors import InvalidInput, NotFound
from tulving.interfaces.cli.options import AsJson
from tulving.interfaces.cli.terminal import print_json, report, table
from tulving.interfaces.wire import wire

PARTS = ("priority", "enabled", "conditions", "arbitration", "merge")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the rule")]
Json = Annotated[str, typer.Argument(metavar="JSON|FILE", help="JSON, or a file of it; - for standard input")]


def merge_rules(context: typer.Context, as_json: AsJson = False) -> None:
    """List the rules in the order in which they are tried."""
    if context.invoked_subcommand is not None:
        return
    rules = context.obj.run(lambda memory: memory.merge_rules())
    if as_json:
        print_json({"merge_rules": wire(rules)})
        return
    headers = ("name", "priority", "state", "extends", "what it says itself")
    table([_row(rule) for rule in rules], headers, {"on": "green", "off": "yellow"})


def _row(rule: ResolvedRule) -> tuple[str, ...]:
    own = _flat({part: rule.own[part] for part in PARTS[2:] if part in rule.own})
    said = ", ".join(f"{path} {value}" for path, value in own.items())
    nothing = "for all other facts" if rule.name == DEFAULT else ""
    state = "on" if rule.enabled else "off"
    return rule.name, str(rule.priority), state, rule.extends or "", said or nothing


def show(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show all values of a rule, and which rule each comes from."""
    rules = {rule.name: rule for rule in context.obj.run(lambda memory: memory.merge_rules())}
    if name not in rules:
        raise NotFound(f"Rule not found: {name}")
    shown = wire(rules[name])
    if as_json:
        print_json(shown)
        return
    chain: list[ResolvedRule] = [rules[name]]
    while chain[-1].extends is not None:
        chain.append(rules[chain[-1].extends])
    said = [(rule.name, _flat(rule.own)) for rule in chain]
    values = _flat({part: shown[part] for part in PARTS})
    rows = [(path, value, _origin(path, said)) for path, value in values.items()]
    table([("version", str(shown["version"]), ""), *rows], ("setting", "value", "from"), {"built in": "dim"})


def _origin(path: str, said: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    return next((rule for rule, own in said if path in own), "built in")


def add(context: typer.Context, rule: Json, as_json: AsJson = False) -> None:
    """Add a rule: its name, what it changes, for which facts, and which rule it extends. Such as {"name": "ann",
    "conditions": {"user_id": "ann"}, "arbitration": {"allow_merge": false}}."""
    config = _document(rule)
    added = context.obj.run(lambda memory: memory.register_merge_rule(config), stores=True)
    report(wire(added), as_json, f"added {added.name}")


def update(context: typer.Context, name: Name, updates: Json, as_json: AsJson = False) -> None:
    """Change some values of a rule; null removes one, so that the inherited value holds again."""
    changes = _document(updates)
    updated = context.obj.run(lambda memory: memory.update_merge_rule(name, changes), stores=True)
    report(wire(updated), as_json, f"updated {name}, now version {updated.version}")


def delete(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Delete a rule that no other one extends."""
    context.obj.run(lambda memory: memory.delete_merge_rule(name))
    report({"deleted": name}, as_json, f"deleted {name}")


def export(context: typer.Context) -> None:
    """Print what each rule says itself, as a JSON list."""
    print_json(context.obj.run(lambda memory: memory.export_merge_rules()))


def load(context: typer.Context, rules: Json, as_json: AsJson = False) -> None:
    """Load a list of exported rules, all of them or none; a rule of the same name is replaced."""
    exported = _document(rules)
    changed = context.obj.run(lambda memory: memory.load_merge_rules(exported), stores=True)
    counts = {"rules": len(exported), "changed": changed}
    report(counts, as_json, f"loaded {len(exported)} rules, {changed} of them new or changed")


def _document(given: str) -> Any:
    try:
        if given == "-":
            return json.load(sys.stdin)
        return json.loads(given if given.lstrip().startswith(("{", "[")) else Path(given).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput("rule", f"is not JSON: {error}", "a JSON object, or a list of them for load") from None


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """The values of nested tables by their paths, as a person reads them."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: _text(value)}
    return flat


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()  # as in JSON
        case float():
            return f"{value:g}"
        case list():
            return " or ".join(value)
    return str(value)
