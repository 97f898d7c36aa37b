"""Groups of commands, each command imported on use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from nexusform.cli.global_options import HELP_ALL, HELP_KEY
from nexusform.cli.removed_words import REMOVED_COMMANDS, RemovedCommandError
from nexusform.command_entry import CommandEntry, CommandSection
from nexusform.diagnostics.diagnostic import suggest_name
from nexusform.domain_table import explain_absent_domain

# Only shells that complete load it.
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_NO_TEXTS: Final[Mapping[str, str]] = {}


class LazyGroup(click.Group):
    """Group of commands, each imported on use."""

    def __init__(
        self,
        name: str,
        table: Mapping[str, CommandEntry],
        *,
        aliases: Mapping[str, str] = _NO_TEXTS,
        summary: str = "",
        epilogue: str = "",
        hints: Mapping[str, str] = _NO_TEXTS,
    ) -> None:
        """Create the group.

        `hints` are messages for Terraform commands without an equivalent. The help lists only the
        common commands of the table, if there are any.
        """
        super().__init__(name, help=summary, epilog=epilogue)
        self.table = table
        self.aliases = aliases
        self.hints = hints

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the names in table order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import and return one command; None without a command of that name."""
        entry = self.table.get(self.aliases.get(cmd_name, cmd_name))
        return None if entry is None else entry.load()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept `-help` with one dash, too.

        Store whether all commands are requested (-help=all).
        """
        if args and args[0] in ("-help", "-h", "-help=all", HELP_ALL):
            ctx.meta[HELP_KEY] = args[0].endswith("=all")
            args = ["--help"]
        if args and args[0].startswith("-") and args[0] != "--help" and not ctx.resilient_parsing:
            raise click.UsageError(
                f"Unknown flag {args[0]}. Flags follow the name of a command.", ctx
            )
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return name, command and its words.

        Without a command, a shell completes its name, or it is an error.
        """
        name = args[0]
        found_command = self.get_command(ctx, name)
        if found_command is not None:
            return name, found_command, args[1:]
        # A shell completes the name.
        if ctx.resilient_parsing:
            return None, None, []
        words = " ".join([*ctx.command_path.split()[1:], *args])
        removed_names = [
            removed for removed in REMOVED_COMMANDS if f"{words} ".startswith(f"{removed} ")
        ]
        if removed_names:
            # The most specific one.
            removed = max(removed_names, key=len)
            raise RemovedCommandError(
                f'"nexusform {removed}" was removed. Use: {REMOVED_COMMANDS[removed]}'
            )
        # For a Terraform command without an equivalent.
        hint = self.hints.get(name)
        suggestion = (
            explain_absent_domain(words.split()[0], "commands")
            or (f" {hint}" if hint else "")
            or suggest_name(name, [*self.table, *self.aliases])
        )
        raise click.UsageError(f'Unknown command "{name}".{suggestion}', ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """Return the commands of a shell's completion without importing any."""
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.table.items()
            if name.startswith(incomplete)
        ]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands only; click would write the help flag, too."""
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the main commands and examples, or all commands by section.

        Commands are not imported.
        """
        from nexusform.cli.help_rows import get_command_examples

        common = [(name, entry.summary) for name, entry in self.table.items() if entry.is_common]
        if common and not ctx.meta.get(HELP_KEY, False):  # without -help=all
            with formatter.section("Main commands"):
                formatter.write_dl(common)
            with formatter.section("Examples"):
                formatter.write_dl(get_command_examples(""), col_max=45)
            formatter.write("\nAll commands: nexusform help all\n")
            return
        sections = {entry.section for entry in self.table.values()}
        for section in CommandSection:
            rows = [
                (name, entry.summary)
                for name, entry in self.table.items()
                if entry.section is section
            ]
            if rows:
                with formatter.section(section.value if len(sections) > 1 else "Commands"):
                    formatter.write_dl(rows)
