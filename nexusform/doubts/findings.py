"""Table of the findings with a doubt: the possible effects of a finding on its subject.

A finding is a doubt if a source lacks something, or a real system rejects or ignores it.
Domains of other distributions declare theirs (`DiagnosticTraits.may_change`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem
from nexusform.domain_table import collect_diagnostic_traits
from nexusform.doubts.doubt import Doubt, Influence

# A source lacks VMs: their capacity counts as free, and platforms place other VMs elsewhere.
_VMS_MISSING: Final = (Influence.CAPACITY, Influence.CHOICE)
# A source lacks objects of a hub or of clusters: changes of them are not detected.
_OBJECTS_MISSING: Final = (Influence.CHANGES,)
# The missing objects also decide on placements.
_PLACEMENTS_UNKNOWN: Final = (Influence.CHANGES, Influence.BINDINGS)
# A real system rejects or lacks something of the subject, or acts otherwise than the plan.
_SUBJECT_UNCERTAIN: Final = (Influence.PLACEMENT,)
_MISSING_VMS_CAUSE: Final = "a source lacks VMs (see the warnings)"
FINDINGS: Final[Mapping[tuple[Influence, ...], str]] = {
    _VMS_MISSING: (
        "vms-without-machine site-not-captured state-not-refreshed vms-not-captured "
        # A VM on a machine that the export lacks: it may lack others, too.
        "unknown-machine "
        # A part of another tool's plan has no prediction.
        "resource-not-predicted "
        "incomplete-list incomplete-openstack-inventory"
    ),
    # Content of clusters, by which no placement is decided.
    _OBJECTS_MISSING: "missing-snapshot",
    _PLACEMENTS_UNKNOWN: (
        "not-captured repeated-binding unread-fleet-objects unknown-member-health "
        "unknown-heartbeat-age"
    ),
    _SUBJECT_UNCERTAIN: (
        # Azure and other platforms of VMs, and Tacker.
        "network-not-on-site duplicate-running-vms "
        "anti-affinity-below-two-instances rules-left-out-by-tacker rejected-by-heat "
        # Hubs and API servers.
        "hub-behaviour-differs invalid-resource-selectors missing-cluster-definition "
        "missing-cluster-namespace missing-hub-namespace unknown-resource-kind "
        "invalid-fleet-manifest invalid-kubernetes-manifest ignored-envelope "
        "ineffective-delete-strategy older-property-name "
        # Read otherwise than it is written, because a hub rejects it so.
        "corrected-manifest "
        # kube-scheduler does not check it, so pods may not start on their nodes.
        "volume-on-several-nodes"
    ),
}
_INFLUENCES_BY_ID: Final[Mapping[str, tuple[Influence, ...]]] = {
    **{name: influences for influences, names in FINDINGS.items() for name in names.split()},
    **{
        name: tuple(map(Influence, traits.may_change))
        for name, traits in collect_diagnostic_traits().items()
        if traits.may_change
    },
}


def get_influences(finding_id: str) -> tuple[Influence, ...]:
    """Return the possible effects of a finding with this id, () for one without a doubt."""
    return _INFLUENCES_BY_ID.get(finding_id, ())


def hides_capacity(finding_id: str) -> bool:
    """Return whether a finding is about missing data: its capacity counts as free."""
    return Influence.CAPACITY in get_influences(finding_id)


def hides_bindings(finding_id: str) -> bool:
    """Return whether a finding is about missing data with an effect on placements of a fleet."""
    return Influence.BINDINGS in get_influences(finding_id)


def build_finding_doubts(findings: Iterable[Diagnostic | Problem]) -> tuple[Doubt, ...]:
    """Build the doubts of findings: one per possible effect of a finding, each once.

    Missing data is a doubt about the site of the finding ("": any). Any other doubt is about the
    object of the finding.
    """
    doubts: dict[Doubt, None] = {}
    for finding in findings:
        for influence in get_influences(finding.id):
            doubt = Doubt(
                "site",
                finding.site_id,
                may_change=influence,
                reason=_MISSING_VMS_CAUSE,
                site_id=finding.site_id,
                finding=finding.id,
            )
            if influence is Influence.PLACEMENT:
                reason = f"the finding {finding.id}"
                doubt = replace(
                    doubt, kind="object", name="", reason=reason, address=finding.address
                )
            if influence is not Influence.PLACEMENT or finding.address:
                doubts[doubt] = None
    return tuple(doubts)
