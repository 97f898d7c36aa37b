"""-target, -exclude and -replace: which blocks and instances a plan concerns."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.address import Address, AddressPattern, AddressProblem, ConfigAddress, parse_pattern
from nexusform.diagnostics import Diagnostic, did_you_mean, error, warning
from nexusform.graph import reached
from nexusform.planning.preparation.order import Order
from nexusform.words import first_of

PARTIAL: Final = "resource-targeting-is-in-effect"
_MOST_NAMED: Final = 3


class Selection(Struct, frozen=True):
    """Which instances are planned; the others keep what they have. `replace` are whole instances,
    `heal` single VMs by address.
    """

    targets: tuple[AddressPattern, ...] = ()
    target_blocks: frozenset[ConfigAddress] = frozenset()
    excluded_blocks: frozenset[ConfigAddress] = frozenset()
    excludes: tuple[AddressPattern, ...] = ()
    replace: tuple[AddressPattern, ...] = ()
    heal: tuple[tuple[AddressPattern, str], ...] = ()

    @property
    def partial(self) -> bool:
        """Whether anything is left out."""
        return bool(self.targets or self.excludes)

    def has(self, address: Address) -> bool:
        """Whether an instance is planned."""
        if self.targets:
            return address.config in self.target_blocks or self.targets_itself(address)
        if self.excludes:
            excluded = address.config in self.excluded_blocks
            return not excluded and not any(pattern.matches(address) for pattern in self.excludes)
        return True

    def targets_itself(self, address: Address) -> bool:
        """Whether -target names it, and not only what depends on it."""
        return any(pattern.matches(address) for pattern in self.targets)

    def replaces(self, address: Address) -> bool:
        """Whether -replace names the whole instance."""
        return any(pattern.matches(address) for pattern in self.replace)

    def heals(self, address: Address) -> frozenset[str]:
        """The VMs of an instance that -replace names."""
        return frozenset(name for pattern, name in self.heal if pattern.matches(address))


def select(
    targets: Iterable[str], excludes: Iterable[str], replaces: Iterable[str], order: Order
) -> tuple[Selection, list[Diagnostic]]:
    """Read the options. Targets take in all they depend on, exclusions all that depends on them."""
    problems: list[Diagnostic] = []
    targeted = _patterns("-target", targets, order, problems)
    excluded = _patterns("-exclude", excludes, order, problems)
    if targeted and excluded:
        problems.append(
            error("incompatible-options", "-target and -exclude cannot be used together. Use one of them.")
        )
    instances, vms = _replacements(replaces, order, problems)
    if (targeted or excluded) and not problems:
        problems.append(_partial(bool(targeted)))
    selection = Selection(
        tuple(targeted),
        frozenset(_with_needs(targeted, order)),
        frozenset(_with_dependents(excluded, order)),
        tuple(excluded),
        tuple(instances),
        tuple(vms),
    )
    return selection, problems


def moved_without_selection(selection: Selection, previous: Mapping[Address, Address]) -> list[Diagnostic]:
    """The error of objects that moved, and of which -target or -exclude leaves out one address: there they
    would be planned as if they had not moved. `previous` maps new addresses to old ones.
    """
    left_out: set[str] = set()
    for new, old in previous.items():
        for address in (new, old):
            named = selection.targets_itself(address)
            if selection.targets and not named:
                left_out.add(f"-target={shlex.quote(str(address.resource))}")
            excluding = [pattern for pattern in selection.excludes if pattern.matches(address)]
            left_out |= {f"-exclude={shlex.quote(str(pattern))}" for pattern in excluding}
    if not left_out:
        return []
    option, remedy = ("-target", "or add these") if selection.targets else ("-exclude", "or leave out these")
    lines = "".join(f"\n  {each}" for each in sorted(left_out))
    return [
        error(
            "moved-resource-instances-excluded-by-targeting",
            "Objects of the state have moved to other addresses in this configuration. A plan must see both "
            f"addresses of each to be right, and {option} leaves some of them out. Plan without {option}, "
            f"{remedy}:{lines}",
        )
    ]


def _replacements(
    texts: Iterable[str], order: Order, problems: list[Diagnostic]
) -> tuple[list[AddressPattern], list[tuple[AddressPattern, str]]]:
    """What -replace names: whole instances, and single VMs of instances (ADDR:OBJECT)."""
    instances: list[AddressPattern] = []
    vms: list[tuple[AddressPattern, str]] = []
    for text in texts:
        address, vm = split_object(text)
        for pattern in _patterns("-replace", [address], order, problems):
            if not pattern.type:
                problems.append(
                    error(
                        "invalid-address-in-option",
                        f'"{text}" names a module; name a resource in it.',
                        headline="Invalid -replace address",
                    )
                )
            elif vm:
                vms.append((pattern, vm))
            else:
                instances.append(pattern)
    return instances, vms


def _with_needs(targeted: Sequence[AddressPattern], order: Order) -> set[ConfigAddress]:
    """The targeted blocks and all they depend on. Of a block of which only single instances are named, these
    alone are planned: Selection.has looks at the patterns.
    """
    named = _named_blocks(targeted, order)
    only_instances = {block for block in named if _only_instances(targeted, block)}
    return reached(named, order.direct_needs) - only_instances


def _with_dependents(excluded: Sequence[AddressPattern], order: Order) -> set[ConfigAddress]:
    """The excluded blocks and all that depends on them; nothing depends on single instances alone."""
    whole = [pattern for pattern in excluded if not _names_instances(pattern)]
    named = _named_blocks(whole, order)
    dependents: dict[ConfigAddress, list[ConfigAddress]] = {}
    for block, needs in order.needs.items():
        for need in needs:
            dependents.setdefault(need, []).append(block)
    return reached(named, lambda block: dependents.get(block, ()))


def _named_blocks(patterns: Sequence[AddressPattern], order: Order) -> list[ConfigAddress]:
    """The blocks that any of the patterns names, wholly or by single instances."""
    return [block.address for block in order.blocks if _any_names(patterns, block.address)]


def _any_names(patterns: Sequence[AddressPattern], block: ConfigAddress) -> bool:
    return any(_names_block(pattern, block) for pattern in patterns)


def _partial(targeted: bool) -> Diagnostic:
    option = "-target" if targeted else "-exclude"
    return warning(
        PARTIAL,
        f"The plan was made with {option}, so it may not hold all the changes that the configuration asks "
        "for. What is left out keeps what it has, its room included. Run `nexusform plan` without it "
        "afterwards.",
    )


def _only_instances(patterns: Iterable[AddressPattern], block: ConfigAddress) -> bool:
    return all(_names_instances(pattern) for pattern in patterns if _names_block(pattern, block))


def _names_instances(pattern: AddressPattern) -> bool:
    """Whether it names single instances of a resource or of a module."""
    return pattern.key is not None or any(step.key is not None for step in pattern.module)


def _names_block(pattern: AddressPattern, block: ConfigAddress) -> bool:
    """Whether a pattern speaks of a block, or of a module that it is in."""
    path = tuple(step.name for step in pattern.module)
    if not pattern.type:
        return block.module[: len(path)] == path
    return (path, pattern.mode, pattern.type, pattern.name) == (
        block.module,
        block.mode,
        block.type,
        block.name,
    )


def split_object(text: str) -> tuple[str, str]:
    """`ADDR:OBJECT` at the first colon outside of an instance key."""
    quoted = escaped = False
    for at, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = quoted
        elif character == '"':
            quoted = not quoted
        elif character == ":" and not quoted:
            return text[:at], text[at + 1 :]
    return text, ""


def _patterns(
    option: str, texts: Iterable[str], order: Order, problems: list[Diagnostic]
) -> list[AddressPattern]:
    patterns = []
    for text in texts:
        try:
            patterns.append(parse_pattern(text))
        except AddressProblem as problem:
            detail = f"{problem}{_meant(text, order)}"
            problems.append(error("invalid-address-in-option", detail, headline=f"Invalid {option} address"))
    return patterns


def _meant(name: str, order: Order) -> str:
    """The resources of that name: a sentence that begins with a blank, "" without any."""
    named = [str(block.address) for block in order.blocks if block.address.name == name]
    return f" Did you mean {first_of(named, _MOST_NAMED)}?" if named else ""


def unmatched(
    selection: Selection,
    order: Order,
    planned: Collection[Address],
    standing: Collection[Address],
    vms: Mapping[Address, Iterable[str]],
) -> list[Diagnostic]:
    """Options that name nothing, of the instances planned and standing and the names of VMs that stand."""
    addresses = [*planned, *standing]
    problems = _without_object("-target", selection.targets, order, addresses)
    problems += _without_object("-exclude", selection.excludes, order, addresses)
    return problems + _without_replacement(selection, planned, vms)


def _without_object(
    option: str, patterns: Iterable[AddressPattern], order: Order, addresses: Collection[Address]
) -> list[Diagnostic]:
    """Errors for patterns that name neither a block nor an instance. A block without instances is no
    mistake; of what is excluded, single instances that do not stand are not known.
    """
    problems = []
    for pattern in patterns:
        single = option == "-target" and _names_instances(pattern)
        if not single and any(_names_block(pattern, block.address) for block in order.blocks):
            continue
        if any(pattern.matches(address) for address in addresses):
            continue
        known = [*(str(block.address) for block in order.blocks), *(str(address) for address in addresses)]
        detail = (
            f"{option}={pattern} names nothing in the configuration or the state."
            f"{did_you_mean(str(pattern), known)}"
        )
        problems.append(error("nothing-to-target", detail))
    return problems


def _without_replacement(
    selection: Selection, known: Collection[Address], vms: Mapping[Address, Iterable[str]]
) -> list[Diagnostic]:
    """Errors for -replace that names no instance, or no VM that stands."""
    problems = []
    for pattern in selection.replace:
        if not any(pattern.matches(address) for address in known):
            near = did_you_mean(str(pattern), [str(address) for address in known])
            detail = f"-replace={pattern} names no instance of this configuration.{near}"
            problems.append(error("nothing-to-replace", detail))
    for pattern, name in selection.heal:
        of_instances = [names for address, names in vms.items() if pattern.matches(address)]
        standing = list(chain.from_iterable(of_instances))
        if name not in standing:
            detail = (
                f'-replace={pattern}:{name} names no VM that stands: {pattern} has none called "{name}".'
                f"{did_you_mean(name, standing)}"
            )
            problems.append(error("nothing-to-replace", detail))
    return problems
