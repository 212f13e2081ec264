"""The episodic and semantic services as a model and a person use them."""

import json

import pytest
from test_lifecycle_tools import ask, refused

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
        window = await ask(client, "memory_query_window", **NEW_YEAR, user_id="ada", event_types=["conversation"])
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
    assert "importance 5 · #garden\n1 of 2 (1 other type)\n" in shown
    assert cli("window", "--last-days", "1").out == "0 of 2 (2 outside window)\n"
    assert cli("store", "knowledge", "Ada grows roses", "--user-id", "ada").out.startswith("stored knowledge ")
    near = json.loads(cli("similar", "--embedding", json.dumps(EAST), "--min-similarity", "-1", "--json").out)
    assert (near["matched_count"], near["filtered"]) == (3, {"below_similarity": 0})
    assert cli("similar", "roses", "--min-similarity", "1").out == "nothing found; looked at 3 (3 below similarity)\n"
