"""The figures about conflicts of `make quality`, from data in the form of the real set."""

from bench.quality import conflicts
from bench.quality.conflicts import CONTRADICTION, DUPLICATE, NEUTRAL
from bench.report import Report
from tulving.testing import WordEmbedder

ROWS = [
    ("A man is drinking tea", "Tea is being drunk by a man", DUPLICATE),
    ("A man is singing", "A person is making music", DUPLICATE),
    ("A man is drinking tea", "A man isn't drinking tea", CONTRADICTION),
    ("A dog is asleep", "A dog is awake", CONTRADICTION),
    ("A dog is on the roof", "A dog is on the table", NEUTRAL),
    ('The "dog" is asleep', "It rains", NEUTRAL),
    ("The dog is drinking milk on the roof", "The dog is drinking some milk", NEUTRAL),
] * conflicts.FOLDS


def test_pairs_are_judged_and_counted(tmp_path):
    (tmp_path / "aux").mkdir()
    rows = [("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")]
    rows += [(str(number), one, other, "3.5", label) for number, (one, other, label) in enumerate(ROWS)]
    (tmp_path / conflicts.FILE).write_text("".join("\t".join(row) + "\n" for row in rows))

    every = conflicts.pairs(tmp_path / conflicts.FILE)
    assert [(each.candidate.content, each.known.content, each.label) for each in every] == ROWS
    found = conflicts.judged(every, WordEmbedder())
    assert [each.verdict for each in found] == ["same", "none", "opposite", "none", "none", "none", "same"] * 5
    assert (
        str(conflicts.outcome(found, {DUPLICATE}, lambda each: each.verdict == "same")) == "P 0.500, R 0.500, F1 0.500"
    )

    report = Report()
    conflicts.run(report, tmp_path, {"words": WordEmbedder()})
    told = {row[0]: row[1:] for row in report.rows}
    assert told["opposite, of contradictions"][0] == "P 1.000, R 0.500, F1 0.667"
    assert told["conflict, of both"][0].startswith("P 0.667, R 0.500")
    assert told["same, of near duplicates"][-1] == "yes"
    assert told["false retirement, of neutral pairs"][0] == "33.33%"
    assert told["false retirement, of neutral pairs"][-1] == "**no**"
