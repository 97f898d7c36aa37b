"""Pod Security on a running API server: each own pod is created or rejected as predicted."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.domains.hub.api_programs import PROGRAMS, ApiPrograms
from tests.domains.pods.importers.security_pods import (
    BASELINE,
    RESTRICTED,
    Body,
    build_labels,
    find_rejection,
    list_security_pods,
)

PODS = [pod for pod, _ in list_security_pods()]
# Versions of the policy before and after each change of a rule.
VERSIONS = ("", "latest", "v1.0", "v1.7", "v1.18", "v1.21", "v1.24", "v1.28", "v1.33", "v1.36")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiPrograms]:
    if not all((PROGRAMS / name).is_file() for name in ("etcd", "kube-apiserver")):
        pytest.skip("NEXUSFORM_HUB_PROGRAMS names no API server")
    where = tmp_path_factory.mktemp("pod-security")
    programs = ApiPrograms(PROGRAMS, where / "no-kinds", where)
    yield programs
    programs.close()


def create_object(server: ApiPrograms, path: str, body: Body) -> tuple[bool, str]:
    """Create an object as a dry run; return whether the server created it, and its message."""
    url = f"{server.url}{path}?dryRun=All"
    headers = {"Authorization": "Bearer admin-token", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    context = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(request, context=context, timeout=20):
            return True, ""
    except urllib.error.HTTPError as problem:
        return False, str(json.loads(problem.read())["message"])


def read_version(server: ApiPrograms) -> tuple[int, ...]:
    answer = server.call("GET", "/version")
    return int(answer["major"]), int(answer["minor"].rstrip("+"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("level", ["privileged", BASELINE, RESTRICTED])
def test_running_server_decides_the_same(server: ApiPrograms, level: str, version: str) -> None:
    namespace = f"ns-{level}-{version.replace('.', '-') or 'none'}"
    metadata = {"name": namespace, "labels": build_labels(level, version)}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    server.apply(f"/api/v1/namespaces/{namespace}", body)
    cluster_version = read_version(server)
    differences = []
    compared_count = 0
    for pod in PODS:
        is_created, message = create_object(server, f"/api/v1/namespaces/{namespace}/pods", pod)
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
