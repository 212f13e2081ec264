"""Rules: how to act, by their rung on the ladder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from tulving.domain.decay import PERMANENCE
from tulving.domain.maturity import Mark, reasons_of
from tulving.domain.model import Page as Listed
from tulving.domain.model import Rule, Stored
from tulving.domain.scope import GLOBAL
from tulving.errors import InvalidInput
from tulving.interfaces.console import fields, ladder
from tulving.interfaces.console.presentation import memory_path
from tulving.interfaces.console.visit import Page, Visit, path_with

PATH = "/console/rules"
SHOWN = 12
ON_A_PAGE = 50
PERMANENCES = [("", "0.01 a day"), *((name, name) for name in PERMANENCE)]
EMPTY_FORM = {"content": "", "permanence": "", "scope": GLOBAL, "tags": ""}


@dataclass(frozen=True, slots=True)
class Standing:
    """A rule with its latest marks, oldest first, and what it takes to rise."""

    rule: Rule
    marks: Sequence[Mark]
    step: str
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung of the ladder with its rules."""

    name: str
    means: str
    total: int
    rules: Sequence[Standing]
    more: str | None


async def show(visit: Visit) -> Response:
    """The rules on their ladder, or all those of one rung."""
    return await _page(visit, EMPTY_FORM)


async def store(visit: Visit) -> Response:
    """Store a rule from the form."""
    form = await visit.form()
    given = {name: fields.text(form, name) for name in EMPTY_FORM}
    try:
        stored: Stored = await visit.call(
            "memory_store_rule",
            content=given["content"],
            scope=given["scope"] or GLOBAL,
            permanence=given["permanence"] or None,
            tags=fields.tags(given),
        )
    except InvalidInput as error:
        return await _page(visit, given, fields.problem(error), 422)
    undo = ("Forget it", f"{memory_path('rule', stored.id)}/forget") if visit.may("destroy") else None
    return visit.go(PATH, "Stored as a candidate: use proves it or refutes it.", undo)


async def mark(visit: Visit) -> Response:
    """Mark a rule as helpful or harmful."""
    form, rule_id = await visit.form(), visit.request.path_params["rule_id"]
    outcome = form.get("outcome")
    if outcome == "harmful":
        reason = fields.text(form, "reason") or None
        rule: Rule = await visit.call("memory_mark_harmful", rule_id=rule_id, reason=reason)
    elif outcome == "helpful":
        rule = await visit.call("memory_mark_helpful", rule_id=rule_id)
    else:
        raise InvalidInput("outcome", f"{outcome!r:.40} is not known", "helpful, harmful")
    said = f"Marked as {outcome}. It is {_worded(rule.maturity)} now, with an effectiveness of"
    return visit.go(visit.came_from, f"{said} {rule.effectiveness_score:.0%}.")


async def _page(visit: Visit, given: Mapping[str, str], problem: str = "", status: int = 200) -> Response:
    memory, wanted = visit.memory, visit.query.get("maturity")
    names = [wanted] if wanted in (*ladder.MEANS, "forgotten") else list(ladder.MEANS)
    limit, scope = ON_A_PAGE if wanted else SHOWN, visit.query.get("scope") or None
    cursor = visit.query.get("cursor")
    asked = {"memory_type": "rule", "scope": scope, "limit": limit, "cursor": cursor}
    counts = await memory.count_rules(scope)
    pages = [await visit.call("memory_list", state=name, **asked) for name in names]
    marks = await memory.rule_marks([rule.id for page in pages for rule in page])
    totals = [getattr(counts, name) for name in names]
    rungs = [_rung(visit, *each, marks) for each in zip(names, totals, pages, strict=True)]
    return visit.render(
        "rules.html",
        status=status,
        rungs=rungs,
        total=counts.total,
        forgotten=counts.forgotten,
        wanted=wanted if wanted in names else None,
        scope=scope,
        cursor=pages[0].next_cursor if wanted in names else None,
        permanences=PERMANENCES,
        given=given,
        problem=problem,
    )


def _rung(visit: Visit, name: str, total: int, page: Listed, marks: Mapping[Any, Sequence[Mark]]) -> Rung:
    standings = [
        Standing(rule, marks.get(rule.id, ()), ladder.to_rise(rule, visit.now), reasons_of(rule))
        for rule in page
        if isinstance(rule, Rule)
    ]
    more = path_with(PATH, maturity=name, scope=visit.query.get("scope") or None) if page.next_cursor else None
    means = ladder.MEANS.get(name, "Out of use: forgotten by a person, or faded.")
    return Rung(name, means, total, standings, more)


def _worded(maturity: str) -> str:
    return {"candidate": "a candidate", "anti_pattern": "an anti-pattern"}.get(maturity, maturity)


PAGES = [
    Page("/rules", show),
    Page("/rules", store, ("POST",), "write"),
    Page("/rules/{rule_id}/mark", mark, ("POST",), "write"),
]
