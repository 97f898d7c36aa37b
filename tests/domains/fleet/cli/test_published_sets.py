"""Tests of published sets of manifests, without and with the argument `namespace`.

The files are not part of the tests. They are read from clones of their repositories at the commits
below, in the directory NEXUSFORM_PUBLISHED_SETS: `git clone https://github.com/kubernetes/examples
kubernetes+examples`.
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
COMMITS: Final = {
    EXAMPLES: "279e8e4fe314f6cb7bc55fa3fbc21bbeaa48c0ea",
    ROLLOUTS: "9f8d111d8f8e3e88b6d7f8bbdf62fd3cd863ef9d",
    METALLB: "7938d3f89b8bd808dae2e42d97d6ae7e18e9ed54",
    LONGHORN: "bb2f2223a6f7b5d97a98b7e765937fe48a1b96f7",
}


OLD_VERSION: Final = "PodDisruptionBudget is not served as policy/v1beta1; write policy/v1"
NO_SUBJECT: Final = "subjects[0].namespace must be set for a ServiceAccount"
OTHER_NAMESPACE: Final = 'but namespace = "web" is set.'


class PublishedSet(Struct, frozen=True):
    """Manifests of a file or directory in a repository, with the expected answers.

    `objects` are all, `unnamed` those that the warning about missing namespaces counts. With
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
    PublishedSet(ROLLOUTS, "examples", 21, 6, selected=22),
    PublishedSet(ROLLOUTS, "examples/traffic-routing-experiment-step", 13, 9, selected=14),
    PublishedSet(ROLLOUTS, "examples/istio", 9, 3, selected=10),
    PublishedSet(EXAMPLES, "_archived/spark", 8, 7, selected=8),
    PublishedSet(EXAMPLES, "_archived/storage/mysql-galera", 7, 7, selected=8),
    PublishedSet(ROLLOUTS, "docs/getting-started/istio", 7, 2, selected=8),
    PublishedSet(ROLLOUTS, "manifests/namespace-install.yaml", 10, 7, selected=8),
    PublishedSet(EXAMPLES, "_archived/cpu-manager", 6, 6, selected=1),
    PublishedSet(EXAMPLES, "_archived/elasticsearch/production_cluster", 6, 6, selected=7),
    PublishedSet(EXAMPLES, "_archived/volumes/nfs", 7, 6, selected=7),
    PublishedSet(EXAMPLES, "web/guestbook-go", 6, 6, selected=7),
    PublishedSet(EXAMPLES, "web/guestbook", 6, 6, selected=7),
    PublishedSet(METALLB, "config/rbac", 10, 0, errors=2, reason=NO_SUBJECT),
    PublishedSet(EXAMPLES, "_archived/elasticsearch", 5, 5, selected=6),
    PublishedSet(ROLLOUTS, "docs/getting-started/alb", 5, 4, selected=6),
    PublishedSet(ROLLOUTS, "examples/ambassador", 5, 2, selected=6),
    PublishedSet(ROLLOUTS, "manifests/base", 8, 5, selected=6),
    PublishedSet(ROLLOUTS, "manifests/install.yaml", 15, 5, selected=6),
    PublishedSet(EXAMPLES, "AI/model-serving-tensorflow", 5, 4, selected=5),
    PublishedSet(EXAMPLES, "_archived/cockroachdb", 4, 0, errors=1, reason=OLD_VERSION),
    PublishedSet(EXAMPLES, "_archived/selenium", 4, 4, selected=5),
    PublishedSet(EXAMPLES, "_archived/storage/redis", 4, 4, selected=4),
    PublishedSet(EXAMPLES, "_archived/storage/rethinkdb", 4, 4, selected=4),
    PublishedSet(ROLLOUTS, "docs/getting-started/mixed", 4, 3, selected=5),
    PublishedSet(ROLLOUTS, "docs/getting-started/nginx", 4, 3, selected=5),
    PublishedSet(ROLLOUTS, "docs/getting-started/smi", 4, 3, selected=5),
    PublishedSet(ROLLOUTS, "examples/apisix", 4, 2, selected=5),
    PublishedSet(LONGHORN, "examples/snapshot", 6, 4, errors=2),
    PublishedSet(METALLB, "config/prometheus-frr", 6, 2, errors=3),
    PublishedSet(METALLB, "config/prometheus-native", 6, 2, errors=3),
    PublishedSet(LONGHORN, "dev/upgrade-responder/manifests", 7, 3, errors=4),
    PublishedSet(METALLB, "configsamples/deployment_bgp.yaml", 6, 2, errors=4),
    PublishedSet(METALLB, "configsamples/deployment_l2.yaml", 4, 2, errors=2),
    PublishedSet(ROLLOUTS, "examples/appmesh", 13, 0, errors=11),
    PublishedSet(LONGHORN, "examples/rwx", 4, 1, errors=2),
    PublishedSet(LONGHORN, "examples/deployment.yaml", 3, 1, errors=2),
    PublishedSet(LONGHORN, "examples/rwx/rwx-nginx-deployment.yaml", 3, 1, errors=2),
    PublishedSet(EXAMPLES, "_archived/spark/spark-gluster", 4, 0, errors=4),
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
