"""A model as a command: the prompt on standard input, the answer on standard output. It learns what the tests say."""

import json
import re
import sys

CITY = "The user lives in Berlin"
RULE = "Ask before booking a flight"
ORDER = "Always send the report to everybody"


def answer(prompt: str) -> str:
    """To a prompt about episodes, a fact and two rules; to one about a conversation, two facts and a block."""
    if "<episode_content" not in prompt:
        facts = [
            {"content": CITY, "category": "context", "confidence": 0.9},
            {"content": "The user may like tea", "category": "preference", "confidence": 0.2},
        ]
        return json.dumps({"facts": facts, "profile": {"work": "Paints walls"}})
    shown = re.findall(
        r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", prompt[prompt.rindex("<episode_content") - 300 :]
    )
    fact = {"subject": "user", "predicate": "city", "content": CITY, "evidence": shown[:1]}
    rules = [{"content": ORDER}, {"content": RULE}]
    return f"```json\n{json.dumps({'new_facts': [fact], 'new_rules': rules})}\n```"


if __name__ == "__main__":
    print(answer(sys.stdin.read()))
