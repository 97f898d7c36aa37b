"""`-report=FORMAT:PATH`: a plan in another form, to a file or to stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.flags import place_of
from nexusform.cli.planning_flags import PlacementFlags
from nexusform.cli.screen import no_log_commands, no_log_commands_in_markup
from nexusform.configuration.declared.configuration import Configuration
from nexusform.diagnostics import did_you_mean
from nexusform.plans.plan import Plan
from nexusform.ports import Registries
from nexusform.regular_files import read_regular
from nexusform.source import SourceFile
from nexusform.state.objects import State
from nexusform.workflow.opening.surroundings import unwritable, write_output

# Code hosts cut comments off at 65,536 characters.
MAX_BYTES: Final = 65_000
_MOST_DIFF: Final = 64 * 1024 * 1024  # bytes


class Subject(Struct, frozen=True):
    """What a report is about. `max_bytes` bounds reports for comments (Markdown)."""

    plan: Plan
    sources: Mapping[str, SourceFile]
    registries: Registries
    shown: PlacementFlags
    configuration: Configuration | None
    prior: State
    show_sensitive: bool = False
    max_bytes: int = MAX_BYTES


def _text(subject: Subject) -> bytes:
    from nexusform.rendering.text.short_plan import PlanTextOptions
    from nexusform.rendering.text.terminal import render_plan

    options = PlanTextOptions(
        placements=subject.shown.detail,
        details=subject.shown.details,
        terraform=subject.shown.terraform,
        hints=False,
        registries=subject.registries,
    )
    return render_plan(subject.plan, subject.sources, options).encode()


def _markdown(subject: Subject) -> bytes:
    from nexusform.cli.code_host import origin_of
    from nexusform.rendering.pull_request.markdown import render_markdown

    return render_markdown(
        subject.plan,
        subject.sources,
        subject.registries,
        subject.shown.detail,
        max_bytes=subject.max_bytes,
        origin=origin_of(subject.shown.source_url),
    ).encode()


def _json(subject: Subject) -> bytes:
    from nexusform.rendering.json.json_document import json_bytes, plan_document

    document = plan_document(
        subject.plan,
        subject.configuration,
        subject.prior,
        registries=subject.registries,
        files=subject.sources,
        placements=subject.shown.detail,
        show_sensitive=subject.show_sensitive,
    )
    return json_bytes(document)


def _svg(subject: Subject) -> bytes:
    from nexusform.rendering.page.svg_map import render_svg

    return render_svg(subject.plan).encode()


def _html(subject: Subject) -> bytes:
    from nexusform.cli.code_host import origin_of
    from nexusform.rendering.page.html_page import render_html

    origin = origin_of(subject.shown.source_url)
    return render_html(subject.plan, subject.sources, subject.registries, origin).encode()


def _sarif(subject: Subject) -> bytes:
    from nexusform.rendering.json.json_document import json_bytes
    from nexusform.rendering.notation.json_values import spelled_out
    from nexusform.rendering.pull_request.sarif import sarif_document

    return json_bytes(spelled_out(sarif_document(subject.plan)), pretty=True)


def _junit(subject: Subject) -> bytes:
    from nexusform.rendering.pull_request.junit import render_junit

    return render_junit(subject.plan).encode()


def _github_review(subject: Subject) -> bytes:
    from nexusform.rendering.json.json_document import json_bytes
    from nexusform.rendering.pull_request.review import read_diff, review_document

    try:
        diff_file = place_of().confinement.followed(subject.shown.diff)
        diff = read_diff(read_regular(diff_file, _MOST_DIFF).decode(errors="replace"))
    except OSError as problem:
        raise click.UsageError(f'-diff: "{subject.shown.diff}" cannot be read: {problem.strerror}.') from None
    body = _markdown(subject).decode()
    review = review_document(subject.plan, subject.configuration, subject.sources, diff, body)
    return json_bytes(review, pretty=True)


def _csv(subject: Subject) -> bytes:
    from nexusform.rendering.json.placements_csv import render_csv

    return render_csv(subject.plan, subject.shown.detail).encode()


FORMATS: Final[Mapping[str, Callable[[Subject], bytes]]] = {
    "text": _text,
    "markdown": _markdown,
    "json": _json,
    "html": _html,
    "svg": _svg,
    "sarif": _sarif,
    "junit": _junit,
    "github-review": _github_review,
    "csv": _csv,
}


_FOR_PEOPLE: Final = frozenset({"text", "markdown"})
_MARKUP: Final = frozenset({"html", "svg", "junit"})


class ReportFlag(Struct, frozen=True):
    """One -report flag; the path "-" is stdout."""

    format: str
    path: str


def plan_reports(shown: PlacementFlags) -> tuple[ReportFlag, ...]:
    """The reports of a plan that are asked for. Raises usage errors, for -source-url too."""
    if shown.source_url:
        from nexusform.cli.code_host import origin_of

        origin_of(shown.source_url)
    reports = parse_reports(shown.report)
    if any(report.format == "github-review" for report in reports) and not shown.diff:
        raise click.UsageError("-report=github-review needs the diff of the pull request: -diff=FILE.")
    return reports


def parse_reports(flags: Sequence[str], formats: Collection[str] = FORMATS.keys()) -> tuple[ReportFlag, ...]:
    """The reports asked for, in one of these formats. Raises a usage error for what cannot be written."""
    reports = tuple(_parse_report(flag, formats) for flag in flags)
    if sum(report.path == "-" for report in reports) > 1:
        raise click.UsageError("-report: only one report can go to stdout.")
    return reports


def _parse_report(flag: str, formats: Collection[str]) -> ReportFlag:
    """A format and where it goes. Raises a usage error."""
    name, colon, path = flag.partition(":")
    if name not in formats:
        near = did_you_mean(name, formats)
        raise click.UsageError(
            f'-report: there is no format "{name}". Known are: {", ".join(formats)}.{near}'
        )
    if not colon or not path:
        raise click.UsageError(f"-report={name} names no file: write -report={name}:PATH, with - for stdout.")
    if path != "-" and (reason := unwritable(path)):
        raise click.UsageError(f"-report: {reason}")
    return ReportFlag(name, path)


def to_stdout(reports: Sequence[ReportFlag]) -> bool:
    """Whether one of them takes the place of the text."""
    return any(report.path == "-" for report in reports)


def write_reports(reports: Sequence[ReportFlag], subject: Subject) -> None:
    """Write each. Raises a usage error when a file cannot be written."""
    for report in reports:
        write_report(FORMATS[report.format](subject), report)


def write_report(document: bytes, report: ReportFlag) -> None:
    """Write one to its file, or to stdout for "-". Raises a usage error when that cannot be."""
    if report.path == "-":
        write_to_stdout(document, report.format)
        return
    try:
        write_output(report.path, document)
    except OSError as problem:
        raise click.UsageError(f'-report: "{report.path}" cannot be written: {problem.strerror}.') from None


def write_to_stdout(document: bytes, format_name: str) -> None:
    """A document after what was printed before; in text for people is nothing that a CI system would obey."""
    if format_name in _FOR_PEOPLE:
        document = no_log_commands(document.decode()).encode()
    elif format_name in _MARKUP:
        document = no_log_commands_in_markup(document.decode()).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(document)
    sys.stdout.buffer.flush()
