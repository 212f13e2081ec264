"""`python -m bench.quality`: ask the questions of the development data, and print how well they are answered."""

import argparse
import asyncio
import json
import os
import tempfile
import tomllib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from platformdirs import user_cache_dir

from bench import entities
from bench.engines import Engine, Sqlite, postgres
from bench.quality import beam, change, conflicts, locomo, samples, secrets
from bench.quality.samples import Sample
from bench.quality.vectors import Remembering
from bench.report import Report, machine
from tulving import Memory, MemoryModuleConfig, get_embedding_engine, open_memory
from tulving.config import parse
from tulving.domain.model import KINDS
from tulving.domain.quality import Answer, summarize
from tulving.domain.ranking import MODES
from tulving.interfaces.cli.evaluate import headers, rows, sentences
from tulving.ports import Clock
from tulving.providers import weights
from tulving.services.evaluation import VERBS, Verb, ask

ROOT = Path(__file__).parents[2]
PARTS = {
    "locomo": locomo.FILE,
    "beam": beam.FILE,
    "beam-messages": beam.FILE,
    "change": "",
    "entities": "aux",
    "conflicts": conflicts.FILE,
    "secrets": locomo.FILE,
}
"""What is measured, and the data it needs."""


class Run:
    """One run: what was chosen, and the answers so far."""

    def __init__(self, chosen: argparse.Namespace, engine: Engine) -> None:
        self.chosen, self._engine = chosen, engine
        self.config = parse(tomllib.loads(chosen.settings.read_text())) if chosen.settings else MemoryModuleConfig()
        self.verbs: Sequence[Verb] = VERBS if chosen.verb == "both" else [chosen.verb]
        self.embedder = _embedder(chosen)
        self.answers: list[dict[str, Any]] = []
        self._stores = 0

    @asynccontextmanager
    async def memory(self, name: str, **options: Any) -> AsyncIterator[Memory]:
        """A new store with the defaults, whatever the settings of the person are."""
        place = await self._engine.fresh(name)
        options = {"config": self.config, "embedder": self.embedder, "background": False, **options}
        async with open_memory(place, **options) as memory:
            yield memory

    def changing(self, clock: Clock) -> AbstractAsyncContextManager[Memory]:
        """A new store for a history of weeks, in which no episode expires."""
        self._stores += 1
        config = replace(self.config, episode_ttl_days=None)
        return self.memory(f"change-{self._stores}", config=config, clock=clock)

    def live(self, live: bool) -> None:
        """Whether vectors are made anew, which is what a question costs."""
        if isinstance(self.embedder, Remembering):
            self.embedder.live = live and not self.chosen.fast

    async def conversations(self, part: str, title: str, all_samples: Sequence[Sample], apart: str) -> None:
        """Store each conversation as one tenant and ask its questions. Those of the category `apart` are not part of
        the headline figure. Searches come first: they leave no trace, as recalls do."""
        named = [each for each in all_samples if not self.chosen.conversation or each.name in self.chosen.conversation]
        drawn = samples.drawn(named, self.chosen.questions)
        async with self.memory(part) as memory:
            self.live(False)
            stored = [(sample.name, *await samples.store(memory, sample)) for sample in drawn]
            self.live(True)
            await memory.search("the first query loads the model")
            for verb in self.verbs:
                answers: dict[str, list[Answer]] = {}
                for name, tenant, questions in stored:
                    answers[name] = await ask(
                        tenant,
                        questions,
                        verb,
                        limit=self.chosen.limit,
                        mode=self.chosen.mode,
                        types=self.chosen.types,
                    )
                self._tell(f"{title}, {verb}", answers, apart)
                self._note(part, verb, answers)
        self.live(False)

    def _tell(self, title: str, answers: dict[str, list[Answer]], apart: str) -> None:
        every = [answer for group in answers.values() for answer in group]
        headline = summarize([each for each in every if each.question.category != apart], self.chosen.limit)
        rest = summarize([each for each in every if each.question.category == apart], self.chosen.limit)
        columns = headers(headline)
        print(f"\n## {title}, limit {self.chosen.limit}\n")
        for row in (columns, ["---"] * len(columns), *rows(headline), *list(rows(rest))[1:]):
            print(f"| {' | '.join(row)} |")
        print()
        for sentence in sentences(headline):
            print(f"- {sentence}")
        if rest.misleading:
            print(f"- {apart}: {next(sentences(replace(rest, answerable_weak=None)))}")
        depth = min(10, self.chosen.limit)
        alone = {
            name: [answer for answer in group if answer.question.answerable and answer.question.category != apart]
            for name, group in answers.items()
        }
        each = (
            f"{name} {100 * sum(answer.recall(depth) for answer in group) / len(group):.1f}"
            for name, group in alone.items()
            if group
        )
        print(f"- R@{depth} of each conversation: {', '.join(each)}", flush=True)

    def _note(self, part: str, verb: str, answers: dict[str, list[Answer]]) -> None:
        self.answers += [
            {
                "part": part,
                "verb": verb,
                "conversation": name,
                "category": answer.question.category,
                "question": answer.question.text,
                "ranks": list(answer.ranks),
                "weak": answer.weak,
                "misleading": answer.misleading,
                "best": answer.best,
                "evidence": answer.evidence,
                "milliseconds": round(answer.milliseconds, 2),
            }
            for name, group in answers.items()
            for answer in group
        ]


def _embedder(chosen: argparse.Namespace) -> Any:
    if chosen.embedder == "hashing":
        return get_embedding_engine("hashing")
    home = Path(os.environ.get("TULVING_TEST_WEIGHTS_HOME") or user_cache_dir("tulving-tests"))
    weights.install(home)
    return Remembering(get_embedding_engine("minilm", home=home), chosen.store)


async def measure(chosen: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="tulving-quality-") as folder:
        if chosen.engine == "postgresql":
            async with postgres() as server:
                await _measure(Run(chosen, server))
        else:
            await _measure(Run(chosen, Sqlite(Path(folder))))


async def _measure(run: Run) -> None:
    chosen, data = run.chosen, run.chosen.data
    parts = chosen.only or PARTS
    print(machine())
    if "locomo" in parts:
        await run.conversations("locomo", "LoCoMo", locomo.samples(data), locomo.APART)
    if "beam" in parts:
        await run.conversations("beam", "BEAM, exchanges", beam.samples(data), beam.APART)
    if "beam-messages" in parts:
        title = "BEAM, the user's messages only"
        await run.conversations("beam-messages", title, beam.samples(data, replies=False), beam.APART)
    if "change" in parts:
        await change.run(run.changing, run.verbs)
    if "entities" in parts:
        await entities.run(Report(), data / "aux")
    if "conflicts" in parts:
        conflicts.run(Report(), data, {run.embedder.model: run.embedder, "hashing": get_embedding_engine("hashing")})
    if "secrets" in parts:
        hashing = get_embedding_engine("hashing")
        await secrets.run(Report(), data, lambda name, config: run.memory(name, config=config, embedder=hashing))
    if chosen.json:
        chosen.json.write_text(json.dumps(run.answers, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "bench", help="the folder of the data")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part only (may be repeated)")
    parser.add_argument("--conversation", action="append", help="this conversation only (may be repeated)")
    parser.add_argument("--questions", type=int, help="a sample of so many questions of each set")
    parser.add_argument("--verb", choices=(*VERBS, "both"), default="both")
    parser.add_argument("--mode", choices=MODES, help="of a search")
    parser.add_argument("--types", action="append", choices=KINDS, help="this kind of memory only (may be repeated)")
    parser.add_argument("--limit", type=int, default=50, help="how many hits each question asks for")
    parser.add_argument("--embedder", choices=("minilm", "hashing"), default="minilm")
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--settings", type=Path, metavar="TOML", help="settings other than the defaults")
    parser.add_argument("--store", type=Path, metavar="DIR", default=ROOT / "bench" / "results", help="for vectors")
    parser.add_argument("--fast", action="store_true", help="keep the vectors of questions too; times then lack them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write each answer with its ranks")
    chosen = parser.parse_args()
    for part in chosen.only or PARTS:
        if PARTS[part] and not (needed := chosen.data / PARTS[part]).exists():
            parser.error(f"{part} needs {needed}: --data names the folder of the data; --only change needs none")
    asyncio.run(measure(chosen))


main()
