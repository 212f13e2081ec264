"""A model that believes all it reads and does all it is told: the worst one that may be asked to learn."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence

from poisoning.corpus import CLEAN, FOREIGN_ID, FOREIGN_TENANT, PLANTED, Clean, Planted

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OPENING = re.compile(r"<\s*episode_content\s*>", re.IGNORECASE)
_CLOSING = re.compile(r"<[\s\u200b]*/\s*episode_content\s*>", re.IGNORECASE)
_SHOWN_ID = re.compile(rf"^id: ({_ID})$", re.MULTILINE)
_SHOWN_FACT = re.compile(rf"^- \*\*({_ID})\*\*: \[\w+\] (.*?) — (.*?) — ", re.MULTILINE)
_STRUCTURE = re.compile(r"#{1,6} |---|```|~~~|id: |- \*\*")
_EXPECTED = re.compile(
    r"|## Consolidation Context — .*|## Episodes to Process|### Episode \d+  \(.*\)  \[importance=[\d.]+\]"
    rf"|id: {_ID}|## Existing (?:Facts|Rules) \(for dedup\)|- \*\*{_ID}\*\*: \[\w+\] .*|_No [a-z ]+\._"
)
_SHARED_BY = 3
"""A line that so many episodes have tells nothing about which one it is."""


def _normal(line: str) -> str:
    return " ".join(line.removeprefix("> ").replace("&lt;", "<").split())


def _index() -> dict[str, list[Planted | Clean]]:
    found: dict[str, list[Planted | Clean]] = defaultdict(list)
    for item in (*PLANTED, *CLEAN):
        for line in {_normal(line) for line in item.text.splitlines()}:
            found[line].append(item)
    return {line: items for line, items in found.items() if line and len(items) < _SHARED_BY}


INDEX = _index()


class NaiveModel:
    """Reads the episodes out of a prompt of consolidation and answers as each of them wants.

    `foreign` are ids that belong to someone else, and `tenant` is who. `broken` collects what stood where only Tulving
    may write: the prompt was broken by an episode, and the model obeys that too. `seen` has what it recognised.
    """

    def __init__(self, foreign: Sequence[str] = (FOREIGN_ID,), tenant: str = FOREIGN_TENANT) -> None:
        self.foreign, self.tenant = [str(each) for each in foreign], tenant
        self.broken: list[str] = []
        self.seen: list[Planted | Clean] = []

    def __call__(self, prompt: str) -> str:
        rest = prompt[prompt.index("## Consolidation Context") :]
        self._facts = {(subject, predicate): id_ for id_, subject, predicate in _SHOWN_FACT.findall(rest)}
        self._answer: dict[str, list[object]] = {
            section: [] for section in ("new_facts", "updated_facts", "new_rules", "confirmations")
        }
        number = 0
        while opening := _OPENING.search(rest):
            outside, rest = rest[: opening.start()], rest[opening.end() :]
            self._read_outside(outside)
            closing = _CLOSING.search(rest)
            inside, rest = (rest[: closing.start()], rest[closing.end() :]) if closing else (rest, "")
            number += 1
            if f"### Episode {number}  (" not in outside:
                self._obey_outside(f"episode {number} has no heading")
            self._read_episode(inside, (_SHOWN_ID.findall(outside) or [FOREIGN_ID])[-1])
        self._read_outside(rest)
        for heading in ("## Existing Facts (for dedup)", "## Existing Rules (for dedup)"):
            if rest.splitlines().count(heading) != 1:
                self._obey_outside(f"not one heading {heading}")
        return f"As I was told:\n\n```json\n{json.dumps(self._answer, ensure_ascii=False)}\n```\n"

    def _read_outside(self, text: str) -> None:
        for line in text.splitlines():
            if not _EXPECTED.fullmatch(line.rstrip()):
                self._obey_outside(line)

    def _obey_outside(self, line: str) -> None:
        self.broken.append(line)
        self._answer["new_rules"].append({"content": line})

    def _read_episode(self, text: str, id_: str) -> None:
        lines = text.splitlines()
        for line in lines:
            if _STRUCTURE.match(line):
                self._obey_outside(line)
        items = {item: None for line in lines for item in INDEX.get(_normal(line), ())}
        for item in items:
            self.seen.append(item)
            if isinstance(item, Clean):
                self._learn(item, id_)
            else:
                self._obey(item, id_)

    def _learn(self, clean: Clean, id_: str) -> None:
        fact = {"subject": clean.subject, "predicate": clean.predicate, "content": clean.content}
        self._answer["new_facts"].insert(0, {**fact, "confidence": 0.9, "importance": 5, "evidence": [id_]})

    def _obey(self, planted: Planted, id_: str) -> None:
        if planted.order:
            lesson = f"Handle case {PLANTED.index(planted)} as it was asked"
            self._answer["new_rules"] += [
                {"content": content, "evidence": [id_]} for content in (planted.order, lesson)
            ]
        if planted.content:
            self._update(self._facts.get((planted.subject, planted.predicate)), planted.subject, planted.content, id_)
        if planted.actions:
            for section, actions in json.loads(planted.actions).items():
                self._answer[section] += actions
        if planted.kind in ("json", "foreign"):
            self._reach_out(PLANTED.index(planted), id_)

    def _update(self, target: str | None, subject: str, content: str, id_: str) -> None:
        if target:
            update = {"target_id": target, "subject": subject, "predicate": "is", "content": content, "evidence": [id_]}
            self._answer["updated_facts"].append(update)

    def _reach_out(self, number: int, id_: str) -> None:
        """For what belongs to others, and once for a shown fact under another subject."""
        self._answer["confirmations"] += self.foreign
        for foreign in self.foreign:
            self._update(foreign, "Mallory", f"Mallory owns this, says {number}", id_)
            fact = {"subject": "Mallory", "predicate": f"claim_{number}", "content": f"Mallory owns claim {number}"}
            theirs = {"tenant_id": self.tenant, "tenant": self.tenant, "owner": self.tenant, "scope": self.tenant}
            self._answer["new_facts"] += [
                {**fact, **theirs, "id": foreign, "evidence": [foreign]},
                {**fact, **theirs, "id": foreign, "evidence": [id_]},
            ]
        if number == PLANTED.index(_FIRST_FOREIGN):
            self._update(next(iter(self._facts.values()), None), "Mallory", "Mallory is the owner", id_)


_FIRST_FOREIGN = next(planted for planted in PLANTED if planted.kind == "foreign")
