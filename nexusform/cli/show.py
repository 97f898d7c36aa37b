"""`nexusform show`: state, saved plan or resource."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_choice,
    declare_flag_group,
    declare_number,
    declare_positionals,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.planning_flags import PlanDisplayFlags
from nexusform.cli.report_flag import (
    MAX_BYTES,
    PlanReportInput,
    ReportFlag,
    has_stdout_report,
    parse_plan_reports,
    write_report,
    write_reports,
    write_to_stdout,
)
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.files.external_files import PLAN_FILE, ArgumentFile
from nexusform.plans.plan import Plan
from nexusform.resource_types.registry import build_registries
from nexusform.workflow.plan_files.show_target import ShownContent, find_show_target

# Writers of objects by type: (instances, -status-version, columns, whether secrets are shown).
Writer: TypeAlias = Callable[..., str]
OBJECT_WRITERS: Final[Mapping[str, Writer]] = LazyTable(collect_loaders("show_renderers"))


class ShowArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `show`; without `targets` it shows the state."""

    targets: tuple[str, ...] = declare_positionals(metavar="[TARGET]...", file=PLAN_FILE)
    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    config: bool = declare_switch_flag("Show the configuration alone, with -json")
    module: str = declare_text_flag(
        "Show the configuration of a module alone, with -json",
        metavar="DIR",
        file=ArgumentFile("configuration"),
    )
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    show_sensitive: bool = declare_switch_flag("Show sensitive values")
    max_bytes: int | None = declare_number(
        "Limit text and Markdown to N bytes", default=None, minimum=1
    )
    status_version: str = declare_choice(
        "Print placements with the conditions of 2023", ("", "2023"), metavar="2023"
    )
    placement_flags: PlanDisplayFlags = declare_flag_group(PlanDisplayFlags)
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("show", ShowArguments)
def show(arguments: ShowArguments) -> int:
    """Show the state, a saved plan, a state file or one resource.

    TARGET is a file or an address; a file takes precedence. Several saved plans share one summary,
    as text, JSON or -report=FORMAT:PATH.
    """
    reports = parse_plan_reports(arguments.placement_flags)
    screen = arguments.view.create_screen()
    if arguments.config or arguments.module:
        return _print_configuration_json(arguments, screen)
    if len(arguments.targets) > 1:
        return _print_saved_plans_summary(arguments, reports, screen)
    name = "".join(arguments.targets)
    file = name if Path(name).is_file() else ""
    target = find_show_target(create_context(arguments.state, requires_state=not file), name)
    screen.print_diagnostics(target.diagnostics, target.sources)
    if has_errors(target.diagnostics):
        return 1
    if reports and target.saved is None:
        raise click.UsageError("-report needs a plan file.")
    if reports:
        write_reports(reports, _build_report_input(target, arguments))
    # -report=FORMAT:- replaces the text and -json.
    if has_stdout_report(reports):
        return 0
    if arguments.as_json:
        from nexusform.rendering.json.json_document import (
            build_plan_document,
            build_state_document,
            write_json,
        )

        if target.saved is not None:
            document = build_plan_document(
                target.saved.plan,
                target.configuration,
                target.state,
                registries=build_registries(),
                files=target.sources,
                placements=arguments.placement_flags.detail,
                show_sensitive=arguments.show_sensitive,
            )
        else:
            document = build_state_document(target.state, show_sensitive=arguments.show_sensitive)
        sys.stdout.flush()
        write_json(document, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return 0
    render = _render_plan_text if target.saved else _render_state_text
    screen.print_text(
        _truncate_text(render(target, arguments, screen), arguments.max_bytes), end=""
    )
    return 0


def _print_configuration_json(arguments: ShowArguments, screen: Screen) -> int:
    """Print the configuration of a directory as JSON, as `tofu show -config -json`.

    With -module, the modules that it calls are not read. Return 1 for errors, else 0.
    """
    from nexusform.rendering.json.json_configuration import build_configuration_document
    from nexusform.rendering.json.json_document import write_json
    from nexusform.workflow.opening.command_context import load_project_configuration

    if not arguments.as_json or arguments.targets or arguments.placement_flags.report:
        raise click.UsageError(
            "-config and -module=DIR need -json, and take no TARGET and no -report."
        )
    if arguments.config and arguments.module:
        raise click.UsageError("-config and -module cannot be combined.")
    context = create_context(variables=arguments.variables)
    if arguments.module:
        context = replace(context, directory=arguments.module)
    configuration, problems = load_project_configuration(context, reads_calls=not arguments.module)
    screen.print_diagnostics(problems, configuration.files)
    if has_errors(problems):
        return 1
    sys.stdout.flush()
    write_json(build_configuration_document(configuration, build_registries()), sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return 0


def _print_saved_plans_summary(
    arguments: ShowArguments, reports: Sequence[ReportFlag], screen: Screen
) -> int:
    """Print or write one summary of several saved plans.

    Return 1 if one of them cannot be read, else 0.
    """
    from nexusform.cli.report_output import FORMATS, Answer
    from nexusform.rendering.answers.plan_set_report import (
        build_plan_set_document,
        build_plan_set_report,
    )

    if any(report.format not in FORMATS for report in reports):
        raise click.UsageError(f"-report of several plans: {', '.join(FORMATS)}.")
    plans: list[tuple[str, Plan]] = []
    for target in arguments.targets:
        show_target = find_show_target(create_context(), target)
        screen.print_diagnostics(show_target.diagnostics, show_target.sources)
        if has_errors(show_target.diagnostics):
            return 1
        if show_target.saved is None:
            raise click.UsageError(
                f'"{target}" is not a saved plan. Several arguments must all be plans.'
            )
        plans.append((target, show_target.saved.plan))
    answer = Answer("", "", build_plan_set_report(plans), build_plan_set_document(plans))
    for report in reports:
        write_report(FORMATS[report.format](answer), report)
    if has_stdout_report(reports):
        return 0
    if arguments.as_json:
        write_to_stdout(FORMATS["json"](answer), "json")
        return 0
    text = answer.render_text(colour=screen.colour, width=screen.width)
    screen.print_text(_truncate_text(text, arguments.max_bytes), end="")
    return 0


def _build_report_input(target: ShownContent, arguments: ShowArguments) -> PlanReportInput:
    """Return the input of reports about the shown plan; `target` must be a saved plan."""
    assert target.saved is not None, "reports are about plans"
    return PlanReportInput(
        plan=target.saved.plan,
        sources=target.sources,
        registries=build_registries(),
        placement_flags=arguments.placement_flags,
        configuration=target.configuration,
        prior=target.state,
        show_sensitive=arguments.show_sensitive,
        max_bytes=arguments.max_bytes or MAX_BYTES,
    )


def _render_plan_text(target: ShownContent, arguments: ShowArguments, screen: Screen) -> str:
    """Render a saved plan, followed by its evaluation unless the text must equal Terraform's."""
    from nexusform.rendering.report.plan_sentences import describe_plan_evaluation
    from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan

    assert target.saved is not None, "checked by the caller"
    options = PlanTextOptions(
        colour=screen.colour,
        width=screen.width,
        placements=arguments.placement_flags.detail,
        details=arguments.placement_flags.details,
        terraform=arguments.placement_flags.is_terraform_compatible,
        hints=False,
        registries=build_registries(),
    )
    text = "\n" + render_plan(target.saved.plan, target.sources, options)
    evaluation = describe_plan_evaluation(target.saved.plan)
    return f"{text}\nEvaluation: {evaluation}\n" if evaluation and not options.terraform else text


def _render_state_text(target: ShownContent, arguments: ShowArguments, screen: Screen) -> str:
    """Render the whole state, or the objects at an address.

    Objects of types with one common writer use this writer.
    """
    from nexusform.rendering.text.state_text import render_state

    if target.is_of_address:
        writers = {OBJECT_WRITERS.get(address.type) for address in target.state.instances}
        # None: several writers, or a type without one.
        write = writers.pop() if len(writers) == 1 else None
        if write is not None:
            width = screen.known_width
            show_sensitive = arguments.show_sensitive
            text = write(
                target.state.instances,
                arguments.status_version,
                width,
                show_sensitive=show_sensitive,
            )
            # "": an object is unreadable or sensitive.
            if text:
                return text
    return render_state(
        target.state,
        build_registries(),
        colour=screen.colour,
        show_sensitive=arguments.show_sensitive,
    )


def _truncate_text(text: str, max_bytes: int | None) -> str:
    """Cut off the text after `max_bytes` with a note; None keeps all of it."""
    data = text.encode()
    if max_bytes is None or len(data) <= max_bytes:
        return text
    text_start = data[:max_bytes].decode(errors="ignore")
    return f"{text_start}\n... cut off after {max_bytes} of {len(data)} bytes (-max-bytes).\n"
