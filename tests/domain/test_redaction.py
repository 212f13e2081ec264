import pytest

from tulving.domain.redaction import LONGEST, presentable

PROMPT = "Read this.\nAnn's secret is that she dislikes the new manager.\nAnswer in JSON."


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("model not found", "model not found"),
        ("", ""),
        ("two\nlines \x1b[31m and\ta tab", "two lines [31m and a tab"),
        ("key sk-123 is wrong, sk-123!", "key ... is wrong, ...!"),
        ("x" * 300, "x" * LONGEST),
        (" " * 5000 + "sk-123", "..."),
        ("x" * (LONGEST - 2) + "sk-123", "x" * (LONGEST - 2) + ".."),
    ],
)
def test_a_message_is_one_short_line_without_the_key(said, shown):
    assert presentable(said, "sk-123", [PROMPT]) == shown


@pytest.mark.parametrize(
    "said",
    [
        "can't parse: Read this. Ann's",
        "bad input near 'she dislikes the new manager'",
        "the new manager.\n\nAnswer in",
        "Ann's secret",
        "JSON",
    ],
)
def test_a_message_that_quotes_a_private_text_is_not_shown(said):
    assert presentable(said, "", ["other", PROMPT]) == ""


def test_a_short_text_is_quoted_as_a_whole():
    assert presentable("can't embed 'tea'", "", ["tea"]) == ""
    assert presentable("can't embed 'tea'", "", ["coffee", " ", ""]) == "can't embed 'tea'"
