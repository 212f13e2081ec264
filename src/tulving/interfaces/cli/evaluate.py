"""`tulving evaluate`: how well a memory answers a person's own questions."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from tulving.domain import intake
from tulving.domain.model import KINDS
from tulving.domain.quality import Answer, Estimate, Quality, summarize
from tulving.domain.ranking import MODES
from tulving.errors import InvalidInput
from tulving.interfaces.cli.addresses import singular
from tulving.interfaces.cli.options import AsJson, Chosen
from tulving.interfaces.cli.question_file import QuestionFile
from tulving.interfaces.cli.terminal import print_json, progress, table, warn
from tulving.interfaces.wire import wire
from tulving.services.evaluation import VERBS, ask, uncounted
from tulving.services.memory import Memory
from tulving.services.search import LIMITS


def evaluate(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="QUESTIONS.json", help="Questions, and what should be found")],
    verb: Annotated[str, typer.Option(metavar="|".join(VERBS), help="How to ask")] = "search",
    limit: Annotated[int, typer.Option(metavar="NUMBER", help="How many hits to ask for, 1 to 1000")] = 20,
    mode: Annotated[str | None, typer.Option(metavar="|".join(MODES), help="Of a search")] = None,
    types: Annotated[
        list[str] | None, typer.Option(metavar="|".join(KINDS), help="Which kinds; may be repeated")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how well questions are answered: R@5, R@10, R@20 and MRR, with 95 % intervals.

    The file is a JSON object with `questions` and, optionally, `memories`, which are stored in a throw-away store.
    Without them your own store is asked; nothing in it changes. docs/quality.md describes the file.
    """
    verb = intake.one_of("verb", verb, VERBS)
    limit = intake.whole("limit", limit, *LIMITS)
    if mode is not None and verb != "search":
        raise InvalidInput("mode", f"is not for {verb}", "--verb search")
    options: dict[str, Any] = {
        "limit": limit,
        "mode": None if mode is None else intake.one_of("mode", mode, MODES),
        "types": [intake.one_of("types", singular(kind), KINDS) for kind in types or ()] or None,
    }
    asked = QuestionFile(file)

    async def measure(memory: Memory) -> list[Answer]:
        questions = asked.questions(await asked.store(memory))
        memory = uncounted(memory)
        await memory.search(questions[0].text)  # loads what is loaded once
        if memory.warning:
            warn(memory.warning)
        with progress("Asking") as tell:
            return await ask(memory, questions, verb, progress=tell, **options)

    chosen: Chosen = context.obj
    if asked.offered:
        with tempfile.TemporaryDirectory(prefix="tulving-evaluate-") as folder:
            chosen = replace(chosen, url=str(Path(folder) / "memory.db"))
            answers = chosen.run(measure, create="file")
    else:
        answers = chosen.run(measure)
    quality = summarize(answers, limit)
    if as_json:
        print_json({"verb": verb, "limit": limit, **wire(quality), "answers": wire(answers)})
        return
    table([headers(quality), *rows(quality)])
    for sentence in sentences(quality):
        typer.echo(sentence)


def headers(quality: Quality) -> list[str]:
    """The columns of `rows`."""
    depths = quality.scores.recall if quality.scores else ()
    return ["", "n", *(f"R@{depth}" for depth in depths), "MRR"]


def rows(quality: Quality) -> Iterator[list[str]]:
    """A row for all questions that have an answer, and one for each category."""
    for name, scores in (("all", quality.scores), *quality.categories.items()):
        if scores is not None:
            yield [name, str(scores.questions), *map(_percent, scores.recall.values()), _plain(scores.mrr)]


def sentences(quality: Quality) -> Iterator[str]:
    """What the table does not say."""
    if quality.unanswerable_weak:
        share = _percent(quality.unanswerable_weak)
        yield f"questions without an answer that got nothing or only weak hits: {share} % of {quality.unanswerable}"
    if quality.answerable_weak and quality.scores:
        share = _percent(quality.answerable_weak)
        yield f"questions with an answer that got nothing or only weak hits: {share} % of {quality.scores.questions}"
    if quality.misleading:
        yield f"an outdated memory above the current one: {_percent(quality.misleading)} % of {quality.changing}"
    yield f"one question: {quality.median_ms:.1f} ms (p95 {quality.p95_ms:.1f} ms)"


def _percent(estimate: Estimate) -> str:
    return f"{100 * estimate.mean:.1f} ({100 * estimate.low:.1f}–{100 * estimate.high:.1f})"


def _plain(estimate: Estimate) -> str:
    return f"{estimate.mean:.3f} ({estimate.low:.3f}–{estimate.high:.3f})"
