"""LoCoMo: long conversations of two people. One memory is one turn; the evidence of a question are turns."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.quality.samples import Asked, Sample, read, session
from tulving import NewEpisode

FILE = "dev/locomo_dev7.json"
CATEGORIES = {1: "1 multi-hop", 2: "2 temporal", 3: "3 open-domain", 4: "4 single-hop", 5: "5 adversarial"}
APART = CATEGORIES[5]
"""Questions that name the wrong person are not part of the headline figure."""
TURN = re.compile(r"D:?(\d+):0*(\d+)")


def samples(data: Path) -> list[Sample]:
    return [_sample(conversation) for conversation in read(data / FILE)]


def _sample(conversation: Mapping[str, Any]) -> Sample:
    name = conversation["sample_id"]
    episodes = dict(_episodes(name, conversation["conversation"]))
    questions = [
        Asked(text=row["question"], gold=gold, category=CATEGORIES[row["category"]])
        for row in conversation["qa"]
        if (gold := turns(row["evidence"], episodes))
    ]
    return Sample(name, episodes, questions)


def _episodes(name: str, conversation: Mapping[str, Any]) -> Iterator[tuple[str, NewEpisode]]:
    numbers = sorted(int(key.removeprefix("session_")) for key in conversation if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        began = conversation[f"session_{number}_date_time"]
        for turn in conversation[f"session_{number}"]:
            caption = turn.get("blip_caption")
            yield (
                turn["dia_id"],
                NewEpisode(
                    content=turn["text"] + (f" [shares photo: {caption}]" if caption else ""),
                    butler="locomo",
                    source=turn["speaker"],
                    session_id=session(name, number),
                    occurred_at=datetime.strptime(began, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC),
                ),
            )


def turns(evidence: Sequence[str], known: Mapping[str, Any]) -> list[str]:
    """The evidence that exists, each turn once. Some ids are joined (`D1:2; D3:4`) or misspelt (`D:1:2`, `D1:02`)."""
    found = (f"D{day}:{turn}" for text in evidence for day, turn in TURN.findall(text))
    return [turn for turn in dict.fromkeys(found) if turn in known]
