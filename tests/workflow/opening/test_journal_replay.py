"""Tests of the replay of a journal onto its state."""

from __future__ import annotations

from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import parse_address
from nexusform.state.attribute_validation import SCHEMA_VERSION
from nexusform.state.journal import InstanceOutcome, encode_journal_record
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.workflow.opening.journal_replay import replay_journal


def test_object_of_a_newer_schema_is_an_error() -> None:
    """A newer nexusform was interrupted; its attributes may mean something else here."""
    address = parse_address("nexus_site.s")
    schemas = build_registries().schemas["managed"]

    for version in (SCHEMA_VERSION, SCHEMA_VERSION + 1):
        site = ObjectState({"name": "lab"}, 1, schema_version=version)
        line = encode_journal_record(InstanceOutcome(address, 1, InstanceState(site)))
        draft, _, problems = replay_journal(State(), [line], "journal of s", schemas)
        if version == SCHEMA_VERSION:
            assert draft is not None
            continue
        assert draft is None
        (detail,) = [problem.detail for problem in problems]
        assert detail.startswith("The journal of s, nexus_site.s: This object was written by a")
        assert detail.endswith("Use a newer nexusform.")
