"""Flags that shape a plan, and flags for its display."""

from collections.abc import Iterable
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    build_arguments_record,
    declare_choice,
    declare_number,
    declare_repeatable_text,
    declare_report_flags,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.shared_flags import create_context
from nexusform.files.external_files import ArgumentFile
from nexusform.files.regular_files import read_regular
from nexusform.plans.plan import Mode
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.workflow.runs.run import PlanOptions

# Maximum bytes of a -target-file.
_MAX_ADDRESS_BYTES: Final = 1024 * 1024

_ADDRESS_FILE_HELP: Final = "Read addresses from a file, one per line"


class PlanningFlags(Struct, frozen=True, kw_only=True):
    """Flags that shape a plan."""

    destroy: bool = declare_switch_flag("Plan to destroy everything")
    refresh_only: bool = declare_switch_flag("Only refresh the state")
    refresh: bool = declare_switch_flag("Skip the refresh, use the recorded state", default=True)
    target: tuple[str, ...] = declare_repeatable_text(
        "Plan only this address and its dependencies", metavar="ADDR"
    )
    target_file: tuple[str, ...] = declare_repeatable_text(
        _ADDRESS_FILE_HELP, metavar="FILE", file=ArgumentFile("addresses")
    )
    exclude: tuple[str, ...] = declare_repeatable_text(
        "Skip this address and its dependents", metavar="ADDR"
    )
    exclude_file: tuple[str, ...] = declare_repeatable_text(
        _ADDRESS_FILE_HELP, metavar="FILE", file=ArgumentFile("addresses")
    )
    replace: tuple[str, ...] = declare_repeatable_text(
        "Replace this resource, or re-place one of its VMs", metavar="ADDR[:OBJECT]"
    )
    samples: int | None = declare_number(
        "Set the number of tie-break samples; 0 disables them", default=None
    )
    allow_older_export: bool = declare_switch_flag(
        "Accept an inventory older than that of the last apply"
    )

    @property
    def mode(self) -> Mode:
        """The mode of the plan."""
        if self.destroy:
            return Mode.DESTROY
        return Mode.REFRESH_ONLY if self.refresh_only else Mode.NORMAL

    def build_options(
        self,
        *,
        generate_config_out: str = "",
        includes_rejections: bool = False,
        includes_losses: bool = False,
    ) -> PlanOptions:
        """Build the plan options.

        The plan can include the reasons against other locations (`includes_rejections`), and the
        effects of a lost machine or rack (`includes_losses`). Raises usage errors.
        """
        targets = self.target or self.target_file
        excludes = self.exclude or self.exclude_file
        conflicts = (
            (self.destroy and self.refresh_only, "-destroy and -refresh-only cannot be combined."),
            (
                self.refresh_only and not self.refresh,
                "-refresh-only and -refresh=false cannot be combined.",
            ),
            (targets and excludes, "-target and -exclude cannot be combined."),
            (
                self.replace and self.mode is not Mode.NORMAL,
                "-replace cannot be combined with -destroy or -refresh-only.",
            ),
            ((self.samples or 0) < 0, "-samples cannot be negative."),
        )
        for is_conflict, message in conflicts:
            if is_conflict:
                raise click.UsageError(message)
        return PlanOptions(
            mode=self.mode,
            refresh=self.refresh,
            dry_run_skip_reason="" if self.refresh else "-refresh=false skips providers",
            targets=(*self.target, *_read_addresses_from_files(self.target_file)),
            excludes=(*self.exclude, *_read_addresses_from_files(self.exclude_file)),
            replaces=self.replace,
            samples=self.samples,
            includes_rejections=includes_rejections,
            includes_losses=includes_losses,
            generate_config_out=generate_config_out,
            allows_older_export=self.allow_older_export,
        )

    def list_flags_set(self) -> list[str]:
        """List the flags set by the user, without the dash."""
        defaults = build_arguments_record(PlanningFlags, values={})
        return [
            name.replace("_", "-")
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(defaults, name)
        ]


class PlanDisplayFlags(Struct, frozen=True, kw_only=True):
    """Flags for the display of a plan and its reports."""

    placements: str = declare_choice("List these placements", ("changed", "all", "none"))
    details: bool = declare_switch_flag("Show all arguments and warnings in full")
    compat: str = declare_choice(
        "Print Terraform's own plan format", ("", "terraform"), metavar="terraform"
    )
    report: tuple[str, ...] = declare_report_flags()
    diff: str = declare_text_flag(
        "Read the pull request's diff for github-review",
        metavar="FILE",
        file=ArgumentFile("changed lines"),
    )
    source_url: str = declare_text_flag(
        "Set the URL of this directory for links in reports", metavar="URL"
    )

    @property
    def detail(self) -> ShownPlacements:
        """The value of -placements."""
        return ShownPlacements(self.placements)

    @property
    def is_terraform_compatible(self) -> bool:
        """Whether -compat=terraform is set."""
        return self.compat == "terraform"


def _read_addresses_from_files(paths: Iterable[str]) -> list[str]:
    """Read the addresses in files, one per line, without comments.

    Raises a usage error for a file without any.
    """
    addresses: list[str] = []
    for path in paths:
        try:
            readable_path = create_context().confinement.resolve_path_of_operator(path)
            lines = read_regular(readable_path, _MAX_ADDRESS_BYTES).decode().splitlines()
        except (OSError, UnicodeDecodeError) as problem:
            # A decoding error has none.
            reason = getattr(problem, "strerror", problem)
            raise click.UsageError(
                f'The file of addresses "{path}" cannot be read: {reason}.'
            ) from None
        new_addresses = [address for line in lines if (address := line.split("#")[0].strip())]
        # The plan would be of everything.
        if not new_addresses:
            raise click.UsageError(f'The file of addresses "{path}" contains no address.')
        addresses += new_addresses
    return addresses
