"""`nexusform export` and `nexusform sign`.

They write a saved plan in another tool's format, and sign a saved plan.
"""

import sys
from shlex import quote

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    declare_choice,
    declare_flag_group,
    declare_optional_positional,
    declare_output_path_flag,
    declare_positional,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context, is_confinement_disabled
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.files.external_files import PLAN_FILE, AllowedWriter, ArgumentFile
from nexusform.workflow.opening.system_io import explain_unwritable_file, write_output
from nexusform.workflow.plan_files.saved_plans import FORMATS, export_plan, read_plan


class ExportArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `export`."""

    plan_file: str = declare_positional(metavar="PLANFILE", file=PLAN_FILE)
    format: str = declare_choice("Set the output format", FORMATS)
    out: str = declare_output_path_flag("Write to a file instead of stdout")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("export", ExportArguments)
def export(arguments: ExportArguments) -> int:
    """Write the saved plan PLANFILE in the format of another tool.

    azapi: Terraform's JSON configuration (name it *.tf.json). az: a shell script of `az
    networkcloud` commands. manifests: placements, overrides and member labels as Kubernetes YAML.
    node-labels: `kubectl label` commands for hardware_label_keys. Values missing in the plan become
    variables or environment variables.
    """
    if arguments.out and (reason := explain_unwritable_file(arguments.out)):
        raise click.UsageError(f"-out: {reason}")
    exported = export_plan(create_context(), arguments.plan_file, arguments.format)
    from nexusform.rendering.text.diagnostic_text import render_diagnostics

    # Diagnostics go to stderr, because stdout is the document.
    screen = arguments.view.create_screen()
    if exported.diagnostics:
        text = render_diagnostics(
            exported.diagnostics, files={}, colour=screen.error_colour, width=screen.width
        )
        screen.print_error(text, end="")
    if has_errors(exported.diagnostics):
        return 1
    # No error: the plan has nothing for this format.
    if not exported.text:
        screen.print_error(
            f"The plan has no data for -format={arguments.format}. No file was written."
        )
        return 0
    if arguments.out:
        write_output(arguments.out, exported.text.encode())
    else:
        sys.stdout.write(exported.text)
    return 0


class SignArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sign`."""

    planfile: str | None = declare_optional_positional(None, file=PLAN_FILE)
    key: str = declare_text_flag(
        "Use this private key (Ed25519, PEM)",
        metavar="KEYFILE",
        file=ArgumentFile("private key of a signer", AllowedWriter.OPERATOR),
    )
    withdraw: bool = declare_switch_flag("Withdraw the plan instead of signing it")
    revocations: str = declare_text_flag(
        "Add the withdrawn plan to this file",
        metavar="FILE",
        file=ArgumentFile("withdrawn plans", AllowedWriter.OPERATOR),
    )
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("sign", SignArguments)
def sign(arguments: SignArguments) -> int:
    """Sign the approved plan PLANFILE, or withdraw it.

    Replaces an existing signature. With -withdraw, adds the plan to a signed file of withdrawn
    plans: that of -revocations, else PLANFILE.revocations.json. `apply -revocations=FILE` reads it.

    The plan does not change. It must be from a sandboxed run (-confine), unless -confine=false is
    typed. Writes the provenance to PLANFILE.intoto.jsonl. `apply -verify=key:FILE` accepts only
    signed plans. Keep the key away from jobs that read unreviewed input.
    """
    if arguments.planfile is None or not arguments.key:
        raise click.UsageError(
            "Specify the plan and the key: nexusform sign -key=KEYFILE PLANFILE."
        )
    if arguments.revocations and not arguments.withdraw:
        raise click.UsageError("-revocations needs -withdraw.")
    if arguments.withdraw:
        return _withdraw(arguments, arguments.planfile)
    from nexusform.rendering.report.plan_sentences import (
        describe_plan_evaluation,
        describe_plan_origin,
    )
    from nexusform.workflow.plan_files.plan_signing import sign_plan

    screen = arguments.view.create_screen()
    saved, problems = sign_plan(
        arguments.planfile,
        arguments.key,
        create_context(),
        is_unconfined_accepted=is_confinement_disabled(),
    )
    screen.print_diagnostics(problems, sources={})
    if saved is None or has_errors(problems):
        return 1
    screen.print_text(
        f"Signed: {arguments.planfile}\nPlan of: {describe_plan_origin(saved.plan)}\n"
        f"Evaluation: {describe_plan_evaluation(saved.plan)}"
    )
    return 0


def _withdraw(arguments: SignArguments, planfile: str) -> int:
    """Withdraw a plan and return the exit code."""
    screen = arguments.view.create_screen()
    saved, problems = read_plan(planfile, create_context())
    screen.print_diagnostics(problems, sources={})
    if saved is None:
        return 1
    withdrawal = Withdrawal(planfile, saved.digest, arguments.key, arguments.revocations)
    return withdraw_and_report(withdrawal, screen, "apply")


class Withdrawal(Struct, frozen=True):
    """A plan file to withdraw, with its digest; the key, and the revocation file ("": default)."""

    path: str
    digest: str
    key_file: str
    revocation_file: str


def withdraw_and_report(withdrawal: Withdrawal, screen: Screen, command: str) -> int:
    """Withdraw a plan, print how `command` reads that, and return the exit code."""
    from nexusform.workflow.plan_files.plan_revocations import withdraw_plan

    path = withdrawal.path
    revocation_file, problems = withdraw_plan(
        path, withdrawal.digest, withdrawal.key_file, withdrawal.revocation_file, create_context()
    )
    screen.print_diagnostics(problems, sources={})
    if has_errors(problems):
        return 1
    screen.print_text(
        f"Withdrawn: {path}\nRead it at apply: "
        f"nexusform {command} -verify=key:FILE -revocations={quote(revocation_file)} PLANFILE"
    )
    return 0
