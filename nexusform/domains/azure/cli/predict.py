"""`nexusform predict`: where VMs would land that another tool makes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import choice, group, number, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.cli.plan import Showing, exit_code, limits_in, showing_of
from nexusform.cli.planning_flags import PlacementFlags
from nexusform.diagnostics import warning
from nexusform.domains.azure.workflow.predicting import (
    Prediction,
    Read,
    Scheduler,
    foretell,
    predicted,
    prediction_run,
)
from nexusform.plans.impact.guard_rails import Limit, guarded
from nexusform.workflow.runs.run import PlanOptions

_TERRAFORM: Final = "-terraform-plan=FILE"
_WHAT_IF: Final = "-arm-what-if=FILE"
_STACK: Final = "-deployment-stack=FILE"
_NOTHING: Final = (
    "There is nothing of Microsoft.NetworkCloud in {path}: nothing is foretold, and whatever else it makes "
    "or changes takes no room on the site."
)


class PredictArguments(Struct, frozen=True, kw_only=True):
    """What `predict` takes."""

    terraform_plan: str = text("Read the output of `terraform show -json PLANFILE`", metavar="FILE")
    arm_what_if: str = text("Read the JSON of `az deployment group what-if`", metavar="FILE")
    deployment_stack: str = text("Read the what-if of a deployment stack (JSON)", metavar="FILE")
    inventory: str = text("Read the site from this exported directory", metavar="DIR")
    detailed_exitcode: bool = switch("Exit with 2 if there are changes")
    as_json: bool = switch("Print a stream of JSON events", flag="json")
    fail_on: str = text("Exit with 1 if the plan exceeds a guard rail", metavar="NAME:LIMIT,...")
    seed: int | None = number("Set the seed of the tie-break", default=None)
    rack_spread: str = choice("Set the first key of the rack ranking", ("", "pool", "cluster"))
    tie_breaks: int | None = number("Set the number of tie-break samples; 0 disables them", default=None)
    shown: PlacementFlags = group(PlacementFlags)
    view: ViewFlags = group(ViewFlags)
    show_sensitive: bool = switch("Show sensitive values")


@command("predict", PredictArguments)
def predict(arguments: PredictArguments) -> int:
    """Predict VM placement for a Terraform, ARM or Bicep plan on an exported site.

    Reads clusters, agent pools and virtual machines of Microsoft.NetworkCloud. Sources are a
    Terraform plan (azapi) and Azure's what-if of a deployment or deployment stack. Bicep and ARM
    templates need the what-if. Writes nothing; needs no configuration and no state. Reports,
    -fail-on and exit codes are those of `plan`.
    """
    path, read = _source(arguments)
    limits = limits_in(arguments.fail_on)
    showing = showing_of(
        arguments.shown,
        arguments.view,
        as_json=arguments.as_json,
        show_sensitive=arguments.show_sensitive,
    )
    voice = showing.voice
    scheduler = Scheduler(arguments.seed, arguments.rack_spread)
    with predicted(place_of(), arguments.inventory, path, read, scheduler) as prediction:
        if prediction.project is None:
            voice.diagnostics(prediction.diagnostics, {})
            return 1
        return _foretell(_told(prediction, path), arguments, showing, limits)


def _told(prediction: Prediction, path: str) -> Prediction:
    """With a note where there is nothing to foretell: "No changes" alone would speak for the whole plan."""
    if prediction.changes:
        return prediction
    nothing = warning("nothing-to-foretell", _NOTHING.format(path=path))
    return replace(prediction, diagnostics=(*prediction.diagnostics, nothing))


def _source(arguments: PredictArguments) -> tuple[str, Read]:
    """The other tool's file, and who reads it."""
    given = {flag: file for flag, file in _files(arguments).items() if file}
    if len(given) > 1:
        raise click.UsageError(f"Name only one: {' or '.join(given)}.")
    if not given:
        raise click.UsageError(f"Name what is to be foretold: {' or '.join(_files(arguments))}.")
    if not arguments.inventory:
        raise click.UsageError("Name the site: -inventory=DIR, with what `az networkcloud ... list` printed.")
    [(flag, file)] = given.items()
    return file, _reader(flag)


def _files(arguments: PredictArguments) -> dict[str, str]:
    """What may be foretold, by flag; "" for what is not named."""
    return {
        _TERRAFORM: arguments.terraform_plan,
        _WHAT_IF: arguments.arm_what_if,
        _STACK: arguments.deployment_stack,
    }


def _reader(flag: str) -> Read:
    from nexusform.domains.azure.importers.arm_what_if import read_arm_what_if, read_stack_what_if
    from nexusform.domains.azure.importers.terraform_plan import read_terraform_plan

    readers: dict[str, Read] = {
        _TERRAFORM: read_terraform_plan,
        _WHAT_IF: read_arm_what_if,
        _STACK: read_stack_what_if,
    }
    return readers[flag]


def _foretell(
    prediction: Prediction, arguments: PredictArguments, showing: Showing, limits: Sequence[Limit]
) -> int:
    """Foretell where VMs land, and judge it by the limits; the exit code."""
    voice = showing.voice
    assert prediction.project is not None, "checked by the caller"
    sources = prediction.project.sources
    options = PlanOptions(tie_breaks=arguments.tie_breaks, want_rejected=arguments.shown.placements == "all")
    with prediction_run(prediction.project, showing.notices) as run:
        voice.diagnostics(run.diagnostics, sources)
        if not run.ready:
            return 1
        with voice.planning():
            made = guarded(foretell(run, options, prediction), limits)
        showing.tell(made, run, next_step=False)
    return exit_code(made, run.diagnostics, detailed=arguments.detailed_exitcode)
