"""Tests of the text of unread facts."""

from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.doubts.findings import build_finding_doubts
from nexusform.doubts.ledger import DoubtLedger, PlacedPool, build_ledger


@pytest.mark.parametrize(
    ("kind", "names", "subjects"),
    [
        ("server", "ab", "2 servers"),
        ("template", [""], "the template"),
        ("image", ["m"], "image m"),
        ("image", ["", "m"], "2 images"),
        ("flavor", "ab", "2 flavors"),
        ("server network", "ab", "2 server networks"),
        ("server group", "ab", "2 server groups"),
        ("scaling policy", "ab", "2 scaling policies"),
        ("resource", ["a b", "a c"], "2 resources"),
        ("port", "ab", "2 ports"),
    ],
)
def test_subjects_of_one_kind_are_counted_by_their_noun(
    kind: str, names: list[str], subjects: str
) -> None:
    facts = tuple(Doubt(kind, name, "properties", "hot.yaml", 3) for name in names)
    text = DoubtLedger(facts).describe()
    assert text.startswith(f"properties of {subjects} (hot.yaml:3); ")


def test_templates_of_several_resources_are_counted() -> None:
    facts = tuple(
        Doubt("template", "", "heat_template_version", "base_hot", 1, address=address)
        for address in ("tacker_vnf.a", "tacker_vnf.b")
    )
    assert DoubtLedger(facts).describe().startswith("heat_template_version of 2 templates (")


def build_fact(field: str, address: str, influence: Influence = Influence.PLACEMENT) -> Doubt:
    return Doubt("server", "s", field, "hot.yaml", 3, influence, address=address)


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ([("a", "v.one"), ("b", "")], "a"),
        ([("b", ""), ("a", "v.one")], "b"),
        ([("x", "v.two"), ("b", "")], "b"),
        ([("x", "v.two")], ""),
        ([("c", "v.one", Influence.CAPACITY), ("a", "v.one")], "a"),
        ([("o", "v.one", Influence.ORDER), ("b", "")], "b"),
    ],
)
def test_first_fact_of_the_object_or_of_all_explains_a_pool(
    facts: list[tuple[str, str]], field: str
) -> None:
    ledger = DoubtLedger(tuple(build_fact(*fact) for fact in facts))
    fact = ledger.find_doubt_of_pool(PlacedPool("lab", "v.one", "p", is_decided=True))
    assert (fact.field if fact is not None else "") == field


@pytest.mark.parametrize(("site_id", "is_certain"), [("", False), ("lab", False), ("other", True)])
def test_missing_vms_concern_the_named_site_or_all(site_id: str, is_certain: bool) -> None:
    findings = [build_warning("vms-not-captured", site_id=site_id), build_warning("no-changes")]
    ledger = build_ledger((), (), build_finding_doubts(findings))
    assert ledger.lacks_capacity_data
    assert ledger.has_unknown_capacity
    pool = PlacedPool("lab", "v.one", "p", is_decided=False)
    assert ledger.has_certain_hosts(pool) == is_certain
    assert ledger.has_certain_hosts(PlacedPool("lab", "v.one", "p", is_decided=True))


@pytest.mark.parametrize(("site_id", "is_known"), [("", False), ("lab", False), ("other", True)])
def test_ledger_of_a_site_leaves_out_other_sites(site_id: str, is_known: bool) -> None:
    fact = Doubt("rack", "r", "new", "racks.json", 1, Influence.CAPACITY, site_id=site_id)
    by_fact = build_ledger((fact,), ())
    finding = build_warning("vms-not-captured", site_id=site_id)
    by_finding = build_ledger((), (), build_finding_doubts([finding]))
    for ledger in (by_fact, by_finding):
        assert ledger.has_unknown_capacity
        assert ledger.select_sites({"lab"}).has_unknown_capacity != is_known
    assert bool(by_fact.select_sites({"lab"}).describe()) != is_known


def test_unknown_hardware_is_that_of_its_site() -> None:
    ledger = DoubtLedger((Doubt("site", "lab", may_change=Influence.CAPACITY, site_id="lab"),))
    assert ledger.select_sites({"lab", "other"}).has_unknown_capacity
    assert not ledger.select_sites({"other"}).has_unknown_capacity
