"""Tests of published sets of manifests, without and with the argument `namespace`.

The files are not part of the tests. They are read from clones of their
repositories at the commits below, in the directory NEXUSFORM_PUBLISHED_SETS: `git
clone https://github.com/kubernetes/examples kubernetes+examples`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from tests.domains.fleet.planning.fleet_harness import build_member
from tests.planning.harness import attributes, build_state_after, list_errors, list_warnings, plan

EXAMPLES: Final = "kubernetes/examples"
ROLLOUTS: Final = "argoproj/argo-rollouts"
METALLB: Final = "metallb/metallb"
LONGHORN: Final = "longhorn/longhorn"
FLUX: Final = "fluxcd/flux2"
ISTIO: Final = "istio/istio"
INGRESS: Final = "kubernetes/ingress-nginx"
BOUTIQUE: Final = "GoogleCloudPlatform/microservices-demo"
KNATIVE: Final = "knative/serving"
STRIMZI: Final = "strimzi/strimzi-kafka-operator"
ROOK: Final = "rook/rook"
ARGO_CD: Final = "argoproj/argo-cd"
CERT_MANAGER: Final = "cert-manager/cert-manager"
PROMETHEUS: Final = "prometheus-operator/kube-prometheus"
MULTUS: Final = "k8snetworkplumbingwg/multus-cni"
FREE5GC: Final = "niloysh/free5gc-k8s"
OPEN5GS: Final = "niloysh/open5gs-k8s"
COMMITS: Final = {
    EXAMPLES: "279e8e4fe314f6cb7bc55fa3fbc21bbeaa48c0ea",
    ROLLOUTS: "9f8d111d8f8e3e88b6d7f8bbdf62fd3cd863ef9d",
    METALLB: "7938d3f89b8bd808dae2e42d97d6ae7e18e9ed54",
    LONGHORN: "bb2f2223a6f7b5d97a98b7e765937fe48a1b96f7",
    FLUX: "da2d22d3690191a315822612085f424e4133b06a",
    ISTIO: "86c9f01fd735fb01d8192f5bcaf0d424afb7f14c",
    INGRESS: "dbb11b92ddb77bee9c35e462479129354c84f939",
    BOUTIQUE: "34ffea9175946982c3088ed84994fe6019ad6e92",
    KNATIVE: "98e5ef90aa7033797aa0a61ef97f3ff7e49a3944",
    STRIMZI: "8541da1e336bdcda9647aeacfbc2048e57580a52",
    ROOK: "d0c3b9ce6d64ff0c47074437aab7314b7adf7f2c",
    ARGO_CD: "37ee0097cf851bc2dd7665fc081bbce61a7e836e",
    CERT_MANAGER: "2d0d7f7f74241a9cbf79f0e2a7bb247238ee09fd",
    PROMETHEUS: "4d719f1dea8853540b3823ab1fbe6be74a9953b3",
    MULTUS: "95a0932350f0060cd232096876e24672a1de83fa",
    FREE5GC: "7c74867b263bbbb7790f9605b704663de929f3fe",
    OPEN5GS: "d81cbeac2a6504979065cdff9d09a87389b1e9b6",
}


OLD_VERSION: Final = "PodDisruptionBudget is not served as policy/v1beta1; write policy/v1"
NO_SUBJECT: Final = "subjects[0].namespace must be set for a ServiceAccount"
DUPLICATE: Final = "is already defined at line"
OTHER_NAMESPACE: Final = 'but namespace = "web" is set.'


class PublishedSet(Struct, frozen=True):
    """Manifests of a file or directory in a repository, with the expected answers.

    `objects` are all, `unnamed` those that the warning about missing namespaces counts: namespaced
    ones, and those of kinds that the set does not define. With
    `namespace`, a placement of the namespace has `selected` objects, or `errors` name objects of
    other namespaces. With a `reason`, the errors have this text instead, without `namespace`, too.
    """

    repository: str
    path: str
    objects: int
    unnamed: int
    selected: int = 0
    errors: int = 0
    reason: str = ""


SETS: Final = (
    PublishedSet(ROLLOUTS, "examples", 21, 21, selected=22),
    PublishedSet(ROLLOUTS, "examples/traffic-routing-experiment-step", 13, 13, selected=14),
    PublishedSet(ROLLOUTS, "examples/istio", 9, 9, selected=10),
    PublishedSet(EXAMPLES, "_archived/spark", 8, 7, selected=8),
    PublishedSet(EXAMPLES, "_archived/storage/mysql-galera", 7, 7, selected=8),
    PublishedSet(ROLLOUTS, "docs/getting-started/istio", 7, 7, selected=8),
    PublishedSet(ROLLOUTS, "manifests/namespace-install.yaml", 10, 7, selected=8),
    PublishedSet(EXAMPLES, "_archived/cpu-manager", 6, 6, selected=1),
    PublishedSet(EXAMPLES, "_archived/elasticsearch/production_cluster", 6, 6, selected=7),
    PublishedSet(EXAMPLES, "_archived/volumes/nfs", 7, 6, selected=7),
    PublishedSet(EXAMPLES, "web/guestbook-go", 6, 6, selected=7),
    PublishedSet(EXAMPLES, "web/guestbook", 6, 6, selected=7),
    PublishedSet(METALLB, "config/rbac", 10, 0, errors=2, reason=NO_SUBJECT),
    PublishedSet(EXAMPLES, "_archived/elasticsearch", 5, 5, selected=6),
    PublishedSet(ROLLOUTS, "docs/getting-started/alb", 5, 5, selected=6),
    PublishedSet(ROLLOUTS, "examples/ambassador", 5, 5, selected=6),
    PublishedSet(ROLLOUTS, "manifests/base", 8, 5, selected=6),
    PublishedSet(ROLLOUTS, "manifests/install.yaml", 15, 5, selected=6),
    PublishedSet(EXAMPLES, "AI/model-serving-tensorflow", 5, 4, selected=5),
    PublishedSet(EXAMPLES, "_archived/cockroachdb", 4, 0, errors=1, reason=OLD_VERSION),
    PublishedSet(EXAMPLES, "_archived/selenium", 4, 4, selected=5),
    PublishedSet(EXAMPLES, "_archived/storage/redis", 4, 4, selected=4),
    PublishedSet(EXAMPLES, "_archived/storage/rethinkdb", 4, 4, selected=4),
    PublishedSet(ROLLOUTS, "docs/getting-started/mixed", 4, 4, selected=5),
    PublishedSet(ROLLOUTS, "docs/getting-started/nginx", 4, 4, selected=5),
    PublishedSet(ROLLOUTS, "docs/getting-started/smi", 4, 4, selected=5),
    PublishedSet(ROLLOUTS, "examples/apisix", 4, 4, selected=5),
    PublishedSet(LONGHORN, "examples/snapshot", 6, 4, errors=2),
    PublishedSet(METALLB, "config/prometheus-frr", 6, 3, errors=3),
    PublishedSet(METALLB, "config/prometheus-native", 6, 3, errors=3),
    PublishedSet(LONGHORN, "dev/upgrade-responder/manifests", 7, 3, errors=4),
    PublishedSet(METALLB, "configsamples/deployment_bgp.yaml", 6, 2, errors=4),
    PublishedSet(METALLB, "configsamples/deployment_l2.yaml", 4, 2, errors=2),
    PublishedSet(ROLLOUTS, "examples/appmesh", 13, 1, errors=11),
    PublishedSet(LONGHORN, "examples/rwx", 4, 1, errors=2),
    PublishedSet(LONGHORN, "examples/deployment.yaml", 3, 1, errors=2),
    PublishedSet(LONGHORN, "examples/rwx/rwx-nginx-deployment.yaml", 3, 1, errors=2),
    PublishedSet(EXAMPLES, "_archived/spark/spark-gluster", 4, 0, errors=4),
    PublishedSet(FLUX, "manifests/rbac", 6, 1, selected=2),
    PublishedSet(FLUX, "manifests/policies", 3, 3, selected=4),
    PublishedSet(ISTIO, "samples/bookinfo/platform/kube/bookinfo.yaml", 14, 14, selected=15),
    PublishedSet(ISTIO, "samples/bookinfo/gateway-api", 10, 0, errors=4, reason=DUPLICATE),
    PublishedSet(ISTIO, "samples/tcp-echo", 15, 0, errors=8, reason=DUPLICATE),
    PublishedSet(ISTIO, "samples/addons", 32, 0, errors=26),
    PublishedSet(ISTIO, "samples/httpbin", 7, 0, errors=2, reason=DUPLICATE),
    PublishedSet(ISTIO, "samples/helloworld", 8, 0, errors=3, reason=DUPLICATE),
    PublishedSet(ISTIO, "samples/extauthz", 7, 7, selected=8),
    PublishedSet(ISTIO, "samples/open-telemetry", 3, 3, selected=4),
    PublishedSet(ISTIO, "samples/sleep", 3, 3, selected=4),
    PublishedSet(INGRESS, "docs/examples/static-ip", 3, 3, selected=4),
    PublishedSet(INGRESS, "deploy/static/provider/cloud", 19, 0, errors=12),
    PublishedSet(BOUTIQUE, "kubernetes-manifests", 35, 35, selected=36),
    PublishedSet(BOUTIQUE, "istio-manifests", 5, 5, selected=6),
    PublishedSet(BOUTIQUE, "release/kubernetes-manifests.yaml", 35, 35, selected=36),
    PublishedSet(BOUTIQUE, "kustomize/components/network-policies", 13, 13, selected=14),
    PublishedSet(KNATIVE, "config/core/deployments", 12, 0, errors=12),
    PublishedSet(KNATIVE, "config/core/200-roles", 9, 0, errors=1),
    PublishedSet(KNATIVE, "config/core/webhooks", 4, 0, errors=1),
    PublishedSet(STRIMZI, "install/cluster-operator", 27, 7, selected=8),
    PublishedSet(STRIMZI, "install/drain-cleaner/kubernetes", 9, 0, errors=5),
    PublishedSet(STRIMZI, "install/drain-cleaner/certmanager", 11, 0, errors=7),
    PublishedSet(STRIMZI, "examples/kafka", 13, 0, errors=9, reason=DUPLICATE),
    PublishedSet(STRIMZI, "examples/connect", 3, 0, errors=1, reason=DUPLICATE),
    PublishedSet(STRIMZI, "install/topic-operator", 5, 4, selected=5),
    PublishedSet(ROOK, "deploy/examples/common.yaml", 36, 0, errors=21),
    PublishedSet(ROOK, "deploy/examples/crds.yaml", 21, 0, selected=1),
    PublishedSet(ROOK, "deploy/examples/operator.yaml", 6, 0, errors=6),
    PublishedSet(ROOK, "deploy/examples/cluster.yaml", 1, 0, errors=1),
    PublishedSet(ROOK, "deploy/examples/toolbox.yaml", 1, 0, errors=1),
    PublishedSet(ROOK, "deploy/examples/wordpress.yaml", 3, 3, selected=4),
    PublishedSet(ARGO_CD, "manifests/install.yaml", 59, 50, selected=51),
    PublishedSet(ARGO_CD, "manifests/namespace-install.yaml", 50, 50, selected=51),
    PublishedSet(ARGO_CD, "manifests/ha/install.yaml", 70, 61, selected=62),
    PublishedSet(ARGO_CD, "manifests/base/server", 7, 7, selected=8),
    PublishedSet(ARGO_CD, "manifests/base/redis", 6, 6, selected=7),
    PublishedSet(ARGO_CD, "manifests/base/dex", 6, 6, selected=7),
    PublishedSet(CERT_MANAGER, "deploy/crds", 6, 0, selected=1),
    PublishedSet(CERT_MANAGER, "make/config/kgateway", 2, 0, errors=2),
    PublishedSet(PROMETHEUS, "manifests", 120, 0, errors=104),
    PublishedSet(PROMETHEUS, "examples/example-app", 10, 0, errors=10),
    PublishedSet(MULTUS, "deployments/multus-daemonset.yml", 6, 0, errors=3),
    PublishedSet(MULTUS, "deployments/multus-daemonset-thick.yml", 6, 0, errors=3),
    PublishedSet(FREE5GC, "mongodb", 3, 3, selected=4),
    PublishedSet(FREE5GC, "free5gc/common/udm", 3, 3, selected=4),
    PublishedSet(FREE5GC, "free5gc/common/amf", 3, 3, selected=4),
    PublishedSet(FREE5GC, "free5gc-webui", 3, 3, selected=4),
    PublishedSet(OPEN5GS, "open5gs/common/amf", 3, 3, selected=4),
    PublishedSet(OPEN5GS, "open5gs/common/nrf", 3, 3, selected=4),
    PublishedSet(PROMETHEUS, "manifests/setup", 11, 0, selected=1),
)
DIRECTORY: Final = os.environ.get("NEXUSFORM_PUBLISHED_SETS", "")
NAMESPACE: Final = json.dumps(
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
)
PLACEMENT: Final = """
resource "fleet_cluster_resource_placement" "p" {
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type = "PickAll"
  }
}
"""


def read_set(published: PublishedSet) -> str:
    """Return the documents of a set; skip the test without its repository."""
    clone = Path(DIRECTORY) / published.repository.replace("/", "+")
    if not DIRECTORY or not clone.is_dir():
        url = f"https://github.com/{published.repository}"
        pytest.skip(f"NEXUSFORM_PUBLISHED_SETS names no directory with a clone of {url}")
    commit = COMMITS[published.repository]

    def read(*words: str) -> str:
        command = ["git", "-C", str(clone), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    names = read("ls-tree", "-r", "--name-only", commit).splitlines()
    files = [
        name
        for name in names
        if name == published.path
        or (name.rpartition("/")[0] == published.path and _is_manifest(name))
    ]
    return "\n---\n".join(read("show", f"{commit}:{name}") for name in files)


def _is_manifest(name: str) -> bool:
    is_other = "kustomization" in name or "patch" in name
    return name.endswith((".yaml", ".yml")) and not is_other


def build_block(name: str, text: str, argument: str = "") -> str:
    """Return the block of hub objects with a text."""
    quoted = json.dumps(text).replace("${", "$${").replace("%{", "%%{")
    return f"""
resource "fleet_hub_manifest" "{name}" {{
  {argument}
  yaml_body = {quoted}
}}
"""


def build_fleet(text: str, argument: str = "") -> str:
    """Return a fleet whose placement selects the namespace web."""
    blocks = build_block("web", NAMESPACE) + build_block("set", text, argument)
    return build_member("a") + blocks + PLACEMENT


@pytest.mark.parametrize("published", SETS, ids=lambda item: f"{item.repository}/{item.path}")
def test_published_set(published: PublishedSet) -> None:
    text = read_set(published)
    result = plan(build_fleet(text))
    errors = [error.detail for error in list_errors(result)]
    if published.reason:
        assert len(errors) == published.errors
        assert all(published.reason in detail for detail in errors)
    else:
        assert errors == []
        selected = attributes(build_state_after(result), "fleet_cluster_resource_placement.p")[
            "selected_resources"
        ]
        assert [item["kind"] for item in selected] == ["Namespace"]
        warnings = [w.detail for w in list_warnings(result) if w.id == "object-without-namespace"]
        counts = [re.sub(r"^yaml_body:\d+: (\d+) objects? .*", r"\1", text) for text in warnings]
        assert counts == ([str(published.unnamed)] if published.unnamed else [])
    result = plan(build_fleet(text, 'namespace = "web"'))
    errors = [error.detail for error in list_errors(result)]
    assert len(errors) == published.errors, errors
    if not published.errors:
        selected = attributes(build_state_after(result), "fleet_cluster_resource_placement.p")[
            "selected_resources"
        ]
        assert len(selected) == published.selected
    else:
        assert all((published.reason or OTHER_NAMESPACE) in detail for detail in errors)
