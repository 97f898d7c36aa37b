"""The flags that shape a plan, and those that say what is shown of its placements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import choice, filled, number, switch, text, texts
from nexusform.cli.flags import place_of
from nexusform.plans.plan import Mode
from nexusform.regular_files import read_regular
from nexusform.rendering.report.placement_rows import Detail
from nexusform.workflow.runs.run import PlanOptions

_MOST_ADDRESSES: Final = 1024 * 1024  # bytes of a -target-file
_FILE_OF_ADDRESSES: Final = "Read addresses from a file, one per line"


class PlanningFlags(Struct, frozen=True, kw_only=True):
    """What shapes a plan."""

    destroy: bool = switch("Plan to destroy everything")
    refresh_only: bool = switch("Only refresh the state")
    refresh: bool = switch("Skip the refresh, use the recorded state", default=True)
    target: tuple[str, ...] = texts("Plan only this address and its dependencies", metavar="ADDR")
    target_file: tuple[str, ...] = texts(_FILE_OF_ADDRESSES, metavar="FILE")
    exclude: tuple[str, ...] = texts("Skip this address and its dependents", metavar="ADDR")
    exclude_file: tuple[str, ...] = texts(_FILE_OF_ADDRESSES, metavar="FILE")
    replace: tuple[str, ...] = texts(
        "Replace this resource, or re-place one of its VMs", metavar="ADDR[:OBJECT]"
    )
    tie_breaks: int | None = number("Set the number of tie-break samples; 0 disables them", default=None)

    @property
    def mode(self) -> Mode:
        """What kind of plan is asked for."""
        if self.destroy:
            return Mode.DESTROY
        return Mode.REFRESH_ONLY if self.refresh_only else Mode.NORMAL

    def options(self, *, generate_config_out: str = "", want_rejected: bool = False) -> PlanOptions:
        """The same as the workflow takes it. Raises a usage error for flags that do not go together."""
        self._refuse_conflicts()
        return PlanOptions(
            mode=self.mode,
            refresh=self.refresh,
            unasked="" if self.refresh else "-refresh=false asks no provider",
            targets=(*self.target, *_addresses(self.target_file)),
            excludes=(*self.exclude, *_addresses(self.exclude_file)),
            replaces=self.replace,
            tie_breaks=self.tie_breaks,
            want_rejected=want_rejected,
            generate_config_out=generate_config_out,
        )

    def changed(self) -> list[str]:
        """The flags that were set, as users write them without the dash."""
        plain = filled(PlanningFlags, {})
        names = [name for name in self.__struct_fields__ if getattr(self, name) != getattr(plain, name)]
        return [name.replace("_", "-") for name in names]

    def _refuse_conflicts(self) -> None:
        """Raises a usage error for flags that do not go together."""
        targets = self.target or self.target_file
        excludes = self.exclude or self.exclude_file
        conflicts = (
            (self.destroy and self.refresh_only, "-destroy and -refresh-only do not go together."),
            (
                self.refresh_only and not self.refresh,
                "-refresh-only and -refresh=false do not go together.",
            ),
            (targets and excludes, "-target and -exclude do not go together."),
            (
                self.replace and self.mode is not Mode.NORMAL,
                "-replace goes with an ordinary plan only.",
            ),
            ((self.tie_breaks or 0) < 0, "-tie-breaks cannot be negative."),
        )
        for conflict, message in conflicts:
            if conflict:
                raise click.UsageError(message)


class PlacementFlags(Struct, frozen=True, kw_only=True):
    """How much of a plan is shown, and in which further forms it is written."""

    placements: str = choice("List these placements", ("changed", "all", "none"))
    details: bool = switch("Show all arguments and warnings in full")
    compat: str = choice("Print Terraform's own plan format", ("", "terraform"), metavar="terraform")
    report: tuple[str, ...] = texts("Write a report to a file (- is stdout)", metavar="FORMAT:PATH")
    diff: str = text("Read the pull request's diff for github-review", metavar="FILE")
    source_url: str = text("Set the URL of this directory for links in reports", metavar="URL")

    @property
    def detail(self) -> Detail:
        """-placements."""
        return Detail(self.placements)

    @property
    def terraform(self) -> bool:
        """-compat=terraform."""
        return self.compat == "terraform"


def _addresses(paths: Iterable[str]) -> list[str]:
    """The addresses in files, one a line, without comments."""
    addresses: list[str] = []
    for path in paths:
        for line in _text_of(path).splitlines():
            address = line.split("#")[0].strip()
            if address:
                addresses.append(address)
    return addresses


def _text_of(path: str) -> str:
    try:
        return read_regular(place_of().confinement.followed(path), _MOST_ADDRESSES).decode()
    except OSError as problem:
        raise click.UsageError(
            f'The file of addresses "{path}" cannot be read: {problem.strerror}.'
        ) from None
    except UnicodeDecodeError as problem:
        raise click.UsageError(f'The file of addresses "{path}" cannot be read: {problem}.') from None
