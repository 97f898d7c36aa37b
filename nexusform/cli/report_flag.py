"""`-report=FORMAT:PATH`: a plan in another format, to a file or to stdout."""

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.planning_flags import PlanDisplayFlags
from nexusform.cli.shared_flags import create_context
from nexusform.cli.terminal_screen import escape_log_commands, escape_log_commands_in_markup
from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import SourceFile, suggest_name
from nexusform.files.regular_files import read_regular
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.plans.plan import Plan
from nexusform.rendering.report.report_tree import CodeOrigin
from nexusform.state.objects import State
from nexusform.workflow.opening.system_io import explain_unwritable_file, write_output


class _CiSystem(Struct, frozen=True):
    """Environment variables of a CI system with repository, commit and clone directory.

    `files` is the path segment between the repository address and the commit.
    """

    repository: tuple[str, ...]
    files: str
    commit: str
    clone: str


_HOSTS: Final = (
    _CiSystem(("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"), "blob", "GITHUB_SHA", "GITHUB_WORKSPACE"),
    _CiSystem(("CI_PROJECT_URL",), "-/blob", "CI_COMMIT_SHA", "CI_PROJECT_DIR"),
)


def find_code_origin(source_url: str, environment: Mapping[str, str] = os.environ) -> CodeOrigin:
    """Return the origin of the configuration in this directory.

    `source_url` is the address of that directory, "" = from the environment. Raises a usage error
    for an invalid address.
    """
    if source_url and not source_url.startswith(("https://", "http://")):
        raise click.UsageError(f'-source-url: "{source_url}" must start with https:// or http://.')
    # CI systems, each with the names of its variables.
    for host in _HOSTS:
        commit = environment.get(host.commit, "")
        if commit:
            # A flag takes precedence over the variables of the host.
            if source_url:
                return CodeOrigin(source_url, commit=commit)
            repository = "/".join(environment.get(name, "").rstrip("/") for name in host.repository)
            directory = _get_path_in_clone(environment.get(host.clone, ""))
            # No links are possible.
            if not repository.startswith(("https://", "http://")) or directory is None:
                return CodeOrigin(commit=commit)
            return CodeOrigin(f"{repository}/{host.files}/{commit}", directory, commit)
    return CodeOrigin(url=source_url)


def _get_path_in_clone(clone: str) -> str | None:
    """Return the path from a clone to this directory, "" for the clone itself.

    Return None without a clone, or if this directory is outside of it.
    """
    if not clone:
        return None
    path = os.path.relpath(os.path.realpath(os.curdir), os.path.realpath(clone))
    if path == os.pardir or path.startswith(os.pardir + os.sep):
        return None
    return "" if path == os.curdir else path.replace(os.sep, "/")


# Code hosts truncate comments at 65,536 characters.
MAX_BYTES: Final = 65_000
_MAX_DIFF_BYTES: Final = 64 * 1024 * 1024  # bytes


class PlanReportInput(Struct, frozen=True):
    """The plan and options of a report.

    `max_bytes` limits reports for comments (Markdown).
    """

    plan: Plan
    sources: Mapping[str, SourceFile]
    registries: PluginRegistries
    placement_flags: PlanDisplayFlags
    configuration: Configuration | None
    prior: State
    show_sensitive: bool = False
    max_bytes: int = MAX_BYTES


def _render_text(subject: PlanReportInput) -> bytes:
    """Return the text of the plan without colours and hints, as UTF-8."""
    from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan

    options = PlanTextOptions(
        placements=subject.placement_flags.detail,
        details=subject.placement_flags.details,
        terraform=subject.placement_flags.is_terraform_compatible,
        hints=False,
        registries=subject.registries,
    )
    return render_plan(subject.plan, subject.sources, options).encode()


def _render_markdown(subject: PlanReportInput) -> bytes:
    """Return the plan as a comment of a pull request, at most `max_bytes` long."""
    from nexusform.rendering.pull_request.plan_comment import render_markdown

    return render_markdown(
        subject.plan,
        subject.sources,
        subject.registries,
        subject.placement_flags.detail,
        max_bytes=subject.max_bytes,
        origin=find_code_origin(subject.placement_flags.source_url),
    ).encode()


def _render_json(subject: PlanReportInput) -> bytes:
    """Return the JSON document of the plan.

    `placement_flags` choose the detail of placements in it.
    """
    from nexusform.rendering.json.json_document import build_plan_document, encode_document

    document = build_plan_document(
        subject.plan,
        subject.configuration,
        subject.prior,
        registries=subject.registries,
        files=subject.sources,
        placements=subject.placement_flags.detail,
        show_sensitive=subject.show_sensitive,
    )
    return encode_document(document)


def _render_svg(subject: PlanReportInput) -> bytes:
    from nexusform.rendering.page.svg_map import render_svg

    return render_svg(subject.plan).encode()


def _render_html(subject: PlanReportInput) -> bytes:
    from nexusform.rendering.page.html_page import render_html

    origin = find_code_origin(subject.placement_flags.source_url)
    return render_html(subject.plan, subject.sources, subject.registries, origin).encode()


def _render_sarif(subject: PlanReportInput) -> bytes:
    """Return the findings of the plan in SARIF format, with invisible characters escaped."""
    from nexusform.rendering.json.json_document import encode_document
    from nexusform.rendering.notation.json_values import escape_texts
    from nexusform.rendering.pull_request.sarif import build_sarif_document

    return encode_document(escape_texts(build_sarif_document(subject.plan)), pretty=True)


def _render_junit(subject: PlanReportInput) -> bytes:
    from nexusform.rendering.pull_request.junit import render_junit

    return render_junit(subject.plan).encode()


def _render_github_review(subject: PlanReportInput) -> bytes:
    """Render the comment with suggestions for lines of the diff.

    Raises a usage error for an unreadable -diff.
    """
    from nexusform.rendering.json.json_document import encode_document
    from nexusform.rendering.pull_request.github_review import build_review, parse_diff

    try:
        diff_file = create_context().confinement.resolve_path_of_operator(
            subject.placement_flags.diff
        )
        diff = parse_diff(read_regular(diff_file, _MAX_DIFF_BYTES).decode(errors="replace"))
    except OSError as problem:
        raise click.UsageError(
            f'-diff: "{subject.placement_flags.diff}" cannot be read: {problem.strerror}.'
        ) from None
    body = _render_markdown(subject).decode()
    review = build_review(subject.plan, subject.configuration, subject.sources, diff, body)
    return encode_document(review, pretty=True)


def _render_csv(subject: PlanReportInput) -> bytes:
    from nexusform.rendering.json.placements_csv import render_csv

    return render_csv(subject.plan, subject.placement_flags.detail).encode()


FORMATS: Final[Mapping[str, Callable[[PlanReportInput], bytes]]] = {
    "text": _render_text,
    "markdown": _render_markdown,
    "json": _render_json,
    "html": _render_html,
    "svg": _render_svg,
    "sarif": _render_sarif,
    "junit": _render_junit,
    "github-review": _render_github_review,
    "csv": _render_csv,
}


class ReportFlag(Struct, frozen=True):
    """One -report flag; the path "-" is stdout."""

    format: str
    path: str


def parse_plan_reports(placement_flags: PlanDisplayFlags) -> tuple[ReportFlag, ...]:
    """Parse the requested reports of a plan.

    Raises usage errors, also for -source-url.
    """
    if placement_flags.source_url:
        # It raises the error before the plan is made.
        find_code_origin(placement_flags.source_url)
    reports = parse_reports(placement_flags.report)
    if any(report.format == "github-review" for report in reports) and not placement_flags.diff:
        raise click.UsageError(
            "-report=github-review needs the diff of the pull request: -diff=FILE."
        )
    return reports


def parse_reports(
    flags: Sequence[str], formats: Collection[str] = FORMATS.keys()
) -> tuple[ReportFlag, ...]:
    """Parse the requested reports in one of these formats.

    Raises a usage error for reports that cannot be written.
    """
    reports = tuple(_parse_report_format_and_path(flag, formats) for flag in flags)
    if len({os.path.realpath(report.path) for report in reports}) < len(reports):
        raise click.UsageError("-report: only one report can go to stdout, and to each file.")
    return reports


def _parse_report_format_and_path(flag: str, formats: Collection[str]) -> ReportFlag:
    """Parse `FORMAT:PATH`.

    Raises a usage error for an unknown format or an unwritable path.
    """
    name, colon, path = flag.partition(":")
    if name not in formats:
        suggestion = suggest_name(name, formats)
        raise click.UsageError(
            f'-report: unknown format "{name}". Formats: {", ".join(formats)}.{suggestion}'
        )
    if not colon or not path:
        raise click.UsageError(f"-report={name} needs a path: -report={name}:PATH (- is stdout).")
    if path != "-" and (reason := explain_unwritable_file(path)):
        raise click.UsageError(f"-report: {reason}")
    return ReportFlag(name, path)


def has_stdout_report(reports: Sequence[ReportFlag]) -> bool:
    """Return whether a report replaces the text on stdout."""
    return any(report.path == "-" for report in reports)


def write_reports(reports: Sequence[ReportFlag], subject: PlanReportInput) -> None:
    """Write each report.

    Raises a usage error if a file cannot be written.
    """
    for report in reports:
        write_report(FORMATS[report.format](subject), report)


def write_report(document: bytes, report: ReportFlag) -> None:
    """Write one report to its file, or to stdout for "-".

    Raises a usage error on failure.
    """
    if report.path == "-":
        write_to_stdout(document, report.format)
        return
    try:
        write_output(report.path, document)
    except OSError as problem:
        raise click.UsageError(
            f'-report: "{report.path}" cannot be written: {problem.strerror}.'
        ) from None


def write_to_stdout(document: bytes, format_name: str) -> None:
    """Write a document after earlier output; CI log commands in text and markup are escaped."""
    if format_name in ("text", "markdown"):
        document = escape_log_commands(document.decode()).encode()
    elif format_name in ("html", "svg", "junit"):
        document = escape_log_commands_in_markup(document.decode()).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(document)
    sys.stdout.buffer.flush()
