"""Tests of site names: those in the state are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nexusform.domains.azure.importers.az_inventory import read_sites
from nexusform.domains.azure.importers.az_records import AzSite
from nexusform.domains.azure.importers.site_separation import apply_recorded_site_names
from tests.domains.azure.importers.test_az_documents import add_location
from tests.domains.azure.importers.test_az_inventory import build_machine, build_rack


def build_sites(shown: Mapping[str, str]) -> tuple[AzSite, ...]:
    """Return sites with machines named by one character each, in a rack r1 of each site."""
    racks = [add_location({**build_rack("r1"), "id": f"/{site}/racks/r1"}, site) for site in shown]
    machines = [
        add_location({**build_machine(name, slot, rackId=f"/{site}/racks/r1"), "id": f"/{site}/m/{name}"}, site)
        for site, names in shown.items()
        for slot, name in enumerate(names, 1)
    ]
    documents = {"racks": racks, "bare_metal_machines": machines}
    return read_sites({kind: [(kind, json.dumps(them).encode())] for kind, them in documents.items()})[0]


def build_recorded_racks(names: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"id": f"{site}/r1/{name}", "rack_id": f"{site}/r1", "name": name}
        for site, of_site in names.items()
        for name in of_site
    ]


@pytest.mark.parametrize(
    ("shown", "in_state", "names"),
    [
        ({"new": "abc"}, {"old": "abc"}, ["old"]),
        ({"new": "abcdef"}, {"old": "abc"}, ["old"]),
        ({"new": "ab"}, {"old": "abcd"}, ["new-cl"]),  # half is not a majority
        ({"new": "abc"}, {}, ["new-cl"]),
        ({"new": "xyz"}, {"old": "abc"}, ["new-cl"]),
        ({"new": "abc"}, {"new-cl": "abc", "old": "abc"}, ["new-cl"]),  # the state has both
        ({"new": "abc", "old": "xyz"}, {"old-cl": "abc"}, ["new-cl", "old-cl"]),  # the export has this name, too
        ({"new": "abc", "other": "abc"}, {"old": "abc"}, ["new-cl", "other-cl"]),  # ambiguous
        ({"new": "abc"}, {"old": "ab", "older": "bc"}, ["new-cl"]),
        ({"new": "abc", "other": "def"}, {"old": "abc", "older": "def"}, ["old", "older"]),
    ],
)
def test_site_keeps_unambiguous_name_of_state(
    shown: Mapping[str, str], in_state: Mapping[str, str], names: list[str]
) -> None:
    assert (
        sorted(site.name for site in apply_recorded_site_names(build_sites(shown), build_recorded_racks(in_state)))
        == names
    )


def test_vms_identify_their_site_by_machines() -> None:
    cluster = {
        "id": "old/k",
        "site_id": "old",
        "nodes": {"k-0": {"machine": "a", "rack": "r1"}, "k-1": {"machine": None, "rack": None}},
    }
    pool = {"id": "old/k/p", "kubernetes_cluster_id": "old/k", "nodes": {"k-2": {"machine": "b", "rack": "r1"}}}
    vm = {"id": "old/v", "site_id": "old", "machine": "c", "rack": "r1"}
    for one in (cluster, pool, vm):
        assert [site.name for site in apply_recorded_site_names(build_sites({"new": "abc"}), [one])] == ["old"]
