"""The image and the compose file, as far as they can be checked without Docker."""

import fnmatch
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tulving.config import load_config
from tulving.interfaces.cli.commands import application

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each on one line."""
    lines = re.sub(r"\\\n\s*", " ", "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#")))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines.splitlines() if line.strip())]


def known(words: list[str]) -> bool:
    """Whether there is such a command, with these options."""
    command: Any = application()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        words = words[1:]
    options = {name for parameter in command.params for name in parameter.opts}
    return not hasattr(command, "commands") and {word for word in words if word.startswith("-")} <= options


def test_the_image_runs_commands_that_exist() -> None:
    steps = instructions()
    assert json.loads(dict(steps)["ENTRYPOINT"]) == ["tulving"]
    assert known(json.loads(dict(steps)["CMD"]))
    in_builds = [rest for word, rest in steps if word == "RUN" and "/bin/tulving " in rest]
    assert in_builds
    assert all(known([re.split(r"[ ;&]", rest.partition("/bin/tulving ")[2])[0]]) for rest in in_builds)


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    sent = [line[1:] for line in ignored if line.startswith("!")]
    assert all((ROOT / name).exists() for name in sent)
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    for name in (name for names in copied for name in names):
        assert (ROOT / name).exists(), name
        assert any(fnmatch.fnmatch(name, f"{each}*") for each in sent), f"{name} is not sent to the builder"


def test_the_image_does_not_run_as_root() -> None:
    steps = instructions()
    assert any(word == "RUN" and "useradd" in rest and "--uid 10001" in rest for word, rest in steps)
    assert steps.index(("USER", "10001")) < [word for word, _ in steps].index("ENTRYPOINT")


def test_the_constraints_are_the_pinned_versions() -> None:
    pattern = re.search(r"grep -oE '([^']+)'", DOCKERFILE)
    assert pattern
    locked = (ROOT / "requirements" / "dev.txt").read_text()
    pins = dict(line.split("==") for line in re.findall(pattern[1], locked, re.MULTILINE))
    assert {"mcp", "asyncpg", "onnxruntime", "usearch"} <= set(pins)
    extras = re.search(r"'\.\[([\w,]+)\]'", DOCKERFILE)
    assert extras
    assert all(f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text() for extra in extras[1].split(","))


@pytest.mark.parametrize("name", ["migrate", "server", "worker"])
def test_a_service_runs_a_command_that_exists_with_settings_that_do(name: str, tmp_path: Path) -> None:
    service = COMPOSE["services"][name]
    assert known(list(service["command"]))
    given = {key: re.sub(r"\$\{[^}]*\}", "secret", value) for key, value in service["environment"].items()}
    load_config(tmp_path, given)
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    assert {volume.split(":")[0] for volume in service["volumes"]} <= set(COMPOSE["volumes"])


def test_the_health_checks_can_be_run() -> None:
    [check] = [rest.partition("CMD ")[2] for word, rest in instructions() if word == "HEALTHCHECK"]
    program = json.loads(check)
    assert program[:2] == ["python", "-c"]
    compile(program[2], "HEALTHCHECK", "exec")
    assert known(COMPOSE["services"]["worker"]["healthcheck"]["test"][2:])
    assert "pgvector" in COMPOSE["services"]["database"]["image"]


def test_the_page_says_the_same() -> None:
    page = (ROOT / "docs" / "guides" / "docker.md").read_text()
    for line in re.findall(r"^docker (?:run|compose run) (.+)$", page, re.MULTILINE):
        words = shlex.split(line)
        last = max(at for at, word in enumerate(words) if word in ("tulving", "server", "migrate"))
        rest = words[last + 1 :]
        assert not rest or known(rest), line
