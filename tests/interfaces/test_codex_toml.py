"""Codex's `config.toml`, edited as text."""

import tomllib

import pytest

from tulving import InvalidInput
from tulving.interfaces.hosts import codex_toml

ENTRY = {"command": "/bin/tulving", "args": ["mcp"], "env": {"TULVING_TENANT": 'a "b" \\ é', "with space": "1"}}
OTHERS = """\
# My settings
model = "gpt-5" # the large one

[mcp_servers.other]
command = "x"
notes = '''
[mcp_servers.not_a_table]
'''

# about profiles
[profiles.fast]
model = "small"
"""


def put(text: str, entry: dict = ENTRY) -> str:
    return codex_toml.put(text, "mcp_servers", "tulving", entry)


def test_a_table_is_added_and_nothing_else_is_touched():
    after = put(OTHERS)
    assert after.startswith(OTHERS)
    assert tomllib.loads(after) == {
        **tomllib.loads(OTHERS),
        "mcp_servers": {**tomllib.loads(OTHERS)["mcp_servers"], "tulving": ENTRY},
    }
    assert put(after) == after
    assert tomllib.loads(put(""))["mcp_servers"] == {"tulving": ENTRY}


@pytest.mark.parametrize("header", ["[mcp_servers.tulving]", "  [ 'mcp_servers' . \"tulving\" ] # ours"])
def test_a_table_that_is_there_is_replaced_where_it_stands(header: str):
    old = f"a = 1\n\n{header}\ncommand = 'old'\nenv = {{ X = '1' }}\n\n# about profiles\n[profiles.fast]\nmodel = 's'\n"
    after = put(old)
    assert tomllib.loads(after)["mcp_servers"] == {"tulving": ENTRY}
    assert after.endswith("\n\n# about profiles\n[profiles.fast]\nmodel = 's'\n")
    assert after.startswith("a = 1\n\n[mcp_servers.tulving]\n")


def test_tables_below_ours_stay():
    old = "[mcp_servers.tulving.tools.x]\napproval_mode = 'prompt'\n[mcp_servers.tulving]\ncommand = 'old'\n"
    entry = {**ENTRY, "tools": {"x": {"approval_mode": "prompt"}}, "a name": 1}
    after = put(f"{old}[mcp_servers.tulving.http_headers]\nA = 'b'\n", entry)
    assert tomllib.loads(after)["mcp_servers"]["tulving"] == entry


def test_a_byte_order_mark_stays():
    assert put("\ufeffa = 1\n") == "\ufeff" + put("a = 1\n")


@pytest.mark.parametrize(
    "text",
    ["mcp_servers = { tulving = { command = 'x' } }\n", "mcp_servers.tulving.command = 'x'\n"],
)
def test_another_form_is_refused(text: str):
    with pytest.raises(InvalidInput, match="mcp_servers"):
        put(text)


def test_what_is_malformed_is_refused_with_its_place():
    with pytest.raises(InvalidInput, match="line 2, column 5"):
        put("a = 1\nb = \n")
