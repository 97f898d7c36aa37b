"""Tests of the text of unread facts."""

from __future__ import annotations

import pytest

from nexusform.documents.unread_facts import UnreadFact
from nexusform.placements.unread_ledger import UnreadLedger


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
    facts = tuple(UnreadFact(kind, name, "properties", "hot.yaml", 3) for name in names)
    text = UnreadLedger(facts).describe()
    assert text.startswith(f"properties of {subjects} (hot.yaml:3); ")


def test_templates_of_several_resources_are_counted() -> None:
    facts = tuple(
        UnreadFact("template", "", "heat_template_version", "base_hot", 1, address=address)
        for address in ("tacker_vnf.a", "tacker_vnf.b")
    )
    assert UnreadLedger(facts).describe().startswith("heat_template_version of 2 templates (")
