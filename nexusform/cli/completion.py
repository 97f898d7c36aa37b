"""`nexusform completion`: what shells need to complete commands, flags and values.

The script that a shell loads asks this command again with each press of the tab key. Answers are
lines of three parts with unit separators between: `word`, the word and what it means; or `file` or
`directory`, what is typed of the path, and what stands in the same word before it.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec import Struct

from nexusform.cli.arguments import Flag, optional, positional, switch
from nexusform.cli.commands import Command, LazyGroup, command
from nexusform.words import natural

if TYPE_CHECKING:
    from nexusform.address import Address
    from nexusform.configuration.declared.configuration import Configuration
    from nexusform.state.objects import InstanceState
    from nexusform.workflow.opening.place import Place

GLOBAL_FLAGS: Final = {"chdir": "Run the command in this directory", "help": "Help", "version": "Version"}
_DIRECTORIES: Final = frozenset({"chdir"})
_FILES: Final = frozenset({"FILE", "DIR", "KEYFILE", "DIR|azure", "FILE|K=V"})  # what flags call them
_BETWEEN: Final = "\x1f"

_BASH: Final = r"""_nexusform_completion() {
    local kind value meaning shown current mark
    # The shell cuts words at "=" and ":"; only what follows the last of them is replaced.
    current="${COMP_WORDS[COMP_CWORD]}"
    COMPREPLY=()
    while IFS=$'\x1f' read -r kind value meaning; do
        case "$kind" in
            file) compopt -o filenames 2>/dev/null
                while IFS= read -r shown; do COMPREPLY+=("$shown"); done < <(compgen -f -- "$value") ;;
            directory) compopt -o filenames 2>/dev/null
                while IFS= read -r shown; do COMPREPLY+=("$shown"); done < <(compgen -d -- "$value") ;;
            word) case "$current" in
                    # The shell closes quotes that are open; in them no others are needed.
                    \'*) shown="${value//\'/\'\\\'\'}" ;;
                    \"*) shown="$value"
                        for mark in '\' '"' '$' '`'; do shown="${shown//"$mark"/\\"$mark"}"; done ;;
                    *) shown="$(printf %q "$value")" ;;
                esac
                COMPREPLY+=("$shown")
                case "$value" in *[=:/]) compopt -o nospace 2>/dev/null ;; esac ;;
        esac
    done < <(nexusform completion -answer bash -- "${COMP_LINE:0:COMP_POINT}" "$current" 2>/dev/null)
}
complete -F _nexusform_completion nexusform
"""

_ZSH: Final = r"""#compdef nexusform
_nexusform() {
    local -a words_found meanings
    local kind value meaning
    while IFS=$'\x1f' read -r kind value meaning; do
        case "$kind" in
            file) compset -P "${(b)meaning}"; _files ;;
            directory) compset -P "${(b)meaning}"; _files -/ ;;
            word) if [[ "$value" == *[=:/] ]]; then compadd -S '' -- "$value"
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
                printf '%s\n' $part[3](__fish_complete_path $part[2])
            case directory
                printf '%s\n' $part[3](__fish_complete_directories $part[2])
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
    current = arguments.current and split_line(arguments.current)[-1]
    already_said = _length_before_cut(typed, current)
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
    waiting = ""
    context = click.Context(root)
    directory = "."
    path: list[str] = []
    taken: list[str] = []
    if words and words[0] == "help":  # `help state list` is `state list -help`
        words = words[1:]
    for word in words:
        if waiting:
            waiting = ""
        elif word.startswith("-"):
            waiting = _wants_value(place, word)
            directory = word.partition("=")[2] if place is root and "chdir=" in word else directory
        elif isinstance(place, click.Group):
            place = place.get_command(context, word)
            path.append(word)
        else:
            taken.append(word)
    if place is None:
        return []
    if waiting:
        return list(_values(place, waiting, typed, "", directory))
    if typed.startswith("-"):
        return list(_flags(place, typed, root, directory))
    if isinstance(place, click.Group):
        return list(_commands(place, context, typed))
    return list(_positional(place, " ".join(path), taken, typed, directory))


def _positional(
    place: click.Command, path: str, taken: Sequence[str], typed: str, directory: str
) -> Iterator[Candidate]:
    """What a word without dash may be, after those that are `taken`; a file where nothing else is known."""
    declared = [parameter for parameter in place.params if isinstance(parameter, click.Argument)]
    if not declared or (len(taken) >= len(declared) and declared[-1].nargs == 1):
        yield from _files(typed, "", directory)
        return
    argument = declared[min(len(taken), len(declared) - 1)]
    words = WORDS.get(f"{path} {argument.name}") or WORDS.get(str(argument.name))
    if isinstance(argument.type, click.Choice):
        yield from _matching([str(choice) for choice in argument.type.choices], typed, "")
    elif words is not None:
        yield from _matching(words(directory, taken), typed, "")
    if words is None or argument.name == "targets":
        yield from _files(typed, "", directory)


def _files(typed: str, front: str, directory: str) -> Iterator[Candidate]:
    """What the shell itself knows best, unless the command runs in another directory than the shell."""
    if directory == ".":
        yield Candidate("file", typed, front)
        return
    folder, slash, name = typed.rpartition("/")
    try:
        entries = sorted(Path(directory, folder + slash).iterdir())
    except OSError:
        return
    shown = [entry for entry in entries if name or not entry.name.startswith(".")]
    paths = [f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}" for entry in shown]
    yield from _matching(paths, typed, front)


def _matching(words: Iterable[str], typed: str, front: str) -> Iterator[Candidate]:
    yield from (Candidate("word", f"{front}{word}") for word in words if word and word.startswith(typed))


def _wants_value(place: click.Command | None, word: str) -> str:
    """The flag's name, where the next word is its value."""
    name = word.lstrip("-")
    flag = _flag(place, name)
    return "" if flag is None or flag.switch or "=" in word else name


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


def _flags(place: click.Command, typed: str, root: LazyGroup, directory: str) -> Iterator[Candidate]:
    """Flags that begin as typed, or the values of one."""
    dashes = "--" if typed.startswith("--") else "-"
    name, equals, value = typed[len(dashes) :].partition("=")
    if equals:
        front = f"{dashes}{name}="
        if place is root and name in _DIRECTORIES:
            yield Candidate("directory", value, front)
        yield from _values(place, name, value, front, directory)
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
                yield f"{name.lstrip('-')}{_behind(flag)}", flag.help or ""
    yield "help", GLOBAL_FLAGS["help"]


def _behind(flag: Flag) -> str:
    """What a flag is completed with: who asks for one that is on anyway wants to turn it off."""
    if flag.switch:
        return "=false" if flag.default is True else ""
    return "="


def _values(
    place: click.Command | None, name: str, typed: str, front: str, directory: str
) -> Iterator[Candidate]:
    """What may stand behind the flag `name`, of which `typed` stands there."""
    flag = _flag(place, name)
    if flag is None:
        return
    metavar = flag.metavar or ""
    if isinstance(flag.type, click.Choice):
        yield from _matching([str(choice) for choice in flag.type.choices], typed, front)
    elif metavar in _FILES or name == "var-file":
        yield from _files(typed, front, directory)
    elif flag.switch:
        yield from _matching(("true", "false"), typed, front)
    elif metavar == "FORMAT:PATH":
        yield from _reports(typed, front, directory)
    elif metavar.startswith("MEMBER"):
        yield from _members(str(flag.name), typed, front, directory)
    elif metavar in VALUES:
        # Of several values in one word the last is completed.
        cut = max(typed.rfind(mark) for mark in ",x") + 1 if "," in metavar else 0
        if metavar.startswith("Nx") and not typed[:cut].endswith("x"):
            return  # how many comes first
        yield from _matching(VALUES[metavar](directory, (name,)), typed[cut:], front + typed[:cut])


def _members(flag: str, typed: str, front: str, directory: str) -> Iterator[Candidate]:
    """The members of the fleet; behind "MEMBER:" what that has of the flag's kind, behind "MEMBER=" whom
    it may be like.
    """
    members = {str(each.get("name")): each for each in _attributes(directory, "fleet_member_cluster")}
    between = {"leave": "", "drain": "", "join": "="}.get(flag, ":")
    name, separator, value = typed.partition(between) if between else (typed, "", "")
    if separator == "=":
        clusters = [str(each.get("id")) for each in _attributes(directory, "nexus_kubernetes_cluster")]
        yield from _matching(sorted({*members, *clusters}), value, f"{front}{name}=")
    elif separator:
        yield from _matching(_of_a_member(flag, members.get(name, {})), value, f"{front}{name}:")
    elif flag != "join":
        yield from _matching([f"{each}{between}" for each in sorted(members)], typed, front)


def _of_a_member(flag: str, member: Mapping[str, Any]) -> list[str]:
    """Keys of its labels and properties to be set, of its taints to be taken away, or every health."""
    if flag == "health":
        from nexusform.resource_types.registry import RESOURCE_TYPES

        return list(RESOURCE_TYPES["fleet_member_cluster"].schema.attributes["health"].choices)
    if flag == "taint":
        return [f"{taint.get('key')}-" for taint in member.get("taint") or ()]
    kind = {"label": "labels", "property": "properties"}[flag]
    return sorted(f"{key}=" for key in member.get(kind) or ())


def _reports(typed: str, front: str, directory: str) -> Iterator[Candidate]:
    """Values of -report."""
    from nexusform.cli.report_flag import FORMATS

    name, colon, path = typed.partition(":")
    if colon:
        yield from _files(path, f"{front}{name}:", directory)
        return
    yield from _matching([f"{each}:" for each in FORMATS], typed, front)


# --- what stands in the configuration and its state -----------------------------------------------


def _skus(_directory: str, _flag: Sequence[str]) -> list[str]:
    from nexusform.scheduling.catalogue import CATALOGUES, NEWEST

    return list(CATALOGUES[NEWEST].vm_skus)


def _configuration(directory: str) -> tuple[Place, Configuration | None]:
    from nexusform.workflow.opening.place import Place, load_configuration

    place = Place(environment=dict(os.environ), directory=directory)
    return place, load_configuration(place)[0]


def _is_near(place: Place, configuration: Configuration | None) -> bool:
    """Whether state is a plain file here: a press of a key asks no other host and no provider of keys."""
    from nexusform.workflow.opening.place import ENCRYPTION_VARIABLE

    if configuration is None or ENCRYPTION_VARIABLE in place.environment:
        return False
    settings = configuration.settings
    return settings.backend_type == "local" and settings.encryption is None


def _instances(directory: str) -> tuple[Configuration | None, Mapping[Address, InstanceState]]:
    """The configuration, and what its state holds where that is near."""
    from nexusform.workflow.states.state_commands import read_state

    place, configuration = _configuration(directory)
    state = read_state(place).state if _is_near(place, configuration) else None
    return configuration, state.instances if state is not None else {}


def _attributes(directory: str, kind: str) -> list[Mapping[str, Any]]:
    """The objects of a type that stand in state."""
    instances = _instances(directory)[1].items()
    standing = [instance.current for address, instance in instances if address.type == kind]
    return [each.attributes for each in standing if each is not None]


def _addresses(directory: str, _taken: Sequence[str]) -> list[str]:
    """The resources of the root module, and all instances in state."""
    configuration, instances = _instances(directory)
    blocks = configuration.root.resources if configuration is not None else {}
    written = [f"{kind}.{name}" for mode, kind, name in blocks if mode == "managed"]
    return sorted({*written, *map(str, instances)})


def _clusters(directory: str, taken: Sequence[str]) -> list[str]:
    return [each for each in _addresses(directory, taken) if "nexus_kubernetes_cluster." in each]


def _objects(directory: str, taken: Sequence[str]) -> list[str]:
    """The VMs and bindings of the instance that was named before."""
    _, instances = _instances(directory)
    names: list[str] = []
    for address, instance in instances.items():
        if str(address) == taken[0] and instance.current is not None:
            parts = [instance.current.attributes.get(name) for name in ("nodes", "vnfcs", "bindings")]
            names += [name for part in parts if isinstance(part, Mapping) for name in part]
    return sorted(names, key=natural)


def _outputs(directory: str, _taken: Sequence[str]) -> list[str]:
    configuration = _configuration(directory)[1]
    return list(configuration.root.outputs) if configuration is not None else []


def _objects_lost(directory: str, flag: Sequence[str]) -> list[str]:
    """What `-site`, `-rack`, `-machine` or `-cluster` may name: by name, or by id where names repeat."""
    if flag[0] == "machine":
        racks = _attributes(directory, "nexus_rack")
        return sorted(chain.from_iterable(rack.get("machines") or () for rack in racks), key=natural)
    kind = {"site": "nexus_site", "rack": "nexus_rack", "cluster": "nexus_kubernetes_cluster"}.get(flag[0])
    objects = _attributes(directory, kind) if kind else []
    names = Counter(str(each.get("name")) for each in objects)
    words = [str(each.get("name" if names[str(each.get("name"))] == 1 else "id")) for each in objects]
    return sorted(words, key=natural)


def _limits(_directory: str, _flag: Sequence[str]) -> list[str]:
    from nexusform.configuration.declared.limits import NAMES

    return [f"{name}=" for name in NAMES]


def _guard_rails(_directory: str, _flag: Sequence[str]) -> list[str]:
    from nexusform.plans.impact.guard_rails import GUARD_RAILS

    return [f"{name}:" for name in GUARD_RAILS]


def _workspaces(directory: str, _taken: Sequence[str]) -> list[str]:
    from nexusform.workflow.states.workspaces import list_workspaces

    place, configuration = _configuration(directory)
    return list(list_workspaces(place).names) if _is_near(place, configuration) else []


# By what a command calls a word: the directory and the words before it, to what it may be.
WORDS: Final[Mapping[str, Callable[[str, Sequence[str]], list[str]]]] = {
    "address": _addresses,
    "addresses": _addresses,
    "source": _addresses,
    "targets": _addresses,
    "cluster": _clusters,
    "explain name": _objects,
    "output name": _outputs,
    "workspace select name": _workspaces,
    "workspace delete name": _workspaces,
}
# By what a flag calls its value: the directory and the flag's name, to what it may be.
VALUES: Final[Mapping[str, Callable[[str, Sequence[str]], list[str]]]] = {
    "ADDR": _addresses,
    "ADDR[:OBJECT]": _addresses,
    "ID": _objects_lost,
    "SKU": _skus,
    "NxSKU,...": _skus,
    "NAME=N": _limits,
    "NAME:LIMIT,...": _guard_rails,
}
