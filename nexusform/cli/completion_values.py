"""Values that a shell completes for flags and arguments, from the configuration and its state."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from nexusform.diagnostics.phrases import compute_natural_sort_key
from nexusform.json_data.plain_data import get_mapping

if TYPE_CHECKING:
    from nexusform.configuration.declarations.configuration import Configuration
    from nexusform.state.objects import State
    from nexusform.workflow.opening.command_context import CommandContext


# Metavars of paths.
_FILES: Final = frozenset({"FILE", "DIR", "KEYFILE", "DIR|azure", "FILE|K=V"})


def list_flag_value_completions(metavar: str, flag: str, incomplete: str) -> list[CompletionItem]:
    """Return the possible values of a flag, by its metavar.

    An item of type "file" lets the shell offer files.
    """
    # -var is declared together with -var-file.
    if metavar in _FILES or flag == "var":
        return [CompletionItem(incomplete, "file")]
    list_words = VALUES.get(metavar, _list_nothing)
    # The functions take a sequence of words.
    return _filter_by_prefix(list_words((flag,)), incomplete)


def list_argument_completions(
    context: click.Context, name: str, incomplete: str
) -> list[CompletionItem]:
    """Return the values of the argument with this name, for completion by a shell.

    An item of type "file" lets the shell offer files: for `targets`, and for arguments without a
    list of values.
    """
    path = " ".join(context.command_path.split()[1:])
    # Of this command, else of all.
    list_words = WORDS.get(f"{path} {name}", WORDS.get(name, _list_nothing))
    # Values of the arguments before this one.
    typed_words: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if isinstance(parameter, click.Argument) and isinstance(value, str):
            typed_words.append(value)
    items = _filter_by_prefix(list_words(typed_words), incomplete)
    if list_words is _list_nothing or name == "targets":
        items.append(CompletionItem(incomplete, "file"))
    return items


def _filter_by_prefix(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word and word.startswith(incomplete)]


def _list_nothing(_words: Sequence[str]) -> list[str]:
    return []


def _list_skus(_flag: Sequence[str]) -> list[str]:
    from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

    return list(CATALOGUES[NEWEST].vm_skus)


def _load_configuration() -> tuple[CommandContext, Configuration]:
    from nexusform.workflow.opening.command_context import (
        CommandContext,
        load_project_configuration,
    )

    context = CommandContext(environment=dict(os.environ))
    # A completion shows no diagnostics.
    return context, load_project_configuration(context)[0]


def _is_local_state(context: CommandContext, configuration: Configuration) -> bool:
    """Return whether the state is a local unencrypted file.

    Only such a state is read when a shell completes a word.
    """
    from nexusform.workflow.opening.command_context import ENCRYPTION_VARIABLE

    if ENCRYPTION_VARIABLE in context.environment:
        return False
    settings = configuration.settings
    return settings.backend_type == "local" and settings.encryption is None


def _read_local_state() -> tuple[Configuration, State]:
    """Read the configuration, and the state of a local backend; an empty state without it."""
    from nexusform.state.objects import EMPTY
    from nexusform.workflow.states.state_commands import read_state

    context, configuration = _load_configuration()
    state = read_state(context).state if _is_local_state(context, configuration) else None
    return configuration, state or EMPTY


def _list_attributes_of_type(kind: str) -> list[Mapping[str, Any]]:
    """Return the attributes of each current object of a resource type in the state."""
    _, state = _read_local_state()
    return [
        current.attributes
        for address, current in state.list_current_objects()
        if address.type == kind
    ]


def _list_address_completions(_typed_words: Sequence[str]) -> list[str]:
    """List the resources of the root module, and all instances in state."""
    configuration, state = _read_local_state()
    blocks = (
        f"{kind}.{name}" for mode, kind, name in configuration.root.resources if mode == "managed"
    )
    return sorted({*map(str, state.instances), *blocks})


def _list_cluster_addresses(typed_words: Sequence[str]) -> list[str]:
    return [
        address
        for address in _list_address_completions(typed_words)
        if "nexus_kubernetes_cluster." in address
    ]


def _list_placed_objects(typed_words: Sequence[str]) -> list[str]:
    """List the VMs and bindings of the instance in the argument before."""
    _, state = _read_local_state()
    names: list[str] = []
    for address, current in state.list_current_objects():
        # The argument ADDRESS.
        if str(address) == typed_words[0]:
            # VMs of clusters, VMs of VNFs, bindings of placements.
            for attribute in ("nodes", "vnfcs", "bindings"):
                names += get_mapping(current.attributes, attribute)
    return sorted(names, key=compute_natural_sort_key)


def _list_outputs(_typed_words: Sequence[str]) -> list[str]:
    _, configuration = _load_configuration()
    return list(configuration.root.outputs)


def _list_failure_targets(flag: Sequence[str]) -> list[str]:
    """List values of `-site`, `-rack`, `-machine` or `-cluster`.

    The name of each object, or its id if ambiguous.
    """
    # The only element is the name of the flag.
    if flag[0] == "machine":
        racks = _list_attributes_of_type("nexus_rack")
        machines = chain.from_iterable(rack.get("machines") or () for rack in racks)
        return sorted(machines, key=compute_natural_sort_key)
    objects = _list_attributes_of_type(_TYPES_OF_FAILURE_FLAGS.get(flag[0], ""))
    name_counts = Counter(str(attributes.get("name")) for attributes in objects)
    words: list[str] = []
    for attributes in objects:
        name = str(attributes.get("name"))
        words.append(name if name_counts[name] == 1 else str(attributes.get("id")))
    return sorted(words, key=compute_natural_sort_key)


def _list_assumptions(_flag: Sequence[str]) -> list[str]:
    """List the losses that the state allows, then the addresses for `ADDR:PATH=VALUE`."""
    _, state = _read_local_state()
    words: list[str] = []
    for address, current in state.list_current_objects():
        attributes = current.attributes
        if address.type == "nexus_rack":
            machines = attributes.get("machines") or ()
            words.append(f"lost:rack/{attributes['id']}")
            words += [f"lost:machine/{attributes['site_id']}/{name}" for name in machines]
        nodes = get_mapping(attributes, "nodes")
        words += [f"lost:node/{attributes.get('name')}/{name}" for name in nodes]
    words += [f"lost:member/{member['name']}" for member in _list_attributes_of_type(_MEMBER)]
    addresses = _list_address_completions(())
    return [*sorted(words, key=compute_natural_sort_key), *(f"{address}:" for address in addresses)]


def _list_workspaces(_typed_words: Sequence[str]) -> list[str]:
    from nexusform.workflow.states.workspaces import list_workspaces

    context, configuration = _load_configuration()
    return list(list_workspaces(context).names) if _is_local_state(context, configuration) else []


_MEMBER: Final = "fleet_member_cluster"
_TYPES_OF_FAILURE_FLAGS: Final = {
    "site": "nexus_site",
    "rack": "nexus_rack",
    "cluster": "nexus_kubernetes_cluster",
}


# By the name of an argument; functions of the arguments before it.
WORDS: Final[Mapping[str, Callable[[Sequence[str]], list[str]]]] = {
    "address": _list_address_completions,
    "addresses": _list_address_completions,
    "source": _list_address_completions,
    "targets": _list_address_completions,
    "cluster": _list_cluster_addresses,
    "explain name": _list_placed_objects,
    "output name": _list_outputs,
    "workspace select name": _list_workspaces,
    "workspace delete name": _list_workspaces,
}
# By the metavar of a flag; functions of the flag's name.
VALUES: Final[Mapping[str, Callable[[Sequence[str]], list[str]]]] = {
    "ADDR": _list_address_completions,
    "ADDR[:OBJECT]": _list_address_completions,
    "ASSUMPTION": _list_assumptions,
    "ID": _list_failure_targets,
    "SKU": _list_skus,
}
