"""Ask something of all sites, in parts that any worker of an engine answers; the answer is the same whoever
they were and however many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from msgspec.structs import replace

from nexusform.domains.sites.ports import Engine
from nexusform.domains.sites.types.work import Answer, Asked, Finding, Kind, Question, Status, Task
from nexusform.domains.sites.workflow.fleet_planning import OpenedFleet

RUNS_OF_A_PART = 100
_BUSY = 4  # parts for each worker, so that none waits long for the last one


def ask_fleet(
    opened: OpenedFleet,
    names: Sequence[str],
    engine: Engine,
    question: Question,
    stopping: Callable[[], bool],
) -> list[Answer]:
    """What each site answers, in the order of the names."""
    fleet = opened.fleet
    assert fleet is not None, "a fleet that was read"
    parts = _parts(question, len(names), engine.workers)
    answers: dict[str, dict[int, Answer]] = {name: {} for name in names}

    def done(task: Task, answer: Answer) -> None:
        assert task.question is not None, "a task that asks"
        answers[task.site][task.question.part] = answer

    tasks = [Task(Kind.ASK, name, fleet, question=part) for name in names for part in parts]
    engine.run(tasks, done, at_once=lambda: engine.workers, stopping=stopping)
    return [whole_answer(name, answers[name], len(parts)) for name in names]


def _parts(question: Question, sites: int, workers: int) -> list[Question]:
    """The question in parts: tie-breaks by the hundred, the racks of few sites among all workers."""
    if question.asked is Asked.CERTAINTY:
        count = ceil(question.runs / RUNS_OF_A_PART)
        size = question.runs // count
        return [replace(question, part=part, parts=count, runs=size) for part in range(count)]
    count = ceil(_BUSY * workers / sites) if question.asked is Asked.FAILURE else 1
    return [replace(question, part=part, parts=count) for part in range(count)]


def whole_answer(name: str, parts: Mapping[int, Answer], count: int) -> Answer:
    """The parts of one site's answer as one."""
    if len(parts) < count:
        return Answer(name, Status.SKIPPED, "It was interrupted before this site was asked whole.")
    ordered = [parts[part] for part in range(count)]
    refused = next((each for each in ordered if each.status is Status.REFUSED), None)
    if refused is not None:
        return refused
    if len({(each.status, each.digest) for each in ordered}) > 1:
        why = "What it is planned from changed while it was asked. Ask again."
        return Answer(name, Status.REFUSED, why)
    return replace(ordered[0], findings=tuple(_added(ordered)))


def _added(parts: Sequence[Answer]) -> list[Finding]:
    """The findings of all parts, with the figures of the same thing added up; in the order of their names,
    as parts share them out in turn.
    """
    found: dict[str, Finding] = {}
    # Parts take every so manyth rack: by turns they come in the order of the site.
    longest = max((len(part.findings) for part in parts), default=0)
    for turn in range(longest):
        for part in parts:
            if turn < len(part.findings):
                _add(found, part.findings[turn])
    return list(found.values())


def _add(found: dict[str, Finding], more: Finding) -> None:
    known = found.get(more.name)
    if known is None:
        found[more.name] = more
        return
    figures = {name: figure + more.figures.get(name, 0) for name, figure in known.figures.items()}
    found[more.name] = replace(known, figures=figures, bad=known.bad or more.bad)
