"""Pod Security: own pods for each rule, in each level and version of the policy."""

from __future__ import annotations

import pytest

from nexusform.domains.pods.importers.pod_security import POLICY_RULES, PodContent, find_violations
from tests.domains.pods.importers.security_pods import (
    BASELINE,
    RESTRICTED,
    Body,
    build_safe_pod,
    find_rejection,
    list_security_pods,
)

PODS = list(list_security_pods())


@pytest.mark.parametrize("level", ["privileged", BASELINE, RESTRICTED])
@pytest.mark.parametrize(("pod", "levels"), PODS, ids=[pod["metadata"]["name"] for pod, _ in PODS])
def test_level_rejects_pods_that_violate_its_rules(pod: Body, levels: set[str], level: str) -> None:
    assert bool(find_rejection(pod, level)) == (level in levels)


def test_each_rule_rejects_some_pod() -> None:
    annotation = "seccomp.security.alpha.kubernetes.io/pod"
    old_pod = build_safe_pod("old")
    old_pod["metadata"]["annotations"][annotation] = "unconfined"
    broken_checks = set()
    for pod in (*(pod for pod, _ in PODS), old_pod):
        content = PodContent(pod["metadata"]["annotations"], pod["spec"])
        for rule in POLICY_RULES:
            for version in rule.versions:
                if version.find_violation(content):
                    broken_checks.add((rule.id, version.minor))
    all_checks = {(rule.id, version.minor) for rule in POLICY_RULES for version in rule.versions}
    assert broken_checks == all_checks


def test_text_is_the_one_of_kubernetes() -> None:
    pod = build_safe_pod("p")
    pod["spec"]["containers"][0]["securityContext"] = {"capabilities": {"add": ["NET_ADMIN"]}}
    assert find_rejection(pod, BASELINE) == (
        'violates PodSecurity "baseline:latest": non-default capabilities (container "c" must not '
        'include "NET_ADMIN" in securityContext.capabilities.add)'
    )


def test_rule_of_restricted_replaces_the_one_of_baseline() -> None:
    pod = build_safe_pod("p")
    context = pod["spec"]["containers"][0]["securityContext"]
    context["capabilities"] = {"drop": ["ALL"], "add": ["NET_ADMIN"]}
    pod["spec"]["volumes"] = [{"name": "v", "hostPath": {"path": "/"}}]
    violations = find_violations(RESTRICTED, 34, PodContent({}, pod["spec"]))
    assert [item.reason for item in violations] == [
        "unrestricted capabilities",
        "restricted volume types",
    ]


def test_version_of_the_policy_decides() -> None:
    pod = build_safe_pod("p")
    sysctl = {"name": "net.ipv4.tcp_rmem", "value": "1"}
    pod["spec"]["securityContext"] = {"sysctls": [sysctl]}
    assert find_rejection(pod, BASELINE, "v1.31")
    assert not find_rejection(pod, BASELINE, "v1.32")
    # The latest policy of an older cluster is that of its version.
    assert find_rejection(pod, BASELINE, "latest", (1, 31))
    assert find_rejection(pod, BASELINE, "v1.40", (1, 31))
    assert not find_rejection(pod, BASELINE, "wrong", (1, 32))


def test_unknown_level_is_restricted() -> None:
    pod = build_safe_pod("p")
    del pod["spec"]["containers"][0]["securityContext"]["seccompProfile"]
    assert find_rejection(pod, "strict").startswith('violates PodSecurity "restricted:latest"')


def test_wrong_types_are_no_crash() -> None:
    spec = {"containers": [None, "a", {"securityContext": [], "ports": {}}], "volumes": "v"}
    assert find_violations(RESTRICTED, 37, PodContent({}, spec))
