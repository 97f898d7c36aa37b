"""`nexusform sign`: signature of a saved plan."""

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_optional_positional, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context, is_confinement_disabled
from nexusform.diagnostics.diagnostic import has_errors


class SignArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sign`."""

    planfile: str | None = declare_optional_positional(None)
    key: str = declare_text_flag("Use this private key (Ed25519, PEM)", metavar="KEYFILE")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("sign", SignArguments)
def sign(arguments: SignArguments) -> int:
    """Sign the approved plan PLANFILE. Replaces an existing signature.

    The plan does not change. It must be from a sandboxed run (-confine), unless -confine=false is
    typed. Writes the provenance to PLANFILE.intoto.jsonl. `apply -verify=key:FILE` accepts only
    signed plans. Keep the key away from jobs that read unreviewed input.
    """
    if arguments.planfile is None or not arguments.key:
        raise click.UsageError("Specify the plan and the key: nexusform sign -key=KEYFILE PLANFILE.")
    from nexusform.rendering.report.plan_sentences import describe_plan_evaluation
    from nexusform.workflow.plan_files.plan_signing import sign_plan

    screen = arguments.view.create_screen()
    saved, problems = sign_plan(
        arguments.planfile, arguments.key, create_context(), is_unconfined_accepted=is_confinement_disabled()
    )
    screen.print_diagnostics(problems, sources={})
    if saved is None or has_errors(problems):
        return 1
    screen.print_text(f"Signed: {arguments.planfile}\nEvaluation: {describe_plan_evaluation(saved.plan)}")
    return 0
