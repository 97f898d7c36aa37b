"""Questions to the programs in NEXUSFORM_KUBEFLEET_JUDGE, which decide with KubeFleet's own code.

build_judge.sh makes them; they need no API server.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

FOLDER: Final = os.environ.get("NEXUSFORM_KUBEFLEET_JUDGE", "")
needs_judge = pytest.mark.skipif(
    not FOLDER, reason="NEXUSFORM_KUBEFLEET_JUDGE names no folder with KubeFleet's judges"
)
CASES: Final = int(os.environ.get("NEXUSFORM_JUDGED_CASES", "300"))
FIRST_SEED: Final = int(os.environ.get("NEXUSFORM_JUDGED_SEED", "118"))


def ask_judge(program: str, questions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of a program, one to each question."""
    texts = [json.dumps(question) + "\n" for question in questions]
    answer = subprocess.run(
        [Path(FOLDER) / program], input="".join(texts), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in answer.stdout.splitlines()]
    assert len(answers) == len(texts)
    return answers


def select(objects: Sequence[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind in the version of the judge."""
    return [
        {**item, "apiVersion": f"{str(item['apiVersion']).partition('/')[0]}/v1beta1"}
        for item in objects
        if item["kind"] == kind
    ]


def build_scheduling_question(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "placement": select(objects, "ClusterResourcePlacement")[0],
        "snapshot": select(objects, "ClusterSchedulingPolicySnapshot")[-1],
        "members": select(objects, "MemberCluster"),
        "bindings": select(objects, "ClusterResourceBinding"),
    }


def complete_snapshots(objects: Iterable[Any], policy_hash: str) -> None:
    """Add what every hub writes to snapshots, with the hash that KubeFleet computes of a policy."""
    for body in objects:
        if body["kind"] == "ClusterSchedulingPolicySnapshot":
            body["spec"]["policyHash"] = base64.b64encode(policy_hash.encode()).decode()
            scheduled = {"type": "Scheduled", "status": "True", "observedGeneration": 1}
            body["status"] = {"conditions": [scheduled]}
        if "Snapshot" in body["kind"]:
            annotations = body["metadata"].setdefault("annotations", {})
            annotations["kubernetes-fleet.io/CRP-generation"] = "1"
            annotations["kubernetes-fleet.io/resource-hash"] = "of another version"
