"""`nexusform completion`: shell completion of commands, flags and values.

The script of the shell calls this command on each press of the tab key. Responses are lines of
three parts with unit separators: `word`, the word and its meaning; or `file` or `directory`, the
typed part of the path, and the text before it in the same word.
"""

import re
import sys
from collections.abc import Mapping
from typing import Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)
from msgspec import Struct

from nexusform.cli.arguments import declare_positional
from nexusform.cli.commands import define_command
from nexusform.cli.global_options import apply_global_options

# In which a shell asks for completions.
VARIABLE: Final = "_NEXUSFORM_COMPLETE"
# Characters that bash does not take as they are.
_SPECIAL: Final = re.compile(r"([^\w.,:/@%+=-])")


class _JoinedValueCompletion(ShellComplete):
    """Completion that also knows `-flag=value` and the options before the command."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return the completions of a word; those of `-flag=value` begin with `-flag=`."""
        try:
            # The shell bash splits words at "=".
            words = apply_global_options([word for word in args if word != "="])
        except click.UsageError:
            # No message while a line is typed.
            return []
        items = super().get_completions(words, incomplete)
        flag, equals, _ = incomplete.partition("=")
        if equals and flag.startswith("-"):
            return [CompletionItem(f"{flag}={item.value}", item.type, item.help) for item in items]
        return items


class _BashCompletion(_JoinedValueCompletion, BashComplete):
    def format_completion(self, item: CompletionItem[str]) -> str:
        """Escape special characters twice.

        bash reads them in the script's `read` and on the command line.
        """
        # Two backslashes before each.
        item.value = _SPECIAL.sub(r"\\\\\1", item.value)
        return super().format_completion(item)


class _ZshCompletion(_JoinedValueCompletion, ZshComplete):
    pass


class _Fish(_JoinedValueCompletion, FishComplete):
    pass


SHELLS: Final[Mapping[str, type[ShellComplete]]] = {
    "bash": _BashCompletion,
    "zsh": _ZshCompletion,
    "fish": _Fish,
}
for _name, _shell in SHELLS.items():
    add_completion_class(_shell, _name)


class CompletionArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `completion`."""

    shell: str = declare_positional(choices=tuple(SHELLS))


@define_command("completion", CompletionArguments, has_trust_flags=False)
def completion(arguments: CompletionArguments) -> int:
    """Print the completion script of a SHELL: bash, zsh or fish.

    bash: eval "$(nexusform completion bash)". zsh: the same, after compinit. fish: nexusform
    completion fish | source. Add the line to the startup file of the shell.
    """
    root = click.get_current_context().find_root().command
    sys.stdout.write(SHELLS[arguments.shell](root, {}, "nexusform", VARIABLE).source())
    return 0
