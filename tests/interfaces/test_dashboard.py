"""The dashboard and the alert rules: each query can be parsed, and asks for metrics and labels that a server tells."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tulving.interfaces.http.families import FAMILIES
from tulving.interfaces.http.metrics import Metrics
from tulving.interfaces.observers import OUTCOMES
from tulving.services.health import JobState
from tulving.services.operations import OPERATIONS
from tulving.services.vitals import Vitals
from tulving.testing import ManualClock

DEPLOY = Path(__file__).parents[2] / "deploy"
OF_THE_TARGET = {"instance", "job"}
"""Labels that Prometheus adds to all that it reads from one server."""
ENDINGS = ("_bucket", "_sum", "_count")


def dashboard() -> dict[str, Any]:
    return json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load((DEPLOY / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return group["rules"]


def queries() -> Iterator[tuple[str, str]]:
    """Each query with where it is. What Grafana fills in is filled in."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            filled = target["expr"].replace("$__rate_interval", "5m")
            yield panel["title"], re.sub(r"\$\w+", "anything", filled)
    for rule in rules():
        yield rule["alert"], rule["expr"]


QUERIES = [*queries()]


@pytest.fixture(scope="module")
def told() -> dict[str, set[str]]:
    """The labels of each sample in the exposition of a server in which everything has happened once."""
    metrics, now = Metrics(), ManualClock()()
    for activity, about in (
        ("operation", {"operation": "memory_recall", "tenant": "default"}),
        ("transaction", {"mode": "write", "function": "facts.store"}),
        ("embedding", {"purpose": "query", "texts": 1}),
        ("model", {"input_tokens": 1, "output_tokens": 1}),
        ("job", {"job": "decay_sweep"}),
    ):
        with metrics.during(activity, **about):  # pyright: ignore
            pass
    metrics.note("commit", 2)
    metrics.note("lookup", cache="queries", result="hit")
    metrics.note("floor_miss")
    with metrics.in_flight():
        metrics.answered("GET", "/livez", "200", 0.1)
    queue = {"inside": 0, "outside": 0, "allowed": 1}
    metrics.look(Vitals(queue, 0, 0, [JobState("decay_sweep", "ok", now, now)], "SQLite 3"))
    found = defaultdict[str, set[str]](set)
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found[sample.name] |= {*sample.labels}
    return found


def selectors(expression: Any) -> Iterator[Any]:
    """The vector selectors in a query."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for part in ("expr", "lhs", "rhs", "vector_selector", "param"):
        if (inner := getattr(expression, part, None)) is not None:
            yield from selectors(inner)
    for each in getattr(expression, "args", None) or ():
        yield from selectors(each)


def grouped(expression: Any) -> set[str]:
    """The labels by which a query sums up or matches."""
    found = {*re.findall(r"\w+", " ".join(re.findall(r"(?:by|on) \(([^)]*)\)", expression)))}
    return found - {"le"}


@pytest.mark.parametrize(("place", "query"), QUERIES, ids=[place for place, _ in QUERIES])
def test_what_a_query_asks_for_is_told(place: str, query: str, told: dict[str, set[str]]):
    asked = [*selectors(promql_parser.parse(query))]
    assert asked, "a query that selects nothing shows nothing"
    known = OF_THE_TARGET.union(*(told[selector.name] for selector in asked))
    for selector in asked:
        assert selector.name in told, f"{place}: no server tells {selector.name}"
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= told[selector.name] | OF_THE_TARGET, f"{place}: {selector.name} has no {labels}"
    assert grouped(query) <= known, place


def test_a_query_for_something_else_would_be_noticed(told: dict[str, set[str]]):
    [selector] = selectors(promql_parser.parse('sum(rate(tulving_typo_total{x="y"}[5m]))'))
    assert selector.name not in told
    assert {matcher.name for matcher in selector.matchers.matchers} == {"x"}
    assert grouped("sum by (le, tenent) (x)") == {"tenent"}


@pytest.mark.parametrize(("place", "query"), QUERIES, ids=[place for place, _ in QUERIES])
def test_the_values_that_a_query_names_are_there(place: str, query: str):
    for selector in selectors(promql_parser.parse(query)):
        for matcher in selector.matchers.matchers:
            if matcher.name == "outcome":
                assert matcher.value in OUTCOMES
            if matcher.name == "operation":
                assert any(re.fullmatch(matcher.value, name) for name in OPERATIONS)


def test_every_metric_is_on_the_dashboard():
    asked = {selector.name for _, query in QUERIES for selector in selectors(promql_parser.parse(query))}
    shown = {name.removesuffix(ending) for name in asked for ending in ("", *ENDINGS)}
    unseen = {family.shown for family in FAMILIES} - shown
    assert unseen <= {"tulving_http_request_duration_seconds", "tulving_writes_allowed"}


def test_the_legends_name_labels_that_their_queries_keep():
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            kept = grouped(target["expr"]) | (
                {"instance", "version", "engine"} if "by (" not in target["expr"] else set()
            )
            assert {*re.findall(r"{{(\w+)}}", target["legendFormat"])} <= kept, panel["title"]


def test_panels_do_not_overlap():
    taken = set[tuple[int, int]]()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_alert_says_what_it_means():
    names = [rule["alert"] for rule in rules()]
    assert len({*names}) == len(names)
    document = (DEPLOY.parent / "docs" / "observability.md").read_text(encoding="utf-8")
    for rule in rules():
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert f"`{rule['alert']}`" in document
