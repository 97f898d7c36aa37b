"""`nexusform plan`, and functions shared with apply, destroy and refresh."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_ignored_flag,
    declare_output_path_flag,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.global_options import VARIABLE_WORDS_KEY
from nexusform.cli.planning_flags import PlanDisplayFlags, PlanningFlags
from nexusform.cli.run_reporter import PlanDisplayOptions, RunReporter, TextReporter
from nexusform.cli.shared_flags import (
    AfterReviewFlags,
    StateLockFlags,
    ViewFlags,
    create_context,
    declare_migration_flag,
    declare_ownership_flag,
    declare_state_flag,
    declare_variable_flags,
    is_confinement_disabled,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors
from nexusform.domain_table import explain_absent_domain
from nexusform.files.external_files import PLAN_FILE, AllowedWriter, ArgumentFile, PathValueForm
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.plans.impact.guard_rails import GuardRailLimit, apply_limits, parse_guard_rail_limits
from nexusform.plans.plan import Mode, Plan
from nexusform.rendering.report.plan_sentences import has_waiting_changes
from nexusform.state.objects import EMPTY, State
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import OpenResult, open_project
from nexusform.workflow.runs.run import PlanOptions, Run, RunCallbacks, begin_run, get_plan_options
from nexusform.workflow.runs.state_locking import LockOptions

# Most plans are not saved and have no reports.
if TYPE_CHECKING:
    from nexusform.cli.report_flag import ReportFlag
    from nexusform.workflow.plan_files.plan_statement import Signer

NO_SOURCES: Final[Mapping[str, SourceFile]] = {}
# Exit code of -detailed-exitcode.
_EXIT_CHANGES: Final = 2
# Waves have a number or a name.


class PlanArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `plan`."""

    out: str = declare_text_flag(
        "Save the plan to a file", metavar="FILE", file=ArgumentFile("plan", AllowedWriter.COMMAND)
    )
    sign: str = declare_text_flag(
        "Sign the saved plan with a private key (Ed25519, PEM)",
        metavar="KEYFILE",
        file=ArgumentFile("private key of a signer", AllowedWriter.OPERATOR),
    )
    detailed_exitcode: bool = declare_switch_flag("Exit with 2 if there are changes")
    generate_config_out: str = declare_text_flag(
        "Write configuration for imported objects",
        metavar="FILE",
        file=ArgumentFile("configuration", AllowedWriter.COMMAND),
    )
    as_json: bool = declare_switch_flag("Print a stream of JSON events", flag="json")
    json_into: str = declare_output_path_flag("Also write the JSON events to a file")
    check_with: tuple[str, ...] = declare_repeatable_text(
        "Check the predictions with a real program",
        metavar="PROGRAM=LOCATION",
        flag="check-with",
        file=ArgumentFile("programs for checks", AllowedWriter.OPERATOR, PathValueForm.LOCATION),
    )
    previous: str = declare_text_flag(
        "Compare with an earlier saved plan", metavar="PLANFILE", file=PLAN_FILE
    )
    fail_on: tuple[str, ...] = declare_repeatable_text(
        "Exit with 1 if the plan exceeds a guard rail", metavar="NAME:LIMIT,..."
    )
    warn_on: tuple[str, ...] = declare_repeatable_text(
        "Ask for a review if the plan exceeds a guard rail", metavar="NAME:LIMIT,..."
    )
    after_review: AfterReviewFlags = declare_flag_group(AfterReviewFlags)
    assume: tuple[str, ...] = declare_repeatable_text(
        "Show a hypothetical plan: a loss, or another value", metavar="ASSUMPTION"
    )
    planning: PlanningFlags = declare_flag_group(PlanningFlags)
    placement_flags: PlanDisplayFlags = declare_flag_group(PlanDisplayFlags)
    input: bool = declare_switch_flag("Never ask for missing variables", default=True)
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()
    take_ownership: bool = declare_ownership_flag()
    allow_other_hub: str = declare_migration_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)
    show_sensitive: bool = declare_switch_flag("Show sensitive values")


class PlanDisplay(Struct, frozen=True):
    """Display of a run's plan: reporter, placement flags and reports."""

    reporter: RunReporter
    placement_flags: PlanDisplayFlags
    reports: tuple[ReportFlag, ...]
    show_sensitive: bool = False

    @property
    def notices(self) -> RunCallbacks:
        """Callbacks of the run, forwarded to the reporter."""
        reporter = self.reporter
        return RunCallbacks(
            on_wait=reporter.report_notice,
            on_read=reporter.report_read,
            on_lock=reporter.report_lock,
            on_progress=reporter.report_planning,
        )

    def report_plan(
        self, plan: Plan, run: Run, *, saved_path: str = "", next_step: bool = True
    ) -> None:
        """Print the plan, unless -report=FORMAT:- prints another form of it to stdout.

        Then write the reports.
        """
        project = run.project
        view = PlanDisplayOptions(
            registries=project.registries,
            placement_flags=self.placement_flags,
            saved_path=saved_path,
            next_step=next_step,
            take_ownership=project.context.take_ownership,
        )
        is_stdout_report = any(report.path == "-" for report in self.reports)
        if is_stdout_report:
            self.reporter.report_plan_aside(plan, project.sources, view)
        else:
            self.reporter.report_plan(plan, project.sources, view)
        self.write_reports(plan, run)

    def report_failure(
        self,
        context: CommandContext,
        options: PlanOptions,
        diagnostics: Sequence[Diagnostic],
        sources: Mapping[str, SourceFile] = NO_SOURCES,
    ) -> None:
        """Report a failure before planning, and write the reports of a failed plan."""
        self.reporter.report_diagnostics(diagnostics, sources)
        if not self.reports:
            return
        from nexusform.resource_types.registry import build_registries
        from nexusform.workflow.plan_files.saved_plans import build_failed_plan

        plan = build_failed_plan(context, options, diagnostics)
        self._write_reports(plan, sources, build_registries(), configuration=None, prior=EMPTY)

    def write_reports(self, plan: Plan, run: Run) -> None:
        """Write the reports requested by -report, without printing the plan."""
        project = run.project
        self._write_reports(
            plan, project.sources, project.registries, project.configuration, run.stored.state
        )

    def _write_reports(
        self,
        plan: Plan,
        sources: Mapping[str, SourceFile],
        registries: PluginRegistries,
        configuration: Configuration | None,
        prior: State,
    ) -> None:
        """Write the requested reports; most plans have none, so their code is imported here."""
        if not self.reports:
            return
        from nexusform.cli.report_flag import PlanReportInput, write_reports

        subject = PlanReportInput(
            plan=plan,
            sources=sources,
            registries=registries,
            placement_flags=self.placement_flags,
            configuration=configuration,
            prior=prior,
            show_sensitive=self.show_sensitive,
        )
        write_reports(self.reports, subject)


@define_command("plan", PlanArguments, accepts=(declare_ignored_flag("parallelism"),))
def plan(arguments: PlanArguments) -> int:
    """Show planned changes and the placement of every VM, binding and pod.

    Exit code 0, or 1 for errors. With -detailed-exitcode, 2 if there are changes, and 1 if there
    are none but a hub or site could not be read (or any object, with -refresh-only). With
    -refresh=false nothing is read: 0 then means only that the recorded state has no changes.

    -fail-on=NAME:LIMIT sets guard rails. `moved:0`: no placement may move or lose its machine.
    `removed:0`: none may be removed or forgotten. `capacity:5`: capacity for 5 of the largest VM
    must remain per site. `certainty:0.9`: 90 % of the VMs need a certain rack count. `risk:0`: no
    lasting risk, such as a lost quorum. Every report shows the result, and apply rejects the saved
    plan. -warn-on takes the same limits: a plan above them needs a review, and can be applied.

    A merge: with -next say what it does in your pipeline: apply the plan, one wave of it (wave:N),
    or nothing (none). The line Next of every report shows it, and when the plan expires (-max-age).

    What if: -assume=lost:rack/SITE/RACK plans as if this rack were down (also lost:machine,
    lost:node, lost:member), -assume=ADDR:PATH=VALUE with another value. Such a plan is only shown.
    """
    if arguments.sign.startswith("key:"):
        file = arguments.sign.removeprefix("key:") or "KEYFILE"
        raise click.UsageError(
            f"-sign takes a file: -sign={file}. The prefix key: is for apply -verify=key:FILE."
        )
    if arguments.sign and not (arguments.out or arguments.assume):
        raise click.UsageError("-sign needs a saved plan. Add -out=FILE.")
    _check_assumption_flags(arguments)
    options = arguments.planning.build_options(
        generate_config_out=arguments.generate_config_out,
        includes_rejections=arguments.placement_flags.placements == "all",
        # Pods after a loss of one machine or rack.
        includes_losses=arguments.placement_flags.details,
    )
    after_merge = arguments.after_review.parse_step()
    options = replace(options, assumptions=arguments.assume, after_merge=after_merge)
    context = create_context(
        arguments.state,
        arguments.variables,
        take_ownership=arguments.take_ownership,
        allow_other_hub=arguments.allow_other_hub,
        can_ask=arguments.input and not arguments.as_json,
    )
    # -out may replace that file.
    compare = _create_comparison_with_previous_plan(arguments.previous, context)
    problems: list[Diagnostic] = []
    if arguments.out:
        from nexusform.workflow.plan_files.saved_plans import prepare_plan_file

        # A failed plan is saved here at once: it replaces an older one if this run ends early.
        problems = prepare_plan_file(arguments.out, context, options)
    limits = parse_limit_flags(arguments.fail_on, arguments.warn_on)
    max_age = arguments.after_review.choose_max_age(context)
    if arguments.check_with:
        # It raises its usage errors before the plan.
        _parse_checker_programs(arguments.check_with)
    locking = arguments.lock.build_options()
    display = create_plan_display(
        arguments.placement_flags,
        arguments.view,
        as_json=arguments.as_json,
        event_file=arguments.json_into,
        show_sensitive=arguments.show_sensitive,
    )
    # The plan file cannot be written.
    if problems:
        display.report_failure(context, options, problems)
        return 1
    return _run_plan(
        arguments,
        display,
        context,
        options,
        locking,
        lambda plan: compare(apply_limits(_set_basis(plan, max_age, after_merge), limits)),
    )


def _check_assumption_flags(arguments: PlanArguments) -> None:
    """Raise a usage error for flags that a hypothetical plan cannot have."""
    if not arguments.assume:
        return
    planning = arguments.planning
    conflicts = {
        "-out": (arguments.out, "a hypothetical plan cannot be saved"),
        "-sign": (arguments.sign, "a hypothetical plan cannot be signed"),
        "-max-age": (arguments.after_review.max_age, "a hypothetical plan cannot be saved"),
        "-next": (arguments.after_review.next, "a hypothetical plan cannot be applied"),
        "-generate-config-out": (
            arguments.generate_config_out,
            "a hypothetical plan writes no configuration",
        ),
        "-check-with": (arguments.check_with, "a program knows only the real objects"),
        "-destroy": (planning.destroy, "nothing remains to assume"),
        "-refresh-only": (planning.refresh_only, "it plans no changes"),
    }
    for flag, (is_set, reason) in conflicts.items():
        if is_set:
            raise click.UsageError(f"-assume and {flag} cannot be combined: {reason}.")


def _set_basis(plan: Plan, max_age: float, after_merge: str) -> Plan:
    """Return the plan with its maximum age in seconds, and what a merge does."""
    return replace(plan, basis=replace(plan.basis, max_age=max_age, after_merge=after_merge))


def _run_plan(
    arguments: PlanArguments,
    display: PlanDisplay,
    context: CommandContext,
    options: PlanOptions,
    locking: LockOptions,
    check_plan: Callable[[Plan], Plan],
) -> int:
    """Open the project, plan and report; return the exit code.

    Early errors give a failed plan: errors, no changes. `check_plan` adds the comparison with an
    earlier plan, and the results of the guard rails.
    """
    signer, problems = _load_signer(arguments.sign)
    opened = open_project(context) if not problems else OpenResult(None, tuple(problems), {})
    if opened.project is None:
        display.report_failure(context, options, opened.diagnostics, opened.sources)
        if arguments.out:
            from nexusform.workflow.plan_files.saved_plans import (
                build_failed_plan,
                save_failed_plan,
            )

            plan = build_failed_plan(context, options, opened.diagnostics)
            save_problems = save_failed_plan(plan, arguments.out, context, opened.sources)
            display.reporter.report_diagnostics(save_problems, sources={})
        return 1
    display.reporter.report_diagnostics(opened.diagnostics, opened.sources)
    # A plan records no recovered steps of an interrupted apply.
    with begin_run(
        opened.project,
        "OperationTypePlan",
        locking,
        notices=display.notices,
        records_recovery=False,
    ) as run:
        reported_count = len(run.diagnostics)
        warnings: list[Diagnostic] = []
        if run.stored.remaining is not None:
            from nexusform.workflow.plan_files.remaining_steps import check_interrupted_apply

            warnings = check_interrupted_apply(run)
        display.reporter.report_diagnostics([*run.diagnostics, *warnings], opened.sources)
        if run.is_ready:
            new_plan = _plan_and_report(run, options, check_plan, display, arguments, signer)
        else:
            # For example, another run holds the state lock.
            failed_plan = run.build_failed_plan(options, run.diagnostics).plan
            new_plan = _set_basis(failed_plan, 0, options.after_merge)
            run.diagnostics += _save_plan(new_plan, run, arguments.out, signer=None)
            display.write_reports(new_plan, run)
    display.reporter.report_diagnostics(run.diagnostics[reported_count:], opened.sources)
    return get_exit_code(new_plan, run.diagnostics, is_detailed=arguments.detailed_exitcode)


def _create_comparison_with_previous_plan(
    path: str, context: CommandContext
) -> Callable[[Plan], Plan]:
    """Return a function to compare a plan with the one at `path` ("": none).

    An unreadable one gives a warning.
    """
    if not path:
        return lambda plan: plan  # unchanged
    from nexusform.plans.impact.previous_plan import compare_with_previous, warn_about_previous
    from nexusform.workflow.plan_files.saved_plans import read_plan

    saved, problems = read_plan(path, context)
    if saved is None or has_errors(problems):
        reason = " ".join(problem.detail for problem in problems)
        return lambda plan: warn_about_previous(plan, reason.rstrip("."))
    return lambda plan: compare_with_previous(plan, saved.plan)


def get_exit_code(plan: Plan, diagnostics: Iterable[Diagnostic], *, is_detailed: bool) -> int:
    """Return 1 for errors, else 0.

    With `is_detailed` (-detailed-exitcode) return _EXIT_CHANGES for changes, also for those of an
    earlier apply that still wait.
    """
    if plan.is_rejected or has_errors(diagnostics):
        return 1
    if not is_detailed:
        return 0
    if plan.has_changes or has_waiting_changes(plan):
        return _EXIT_CHANGES
    is_drift_unknown = plan.options.mode is Mode.REFRESH_ONLY and plan.has_unread_objects
    # Without a read, changes cannot be excluded.
    return 1 if plan.is_from_state or is_drift_unknown else 0


def _load_signer(key_file: str) -> tuple[Signer | None, list[Diagnostic]]:
    """Load the signer of -sign=KEYFILE before planning; None without the flag, or with problems."""
    if not key_file:
        return None, []
    from nexusform.workflow.plan_files.plan_signing import check_signable, create_signer

    confinement = create_context().confinement
    problems = check_signable(
        is_confined=bool(confinement.root), is_unconfined_accepted=is_confinement_disabled()
    )
    return (None, problems) if problems else create_signer(key_file, confinement)


def parse_limit_flags(fail_on: Iterable[str], warn_on: Iterable[str]) -> tuple[GuardRailLimit, ...]:
    """Parse the flags -fail-on and -warn-on.

    Typed flags replace the limits of NF_CLI_ARGS with the same names. Raises a usage error, also
    for a limit that is given twice.
    """
    context = click.get_current_context(silent=True)
    variable_words = context.meta.get(VARIABLE_WORDS_KEY, ()) if context is not None else ()
    limits: dict[tuple[str, bool], GuardRailLimit] = {}
    mistakes: list[str] = []
    for option, flags, blocks in (("-fail-on", fail_on, True), ("-warn-on", warn_on, False)):
        texts = tuple(flags)
        # The words of NF_CLI_ARGS precede the typed ones.
        variable_count = sum(word.startswith(f"{option}=") for word in variable_words)
        for source in (texts[:variable_count], texts[variable_count:]):
            try:
                source_limits = parse_guard_rail_limits(*source, blocks=blocks)
            except ValueError as problem:
                mistakes.append(f"{option}: {problem}")
                continue
            limits.update({(limit.name, blocks): limit for limit in source_limits})
    if mistakes:
        raise click.UsageError("\n".join(mistakes))
    return tuple(limits.values())


def _plan_and_report(
    run: Run,
    options: PlanOptions,
    check_plan: Callable[[Plan], Plan],
    display: PlanDisplay,
    arguments: PlanArguments,
    signer: Signer | None,
) -> Plan:
    """Make the plan, save it if requested, and report it.

    Return it with guard rails and program checks applied.
    """
    with display.reporter.track_planning():
        new_plan = check_plan(_make_plan(run, options, arguments))
    # A rejected plan is saved without a signature.
    plan_signer = None if new_plan.is_rejected else signer
    run.diagnostics += _save_plan(new_plan, run, arguments.out, plan_signer)
    can_apply = not new_plan.errored and not has_errors(run.diagnostics)
    display.report_plan(new_plan, run, saved_path=arguments.out if can_apply else "")
    return new_plan


def _make_plan(run: Run, options: PlanOptions, arguments: PlanArguments) -> Plan:
    """Make the plan with program checks applied; what was only needed to make it is freed."""
    # If a provider cannot be reached, the plan is made from the state, with a warning.
    result = run.plan(
        replace(options, allows_state_only=True, keeps_schedulers=bool(arguments.check_with))
    )
    if not arguments.check_with:
        return result.plan
    from nexusform.workflow.program_checks import add_program_checks

    programs = _parse_checker_programs(arguments.check_with)
    return add_program_checks(result, programs, run.project.context.data_directory)


def _parse_checker_programs(flags: Sequence[str]) -> dict[str, str]:
    """Parse the -check-with flags of a command to locations of programs by checker name.

    The command has at least one of these flags. Raises a usage error for an invalid flag.
    """
    from nexusform.workflow.program_checks import CHECKERS

    programs: dict[str, str] = {}
    for flag in flags:
        name, _, location = flag.partition("=")
        if name not in CHECKERS or not location:
            names = ", ".join(f"{checker}=LOCATION" for checker in sorted(CHECKERS))
            hint = explain_absent_domain(name, "checkers")
            raise click.UsageError(f"-check-with={flag} is not valid.{hint} Use one of {names}.")
        programs[name] = location
    return programs


def _save_plan(plan: Plan, run: Run, path: str, signer: Signer | None) -> list[Diagnostic]:
    """Save a plan for -out=PATH ("": not set) and return the problems.

    If this fails, save a failed plan with them.
    """
    if not path:
        return []
    from nexusform.workflow.plan_files.saved_plans import (
        build_failed_plan,
        save_failed_plan,
        save_plan,
    )

    problems = save_plan(plan, run, path, signer)
    if has_errors(problems):
        context = run.project.context
        options = get_plan_options(plan)
        save_failed_plan(build_failed_plan(context, options, problems), path, context, sources={})
    return problems


def create_plan_display(
    placement_flags: PlanDisplayFlags,
    view: ViewFlags,
    *,
    as_json: bool,
    show_sensitive: bool,
    event_file: str = "",
    create_text_reporter: Callable[[Screen], TextReporter] = TextReporter,
) -> PlanDisplay:
    """Create the display of a plan from the flags; `event_file` is that of -json-into.

    Raises usage errors.
    """
    if as_json and event_file:
        raise click.UsageError("-json and -json-into cannot be combined.")
    reports: tuple[ReportFlag, ...] = ()
    # True: a report occupies stdout, so messages go elsewhere.
    is_aside = False
    if placement_flags.report or placement_flags.source_url:
        from nexusform.cli.report_flag import has_stdout_report, parse_plan_reports

        reports = parse_plan_reports(placement_flags)
        is_aside = has_stdout_report(reports)
    if as_json:
        from nexusform.cli.json_reporter import JsonReporter

        reporter: RunReporter = JsonReporter()
    else:
        reporter = create_text_reporter(view.create_screen(is_aside=is_aside))
        if event_file:
            reporter = _add_event_file(reporter, event_file)
    return PlanDisplay(reporter, placement_flags, reports, show_sensitive)


def _add_event_file(reporter: TextReporter, path: str) -> RunReporter:
    """Return a reporter that also writes the events to a file; raise a usage error on failure.

    The file is closed with the command.
    """
    from nexusform.cli.json_reporter import EventFileReporter
    from nexusform.workflow.opening.system_io import open_output

    try:
        file = click.get_current_context().with_resource(open_output(path))
        return EventFileReporter(reporter, path, file.fileno())
    except OSError as problem:
        raise click.UsageError(
            f'-json-into: "{path}" cannot be written: {problem.strerror}.'
        ) from None
