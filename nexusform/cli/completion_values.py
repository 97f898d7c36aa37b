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

if TYPE_CHECKING:
    from nexusform.configuration.declarations.configuration import Configuration
    from nexusform.resources.address import Address
    from nexusform.state.objects import InstanceState
    from nexusform.workflow.opening.command_context import CommandContext

_FILES: Final = frozenset({"FILE", "DIR", "KEYFILE", "DIR|azure", "FILE|K=V"})  # metavars of paths


def list_flag_value_completions(metavar: str, flag: str, incomplete: str) -> list[CompletionItem]:
    """Return the values that a flag with this metavar may have."""
    if metavar in _FILES or flag == "var":  # -var and -var-file are one
        return [CompletionItem(incomplete, "file")]
    words = VALUES.get(metavar)
    return _filter_by_prefix(words((flag,)), incomplete) if words is not None else []


def list_argument_completions(context: click.Context, name: str, incomplete: str) -> list[CompletionItem]:
    """Return what the argument with this name may be; a file where nothing else is known."""
    path = " ".join(context.command_path.split()[1:])
    words = WORDS.get(f"{path} {name}") or WORDS.get(name)
    values = [
        context.params.get(each.name or "") for each in context.command.params if isinstance(each, click.Argument)
    ]
    taken = [value for value in values if isinstance(value, str)]
    items = _filter_by_prefix(words(taken), incomplete) if words is not None else []
    if words is None or name == "targets":
        items.append(CompletionItem(incomplete, "file"))
    return items


def _filter_by_prefix(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in words if word and word.startswith(incomplete)]


def _list_skus(_flag: Sequence[str]) -> list[str]:
    from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

    return list(CATALOGUES[NEWEST].vm_skus)


def _load_configuration() -> tuple[CommandContext, Configuration | None]:
    from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration

    place = CommandContext(environment=dict(os.environ))
    return place, load_project_configuration(place)[0]


def _is_local_file(place: CommandContext, configuration: Configuration | None) -> bool:
    """Whether state is a plain file here: a press of a key asks no other host and no provider of keys."""
    from nexusform.workflow.opening.command_context import ENCRYPTION_VARIABLE

    if configuration is None or ENCRYPTION_VARIABLE in place.environment:
        return False
    settings = configuration.settings
    return settings.backend_type == "local" and settings.encryption is None


def _list_instances_in_local_state() -> tuple[Configuration | None, Mapping[Address, InstanceState]]:
    """Read the configuration, and the state of a local backend."""
    from nexusform.workflow.states.state_commands import read_state

    place, configuration = _load_configuration()
    state = read_state(place).state if _is_local_file(place, configuration) else None
    return configuration, state.instances if state is not None else {}


def _list_attributes_of_type(kind: str) -> list[Mapping[str, Any]]:
    """Return the objects of a type in the state."""
    instances = _list_instances_in_local_state()[1].items()
    objects = [instance.current for address, instance in instances if address.type == kind]
    return [each.attributes for each in objects if each is not None]


def _list_address_completions(_taken: Sequence[str]) -> list[str]:
    """List the resources of the root module, and all instances in state."""
    configuration, instances = _list_instances_in_local_state()
    blocks = configuration.root.resources if configuration is not None else {}
    written = [f"{kind}.{name}" for mode, kind, name in blocks if mode == "managed"]
    return sorted({*written, *map(str, instances)})


def _list_cluster_addresses(taken: Sequence[str]) -> list[str]:
    return [each for each in _list_address_completions(taken) if "nexus_kubernetes_cluster." in each]


def _list_placed_objects(taken: Sequence[str]) -> list[str]:
    """List the VMs and bindings of the instance in the argument before."""
    _, instances = _list_instances_in_local_state()
    names: list[str] = []
    for address, instance in instances.items():
        if str(address) == taken[0] and instance.current is not None:
            parts = [instance.current.attributes.get(name) for name in ("nodes", "vnfcs", "bindings")]
            names += [name for part in parts if isinstance(part, Mapping) for name in part]
    return sorted(names, key=compute_natural_sort_key)


def _list_outputs(_taken: Sequence[str]) -> list[str]:
    configuration = _load_configuration()[1]
    return list(configuration.root.outputs) if configuration is not None else []


def _list_failure_targets(flag: Sequence[str]) -> list[str]:
    """List values of `-site`, `-rack`, `-machine` or `-cluster`: names, or ids of duplicate names."""
    if flag[0] == "machine":
        racks = _list_attributes_of_type("nexus_rack")
        return sorted(chain.from_iterable(rack.get("machines") or () for rack in racks), key=compute_natural_sort_key)
    kind = {"site": "nexus_site", "rack": "nexus_rack", "cluster": "nexus_kubernetes_cluster"}.get(flag[0])
    objects = _list_attributes_of_type(kind) if kind else []
    names = Counter(str(each.get("name")) for each in objects)
    words = [str(each.get("name" if names[str(each.get("name"))] == 1 else "id")) for each in objects]
    return sorted(words, key=compute_natural_sort_key)


def _list_workspaces(_taken: Sequence[str]) -> list[str]:
    from nexusform.workflow.states.workspaces import list_workspaces

    place, configuration = _load_configuration()
    return list(list_workspaces(place).names) if _is_local_file(place, configuration) else []


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
    "ID": _list_failure_targets,
    "SKU": _list_skus,
}
