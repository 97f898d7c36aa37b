"""Functions on IP addresses and CIDR prefixes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    build_plain_function,
)
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ListType
from nexusform.values.typed_value import Value

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    _Network: TypeAlias = IPv4Network | IPv6Network

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9.])0+(?=[0-9])|(?<=\.)0+(?=[0-9])")
# Bits before an IPv4 address in IPv6 notation: it is displayed as an IPv4 address.
_MAPPED: Final = 96
# As in other implementations, for equal results.
_MAX_NEW_BITS: Final = 32
_PREFIX: Final = ("prefix", STRING, "a prefix in CIDR notation")


def _normalize_octets(text: str) -> str:
    """Remove the leading zeros in a dotted address, since Terraform ignores them."""
    return text if ":" in text else _LEADING_ZEROS.sub("", text)


def _parse_network(text: str, position: int | None = None) -> _Network:
    """Parse a prefix in CIDR notation; bits of the host are ignored.

    Raises FunctionProblem.
    """
    import ipaddress

    address, _, length = text.partition("/")
    problem = FunctionProblem(
        f"invalid CIDR expression: invalid CIDR address: {text}", argument=position
    )
    # Neither netmasks nor IPv6 zones.
    if not re.fullmatch("[0-9]{1,3}", length) or "%" in address:
        raise problem
    try:
        return ipaddress.ip_network(f"{_normalize_octets(address)}/{int(length)}", strict=False)
    except ValueError:
        raise problem from None


def _require_whole_number(number: Any, name: str, position: int) -> int:
    if not isinstance(number, int):
        raise FunctionProblem(f"{name} must be a whole number", position)
    return number


def _compute_host_address(prefix: str, number: Any) -> str:
    """Compute the address of a host number.

    In 10.0.0.0/8 the host 16 is 10.0.0.16, and the host -1 is 10.255.255.255. An IPv4 address
    within IPv6 is displayed as IPv4.
    """
    network = _parse_network(prefix)
    host = _require_whole_number(number, "hostnum", position=1)
    size = network.num_addresses
    # Negative numbers count from the end.
    if not -size <= host < size:
        raise FunctionProblem(
            f"prefix of {network.prefixlen} does not accommodate a host numbered {host}"
        )
    address = network[host]
    return str(getattr(address, "ipv4_mapped", None) or address)


def _compute_netmask(prefix: str) -> str:
    """Return the netmask of an IPv4 prefix."""
    network = _parse_network(prefix, position=0)
    if network.version != 4:
        raise FixedProblem(
            "IPv6 addresses cannot have a netmask: use the prefix length", argument=0
        )
    return str(network.netmask)


def _format_network(base: _Network, first: int, length: int) -> str:
    """Format the network with this first address and prefix length, of the IP version of `base`."""
    network = type(base)((first, length))
    # An IPv4 address within IPv6, as in ::ffff:10.0.0.1.
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    return str(network) if mapped is None else f"{mapped}/{max(length - _MAPPED, 0)}"


def _compute_subnet(prefix: str, new_bits: Any, number: Any) -> str:
    """Compute the subnet `number` of all subnets with a prefix longer by `new_bits`.

    The number -1 stands for the last subnet. For example, 8 new bits divide 10.0.0.0/8 into 256
    subnets, and the subnet 2 of these is 10.2.0.0/16.
    """
    network = _parse_network(prefix)
    bits = _require_whole_number(new_bits, "newbits", position=1)
    subnet_number = _require_whole_number(number, "netnum", position=2)
    length = network.prefixlen + bits
    if bits < 0:
        raise FixedProblem(
            "must extend prefix by a number of bits that is not negative", argument=1
        )
    if length > network.max_prefixlen:
        raise FunctionProblem(
            f"insufficient address space to extend prefix of {network.prefixlen} by {bits}"
        )
    count = 1 << bits
    if not -count <= subnet_number < count:
        raise FunctionProblem(
            f"prefix extension of {bits} does not accommodate a subnet numbered {subnet_number}"
        )
    # A negative number counts from the end.
    index = subnet_number % count
    first = int(network.network_address) + (index << (network.max_prefixlen - length))
    return _format_network(network, first, length)


def _compute_subnets(prefix: Value, *new_bits: Value) -> Value:
    """Compute one subnet after the other in `prefix`, its prefix longer by each of `new_bits`.

    A subnet begins at the first multiple of its size after the one before it. In 10.0.0.0/8, 8 and
    4 new bits give 10.0.0.0/16 and 10.16.0.0/12.
    """
    network = _parse_network(prefix.raw, position=0)
    next_address = int(network.network_address)
    end = next_address + network.num_addresses
    subnets: list[Value] = []
    for position, extension in enumerate(new_bits, 1):
        bits = _require_whole_number(extension.raw, "newbits", position)
        length = network.prefixlen + bits
        if bits < 1:
            raise FixedProblem("must extend prefix by at least one bit", position)
        if bits > _MAX_NEW_BITS:
            raise FunctionProblem(
                f"may not extend prefix by more than {_MAX_NEW_BITS} bits", position
            )
        if length > network.max_prefixlen:
            raise FunctionProblem(
                f"would extend prefix to {length} bits, which is too long for an address of "
                f"{network.max_prefixlen} bits",
                position,
            )
        size = 1 << (network.max_prefixlen - length)
        # Rounded up to a multiple of the size.
        first = -(-next_address // size) * size
        if first + size > end:
            after = f" after {subnets[-1].raw}" if subnets else ""
            message = (
                f"not enough remaining address space for a subnet with a prefix of {length} "
                f"bits{after}"
            )
            raise FunctionProblem(message, position)
        subnets.append(Value(STRING, _format_network(network, first, length)))
        next_address = first + size
    return Value(ListType(STRING), tuple(subnets))


def _is_address_or_network_contained(prefix: str, inner: str) -> bool:
    """Check whether a prefix contains an address or network.

    Raises FunctionProblem for IPv4 in IPv6 or vice versa.
    """
    import ipaddress

    network = _parse_network(prefix, position=0)
    if "/" in inner:
        inner_network = _parse_network(inner, position=1)
        first: Any = inner_network.network_address
        last: Any = inner_network.broadcast_address
    else:
        try:
            first = last = ipaddress.ip_address(_normalize_octets(inner))
        except ValueError:
            raise FunctionProblem(f"invalid IP address or prefix: {inner}", argument=1) from None
    if first.version != network.version:
        raise FunctionProblem(f"address family mismatch: {prefix} vs. {inner}")
    return first in network and last in network


FUNCTIONS: Final = (
    build_plain_function(
        "cidrcontains",
        "Whether a prefix contains an address or another prefix.",
        [
            ("containing_prefix", STRING, "a prefix"),
            ("contained", STRING, "an address or a prefix"),
        ],
        returns=BOOL,
        compute=_is_address_or_network_contained,
        examples=[('cidrcontains("10.0.0.0/8", "10.1.2.3")', "true")],
    ),
    build_plain_function(
        "cidrhost",
        "The address of a host number in a prefix. Negative numbers count from the end.",
        [_PREFIX, ("hostnum", NUMBER, "the number of the host")],
        compute=_compute_host_address,
        examples=[
            ('cidrhost("10.12.112.0/20", 16)', '"10.12.112.16"'),
            ('cidrhost("fd00::/64", 1)', '"fd00::1"'),
        ],
    ),
    build_plain_function(
        "cidrnetmask",
        "The netmask of an IPv4 prefix.",
        [_PREFIX],
        compute=_compute_netmask,
        examples=[('cidrnetmask("172.16.0.0/12")', '"255.240.0.0"')],
    ),
    build_plain_function(
        "cidrsubnet",
        "A subnet of a prefix by extra bits and number.",
        [
            _PREFIX,
            ("newbits", NUMBER, "number of extra bits"),
            ("netnum", NUMBER, "the subnet's number"),
        ],
        compute=_compute_subnet,
        examples=[('cidrsubnet("172.16.0.0/12", 4, 2)', '"172.18.0.0/16"')],
    ),
    Function(
        "cidrsubnets",
        "Consecutive subnets of a prefix by their extra bits.",
        (Parameter(*_PREFIX),),
        ListType(STRING),
        _compute_subnets,
        (Example('cidrsubnets("10.1.0.0/16", 4, 4)', 'tolist(["10.1.0.0/20", "10.1.16.0/20"])'),),
        Parameter("newbits", NUMBER, "how many bits longer, for each subnet"),
    ),
)
