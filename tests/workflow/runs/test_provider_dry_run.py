"""Which changes a provider is asked to validate beside an error of the plan."""

from __future__ import annotations

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.workflow.runs.provider_dry_run import create_validation_check
from tests.planning.harness import RACKS, build_request, cluster, plan, pool

CONFIGURATION = RACKS + cluster("a", pools=pool("p", 1)) + cluster("b", pools=pool("p", 1))


def build_error_of(address: str) -> Diagnostic:
    return build_error("does-not-fit", "It does not fit.", address=address)


@pytest.mark.parametrize(
    ("address", "reasons"),
    [
        # An error without a source position concerns its object and what depends on it.
        (
            "nexus_kubernetes_cluster.a",
            {"nexus_kubernetes_cluster.a": "it has an error", "nexus_kubernetes_cluster.b": ""},
        ),
        (
            'nexus_kubernetes_cluster.a["x"]',
            {"nexus_kubernetes_cluster.a": "it has an error", "nexus_kubernetes_cluster.b": ""},
        ),
        (
            "nexus_site.s",
            {
                "nexus_kubernetes_cluster.a": "it depends on nexus_site.s, which has an error",
                "nexus_kubernetes_cluster.b": "it depends on nexus_site.s, which has an error",
            },
        ),
        # Of no known object: it may concern every change.
        (
            "",
            {
                "nexus_kubernetes_cluster.a": "the plan has an error (Does not fit)",
                "nexus_kubernetes_cluster.b": "the plan has an error (Does not fit)",
            },
        ),
    ],
)
def test_error_without_a_position_concerns_its_object(
    address: str, reasons: dict[str, str]
) -> None:
    result = plan(CONFIGURATION)
    request = build_request(CONFIGURATION)
    explain_flaw = create_validation_check(result, request.configuration, [build_error_of(address)])
    explained = {str(change.address): explain_flaw(change) for change in result.plan.changes}
    assert {name: explained[name] for name in reasons} == reasons
