"""The samples of `make quality`, made of data in the form of the real sets."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.quality import beam, change, locomo
from bench.quality.samples import drawn, store
from bench.quality.vectors import Remembering
from tulving.testing import WordEmbedder


@pytest.fixture
def conversations(tmp_path: Path) -> Path:
    turn = {"speaker": "Ada", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a boat"}
    conversation = {
        "sample_id": "talk-1",
        "conversation": {
            "session_2_date_time": "12:05 am on 3 May, 2024",
            "session_2": [turn],
            "session_10_date_time": "1:56 pm on 8 May, 2024",
            "session_10": [{"speaker": "Ben", "dia_id": "D10:2", "text": "Nice."}],
        },
        "qa": [
            {"question": "one?", "evidence": ["D2:1"], "category": 4},
            {"question": "both?", "evidence": ["D:10:02; D2:1", "D10:2", "D9:9"], "category": 1},
            {"question": "wrong person?", "evidence": ["D10:2"], "category": 5},
            {"question": "no evidence?", "evidence": ["D", "D9:9"], "category": 3},
        ],
    }
    (tmp_path / "dev").mkdir()
    (tmp_path / locomo.FILE).write_text(json.dumps([conversation]))
    return tmp_path


def test_a_turn_is_an_episode_with_speaker_time_session_and_caption(conversations):
    [sample] = locomo.samples(conversations)
    assert list(sample.episodes) == ["D2:1", "D10:2"], "in the order of the sessions"
    first, second = sample.episodes.values()
    assert (first.content, first.source) == ("Look! [shares photo: a boat]", "Ada")
    assert first.occurred_at == datetime(2024, 5, 3, 0, 5, tzinfo=UTC)
    assert second.occurred_at == datetime(2024, 5, 8, 13, 56, tzinfo=UTC)
    assert first.session_id != second.session_id


def test_evidence_is_repaired_and_questions_without_any_are_left_out(conversations):
    [sample] = locomo.samples(conversations)
    assert {asked.text: list(asked.gold) for asked in sample.questions} == {
        "one?": ["D2:1"],
        "both?": ["D10:2", "D2:1"],
        "wrong person?": ["D10:2"],
    }


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    roles = ("user", "assistant", "user", "assistant")
    messages = [
        {"id": at, "role": role, "time": "March-15-2024", "text": f"text {at}"} for at, role in enumerate(roles)
    ]
    source = {"original_info": [0], "updated_info": [2]}
    rows = [
        {"q": "nothing?", "cat": "abstention", "gold": [], "src": None},
        {"q": "all?", "cat": "summarization", "gold": [0, 2], "src": [0, 2]},
        {"q": "one?", "cat": "information_extraction", "gold": [2, 3], "src": [2, 3]},
        {"q": "now?", "cat": "knowledge_update", "gold": [0, 2], "src": source},
        {"q": "same?", "cat": "knowledge_update", "gold": [0], "src": {"original_info": [0], "updated_info": [1]}},
    ]
    (tmp_path / "dev").mkdir()
    (tmp_path / beam.FILE).write_text(json.dumps([{"id": 1, "msgs": messages, "qs": rows}]))
    return tmp_path


def test_an_exchange_is_an_episode_with_or_without_the_reply(chats):
    [sample] = beam.samples(chats)
    assert [each.content for each in sample.episodes.values()] == [
        "User: text 0\n\nAssistant: text 1",
        "User: text 2\n\nAssistant: text 3",
    ]
    [short] = beam.samples(chats, replies=False)
    assert [each.content for each in short.episodes.values()] == ["text 0", "text 2"]
    assert {each.occurred_at for each in short.episodes.values()} == {datetime(2024, 3, 15, tzinfo=UTC)}


def test_messages_become_exchanges_and_an_update_is_asked_twice(chats):
    [sample] = beam.samples(chats)
    assert [(asked.text, asked.category, list(asked.gold), list(asked.outdated)) for asked in sample.questions] == [
        ("nothing?", "abstention", [], []),
        ("one?", "information_extraction", ["1"], []),
        ("now?", "knowledge_update", ["0", "1"], []),
        ("now?", beam.APART, ["1"], ["0"]),
        ("same?", "knowledge_update", ["0"], []),
    ]
    assert [asked.answerable for asked in sample.questions] == [False, True, True, True, True]


async def test_a_sample_is_a_tenant_and_its_keys_become_ids(memory, conversations):
    [sample] = locomo.samples(conversations)
    tenant, questions = await store(memory, sample)
    assert tenant.caller.tenant_id == "talk-1"
    for question, asked in zip(questions, sample.questions, strict=True):
        contents = [(await tenant.get("episode", id_)).content for id_ in question.expected]
        assert contents == [sample.episodes[key].content for key in asked.gold]
    assert (await memory.list_memories("episode")).items == []


def test_a_draw_of_questions_is_the_same_each_time(conversations):
    samples = locomo.samples(conversations) * 3
    assert [len(sample.questions) for sample in drawn(samples, None)] == [3, 3, 3]
    few = drawn(samples, 4)
    assert sum(len(sample.questions) for sample in few) == 4
    assert few == drawn(samples, 4)


def test_histories_have_one_to_four_different_values_and_never_change():
    slots = change.slots()
    counts = [len(slot.values) for slot in slots]
    assert (len(slots), {number: counts.count(number) for number in set(counts)}) == (
        200,
        {number: 50 for number in range(1, 5)},
    )
    assert all(len(set(slot.values)) == len(slot.values) for slot in slots)
    assert slots == change.slots()


def test_vectors_are_made_once_and_again_while_live(tmp_path):
    class Counting(WordEmbedder):
        made = 0

        def embed_batch(self, texts):
            self.made += len(texts)
            return super().embed_batch(texts)

    plain, inner = WordEmbedder(), Counting()
    kept = Remembering(inner, tmp_path / "new")
    assert kept.embed_batch(["tea", "cello", "tea", None]) == plain.embed_batch(["tea", "cello", "tea", None])
    assert inner.made == 3
    again = Remembering(inner, tmp_path / "new")
    assert again.embed_batch(["cello", "boat", "tea"]) == plain.embed_batch(["cello", "boat", "tea"])
    assert inner.made == 4
    again.live = True
    assert again.embed("tea") == plain.embed("tea")
    assert inner.made == 5
