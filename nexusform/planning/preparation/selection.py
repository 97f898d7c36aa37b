"""-target, -exclude and -replace: which blocks and instances a plan concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from nexusform.address import Address, AddressPattern, AddressProblem, ConfigAddress, parse_pattern
from nexusform.diagnostics import Diagnostic, did_you_mean, error, warning
from nexusform.planning.preparation.order import Order


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
            return address.config in self.target_blocks or any(p.matches(address) for p in self.targets)
        if self.excludes:
            excluded = address.config in self.excluded_blocks
            return not excluded and not any(p.matches(address) for p in self.excludes)
        return True

    def replaces(self, address: Address) -> bool:
        """Whether -replace names the whole instance."""
        return any(p.matches(address) for p in self.replace)

    def heals(self, address: Address) -> frozenset[str]:
        """The VMs of an instance that -replace names."""
        return frozenset(name for pattern, name in self.heal if pattern.matches(address))


def select(
    targets: Iterable[str], excludes: Iterable[str], replaces: Iterable[str], order: Order
) -> tuple[Selection, list[Diagnostic]]:
    """Read the options. Targets take in all they depend on, exclusions all that depends on them."""
    problems: list[Diagnostic] = []
    wanted = _patterns("-target", targets, problems)
    left_out = _patterns("-exclude", excludes, problems)
    if wanted and left_out:
        problems.append(
            error("incompatible-options", "-target and -exclude cannot be used together. Use one of them.")
        )
    whole: list[AddressPattern] = []
    single: list[tuple[AddressPattern, str]] = []
    for text in replaces:
        address, name = _split_object(text)
        found = _patterns("-replace", [address], problems)
        if found and not found[0].type:
            problems.append(
                error(
                    "invalid-address-in-option",
                    f'"{text}" names a module; name a resource in it.',
                    headline="Invalid -replace address",
                )
            )
        elif found and name:
            single.append((found[0], name))
        else:
            whole += found
    if wanted or left_out:
        problems.append(_partial(bool(wanted)))
    blocks = [b.address for b in order.blocks]
    forward = {a: set(order.needs.get(a, ())) for a in blocks}
    backward: dict[ConfigAddress, set[ConfigAddress]] = {a: set() for a in blocks}
    for block, needs in forward.items():
        for need in needs:
            backward[need].add(block)
    started = [a for a in blocks if any(_names_block(p, a) for p in wanted)]
    shut = [a for a in blocks if any(_names_block(p, a) and not _keyed(p) for p in left_out)]
    reached = _closure(started, forward) - {a for a in started if _only_keys(wanted, a)}
    return (
        Selection(
            tuple(wanted),
            frozenset(reached),
            frozenset(_closure(shut, backward)),
            tuple(left_out),
            tuple(whole),
            tuple(single),
        ),
        problems,
    )


def _partial(targeted: bool) -> Diagnostic:
    option = "-target" if targeted else "-exclude"
    return warning(
        "resource-targeting-is-in-effect",
        f"The plan was made with {option}, so it may not hold all the changes that the configuration asks "
        "for. What "
        "is left out keeps what it has, its room included. Run `nexusform plan` without it afterwards.",
    )


def _only_keys(patterns: Iterable[AddressPattern], block: ConfigAddress) -> bool:
    named = [p for p in patterns if _names_block(p, block)]
    return all(_keyed(p) for p in named)


def _keyed(pattern: AddressPattern) -> bool:
    """Whether it names single instances of a resource or of a module."""
    return pattern.key is not None or any(step.key is not None for step in pattern.module)


def _names_block(pattern: AddressPattern, block: ConfigAddress) -> bool:
    path = tuple(step.name for step in pattern.module)
    if not pattern.type:
        return block.module[: len(path)] == path
    return (path, pattern.mode, pattern.type, pattern.name) == (
        block.module,
        block.mode,
        block.type,
        block.name,
    )


def _closure(
    start: Iterable[ConfigAddress], edges: Mapping[ConfigAddress, Iterable[ConfigAddress]]
) -> set[ConfigAddress]:
    found: set[ConfigAddress] = set()
    stack = list(start)
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            stack += edges.get(at, ())
    return found


def _split_object(text: str) -> tuple[str, str]:
    """`ADDR:OBJECT` at the first colon outside of an instance key."""
    quoted = False
    for at, character in enumerate(text):
        if character == '"' and text[at - 1 : at] != "\\":
            quoted = not quoted
        elif character == ":" and not quoted:
            return text[:at], text[at + 1 :]
    return text, ""


def _patterns(option: str, texts: Iterable[str], problems: list[Diagnostic]) -> list[AddressPattern]:
    found = []
    for text in texts:
        try:
            found.append(parse_pattern(text))
        except AddressProblem as problem:
            problems.append(
                error("invalid-address-in-option", str(problem), headline=f"Invalid {option} address")
            )
    return found


def unmatched(
    selection: Selection, addresses: Iterable[Address], vms: Mapping[Address, Iterable[str]]
) -> list[Diagnostic]:
    """-replace options that name nothing: instances by address, VMs by the names that stand."""
    known = list(addresses)
    found = [
        error(
            "nothing-to-replace",
            f"-replace={pattern} names no instance of this configuration.{_near(str(pattern), known)}",
        )
        for pattern in selection.replace
        if not any(pattern.matches(address) for address in known)
    ]
    for pattern, name in selection.heal:
        standing = [vm for address, names in vms.items() if pattern.matches(address) for vm in names]
        if name not in standing:
            found.append(
                error(
                    "nothing-to-replace",
                    f'-replace={pattern}:{name} names no VM that stands: {pattern} has none called "{name}".'
                    f"{did_you_mean(name, standing)}",
                )
            )
    return found


def _near(text: str, known: Iterable[Address]) -> str:
    return did_you_mean(text, [str(address) for address in known])
