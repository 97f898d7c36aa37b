"""Selection of blocks and instances by -target, -exclude and -replace."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.reference_checks import Declaration, build_dependencies
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning, suggest_name
from nexusform.diagnostics.phrases import enclose, format_first_items
from nexusform.planning.preparation.planning_order import (
    PlanningOrder,
    build_block_address,
    index_owners,
)
from nexusform.resources.address import (
    Address,
    AddressPattern,
    AddressProblem,
    ConfigAddress,
    compute_address_order,
    parse_pattern,
)
from nexusform.resources.graph import find_reachable

PARTIAL: Final = "resource-targeting-is-in-effect"
_MAXIMUM_NAMED: Final = 3
_MAXIMUM_LISTED: Final = 20


class Selection(Struct, frozen=True):
    """Instances to plan.

    The blocks are those of the options `targets` with their dependencies, or of `excludes`
    with their dependents. -replace names whole instances (`replace`), or single VMs by address
    and name (`heal`).
    """

    targets: tuple[AddressPattern, ...] = ()
    target_blocks: frozenset[ConfigAddress] = frozenset()
    excluded_blocks: frozenset[ConfigAddress] = frozenset()
    excludes: tuple[AddressPattern, ...] = ()
    replace: tuple[AddressPattern, ...] = ()
    heal: tuple[tuple[AddressPattern, str], ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether -target or -exclude restricts the plan."""
        return bool(self.targets or self.excludes)

    def has(self, address: Address) -> bool:
        """Return whether -target or -exclude selects an instance.

        Without these options all are selected.
        """
        if self.targets:
            return address.config_address in self.target_blocks or self.is_direct_target(address)
        if self.excludes and address.config_address in self.excluded_blocks:
            return False
        return not any(pattern.is_match(address) for pattern in self.excludes)

    def is_direct_target(self, address: Address) -> bool:
        """Return whether -target names the instance itself.

        A dependency of a target is selected, but no target.
        """
        return any(pattern.is_match(address) for pattern in self.targets)

    def is_replacement_requested(self, address: Address) -> bool:
        """Return whether -replace names the whole instance."""
        return any(pattern.is_match(address) for pattern in self.replace)

    def list_healed_vms(self, address: Address) -> frozenset[str]:
        """Return the names of the VMs to re-create alone in an instance (-replace=ADDRESS:VM)."""
        return frozenset(name for pattern, name in self.heal if pattern.is_match(address))


def build_selection(
    targets: Iterable[str], excludes: Iterable[str], replaces: Iterable[str], order: PlanningOrder
) -> tuple[Selection, list[Diagnostic]]:
    """Parse the options, and return the selection with problems.

    Options may be invalid or incompatible.

    Targets include the blocks that they depend on, exclusions the blocks that depend on them. A
    target of a single instance, such as T.N["a"], does not select the other instances of its
    block. An exclusion of a single instance excludes no dependents. `replaces` are instances, or
    VMs to heal.
    """
    problems: list[Diagnostic] = []
    target_patterns = _parse_patterns("-target", targets, order, problems)
    exclude_patterns = _parse_patterns("-exclude", excludes, order, problems)
    if target_patterns and exclude_patterns:
        problems.append(
            build_error(
                "incompatible-options",
                "-target and -exclude cannot be used together. Use one of them.",
            )
        )
    replaced_instances, vms_to_heal = _parse_replace_options(replaces, order, problems)
    if (target_patterns or exclude_patterns) and not problems:
        option = "-target" if bool(target_patterns) else "-exclude"
        partial_warning = build_warning(
            PARTIAL,
            f"The plan was created with {option}, so it may lack changes of the configuration. "
            "Excluded objects stay unchanged and keep their capacity. Run `nexusform plan` without "
            "it afterwards.",
        )
        problems.append(partial_warning)
    named_blocks = _find_named_blocks(target_patterns, order)
    # Blocks targeted by single instances only: these are selected, not the whole block.
    only_instances = {
        block for block in named_blocks if _is_named_by_keys_only(target_patterns, block)
    }
    # Single excluded instances exclude no dependents.
    block_patterns = [pattern for pattern in exclude_patterns if not _has_instance_keys(pattern)]
    excluded_blocks = _find_named_blocks(block_patterns, order)
    dependents = index_owners(order.needs.items())
    selection = Selection(
        targets=tuple(target_patterns),
        target_blocks=frozenset(
            find_reachable(named_blocks, order.get_direct_dependencies) - only_instances
        ),
        excluded_blocks=frozenset(
            find_reachable(excluded_blocks, lambda block: dependents.get(block, ()))
        ),
        excludes=tuple(exclude_patterns),
        replace=tuple(replaced_instances),
        heal=tuple(vms_to_heal),
    )
    return selection, problems


def find_selected_outputs(
    selection: Selection, configuration: Configuration
) -> dict[str, set[Declaration]] | None:
    """Return the root outputs of a partial plan by name, with the blocks they depend on.

    Return None if the plan is not partial. -target selects the outputs that depend on
    targets and what these depend on, and on nothing else. -exclude selects those that depend
    on no excluded block.
    """
    if not selection.is_partial:
        return None
    edges = build_dependencies(configuration)
    # Nodes of the graph.
    blocks: set[Declaration] = set()
    excluded_nodes: set[Declaration] = set()
    targets: list[Declaration] = []
    for node in edges:
        if node.kind not in ("resource", "data"):
            continue
        blocks.add(node)
        address = build_block_address(node)
        if address in selection.excluded_blocks:
            excluded_nodes.add(node)
        if _is_named_by_any_pattern(selection.targets, address):
            targets.append(node)
    target_nodes = find_reachable(targets, lambda node: edges.get(node, ()))
    outputs = {}
    for name in configuration.root.outputs:
        declaration = Declaration(module=(), kind="output", name=name)
        needed_nodes = find_reachable([declaration], lambda node: edges.get(node, ()))
        needed_blocks = needed_nodes & blocks
        # A selection includes no output without blocks.
        if selection.targets:
            is_selected = bool(needed_blocks) and needed_blocks <= target_nodes
        else:  # -exclude
            is_selected = needed_blocks.isdisjoint(excluded_nodes)
        if is_selected:
            outputs[name] = needed_blocks
    return outputs


def check_moved_selection(
    selection: Selection, previous: Mapping[Address, Address]
) -> list[Diagnostic]:
    """Return the error for moved objects not selected under both addresses, or [].

    `previous` maps new to old ones. Both addresses have to be targets, and neither may be excluded.
    The error lists the options to add or to omit.
    """
    missing_options: set[str] = set()
    for address in (*previous.keys(), *previous.values()):
        if selection.targets and not selection.is_direct_target(address):
            missing_options.add(f"-target={shlex.quote(str(address.resource))}")
        for pattern in selection.excludes:
            if pattern.is_match(address):
                missing_options.add(f"-exclude={shlex.quote(str(pattern))}")
    if not missing_options:
        return []
    option, remedy = (
        ("-target", "or add these") if selection.targets else ("-exclude", "or omit these")
    )
    lines = "".join(f"\n  {missing_option}" for missing_option in sorted(missing_options))
    return [
        build_error(
            "moved-resource-instances-excluded-by-targeting",
            "This configuration moves objects of the state to other addresses. A plan must include "
            f"both addresses of each, but {option} excludes some. Plan without {option}, "
            f"{remedy}:{lines}",
        )
    ]


def _parse_replace_options(
    texts: Iterable[str], order: PlanningOrder, problems: list[Diagnostic]
) -> tuple[list[AddressPattern], list[tuple[AddressPattern, str]]]:
    """Return the objects of -replace.

    They are whole instances, and single VMs of instances (ADDR:OBJECT).
    """
    instances: list[AddressPattern] = []
    vms: list[tuple[AddressPattern, str]] = []
    for text in texts:
        address, vm = split_object_address(text)
        # None if it is invalid.
        for pattern in _parse_patterns("-replace", [address], order, problems):
            if not pattern.type:
                detail = f'"{text}" names a module; name a resource in it.'
                headline = "Invalid -replace address"
                problems.append(build_error("invalid-address-in-option", detail, headline=headline))
            elif vm:
                vms.append((pattern, vm))
            else:
                instances.append(pattern)
    return instances, vms


def _find_named_blocks(
    patterns: Sequence[AddressPattern], order: PlanningOrder
) -> list[ConfigAddress]:
    """Return the blocks named by any of the patterns, as a whole or by single instances."""
    return [
        block.address for block in order.blocks if _is_named_by_any_pattern(patterns, block.address)
    ]


def _is_named_by_any_pattern(patterns: Sequence[AddressPattern], block: ConfigAddress) -> bool:
    return any(_is_block_matched_by_pattern(pattern, block) for pattern in patterns)


def _is_named_by_keys_only(patterns: Iterable[AddressPattern], block: ConfigAddress) -> bool:
    """Return whether all patterns for a block name single instances of it."""
    return all(
        _has_instance_keys(pattern)
        for pattern in patterns
        if _is_block_matched_by_pattern(pattern, block)
    )


def _has_instance_keys(pattern: AddressPattern) -> bool:
    """Return whether a pattern names single instances of a resource or of a module."""
    return pattern.key is not None or any(step.key is not None for step in pattern.module)


def _is_block_matched_by_pattern(pattern: AddressPattern, block: ConfigAddress) -> bool:
    """Return whether a pattern names a block, or a module that contains it."""
    path = tuple(step.name for step in pattern.module)
    if not pattern.type:
        return block.module[: len(path)] == path
    return (path, pattern.mode, pattern.type, pattern.name) == (
        block.module,
        block.mode,
        block.type,
        block.name,
    )


def split_object_address(text: str) -> tuple[str, str]:
    """Split `ADDR:OBJECT` at the first colon outside of an instance key; "" without an object.

    Example: `nexus_rack.r["a:b"]:vm-1` is split before `vm-1`. A quoted character after a backslash
    ends no key.
    """
    is_quoted = is_escaped = False
    for index, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif character == "\\":
            is_escaped = is_quoted
        elif character == '"':
            is_quoted = not is_quoted
        elif character == ":" and not is_quoted and (name := text[index + 1 :]):
            return text[:index], name
    return text, ""


def _parse_patterns(
    option: str, texts: Iterable[str], order: PlanningOrder, problems: list[Diagnostic]
) -> list[AddressPattern]:
    """Parse the addresses of an option; invalid ones are reported in `problems`."""
    patterns = []
    for text in texts:
        try:
            patterns.append(parse_pattern(text))
        except AddressProblem as problem:
            candidates = [
                str(block.address) for block in order.blocks if block.address.name == text
            ]  # without type
            hint = enclose(" Did you mean ", format_first_items(candidates, _MAXIMUM_NAMED), "?")
            headline = f"Invalid {option} address"
            problems.append(
                build_error("invalid-address-in-option", f"{problem}{hint}", headline=headline)
            )
    return patterns


def check_unmatched_options(
    selection: Selection,
    order: PlanningOrder,
    planned_addresses: Collection[Address],
    other_addresses: Collection[Address],
    vms: Mapping[Address, Iterable[str]],
) -> list[Diagnostic]:
    """Return errors for options that match no instance and no existing VM.

    `other_addresses` are those of instances that are not planned.
    """
    addresses = [*planned_addresses, *other_addresses]
    problems = _check_pattern_matches("-target", selection.targets, order, addresses)
    problems += _check_pattern_matches("-exclude", selection.excludes, order, addresses)
    return problems + _check_replace_options(selection, planned_addresses, vms)


def _check_pattern_matches(
    option: str,
    patterns: Iterable[AddressPattern],
    order: PlanningOrder,
    addresses: Collection[Address],
) -> list[Diagnostic]:
    """Return errors for patterns without a matching block or instance.

    A pattern with a key must match an instance.
    """
    problems = []
    for pattern in patterns:
        is_single = _has_instance_keys(pattern)
        if not is_single and any(
            _is_block_matched_by_pattern(pattern, block.address) for block in order.blocks
        ):
            continue
        if any(map(pattern.is_match, addresses)):
            continue
        known_addresses = [*(str(block.address) for block in order.blocks), *map(str, addresses)]
        hint = suggest_name(str(pattern), known_addresses)
        detail = f"{option}={pattern} is in neither configuration nor state.{hint}"
        problems.append(build_error("nothing-to-target", detail))
    return problems


def _check_replace_options(
    selection: Selection, known_addresses: Collection[Address], vms: Mapping[Address, Iterable[str]]
) -> list[Diagnostic]:
    """Return errors for -replace outside of the selection, then for unmatched ones.

    They match no instance or existing VM.
    """
    unselected_addresses = [address for address in known_addresses if not selection.has(address)]
    texts = [(pattern, str(pattern)) for pattern in selection.replace]
    texts += [(pattern, f"{pattern}:{name}") for pattern, name in selection.heal]
    problems = []
    for pattern, text in texts:
        if any(map(pattern.is_match, unselected_addresses)):
            option = "-target does not select it" if selection.targets else "-exclude excludes it"
            problems.append(
                build_error(
                    "nothing-to-replace", f"-replace={text} has no effect, because {option}."
                )
            )
    problems += _check_replaced_instances(selection.replace, known_addresses)
    return [*problems, *_check_healed_vms(selection.heal, vms)]


def _check_replaced_instances(
    patterns: Iterable[AddressPattern], known_addresses: Collection[Address]
) -> Iterator[Diagnostic]:
    """Yield an error for each pattern of -replace that does not name exactly one instance."""
    for pattern in patterns:
        matches = [address for address in known_addresses if pattern.is_match(address)]
        if not matches:
            hint = suggest_name(str(pattern), list(map(str, known_addresses)))
            detail = f"-replace={pattern} names no instance of this configuration.{hint}"
            yield build_error("nothing-to-replace", detail)
        elif any(str(address) != str(pattern) for address in matches):
            # A block with count or for_each.
            matches.sort(key=compute_address_order)
            options = [f"-replace={shlex.quote(str(address))}" for address in matches]
            detail = (
                f"{pattern} has instances ({len(options)}). -replace takes one instance; "
                "repeat it for several:\n  "
            ) + format_first_items(options, _MAXIMUM_LISTED, "\n  ")
            yield build_error("instance-to-replace-required", detail)


def _check_healed_vms(
    healed_vms: Iterable[tuple[AddressPattern, str]],
    names_by_instance: Mapping[Address, Iterable[str]],
) -> Iterator[Diagnostic]:
    """Yield an error for each VM of -replace=ADDRESS:VM that does not exist before the plan."""
    for pattern, name in healed_vms:
        matches = [
            names for address, names in names_by_instance.items() if pattern.is_match(address)
        ]
        existing_names = list(chain.from_iterable(matches))
        if name not in existing_names:
            hint = suggest_name(name, existing_names)
            detail = (
                f"-replace={pattern}:{name} names no existing VM: {pattern} has none named "
                f'"{name}".{hint}'
            )
            yield build_error("nothing-to-replace", detail)
