"""Secrets, as a model and a person meet them: what is told, and that no argument switches it off."""

from test_lifecycle_tools import ask, refused

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"
WARNING = "redacted what looks like a secret: content (GitHub token)"


async def test_a_model_is_warned_and_can_not_change_the_policy(path, connect):
    async with connect() as client:
        stored = await ask(client, "memory_store_rule", content=f"use {TOKEN}")
        assert stored["warning"] == WARNING
        seen = await ask(client, "memory_get", memory_type="rule", memory_id=stored["id"])
        assert seen["memory"]["content"] == "use [redacted: GitHub token]"
        for name in ("policy", "secrets", "allow", "secrets.policy"):
            told = await refused(client, "memory_store_rule", content=f"use {TOKEN}", **{name: "off"})
            assert "is not a parameter" in told and TOKEN not in told
    async with connect(TULVING_SECRETS__POLICY="refuse") as client:
        told = await refused(client, "memory_store_episode", content=f"use {TOKEN}", butler="b")
        assert told.startswith("content: holds what looks like a secret (GitHub token, characters 5 to 44)")
        assert TOKEN not in told
    for file in path.parent.iterdir():
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


def test_a_person_is_warned(path, cli, monkeypatch):
    told = cli("store", "fact", "wifi", "password", "hunter2")
    assert (told.code, told.err) == (0, "warning: redacted what looks like a secret: content (password)\n")
    assert "[redacted: password]" in cli("list", "fact").out
    monkeypatch.setenv("TULVING_SECRETS__ALLOW", "'hunter[0-9]'")
    assert cli("store", "fact", "wifi", "password", "hunter2").err == ""
    monkeypatch.setenv("TULVING_SECRETS__POLICY", "refuse")
    told = cli("store", "rule", "my password is swordfish7")
    assert told.code and "content: holds what looks like a secret" in told.err and "swordfish7" not in told.err
