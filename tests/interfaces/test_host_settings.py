"""`tulving init --mcp`: what is written is what each host documents, and all else in its file stays."""

import io
import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tulving.interfaces.hosts import jsonc
from tulving.interfaces.hosts.table import HOSTS, host_named

pytestmark = pytest.mark.usefixtures("path")  # what is written does not depend on the engine

COMMAND = {"command": {"type": "string"}, "args": {"type": "array", "items": {"type": "string"}}}
ENV = {"env": {"type": "object", "additionalProperties": {"type": "string"}}}


def servers(key: str, *required: str, **more: object) -> dict[str, Any]:
    """The schema of a file with servers under a key."""
    entry = {
        "type": "object",
        "properties": {**COMMAND, **ENV, **more},
        "required": ["command", *required],
        "additionalProperties": False,
    }
    return {"properties": {key: {"type": "object", "additionalProperties": entry}}, "required": [key]}


DOCUMENTED = {
    # Claude Code Docs, "Connect Claude Code to tools via MCP": scopes; "Environment variables".
    "claude-code": (".claude.json", servers("mcpServers", type={"const": "stdio"})),
    # Model Context Protocol, "Connect to local MCP servers".
    "claude-desktop": (".config/Claude/claude_desktop_config.json", servers("mcpServers")),
    # Cursor Docs, "Model Context Protocol (MCP)": configuration locations.
    "cursor": (".cursor/mcp.json", servers("mcpServers", type={"const": "stdio"})),
    # Visual Studio Code Docs, "MCP configuration reference": type is required.
    "vscode": (".config/Code/User/mcp.json", servers("servers", "type", type={"const": "stdio"})),
    # OpenAI Developers, "Codex: Model Context Protocol": [mcp_servers.<name>] in ~/.codex/config.toml.
    "codex": (".codex/config.toml", servers("mcp_servers")),
    # Gemini CLI Docs, "MCP servers with the Gemini CLI": mcpServers in ~/.gemini/settings.json.
    "gemini": (".gemini/settings.json", servers("mcpServers")),
    # Windsurf Docs, "Cascade: Model Context Protocol (MCP)".
    "windsurf": (".codeium/windsurf/mcp_config.json", servers("mcpServers")),
    # Zed Docs, "Model Context Protocol": custom servers under context_servers.
    "zed": (".config/zed/settings.json", servers("context_servers")),
}


@pytest.fixture
def home(environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which no host has been used yet, on a Linux machine, without Claude Code's command."""
    home = tmp_path / "person"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def parsed(path: Path) -> Any:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else jsonc.read(text)


def test_every_host_has_its_documented_form():
    assert DOCUMENTED.keys() == HOSTS.keys()


@pytest.mark.parametrize("host", HOSTS)
def test_a_new_file_is_what_the_host_documents(host: str, home: Path, cli: Callable, url: str):
    file, schema = DOCUMENTED[host]
    ran = cli("init", "--mcp", host, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert f"+++ {home / file}" in ran.out
    assert f"wrote {home / file}\n" in ran.out
    jsonschema.validate(parsed(home / file), schema)
    entry = parsed(home / file)[HOSTS[host].key]["tulving"]
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-1] == "mcp"
    assert entry["env"]["TULVING_URL"] == f"sqlite:///{url}"
    assert (home / file).stat().st_mode & 0o777 == 0o600
    again = cli("init", "--mcp", host, "--yes")
    assert again.out == f"already there: {home / file}\n"
    assert [each.name for each in (home / file).parent.iterdir() if each.name.startswith((home / file).name)] == [
        (home / file).name
    ]


async def test_the_written_command_starts_the_server(home: Path, process: Callable):
    from mcp import Client, StdioServerParameters

    assert process("init", "--mcp", "cursor", "--yes").code == 0
    entry = parsed(home / ".cursor/mcp.json")["mcpServers"]["tulving"]
    async with Client(StdioServerParameters(**entry, cwd=home)) as client:
        stored = await client.call_tool("memory_store_fact", {"subject": "me", "predicate": "city", "content": "Porto"})
        assert not stored.is_error
    assert "Porto" in process("list", "fact").out


@pytest.mark.parametrize("host", HOSTS)
def test_what_else_is_in_the_file_stays(host: str, home: Path, cli: Callable):
    path, key = home / DOCUMENTED[host][0], HOSTS[host].key
    path.parent.mkdir(parents=True, exist_ok=True)
    ours = '{"command": "old", "url": "u", "startup_timeout_sec": 20, "note": "\\ud83d", "env":'
    ours += ' {"KEY": "k", "TULVING_TENANT": "t"}}'
    before = f'// mine\n{{\n\t"z": 1,\n\t"{key}": {{\n\t\t"tulving": {ours},\n\t\t"b": {{"url": "u"}}, // theirs\n'
    before += "\t},\n}\n"
    if path.suffix == ".toml":
        ours = f'[{key}.tulving]\ncommand = "old"\nstartup_timeout_sec = 20\n[{key}.tulving.env]\nKEY = "k"\n'
        ours += f'[{key}.tulving.http_headers]\nurl = "u"\n'
        before = f'# mine\nz = 1\n\n{ours}\n# theirs\n[{key}.b]\nurl = "u"\n'
    path.write_text(before)
    path.chmod(0o640)
    ran = cli("init", "--mcp", host, "--yes")
    assert ran.code == 0, ran.err
    assert [line for line in ran.out.splitlines() if line.startswith("-") and "old" in line]
    after = parsed(path)
    entry = after[key]["tulving"]
    assert entry["command"] != "old"
    assert entry["startup_timeout_sec"] == 20
    assert not {"url", "http_headers"} & entry.keys() and "TULVING_TENANT" not in entry["env"]
    assert (after["z"], entry["env"]["KEY"], after[key]["b"]) == (1, "k", {"url": "u"})
    assert "mine" in path.read_text() and "theirs" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    backup = path.with_name(f"{path.name}.bak")
    assert backup.read_text() == before
    assert cli("init", "--mcp", host, "--yes").out.startswith("already there")
    assert cli("--tenant", "another", "init", "--mcp", host, "--yes").code == 0
    assert backup.read_text() == before
    assert path.with_name(f"{path.name}.bak.1").exists()


def test_a_person_is_asked(home: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    ran = cli("init", "--mcp", "cursor")
    assert (ran.code, ran.out.endswith("nothing was written\n")) == (0, True)
    assert not (home / ".cursor").exists()
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert cli("init", "--mcp", "cursor").code == 0
    assert (home / ".cursor/mcp.json").exists()


def test_nothing_is_written_where_nobody_can_be_asked(home: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    ran = cli("init", "--mcp", "cursor")
    assert ran.code == 2
    assert '+    "tulving"' in ran.out
    assert "--yes" in ran.err
    assert not (home / ".cursor").exists()


def test_it_can_only_be_printed(home: Path, cli: Callable):
    everything = cli("init", "--mcp")
    assert everything.code == 0
    assert all(f"# {host.title}\n" in everything.out for host in HOSTS.values())
    assert "claude mcp add-json --scope user tulving " in everything.out
    one = cli("init", "--mcp", "code", "--print")
    jsonschema.validate(json.loads(one.out[one.out.index("{") :]), DOCUMENTED["vscode"][1])
    assert cli("--url", "new.db", "init", "--mcp", "--print").code == 0
    assert not Path("new.db").exists()
    assert [each.name for each in home.iterdir()] == ["bin"]


@pytest.mark.parametrize(
    ("host", "text", "problem"),
    [
        ("cursor", '{"mcpServers": {\n  "a": 1 "b"}}', "line 2, column 10"),
        ("cursor", '{"mcpServers": []}', "mcpServers: is not an object"),
        ("cursor", "[]", "mcpServers: is not an object"),
        ("codex", "a = 1\nb =\n", "line 2"),
        ("codex", "mcp_servers = 3\n", "mcp_servers: is not an object"),
        ("zed", "\xff", "is not UTF-8 at byte 0"),
    ],
)
def test_a_malformed_file_is_left_alone(host: str, text: str, problem: str, home: Path, cli: Callable):
    path = home / DOCUMENTED[host][0]
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    ran = cli("init", "--mcp", host, "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert str(path) in ran.err and problem in ran.err
    assert path.read_bytes() == text.encode("latin-1")
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_link_stays_a_link(home: Path, cli: Callable):
    kept = home / "dotfiles" / "mcp.json"
    kept.parent.mkdir()
    kept.write_text("{}\n")
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(kept)
    assert cli("init", "--mcp", "cursor", "--yes").code == 0
    assert (home / ".cursor/mcp.json").is_symlink()
    assert "tulving" in kept.read_text()
    assert (kept.parent / "mcp.json.bak").read_text() == "{}\n"


def test_a_file_that_changes_meanwhile_is_not_overwritten(home: Path):
    from tulving.errors import InvalidInput
    from tulving.interfaces.hosts.settings_file import carry_out

    change = HOSTS["cursor"].change({"command": "x"})
    change.path.parent.mkdir()
    change.path.write_text("{}")
    with pytest.raises(InvalidInput, match="in the meantime"):
        carry_out(change)
    assert change.path.read_text() == "{}"


@pytest.mark.parametrize(
    ("host", "variable", "file"),
    [
        ("codex", "CODEX_HOME", "config.toml"),
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
        ("claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
    ],
)
def test_a_host_may_be_told_another_place(
    host: str, variable: str, file: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert HOSTS[host].place.path() == tmp_path / "elsewhere" / file


def test_a_mac_has_other_places(home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    support = home / "Library/Application Support"
    assert HOSTS["claude-desktop"].place.path() == support / "Claude/claude_desktop_config.json"
    assert HOSTS["vscode"].place.path() == support / "Code/User/mcp.json"
    assert HOSTS["zed"].place.path() == home / ".config/zed/settings.json"


def test_a_project_gets_its_own_memory(home: Path, cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TULVING_URL")
    ran = cli("init", "--mcp", "vscode", "--project", "--yes")
    assert ran.code == 0, ran.err
    entry = parsed(tmp_path / ".vscode/mcp.json")["servers"]["tulving"]
    assert entry["env"]["TULVING_URL"] == f"sqlite:///{tmp_path}/.tulving/memory.db"
    assert (tmp_path / ".tulving/.gitignore").exists()
    assert "keep it out of a shared repository" in ran.out
    refused = cli("init", "--mcp", "windsurf", "--project", "--yes")
    assert (refused.code, "vscode" in refused.err) == (2, True)
    for_all = cli("init", "--mcp", "windsurf", "--yes")
    assert "with --project only here" in for_all.err


def test_a_folder_that_is_not_trusted_is_not_connected(home: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TULVING_URL")
    Path(".tulving").mkdir()
    ran = cli("init", "--mcp", "cursor", "--project", "--yes")
    assert (ran.code, "is not trusted" in ran.err) == (2, True)
    assert not Path(".cursor").exists()
    assert cli("init", "--mcp", "zed", "--project", "--print").code == 2
    shown = cli("init", "--mcp", "--project").out
    assert "# Codex" in shown and "# Zed" not in shown


class TestClaudeCode:
    """Its own command writes its file for all projects, where there is one."""

    @pytest.fixture
    def claude(self, home: Path) -> Path:
        """A stand-in for the command: it notes its arguments, and adds or removes a server as documented."""
        script = home / "bin" / "claude"
        script.write_text(
            f"#!{sys.executable}\n"
            "import json, pathlib, sys\n"
            "home = pathlib.Path(__file__).parent.parent\n"
            "(home / 'calls').open('a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
            "file = home / '.claude.json'\n"
            "known = json.loads(file.read_text()) if file.exists() else {}\n"
            "servers = known.setdefault('mcpServers', {})\n"
            "_, verb, _, scope, name, *rest = sys.argv[1:]\n"
            "if (verb == 'remove') != (name in servers): sys.exit('MCP server tulving: not so')\n"
            "servers.pop(name) if verb == 'remove' else servers.update({name: json.loads(rest[0])})\n"
            "file.write_text(json.dumps(known))\n"
        )
        script.chmod(0o755)
        return home

    def test_its_command_is_used(self, claude: Path, cli: Callable):
        (claude / ".claude.json").write_text('{"numStartups": 3}')
        assert cli("init", "--mcp", "claude-code", "--yes").code == 0
        assert cli("init", "--mcp", "claude", "--yes").out.startswith("already there")
        assert cli("--tenant", "b", "init", "--mcp", "claude-code", "--yes").code == 0
        calls = [json.loads(line)[:5] for line in (claude / "calls").read_text().splitlines()]
        add, remove = ["mcp", "add-json", "--scope", "user", "tulving"], ["mcp", "remove", "--scope", "user", "tulving"]
        assert calls == [add, remove, add]
        known = json.loads((claude / ".claude.json").read_text())
        assert known["numStartups"] == 3
        assert known["mcpServers"]["tulving"]["env"]["TULVING_TENANT"] == "b"
        assert json.loads((claude / ".claude.json.bak").read_text()) == {"numStartups": 3}

    def test_a_failure_of_its_command_is_told(self, claude: Path, cli: Callable):
        script = claude / "bin" / "claude"
        script.write_text("#!/bin/sh\necho no luck >&2\nexit 4\n")
        ran = cli("init", "--mcp", "claude-code", "--yes")
        assert (ran.code, "`claude mcp add-json` failed: no luck" in ran.err) == (1, True)

    def test_what_was_there_is_put_back_when_it_fails(self, claude: Path, cli: Callable):
        (claude / ".claude.json").write_text('{"mcpServers": {"tulving": {"command": "old"}}}')
        script = claude / "bin" / "claude"
        script.write_text(
            script.read_text().replace(
                "if (verb", "if verb != 'remove' and 'old' not in rest[0]: sys.exit('no luck')\nif (verb"
            )
        )
        ran = cli("init", "--mcp", "claude-code", "--yes")
        assert (ran.code, "no luck" in ran.err) == (1, True)
        assert parsed(claude / ".claude.json") == {"mcpServers": {"tulving": {"command": "old"}}}

    def test_a_password_is_no_argument(self, claude: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("TULVING_URL", "postgresql://me:secret@db.example.com/memory")
        assert cli("init", "--mcp", "claude-code", "--yes").code == 0
        assert not (claude / "calls").exists()
        assert "secret" in (claude / ".claude.json").read_text()
        assert (claude / ".claude.json").stat().st_mode & 0o777 == 0o600

    def test_a_project_has_its_own_file(self, claude: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("TULVING_URL")
        assert cli("init", "--mcp", "claude-code", "--project", "--yes").code == 0
        jsonschema.validate(parsed(Path(".mcp.json")), DOCUMENTED["claude-code"][1])
        assert not (claude / "calls").exists()


def test_no_module_is_taken_from_the_project(monkeypatch: pytest.MonkeyPatch):
    from tulving.interfaces.cli.init import _launch

    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert _launch() == [sys.executable, "-P", "-m", "tulving", "mcp"]


def test_names_as_people_say_them():
    assert [host_named(name) for name in ("claude", "Cursor", "gemini-cli")] == ["claude-code", "cursor", "gemini"]
