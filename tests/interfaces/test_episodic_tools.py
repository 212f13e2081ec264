"""The episodic and semantic services as a model and a person use them."""

import json
from dataclasses import replace

import pytest
from test_lifecycle_tools import ask, refused

from tulving.interfaces.cli import timeline
from tulving.interfaces.cli.terminal import lines
from tulving.services.bridge import COUNTED, BridgeStatus
from tulving.services.timeline import Rotated

ROSES = {"content": "Talked about roses", "event_type": "conversation", "timestamp": "2026-01-01T12:00:00Z"}
NEW_YEAR = {"since": "2026-01-01", "until": "2026-01-02T00:00:00Z"}
EAST = [1, *[0.0] * 255]


@pytest.mark.scenario("000-012", "000-013", "000-005", "000-006", "000-007")
async def test_a_model_records_and_reads_a_timeline(connect):
    async with connect(TULVING_TOOLS="all") as client:
        first = await ask(client, "memory_record_event", **ROSES, user_id="ada", importance=7)
        again = await ask(client, "memory_record_event", **ROSES, user_id="ada")
        assert (first["outcome"], again["outcome"], again["id"]) == ("stored", "duplicate", first["id"])
        assert "user_id: is missing" in await refused(client, "memory_record_event", **ROSES)
        window = await ask(
            client, "memory_query_window", **NEW_YEAR, user_id="ada", event_types=["conversation"], detail="full"
        )
        (event,) = window["events"]
        assert (event["type"], event["importance"]) == ("conversation", 7)
        assert event["occurred_at"] == "2026-01-01T12:00:00+00:00" and "event_key" not in event
        dropped = {"outside_window": 0, "other_type": 0, "over_limit": 0}
        assert window["diagnostics"] == {"scanned": 1, "returned": 1, "dropped": dropped}
        assert "last_days" in await refused(client, "memory_query_window", **NEW_YEAR, last_days=1)
        saved = await ask(client, "memory_save_semantic", content="Ada grows roses", user_id="ada", embedding=EAST)
        found = await ask(client, "memory_search_similar", embedding=EAST, min_similarity=0.9)
        assert [hit["id"] for hit in found["results"]] == [saved["id"]]
        assert (found["matched_count"], found["filtered_count"]) == (1, 1)
        assert found["filtered"] == {"below_similarity": 1}
        by_words = await ask(client, "memory_search_similar", query="roses", types=["episode"])
        assert by_words["results"][0]["id"] == first["id"]
        for vector, problem in (([1.0], "has 1 dimensions"), (["east"], "'east' is not a number"), (7, "dimensions")):
            assert problem in await refused(client, "memory_search_similar", embedding=vector)


async def test_a_bound_connection_keeps_to_its_user(path, connect):
    async with connect(TULVING_TOOLS="all", TULVING_USER_ID="ada") as client:
        assert (await ask(client, "memory_record_event", **ROSES))["outcome"] == "stored"
        for tool, given in (("memory_record_event", ROSES), ("memory_query_window", {})):
            assert "bound to" in await refused(client, tool, **given, user_id="bob")


def test_a_person_records_and_reads_a_timeline(path, cli):
    told = cli("store", "event", "conversation", "Talked about roses", "--user-id", "ada", "--timestamp", "2026-01-01")
    assert told.out.startswith("stored event ") and not told.err
    cli("store", "event", "task", "Prune them", "--user-id", "ada", "--timestamp", "2026-01-02", "--tags", "garden")
    shown = cli("window", "--since", "2026-01-01", "--event-types", "task", "--event-types", "reminder").out
    assert shown.startswith("2026-01-02 00:00 UTC  task  Prune them\n")
    assert "importance 5 · #garden\n1 of 2 episodes (1 other type)\n" in shown
    assert cli("window", "--last-days", "1").out == "0 of 2 episodes (2 outside window)\n"
    assert cli("store", "knowledge", "Ada grows roses", "--user-id", "ada").out.startswith("stored knowledge ")
    near = json.loads(cli("similar", "--embedding", json.dumps(EAST), "--min-similarity", "-1", "--json").out)
    assert (near["matched_count"], near["filtered"]) == (3, {"below_similarity": 0})
    assert cli("similar", "roses", "--min-similarity", "1").out == "nothing found; looked at 3 (3 below similarity)\n"


def test_the_archive_and_the_bridge_are_told_in_words(path, cli, capsys):
    assert cli("archive").out == "nothing to archive\n"
    assert cli("bridge").out.startswith("bridge   off; the setting bridge.enabled switches it on\nwaiting  0 events\n")
    counts = dict.fromkeys(COUNTED, 0) | {"handled": 3, "ingested": 2, "skipped": 1, "demoted": 1}
    status = BridgeStatus(enabled=True, suspended=None, timeline_lag_ms=90_000, segment_count=0, waiting=1, **counts)
    lines(timeline.bridged(status))
    lines(timeline.bridged(replace(status, suspended="writes are slow", waiting=0, demoted=0)))
    moved = Rotated(archived=6, segments=2, merged=1, pruned=4, damaged=1)
    lines(timeline.rotated(moved, dry_run=False))
    lines(timeline.rotated(moved | {"merged": 0, "damaged": 0}, dry_run=True))
    assert capsys.readouterr().out.splitlines() == [
        "bridge   on",
        "waiting  1 event, the oldest for 1.5 min",
        "handled  3 events: 2 became facts, 1 not important enough, or gone",
        "gone     facts of episodes that are gone: 1 believed half",
        "bridge   suspended until the timeline is well again: writes are slow",
        "waiting  0 events",
        "handled  3 events: 2 became facts, 1 not important enough, or gone",
        "archived 6 episodes in 2 segments; merged 1 small segment; deleted 4 episodes past the retention",
        "1 segment can't be read; `tulving health` says more",
        "would archive 6 episodes in 2 segments; would delete 4 episodes past the retention",
    ]
