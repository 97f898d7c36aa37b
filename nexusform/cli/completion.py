"""`nexusform completion`: what shells need to complete commands, flags and values.

The script that a shell loads asks this command again with each press of the tab key. Answers are
lines of three parts with unit separators between: `word`, the word and what it means; or `file` or
`directory`, what is typed of the path, and what stands in the same word before it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import Flag, optional, positional, switch
from nexusform.cli.commands import Command, LazyGroup, command

GLOBAL_FLAGS: Final = {"chdir": "Run the command in this directory", "help": "Help", "version": "Version"}
_DIRECTORIES: Final = frozenset({"chdir"})
_BETWEEN: Final = "\x1f"

_BASH: Final = r"""_nexusform_completion() {
    local kind value meaning shown current
    # The shell cuts words at "=" and ":"; only what follows the last of them is replaced.
    current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    while IFS=$'\x1f' read -r kind value meaning; do
        case "$kind" in
            file) compopt -o filenames 2>/dev/null
                while IFS= read -r shown; do COMPREPLY+=("$shown"); done < <(compgen -f -- "$value") ;;
            directory) compopt -o filenames 2>/dev/null
                while IFS= read -r shown; do COMPREPLY+=("$shown"); done < <(compgen -d -- "$value") ;;
            word) COMPREPLY+=("$value"); case "$value" in *=) compopt -o nospace 2>/dev/null ;; esac ;;
        esac
    done < <(nexusform completion -answer bash -- "${COMP_LINE:0:COMP_POINT}" "$current" 2>/dev/null)
}
complete -F _nexusform_completion nexusform
"""

_ZSH: Final = r"""#compdef nexusform
_nexusform() {
    local -a words_found meanings
    local kind value meaning line
    while IFS=$'\x1f' read -r kind value meaning; do
        case "$kind" in
            file) compset -P "${(b)meaning}"; _files ;;
            directory) compset -P "${(b)meaning}"; _files -/ ;;
            word) if [[ "$value" == *= ]]; then compadd -S '' -- "$value"
                else words_found+=("${value//:/\\:}:$meaning"); fi ;;
        esac
    done < <(nexusform completion -answer zsh -- "${(j: :)words[1,CURRENT]}" 2>/dev/null)
    (( ${#words_found} )) && _describe 'nexusform' words_found
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _nexusform "$@"; else compdef _nexusform nexusform; fi
"""

_FISH: Final = r"""function _nexusform_completion
    for line in (nexusform completion -answer fish -- (commandline -cp) 2>/dev/null)
        set -l part (string split \x1f -- $line)
        switch $part[1]
            case file
                printf "$part[3]%s\n" (__fish_complete_path $part[2])
            case directory
                printf "$part[3]%s\n" (__fish_complete_directories $part[2])
            case word
                printf '%s\t%s\n' $part[2] $part[3]
        end
    end
end
complete --no-files --command nexusform --arguments '(_nexusform_completion)'
"""

SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


class Candidate(Struct, frozen=True):
    """Something that may stand next: a word and its meaning; or `file`/`directory` with what is typed
    of its path, and as `meaning` what stands before it in the same word.
    """

    kind: str
    value: str
    meaning: str = ""


class CompletionArguments(Struct, frozen=True, kw_only=True):
    """What `completion` takes; `line` is typed so far, `current` its last word as the shell cuts it."""

    shell: str = positional(choices=tuple(SCRIPTS))
    line: str = optional("")
    current: str | None = optional(None)
    answer: bool = switch("Answer a shell that asks what may stand next in LINE")


@command("completion", CompletionArguments, trusts=False)
def completion(arguments: CompletionArguments) -> int:
    """Print the completion script of a SHELL: bash, zsh or fish.

    bash: eval "$(nexusform completion bash)". zsh: the same, after compinit.
    fish: nexusform completion fish | source. Put the line where the shell starts.
    """
    if not arguments.answer:
        sys.stdout.write(SCRIPTS[arguments.shell])
        return 0
    from nexusform.cli.main import ROOT

    words = split_line(arguments.line)
    typed = words[-1] if words else ""
    already_said = _length_before_cut(typed, arguments.current)
    for candidate in candidates(ROOT, words[1:-1], typed):
        cut = already_said if candidate.kind == "word" else 0
        parts = (candidate.kind, candidate.value[cut:], candidate.meaning)
        sys.stdout.write(_BETWEEN.join(parts) + "\n")
    return 0


def _length_before_cut(typed: str, current: str | None) -> int:
    """Where a shell cuts the word at "=" or ":", what stands before the cut must not be said again."""
    if current == "=":
        return len(typed)
    if current is None or not typed.endswith(current):
        return 0
    return len(typed) - len(current)


def split_line(line: str) -> list[str]:
    """The words of a command line up to the cursor; the last one (perhaps "") is being typed."""
    words, word, quote, started = [], "", "", False
    escaped = False
    for character in line:
        if escaped:
            word, escaped, started = word + character, False, True
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            quote, word = ("", word) if character == quote else (quote, word + character)
        elif character in "'\"":
            quote, started = character, True
        elif character.isspace():
            if word or started:
                words.append(word)
            word, started = "", False
        else:
            word += character
    return [*words, word]


def candidates(root: LazyGroup, words: Sequence[str], typed: str) -> list[Candidate]:
    """What may stand where `typed` begins, after the complete `words` (without the program's name)."""
    place: click.Command | None = root
    waiting: Flag | None = None
    context = click.Context(root)
    for word in words:
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            waiting = _wants_value(place, word)
        elif isinstance(place, click.Group):
            place = place.get_command(context, word)
    if place is None:
        return []
    if waiting is not None:
        return list(_values(waiting, typed, ""))
    if typed.startswith("-"):
        return list(_flags(place, typed, root))
    if isinstance(place, click.Group):
        return list(_commands(place, context, typed))
    return [Candidate("file", typed)]


def _wants_value(place: click.Command | None, word: str) -> Flag | None:
    flag = _flag(place, word.lstrip("-"))
    return None if flag is None or flag.switch or "=" in word else flag


def _flag(place: click.Command | None, name: str) -> Flag | None:
    for parameter in place.params if isinstance(place, Command) else ():
        if isinstance(parameter, Flag) and f"--{name}" in parameter.opts:
            return parameter
    return None


def _commands(group: click.Group, context: click.Context, typed: str) -> Iterator[Candidate]:
    summaries = {n: e.summary for n, e in group.table.items()} if isinstance(group, LazyGroup) else {}
    for name in group.list_commands(context):
        if name.startswith(typed):
            yield Candidate("word", name, summaries.get(name, ""))


def _flags(place: click.Command, typed: str, root: LazyGroup) -> Iterator[Candidate]:
    dashes = "--" if typed.startswith("--") else "-"
    name, equals, value = typed[len(dashes) :].partition("=")
    if equals:
        front = f"{dashes}{name}="
        if place is root and name in _DIRECTORIES:
            yield Candidate("directory", value, front)
        flag = _flag(place, name)
        yield from _values(flag, value, front) if flag is not None else ()
        return
    for known, meaning in _known_flags(place, root):
        if known.startswith(name):
            yield Candidate("word", f"{dashes}{known}", meaning)


def _known_flags(place: click.Command, root: LazyGroup) -> Iterator[tuple[str, str]]:
    """The flags of a command without dashes; a `=` at the end wants a value."""
    if place is root:
        yield from (
            (f"{n}{'=' if n in _DIRECTORIES else ''}", meaning) for n, meaning in GLOBAL_FLAGS.items()
        )
        return
    for flag in place.params:
        if isinstance(flag, Flag):
            for name in flag.opts:
                yield f"{name.lstrip('-')}{'' if flag.switch else '='}", flag.help or ""


def _values(flag: Flag, typed: str, front: str) -> Iterator[Candidate]:
    if flag.switch:
        yield from (Candidate("word", f"{front}{v}") for v in ("true", "false") if v.startswith(typed))
    elif isinstance(flag.type, click.Choice):
        for choice in flag.type.choices:
            if str(choice).startswith(typed):
                yield Candidate("word", f"{front}{choice}")
    elif flag.metavar in ("FILE", "DIR"):
        yield Candidate("file", typed, front)
    elif flag.metavar == "FORMAT:PATH":
        yield from _reports(typed, front)


def _reports(typed: str, front: str) -> Iterator[Candidate]:
    from nexusform.cli.reports import FORMATS

    name, colon, path = typed.partition(":")
    if colon:
        yield Candidate("file", path, f"{front}{name}:")
        return
    yield from (Candidate("word", f"{front}{name}:") for name in FORMATS if name.startswith(typed))
