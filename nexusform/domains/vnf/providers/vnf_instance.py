"""VNF instance as Tacker reports it, and its VNFCs under the names of a plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.field_validation import get_mapping, list_mappings
from nexusform.domains.vnf.types.vnf_documents import has_standard_user_data

INSTANTIATED: Final = "INSTANTIATED"
# Key of the instance's metadata with the identity of its object.
OWNER_KEY: Final = "nexusform"


class ObservedVnfc(Struct, frozen=True):
    """VNFC of Tacker. `id` is the one of vnfcInfo, for healing; `order` is the order of creation."""

    id: str
    vdu: str
    zone: str
    order: tuple[int, str]

    @property
    def host(self) -> str:
        """Host of a zone ZONE:HOST, "" if Tacker does not know it."""
        return self.zone.partition(":")[2]


class VnfInstance(Struct, frozen=True):
    """Observed VNF instance. `owner` is the identity recorded at its creation."""

    id: str
    name: str
    descriptor_id: str
    owner: str
    is_instantiated: bool
    scale_levels: Mapping[str, int]
    vnfcs: tuple[ObservedVnfc, ...]


def parse_instance(document: Mapping[str, Any]) -> VnfInstance:
    """Parse a VnfInstance of the interface."""
    info = get_mapping(document, "instantiatedVnfInfo")
    is_instantiated = document.get("instantiationState") == INSTANTIATED
    return VnfInstance(
        id=str(document.get("id") or ""),
        name=str(document.get("vnfInstanceName") or ""),
        descriptor_id=str(document.get("vnfdId") or ""),
        owner=str(get_mapping(document, "metadata").get(OWNER_KEY) or ""),
        is_instantiated=is_instantiated,
        scale_levels={
            str(row.get("aspectId")): int(row.get("scaleLevel") or 0) for row in list_mappings(info, "scaleStatus")
        },
        vnfcs=tuple(_list_vnfcs(info)) if is_instantiated else (),
    )


def _list_vnfcs(info: Mapping[str, Any]) -> Iterator[ObservedVnfc]:
    ids = {row.get("vnfcResourceInfoId"): str(row.get("id")) for row in list_mappings(info, "vnfcInfo")}
    for row in list_mappings(info, "vnfcResourceInfo"):
        metadata = get_mapping(row, "metadata")
        index = metadata.get("vdu_idx")
        yield ObservedVnfc(
            id=ids.get(row.get("id"), str(row.get("id"))),
            vdu=str(row.get("vduId") or ""),
            zone=str(row.get("zoneId") or metadata.get("zone") or ""),
            order=(index if isinstance(index, int) else 0, str(metadata.get("creation_time") or "")),
        )


def match_vnfcs(attributes: Mapping[str, Any], observed: Sequence[ObservedVnfc]) -> dict[str, Any]:
    """Return the attributes with the observed VNFCs.

    VNFCs with a recorded id keep their names. Others take the free names of their VDU: first those on the
    same host, then in order of creation, then new names. Names without a VNFC are removed.
    """
    recorded: Mapping[str, Mapping[str, Any]] = attributes.get("vnfcs") or {}
    recorded_ids: Mapping[str, str] = attributes.get("vnfc_ids") or {}
    names_by_id = {identifier: name for name, identifier in recorded_ids.items() if name in recorded}
    matches = {names_by_id[vnfc.id]: vnfc for vnfc in observed if vnfc.id in names_by_id}
    remaining = sorted((vnfc for vnfc in observed if vnfc.id not in names_by_id), key=lambda vnfc: vnfc.order)
    free_names = [name for name in recorded if name not in matches]
    for is_same_host in (True, False):
        for vnfc in list(remaining):
            fitting = (name for name in free_names if _is_fitting(recorded[name], vnfc, is_same_host=is_same_host))
            name = next(fitting, None)
            if name is not None:
                matches[name] = vnfc
                free_names.remove(name)
                remaining.remove(vnfc)
    numbers = {vnfc["number"] for vnfc in recorded.values()}
    names_hosts = has_standard_user_data(attributes)
    vnfcs = {
        name: _build_vnfc(recorded[name], matches[name], names_hosts=names_hosts)
        for name in recorded
        if name in matches
    }
    for vnfc in remaining:
        number = next(n for n in range(len(numbers) + 1) if _build_vnfc_name(attributes, vnfc, n) not in vnfcs)
        name = _build_vnfc_name(attributes, vnfc, number)
        matches[name] = vnfc
        vnfcs[name] = _build_vnfc({"vdu": vnfc.vdu, "number": number, "numa_cells": None}, vnfc, names_hosts=True)
        numbers.add(number)
    return {**attributes, "vnfcs": vnfcs, "vnfc_ids": {name: matches[name].id for name in vnfcs}}


def _build_vnfc_name(attributes: Mapping[str, Any], vnfc: ObservedVnfc, number: int) -> str:
    return f"{attributes['name']}-{vnfc.vdu}-{number}"


def _is_fitting(vnfc: Mapping[str, Any], observed: ObservedVnfc, *, is_same_host: bool) -> bool:
    is_same_vdu = vnfc["vdu"] == observed.vdu
    return is_same_vdu and (not is_same_host or (bool(observed.host) and vnfc.get("machine") == observed.host))


def _build_vnfc(vnfc: Mapping[str, Any], observed: ObservedVnfc, *, names_hosts: bool) -> dict[str, Any]:
    """Return a VNFC at its observed host, else as recorded.

    With `names_hosts` the zones name hosts: Tacker selected another zone if one does not. The host is then unknown.
    """
    zone, _, host = observed.zone.partition(":")
    if not host:
        is_other_zone = zone not in ("", vnfc.get("availability_zone"))
        if not names_hosts and not is_other_zone:
            return dict(vnfc)
        unknown = {"machine": "", "rack": zone, "availability_zone": zone, "numa_cells": None}
        return {**vnfc, **unknown, "provenance": "observed"}
    location = {"machine": host, "rack": zone, "availability_zone": zone, "provenance": "observed"}
    if vnfc.get("machine") == host:
        location = {"provenance": "observed"}
    return {**vnfc, **location}
