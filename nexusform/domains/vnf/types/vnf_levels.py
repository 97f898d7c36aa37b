"""Scale levels of a VNF for its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.vnf.importers.vnf_records import Vnf
from nexusform.domains.vnf.types.vnf_documents import read_documents

# Parameter of an operation with the ids of failed ones to be repeated: the NFVO grants it again.
RETRY_KEY: Final = "nexusform-retry-of"


def compute_first_levels(vnf: Vnf, attributes: Mapping[str, Any]) -> dict[str, int]:
    """Return the scale levels after instantiation."""
    name = attributes.get("instantiation_level") or vnf.default_level
    level = next((level for level in vnf.levels if level.name == name), None)
    return dict(level.scale_levels) if level is not None else {}


def compute_target_levels(attributes: Mapping[str, Any]) -> dict[str, int]:
    """Return the scale level of each aspect for the arguments of a VNF."""
    configured = attributes.get("scale_levels") or {}
    levels = compute_first_levels(read_documents(attributes).vnf, attributes)
    return {**levels, **{name: int(level) for name, level in configured.items()}}
