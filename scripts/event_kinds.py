"""The audit events that the code writes: their kinds and the keys of their payloads, read from its calls.

What each kind means is said here, because a call can't. A kind without a meaning, and a meaning without a call, are
errors: `tests/test_reference.py` names them.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import get_args

from tulving.domain.decay import Transition
from tulving.domain.maturity import Use
from tulving.domain.model import KINDS

SOURCE = Path(__file__).parent.parent / "src" / "tulving"
CALLS = ("event", "_log")
"""How an event is made: `Audit.event`, and a method of the facts' transaction that takes the same first argument."""
WORDS: Mapping[str, tuple[str, ...]] = {
    "kind": KINDS,
    "each.kind": KINDS,
    "address.kind": KINDS,
    "became": get_args(Transition),
    "outcome": get_args(Use),
    "event.type.removeprefix('rule:')": ("registered", "updated", "deleted"),
    "decision": ("accepted", "rejected", "withdrawn"),
    "status": ("reverted", "dismissed"),
}
"""What the parts of a computed name may be."""

MEANINGS: Mapping[str, str] = {
    "episode_created": "an episode was stored",
    "fact_created": "a fact was stored, or made by merging two notes",
    "rule_created": "a rule was stored",
    "{fact,rule}_confirmed": "it was confirmed: by a person, by repetition, or by a run",
    "{episode,fact,rule}_edited": "its words, labels or importance were changed; the old ones are a revision",
    "{episode,fact,rule}_forgotten": "it was forgotten (soft)",
    "{episode,fact,rule}_deleted": "it was deleted (hard)",
    "{episode,fact,rule}_embedded": "it got its vector later than its text",
    "{fact,rule}_fading": "its effective confidence fell below 0.2",
    "{fact,rule}_expired": "its effective confidence fell below 0.05, and it is out of use",
    "{fact,rule}_recovered": "it no longer fades",
    "{fact,rule}_retracted": "it was taken out of use by a limit, a settled conflict or an undone run",
    "{fact,rule}_restored": "it is in use again after a run or a settlement was undone",
    "fact_superseded": "a newer fact took its place",
    "fact_restated": "it turned out to be true since another day",
    "fact_split": "something else was true in between, so it has an earlier part of its own now",
    "fact_repointed": "it belongs to another entity now, because two were merged",
    "fact_demoted": "its confidence was halved, because the episode that it came from is gone",
    "rule_marked_{helpful,harmful}": "a rule was applied, and helped or did harm",
    "rule_inverted": "a harmful rule was turned into a warning",
    "episode_consolidated": "an episode was learned from",
    "episode_archived": "an episode moved into the archive",
    "episode_restored": "an episode came back from the archive",
    "link_created": "two memories were linked",
    "entity_created": "an entity was made",
    "entity_updated": "its name, aliases or details were changed",
    "entity_merge": "two entities became one",
    "session_started": "a session began",
    "session_ended": "a session was ended",
    "session_abandoned": "a session that nobody had ended was closed",
    "profile_updated": "a block of a profile was rewritten",
    "profile_deleted": "a block of a profile was deleted",
    "conflict_{settled,held,accepted,reverted,dismissed}": "what became of two notes that are in conflict",
    "merge_rule_{registered,updated,deleted}": "a rule that settles conflicts was changed",
    "proposal_held": "what a model proposed waits for a person",
    "proposal_{accepted,rejected,withdrawn}": "what was decided about a proposal, or that its run was undone",
    "run_undone": "all that a run had learned was taken back",
    "bridge_suspended": "the bridge waits, because a warning of the timeline stands",
    "bridge_reconciled": "episodes are gone, and the facts that the bridge had made of them were dealt with",
    "timeline_warning": "something is wrong with the timeline",
    "timeline_recovered": "it is well again",
    "token_created": "a token for use over HTTP was made",
    "token_revoked": "a token was revoked",
    "job_requested": "an administrator asked for a scheduled job to be done at once",
    "memories_imported": "memories arrived by import, copy or restore",
    "store_reembedded": "all vectors were replaced by those of another embedder",
}

IMPOSSIBLE = "episode_{confirmed,expired,fading,recovered,retracted}"
"""Names that a call could compute and never does: an episode is not more or less true."""


@dataclass
class Written:
    """What the calls of one kind put into the payload; `more` if some of it is computed."""

    keys: set[str] = field(default_factory=set)
    more: bool = False


def meanings() -> dict[str, str]:
    """Every kind of event and what it means."""
    return {kind: meaning for template, meaning in MEANINGS.items() for kind in _expanded(template)}


@cache
def written() -> dict[str, Written]:
    """Every kind of event that a call of the code can write."""
    modules = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    constants = {name: value for module in modules.values() for name, value in _constants(module)}
    found: dict[str, Written] = {}
    impossible = _expanded(IMPOSSIBLE)
    for path, module in modules.items():
        for function in ast.walk(module):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.name in CALLS:
                continue
            for call in _calls(function):
                for kind in _kinds(call.args[0], function, module, constants, f"{path.name}:{call.lineno}"):
                    if kind in impossible:
                        continue
                    each = found.setdefault(kind, Written())
                    keys, more = _payload(call, function)
                    each.keys |= keys
                    each.more |= more
    return found


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(function):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS
        if named and len(node.args) >= 2 - (node.func.attr == "_log"):
            yield node


def _constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in module.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            [target], value = node.targets, node.value
            pairs = zip(target.elts, value.elts, strict=False) if _are_tuples(target, value) else [(target, value)]
            for name, each in pairs:
                if isinstance(name, ast.Name) and isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield name.id, each.value


def _are_tuples(*nodes: ast.AST) -> bool:
    return all(isinstance(node, ast.Tuple) for node in nodes)


def _kinds(node: ast.AST, function: ast.AST, module: ast.Module, constants: Mapping[str, str], place: str) -> list[str]:
    """The names that an expression may stand for."""
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        parts = [
            [str(part.value)] if isinstance(part, ast.Constant) else _words(part, function, module, place)
            for part in node.values
        ]
        return ["".join(words) for words in product(*parts)]
    if isinstance(node, ast.Attribute) and node.attr in constants:
        return [constants[node.attr]]
    if isinstance(node, ast.Name):
        if node.id in constants:
            return [constants[node.id]]
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == node.id:
                return _kinds(each.value, function, module, constants, place)
    raise LookupError(f"{place}: which events are {ast.unparse(node)}?")


def _words(part: ast.AST, function: ast.AST, module: ast.Module, place: str) -> list[str]:
    """What a placeholder may be: a word that `WORDS` knows, or what the function's callers pass as this parameter."""
    name = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
    if name in WORDS:
        return list(WORDS[name])
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    taken = [argument.arg for argument in function.args.args if argument.arg != "self"]
    words: list[str] = []
    for call in ast.walk(module):
        if name in taken and isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] == function.name:
            given = call.args[taken.index(name)]
            literal = [str(each.value) for each in ast.walk(given) if isinstance(each, ast.Constant)]
            words += literal or WORDS.get(ast.unparse(given), ())
    if not words:
        raise LookupError(f"{place}: what may {name} be? Say it in WORDS")
    return words


def _payload(call: ast.Call, function: ast.AST) -> tuple[set[str], bool]:
    keys = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
    more = False
    for keyword in call.keywords:
        if keyword.arg is None:
            known = _dictionary(ast.unparse(keyword.value), function)
            keys |= known
            more |= not known
    return keys, more


def _dictionary(name: str, function: ast.AST) -> set[str]:
    """The keys that a function puts into a dictionary of its own."""
    keys: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == name and isinstance(node.value, ast.Dict):
                keys |= {str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)}
            elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == name:
                keys |= {str(target.slice.value)} if isinstance(target.slice, ast.Constant) else set()
    return keys


def _expanded(template: str) -> list[str]:
    """`{fact,rule}_edited` -> fact_edited, rule_edited"""
    parts = [part.split(",") for part in re.split(r"[{}]", template)]
    return ["".join(words) for words in product(*parts)]
