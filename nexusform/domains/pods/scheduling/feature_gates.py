"""Feature gates of Kubernetes: their defaults per minor version, and their effect on pods.

The defaults are a data file made by packaging/feature_gates.py. The rows are written by hand: each
gate of the file has one. A version that the file does not have is unknown: nobody has looked at it.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct

Version = tuple[int, ...]
_ABSENT: Final = "-"
_LOCKED: Final = "-locked"
_ON: Final = "on"


class GateEffect(StrEnum):
    """Effect of a feature gate on the place of pods."""

    MODELLED = "modelled"
    # Pods that the gate may move are not certain.
    UNCERTAIN = "uncertain"
    # It may move pods, but every version that was read has it off by default.
    OFF = "off"
    # A pod runs where it does with and without the gate.
    NONE = "none"


class GateRow(Struct, frozen=True):
    """Effect of a gate, and where it is modelled, why it has none, or which pods are uncertain."""

    effect: GateEffect
    reason: str


class FeatureGateDefaults(Struct, frozen=True):
    """Defaults of the gates by name and version; a version without a gate has no entry."""

    versions: tuple[Version, ...]
    defaults: Mapping[str, Mapping[Version, bool]]


@cache
def load_defaults() -> FeatureGateDefaults:
    """Read assets/feature_gates.txt: a line of versions, then a line per gate."""
    lines = _read_lines("feature_gates.txt")
    versions = tuple(_parse_minor_version(text) for text in lines[0].split()[1:])
    defaults: dict[str, dict[Version, bool]] = {}
    for line in lines[1:]:
        gate, *values = line.split()
        defaults[gate] = {
            version: value.removesuffix(_LOCKED) == _ON
            for version, value in zip(versions, values, strict=True)
            if value != _ABSENT
        }
    return FeatureGateDefaults(versions, defaults)


def load_rows() -> dict[str, GateRow]:
    """Read assets/feature_gate_rows.txt: an effect and its reason, then indented names of gates."""
    rows: dict[str, GateRow] = {}
    row = GateRow(GateEffect.NONE, "")
    for line in _read_lines("feature_gate_rows.txt"):
        if line.startswith(" "):
            rows |= dict.fromkeys(line.split(), row)
        else:
            effect, _, reason = line.partition(": ")
            row = GateRow(GateEffect(effect), reason)
    return rows


def _read_lines(name: str) -> list[str]:
    """Return the lines of an asset without comments and empty lines."""
    file = resources.files("nexusform.domains.pods.scheduling").joinpath("assets", name)
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _parse_minor_version(text: str) -> Version:
    """Return a version such as `1.37` as numbers."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def is_feature_enabled(gate: str, version: Version) -> bool | None:
    """Return whether a version has a gate on by default; None if this is unknown.

    Versions before the first one in the table are taken as that one if it has the gate off.
    """
    table = load_defaults()
    if not version or version > table.versions[-1]:
        return None
    default = table.defaults[gate].get(max(version, table.versions[0]), False)
    return None if default and version < table.versions[0] else default
