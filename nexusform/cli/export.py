"""`nexusform export`: a saved plan as what other tools carry out."""

from __future__ import annotations

import sys

import click
from msgspec import Struct

from nexusform.cli.arguments import choice, group, positional
from nexusform.cli.arguments import text as text_flag
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.diagnostics import has_errors
from nexusform.workflow.opening.surroundings import unwritable, write_output
from nexusform.workflow.plan_files.exporting import FORMATS, export_plan


class ExportArguments(Struct, frozen=True, kw_only=True):
    """What `export` takes."""

    plan_file: str = positional(metavar="PLANFILE")
    format: str = choice("Set the output format", FORMATS)
    out: str = text_flag("Write to a file instead of stdout", metavar="FILE")
    view: ViewFlags = group(ViewFlags)


@command("export", ExportArguments)
def export(arguments: ExportArguments) -> int:
    """Write the saved plan PLANFILE in the format of another tool.

    azapi: Terraform's JSON configuration (name it *.tf.json). az: a shell script of `az
    networkcloud` commands. manifests: placements, overrides and member labels as Kubernetes YAML.
    node-labels: `kubectl label` commands for hardware_label_keys. sol003: grant requests of VNFs
    with placement constraints, as JSON. Values missing in the plan become variables or environment
    variables.
    """
    if arguments.out and (reason := unwritable(arguments.out)):
        raise click.UsageError(f"-out: {reason}")
    exported = export_plan(place_of(), arguments.plan_file, arguments.format)
    from nexusform.rendering.text.diagnostic_text import render_diagnostics

    # What is met goes to stderr: stdout is the document.
    screen = arguments.view.screen()
    if exported.diagnostics:
        text = render_diagnostics(exported.diagnostics, {}, screen.error_colour, screen.width)
        screen.err(text, end="" if text.endswith("\n") else "\n")
    if has_errors(exported.diagnostics):
        return 1
    if not exported.text:
        screen.err(f"The plan holds nothing for -format={arguments.format}: nothing was written.")
        return 0
    if arguments.out:
        write_output(arguments.out, exported.text.encode())
    else:
        sys.stdout.write(exported.text)
    return 0
