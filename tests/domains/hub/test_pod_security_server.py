"""Pod Security on a running API server: each own pod is created or rejected as predicted."""

from __future__ import annotations

import pytest

from tests.domains.hub.api_programs import ApiPrograms
from tests.domains.pods.importers.security_pods import (
    BASELINE,
    RESTRICTED,
    build_labels,
    find_rejection,
    list_security_pods,
)

PODS = [pod for pod, _ in list_security_pods()]
# Versions of the policy before and after each change of a rule.
VERSIONS = ("", "latest", "v1.0", "v1.7", "v1.18", "v1.21", "v1.24", "v1.28", "v1.33", "v1.36")


def read_version(api_server: ApiPrograms) -> tuple[int, ...]:
    answer = api_server.call("GET", "/version")
    return int(answer["major"]), int(answer["minor"].rstrip("+"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("level", ["privileged", BASELINE, RESTRICTED])
def test_running_server_decides_the_same(api_server: ApiPrograms, level: str, version: str) -> None:
    namespace = f"ns-{level}-{version.replace('.', '-') or 'none'}"
    metadata = {"name": namespace, "labels": build_labels(level, version)}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    api_server.apply(f"/api/v1/namespaces/{namespace}", body)
    cluster_version = read_version(api_server)
    differences = []
    compared_count = 0
    for pod in PODS:
        message = api_server.try_creation(f"/api/v1/namespaces/{namespace}/pods", pod)
        is_created = not message
        if not is_created and "violates PodSecurity" not in message:
            # Validation, which no level decides.
            continue
        compared_count += 1
        rejection = find_rejection(pod, level, version, cluster_version)
        # An annotation of AppArmor is copied to its field first, and the message names both.
        is_same_text = rejection in message or "AppArmor" in message
        if is_created == bool(rejection) or not (is_created or is_same_text):
            differences.append((pod["metadata"]["name"], message, rejection))
    assert differences == []
    assert compared_count > len(PODS) * 0.9
