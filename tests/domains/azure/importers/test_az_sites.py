"""Tests of site names: those in the state are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.azure.importers.az_inventory import read_sites
from nexusform.domains.azure.importers.az_records import AzSite
from nexusform.domains.azure.importers.site_separation import apply_recorded_site_names
from tests.domains.azure.importers.test_az_documents import add_location
from tests.domains.azure.importers.test_az_inventory import (
    build_cluster,
    build_documents,
    build_machine,
    build_node,
    build_rack,
    build_vm,
)


def build_sites(shown: Mapping[str, str]) -> tuple[AzSite, ...]:
    """Return sites with machines named by one character each, in a rack r1 of each site."""
    return read_shown_sites(shown)[0]


def read_shown_sites(
    shown: Mapping[str, str], **more: list[dict[str, Any]]
) -> tuple[tuple[AzSite, ...], tuple[Problem, ...]]:
    """Read sites as `build_sites`, with more resources; return the findings, too."""
    racks = [add_location({**build_rack("r1"), "id": f"/{site}/racks/r1"}, site) for site in shown]
    machines = [
        add_location(
            {**build_machine(name, slot, rackId=f"/{site}/racks/r1"), "id": f"/{site}/m/{name}"},
            site,
        )
        for site, names in shown.items()
        for slot, name in enumerate(names, 1)
    ]
    documents = {"racks": racks, "bare_metal_machines": machines, **more}
    return read_sites(
        {kind: [(kind, json.dumps(them).encode())] for kind, them in documents.items()}
    )


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
        # half is not a majority.
        ({"new": "ab"}, {"old": "abcd"}, ["new-cl"]),
        ({"new": "abc"}, {}, ["new-cl"]),
        ({"new": "xyz"}, {"old": "abc"}, ["new-cl"]),
        # The state has both.
        ({"new": "abc"}, {"new-cl": "abc", "old": "abc"}, ["new-cl"]),
        # The export has this name, too.
        ({"new": "abc", "old": "xyz"}, {"old-cl": "abc"}, ["new-cl", "old-cl"]),
        ({"new": "abc", "other": "abc"}, {"old": "abc"}, ["new-cl", "other-cl"]),  # ambiguous
        ({"new": "abc"}, {"old": "ab", "older": "bc"}, ["new-cl"]),
        ({"new": "abc", "other": "def"}, {"old": "abc", "older": "def"}, ["old", "older"]),
    ],
)
def test_site_keeps_unambiguous_name_of_state(
    shown: Mapping[str, str], in_state: Mapping[str, str], names: list[str]
) -> None:
    assert (
        sorted(
            site.name
            for site in apply_recorded_site_names(
                build_sites(shown), build_recorded_racks(in_state)
            )
        )
        == names
    )


def test_vms_identify_their_site_by_machines() -> None:
    cluster = {
        "id": "old/k",
        "site_id": "old",
        "nodes": {"k-0": {"machine": "a", "rack": "r1"}, "k-1": {"machine": None, "rack": None}},
    }
    pool = {
        "id": "old/k/p",
        "kubernetes_cluster_id": "old/k",
        "nodes": {"k-2": {"machine": "b", "rack": "r1"}},
    }
    vm = {"id": "old/v", "site_id": "old", "machine": "c", "rack": "r1"}
    for one in (cluster, pool, vm):
        assert [
            site.name for site in apply_recorded_site_names(build_sites({"new": "abc"}), [one])
        ] == ["old"]


@pytest.mark.parametrize(
    ("pools", "count"),
    [
        pytest.param(("np1", "np2"), 0, id="one node per pool has its number"),
        pytest.param(("np1", "np1"), 1, id="two nodes of a pool"),
    ],
)
def test_unknown_creation_order_of_nodes_is_reported(pools: tuple[str, str], count: int) -> None:
    nodes = [build_node(f"n{number}", "m1", pool=pool) for number, pool in enumerate(pools)]
    clusters = [build_cluster(build_node("n", "m1"), name="a"), build_cluster(*nodes, name="k")]
    _, findings = read_sites(build_documents(kubernetes_clusters=clusters))
    texts = [finding.detail for finding in findings if finding.id == "creation-times-not-captured"]
    assert len(texts) == count
    for text in texts:
        assert "for 1 of 2 clusters (k)" in text
        assert text.endswith("kubectl --context k get nodes --output json > nodes.k.json")


@pytest.mark.parametrize(
    ("vms", "texts"),
    [
        ({"value": [build_vm("v", "m1")], "nextLink": "https://x.test/2"}, ["one page of several"]),
        (build_vm("v", "m1"), ["single virtual machines, but no list"]),
        ([build_vm("v", "m1")], []),
    ],
)
def test_incomplete_list_of_vms_is_reported_once(vms: Any, texts: list[str]) -> None:
    _, findings = read_sites(build_documents(kubernetes_clusters=[], virtual_machines=vms))
    details = [
        finding.detail
        for finding in findings
        if re.search(r"virtual machines|several", finding.detail)
    ]
    assert len(details) == len(texts), details
    assert all(text in detail for text, detail in zip(texts, details, strict=True))


@pytest.mark.parametrize(
    ("machine", "sites", "is_listed"),
    [("/new/m/a", ["new-cl"], True), ("/other/m/d", ["other-cl"], True), ("", [], False)],
)
def test_vm_without_location_is_on_the_site_of_its_machine(
    machine: str, sites: list[str], is_listed: bool
) -> None:
    vm = {**build_vm("v", "a"), "bareMetalMachineId": machine}
    found, findings = read_shown_sites({"new": "abc", "other": "def"}, virtual_machines=[vm])
    assert [site.name for site in found if site.inventory.virtual_machines] == sites
    # An ignored VM leaves the list of its kind incomplete.
    listed = ["virtual_machines" in site.inventory.listed_kinds for site in found]
    assert listed == [is_listed] * 2
    assert any(finding.id == "unknown-site-assignment" for finding in findings) != is_listed
