"""`nexusform predict`: VM placement for another tool's plan."""

from collections.abc import Sequence
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_choice,
    declare_flag_group,
    declare_number,
    declare_optional_positional,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.plan import PlanDisplay, create_plan_display, get_exit_code, parse_limit_flags
from nexusform.cli.planning_flags import PlanDisplayFlags
from nexusform.cli.shared_flags import ViewFlags, create_context
from nexusform.diagnostics.diagnostic import build_warning
from nexusform.domains.azure.workflow.plan_prediction import (
    PlanPredictionInput,
    ReadChanges,
    SchedulerSettings,
    open_plan_prediction,
    plan_predicted_changes,
)
from nexusform.files.external_files import ArgumentFile, PathValueForm
from nexusform.plans.impact.guard_rails import (
    NOT_PREDICTED,
    NOTHING_TO_PREDICT,
    GuardRailLimit,
    apply_limits,
)
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.workflow.runs.run import PlanOptions, begin_run
from nexusform.workflow.runs.state_locking import LockOptions

_TERRAFORM: Final = "-terraform-plan=FILE"
_WHAT_IF: Final = "-arm-what-if=FILE"
_STACK: Final = "-deployment-stack=FILE"
_NO_CHANGES: Final = (
    "{path} plans no clusters, pools or VMs of Microsoft.NetworkCloud. There are no VMs to place."
)
_UNREAD_CHANGES: Final = (
    "No change in {path} can be predicted: see the warnings. Its effects on placement are unknown."
)


class PredictArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `predict`."""

    file: str = declare_optional_positional("", metavar="", file=ArgumentFile("changes of ARM"))
    terraform_plan: str = declare_text_flag(
        "Read the output of `terraform show -json PLANFILE`",
        metavar="FILE",
        file=ArgumentFile("plan of Terraform"),
    )
    arm_what_if: str = declare_text_flag(
        "Read the JSON of `az deployment group what-if`",
        metavar="FILE",
        file=ArgumentFile("changes of ARM"),
    )
    deployment_stack: str = declare_text_flag(
        "Read the what-if of a deployment stack (JSON)",
        metavar="FILE",
        file=ArgumentFile("changes of ARM"),
    )
    inventory: str = declare_text_flag(
        "Read the site from an export, or from Azure",
        metavar="DIR|azure",
        file=ArgumentFile("inventory", form=PathValueForm.SOURCE),
    )
    detailed_exitcode: bool = declare_switch_flag("Exit with 2 if there are changes")
    as_json: bool = declare_switch_flag("Print a stream of JSON events", flag="json")
    fail_on: tuple[str, ...] = declare_repeatable_text(
        "Exit with 1 if the plan exceeds a guard rail", metavar="NAME:LIMIT,..."
    )
    warn_on: tuple[str, ...] = declare_repeatable_text(
        "Ask for a review if the plan exceeds a guard rail", metavar="NAME:LIMIT,..."
    )
    next: str = declare_choice(
        "Report what a merge does", ("", "apply", "none"), metavar="apply|none"
    )
    seed: int | None = declare_number("Set the seed of the tie-break", default=None)
    rack_spread: str = declare_choice(
        "Set the first key of the rack ranking", ("", "pool", "cluster"), metavar="pool|cluster"
    )
    samples: int | None = declare_number(
        "Set the number of tie-break samples; 0 disables them", default=None
    )
    placement_flags: PlanDisplayFlags = declare_flag_group(PlanDisplayFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)
    show_sensitive: bool = declare_switch_flag("Show sensitive values")


@define_command("predict", PredictArguments)
def predict(arguments: PredictArguments) -> int:
    """Predict VM placement for a Terraform, ARM or Bicep plan on a site.

    Reads clusters, agent pools and virtual machines of Microsoft.NetworkCloud. Sources are a
    Terraform plan (azapi) and Azure's what-if of a deployment or deployment stack. Bicep and ARM
    templates need the what-if. Writes nothing; needs no configuration and no state.
    -inventory=azure reads the subscription of the provider block azure, else of
    AZURE_SUBSCRIPTION_ID. Reports, -fail-on, -warn-on and exit codes are those of `plan`.
    """
    if arguments.file:
        raise click.UsageError(
            f"A file needs its flag: nexusform predict -terraform-plan={arguments.file} "
            "-inventory=DIR\n"
            f"For Bicep and ARM: -arm-what-if={arguments.file}"
        )
    path, read_changes = _select_external_plan_reader(arguments)
    limits = parse_limit_flags(arguments.fail_on, arguments.warn_on)
    display = create_plan_display(
        arguments.placement_flags,
        arguments.view,
        as_json=arguments.as_json,
        show_sensitive=arguments.show_sensitive,
    )
    scheduler = SchedulerSettings(arguments.seed, arguments.rack_spread)
    context = create_context()
    with open_plan_prediction(
        context, arguments.inventory, path, read_changes, scheduler
    ) as prediction:
        if prediction.project is None:
            display.report_failure(context, PlanOptions(), prediction.diagnostics)
            return 1
        # "No changes" alone would seem to cover the whole plan.
        is_unread = any(problem.id == NOT_PREDICTED for problem in prediction.diagnostics)
        detail = (_UNREAD_CHANGES if is_unread else _NO_CHANGES).format(path=path)
        notes = () if prediction.change_count else (build_warning(NOTHING_TO_PREDICT, detail),)
        prediction_with_notes = replace(prediction, diagnostics=(*prediction.diagnostics, *notes))
        return _run_prediction(prediction_with_notes, arguments, display, limits)


def _select_external_plan_reader(arguments: PredictArguments) -> tuple[str, ReadChanges]:
    """Return the other tool's file and its reader.

    Raises UsageError unless one file and an inventory are given.
    """
    files = {
        _TERRAFORM: arguments.terraform_plan,
        _WHAT_IF: arguments.arm_what_if,
        _STACK: arguments.deployment_stack,
    }
    named_files = omit_empty(files)
    if len(named_files) > 1:
        raise click.UsageError(f"Only one is allowed: {' or '.join(named_files)}.")
    if not named_files:
        raise click.UsageError(f"Specify one of {' or '.join(files)}.")
    if not arguments.inventory:
        raise click.UsageError(
            "No site given. Use -inventory=DIR with the output of `az networkcloud ... list`, or "
            "-inventory=azure."
        )
    [(flag, file)] = named_files.items()
    from nexusform.domains.azure.importers.arm_what_if import read_arm_what_if, read_stack_what_if
    from nexusform.domains.azure.importers.terraform_plan import read_terraform_plan

    readers: dict[str, ReadChanges] = {
        _TERRAFORM: read_terraform_plan,
        _WHAT_IF: read_arm_what_if,
        _STACK: read_stack_what_if,
    }
    return file, readers[flag]


def _run_prediction(
    prediction: PlanPredictionInput,
    arguments: PredictArguments,
    display: PlanDisplay,
    limits: Sequence[GuardRailLimit],
) -> int:
    """Plan the changes of the other tool, check the limits, report; return the exit code."""
    reporter = display.reporter
    project = prediction.project
    assert project is not None, "checked by the caller"
    options = PlanOptions(
        samples=arguments.samples, includes_rejections=arguments.placement_flags.placements == "all"
    )
    # The state is in a temporary directory of this run.
    locking = LockOptions(enabled=False, is_exclusive=True)
    with begin_run(
        project, "OperationTypePlan", locking, notices=display.notices, records_recovery=False
    ) as run:
        reporter.report_diagnostics(run.diagnostics, project.sources)
        if not run.is_ready:
            display.write_reports(run.build_failed_plan(options, run.diagnostics).plan, run)
            return 1
        with reporter.track_planning():
            predicted = plan_predicted_changes(run, options, prediction)
            basis = replace(predicted.basis, after_merge=arguments.next, is_external=True)
            checked_plan = apply_limits(replace(predicted, basis=basis), limits)
        display.report_plan(checked_plan, run, next_step=False)
    return get_exit_code(checked_plan, run.diagnostics, is_detailed=arguments.detailed_exitcode)
