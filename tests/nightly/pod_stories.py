"""Changes of small clusters, run against the real controllers.

Clusters have unhealthy pods, autoscalers, admission and quotas. A scenario has nodes, existing
objects, manually set facts (`prepare`), and a change. nexusform predicts it from kubectl output;
then the change is applied. A certain pod must be on its predicted node.

Run: NEXUSFORM_HUB_PROGRAMS=DIR python -m tests.nightly.pod_stories MINUTES VERSION [FIRST_SEED
[NAME [RECORDS]]]. Without a seed, the recorded stories are continued (comparison_record.py).
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from nexusform.domains.fleet.planning.fleet_phases import PlannedFleet, find_planned_fleet
from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.planning.object_pods import ObjectPods, RejectedPods
from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import is_recreated
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.kubernetes.dump_script import CLUSTER_KINDS
from nexusform.planning.plan_request import ValueOverride
from tests.nightly import comparison_record
from tests.nightly.comparison_record import DecisionRecord
from tests.nightly.live_cluster import (
    PATHS,
    Body,
    LiveCluster,
    build_priority_classes,
    start_cluster,
)
from tests.nightly.pod_worlds import _MEMBER
from tests.planning.harness import plan, require_success

SOURCE = "pod_stories"
PRIORITIES = {"low": -10, "high": 1000}
# Kinds of objects in scenarios, deleted after each one.
_OWN_KINDS = (
    "HorizontalPodAutoscaler",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "MutatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "ConfigMap",
    "Secret",
    "RuntimeClass",
)
# Of each pod that names no other one.
SERVICE_ACCOUNT: Body = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default", "namespace": "default"},
}
# A label of the namespace in some scenarios.
ENFORCE = "pod-security.kubernetes.io/enforce"


class Story(Struct):
    """Change of a cluster.

    `before` exists and has settled when `prepare` sets statuses; `change` are the manifests of the
    plan. `finish` performs the actions of other programs meanwhile. `lingering` are labels of pods
    with slow termination. After `quiet_seconds` without a change the pods are final. `outdate`
    changes the cluster between the dump and the apply: the change is predicted from both dumps.
    """

    nodes: list[Body]
    change: list[Body]
    before: list[Body] = field(default_factory=list)
    prepare: Callable[[LiveCluster], None] = lambda _: None
    finish: Callable[[LiveCluster], None] = lambda _: None
    lingering: str = ""
    quiet_seconds: float = 2.5
    outdate: Callable[[LiveCluster], None] | None = None


class StoryResult(Struct):
    """Comparison of one scenario.

    It has the numbers of pods and certain ones, the wrong ones, and the dump and manifests.
    `outdated` are the wrong ones by the dump before the cluster changed.
    """

    pods: int = 0
    certain: int = 0
    wrong: list[str] = field(default_factory=list)
    dump: list[Body] = field(default_factory=list)
    real: list[Body] = field(default_factory=list)
    records: list[DecisionRecord] = field(default_factory=list)
    outdated: list[str] = field(default_factory=list)


def run_story(cluster: LiveCluster, story: Story) -> StoryResult:
    """Run a scenario, and compare the prediction from its dump with the pods afterwards."""
    cluster.keeps_unready = _find_start_error
    cluster.keeps_terminating = lambda pod: (
        pod["metadata"].get("labels", {}).get("app", "") == (story.lingering or "-")
    )
    for body in story.nodes:
        cluster.create(body)
    for body in story.before:
        answer = (
            cluster.apply(body)
            if body["kind"] not in ("Pod", "ReplicaSet")
            else cluster.create(body)
        )
        assert "error" not in answer, (body, answer)
    if any(body["kind"] in _WORKLOADS for body in story.before):
        cluster.wait_until_settled()
    time.sleep(0.3)
    story.prepare(cluster)
    time.sleep(0.5)
    dump = list_dump(cluster)
    old_dump = dump
    if story.outdate is not None:
        story.outdate(cluster)
        cluster.wait_until_settled()
        dump = list_dump(cluster)
    for body in story.change:
        cluster.apply(body)
    story.finish(cluster)
    real = cluster.wait_until_settled(story.quiet_seconds)
    result = compare_story(dump, story.change, real)
    if story.outdate is not None:
        result.outdated = compare_story(old_dump, story.change, real).wrong
    clear_story(cluster)
    return result


_WORKLOADS = (
    *("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"),
    "Pod",
)


def clear_story(cluster: LiveCluster) -> None:
    """Delete all objects of a scenario."""
    cluster.keeps_terminating = lambda _: False
    has_policies = bool(cluster.list_all("MutatingAdmissionPolicy"))
    for kind in _OWN_KINDS:
        cluster.delete(kind)
    cluster.delete("ServiceAccount", "runner")
    cluster.label_namespace(ENFORCE, None)
    cluster.clear()
    # No garbage collector runs: a StatefulSet of the same name would use them.
    cluster.delete("ControllerRevision")
    if has_policies:
        # The API server applies a deleted policy a little longer.
        time.sleep(3)


def _find_start_error(pod: Body) -> str:
    images = [container["image"] for container in pod["spec"]["containers"]]
    return "ImagePullBackOff" if any(image.startswith("bad") for image in images) else ""


def list_dump(cluster: LiveCluster) -> list[Body]:
    """Return the objects of all kinds listed by the script of `inventory script`."""
    return [body for kind in CLUSTER_KINDS if kind in PATHS for body in cluster.list_all(kind)]


def plan_story(dump: Sequence[Body], change: Iterable[Body]) -> PlannedFleet:
    """Return the plan of a change of the dumped cluster."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(dump)}).encode()
    values = ValueOverride(
        None, "kubernetes_nodes", {"objects": parse_kubectl_files([("n.json", text)]).encode()}
    )
    manifests = "\n---\n".join(json.dumps(body) for body in change)
    # HCL reads these marks of shell scripts and Go templates as its own.
    manifests = manifests.replace("${", "$${").replace("%{", "%%{")
    block = (
        f'resource "fleet_hub_manifest" "m" {{\n  cluster_id = "m1"\n  yaml_body = <<-EOT\n'
        f"{manifests}\nEOT\n}}\n"
    )
    fleet = find_planned_fleet(require_success(plan(_MEMBER + block, data_overrides=(values,))))
    assert fleet is not None
    return fleet


def predict_story(
    dump: Sequence[Body], change: Iterable[Body]
) -> list[tuple[ObjectPods, PodOutcome]]:
    """Return the outcomes of the changed workloads with the pods of their objects."""
    return _list_rows(plan_story(dump, change))


def _list_rows(fleet: PlannedFleet) -> list[tuple[ObjectPods, PodOutcome]]:
    rows = []
    for object_pods in fleet.pods._object_pods.values():
        outcomes = [*object_pods.list_all_outcomes(), *object_pods.removed_outcomes]
        rows += [(object_pods, outcome) for outcome in outcomes]
    return rows


def compare_story(
    dump: Sequence[Body], change: Sequence[Body], real: Sequence[Body]
) -> StoryResult:
    """Compare the certain pods with the real ones.

    Pre-existing pods are compared by name, others by node and image. A workload whose pods the API
    server rejects by prediction must have none of its new ones.
    """
    images = {(body["kind"], body["metadata"]["name"]): _get_images(body) for body in change}
    by_workload: dict[str, list[tuple[ObjectPods, PodOutcome]]] = {}
    fleet = plan_story(dump, change)
    for object_pods, outcome in _list_rows(fleet):
        by_workload.setdefault(outcome.workload, []).append((object_pods, outcome))
    result = StoryResult(dump=list(dump), real=list(real))
    for item in fleet.pods._object_pods.values():
        for rejected in item.rejections:
            _, kind, name = rejected.workload.key.split("/", 2)
            pods = [pod for pod in real if _get_owner(pod) == (kind, name) and _is_active(pod)]
            result.records += [((name,), False) for name in _list_rejecting_kinds(rejected)]
            if len(pods) > len(item.list_outcomes(rejected.workload.key)):
                result.wrong.append(f"{rejected.workload.key}: rejected ({rejected.reason})")
    for key, rows in by_workload.items():
        _, kind, name = key.split("/", 2)
        pods = [pod for pod in real if _get_owner(pod) == (kind, name) and _is_active(pod)]
        before = [body for body in dump if body["kind"] == "Pod" and _is_active(body)]
        existing = [pod for pod in before if pod["metadata"]["labels"].get("app") == name]
        result.records += [
            (comparison_record.list_names(object_pods, outcome), outcome.is_certain)
            for object_pods, outcome in rows
            if outcome.trigger and object_pods.inputs is not None
        ]
        result.pods += len(rows)
        result.certain += sum(outcome.is_certain for _, outcome in rows)
        for text in _find_wrong_predictions(
            key, rows, existing, pods, images.get((kind, name), set())
        ):
            shown = sorted(
                (pod["metadata"]["name"], pod["spec"].get("nodeName", "")) for pod in pods
            )
            result.wrong.append(f"{key}: {text}; pods are {shown}")
    return result


def _list_rejecting_kinds(rejected: RejectedPods) -> list[str]:
    """Return the kind of object behind a rejection; none for quotas, which reject some pods."""
    name = _REJECTING_KINDS.get(rejected.workload.rejected_by)
    return [name] if name else []


_REJECTING_KINDS = {
    "PodSecurity": "Pod Security levels",
    "ServiceAccount": "ServiceAccounts",
    "PriorityClass": "PriorityClasses",
    "RuntimeClass": "RuntimeClasses",
}


def _find_wrong_predictions(
    key: str,
    rows: Sequence[tuple[ObjectPods, PodOutcome]],
    existing: Sequence[Body],
    pods: Sequence[Body],
    images: set[str],
) -> Iterable[str]:
    names = {pod["metadata"]["name"]: pod for pod in pods}
    kept = [outcome for _, outcome in rows if outcome.action != pod_outcomes.REMOVE]
    if "/StatefulSet/" not in key:
        yield from _compare_existing(rows, existing, names)
    if "/StatefulSet/" in key or not is_recreated(key):
        for outcome in kept:
            pod = names.get(outcome.name)
            place = (pod["spec"].get("nodeName", ""), _is_current(pod, images)) if pod else None
            template = outcome.spec.template if outcome.spec else ""
            is_former = template.startswith("seen-")
            if outcome.is_certain and place != (outcome.node, not is_former):
                yield (
                    f"{outcome.name} certainly on {outcome.node or 'no node'} (former: "
                    f"{is_former}), is at {place}"
                )
    else:
        certain = Counter(
            (item.node, not (item.spec and item.spec.template.startswith("seen-")))
            for item in kept
            if item.is_certain
        )
        found = Counter((pod["spec"].get("nodeName", ""), _is_current(pod, images)) for pod in pods)
        if certain - found:
            yield f"certainly {dict(certain)} (node, current template), are {dict(found)}"
    if kept and all(outcome.is_certain for outcome in kept) and len(kept) != len(pods):
        yield f"certainly {len(kept)} pods"


def _compare_existing(
    rows: Sequence[tuple[ObjectPods, PodOutcome]],
    existing: Sequence[Body],
    names: Mapping[str, Body],
) -> Iterable[str]:
    """Compare the existing pods certainly kept or removed by node.

    Pods of one node are interchangeable.
    """
    for action, is_kept in ((pod_outcomes.KEEP, True), (pod_outcomes.REMOVE, False)):
        certain = Counter(
            item.previous for _, item in rows if item.action == action and item.is_certain
        )
        pods = [pod for pod in existing if (pod["metadata"]["name"] in names) == is_kept]
        found = Counter(pod["spec"].get("nodeName", "") for pod in pods)
        if certain - found:
            yield f"certain to {action}: {dict(certain)}, but are {dict(found)}"


def _get_images(body: Body) -> set[str]:
    spec = (
        body["spec"] if body["kind"] == "Pod" else body["spec"].get("template", {}).get("spec", {})
    )
    return {container["image"].rpartition("/")[2] for container in spec.get("containers", ())}


def _is_current(pod: Body, images: set[str]) -> bool:
    """Return whether a pod has the images of a manifest, possibly from a mirror."""
    return images <= {
        container["image"].rpartition("/")[2] for container in pod["spec"]["containers"]
    }


def _get_owner(pod: Body) -> tuple[str, str]:
    owners = pod["metadata"].get("ownerReferences") or [
        {"kind": "Pod", "name": pod["metadata"]["name"]}
    ]
    kind = owners[0]["kind"]
    name = owners[0]["name"]
    has_hash = kind == "ReplicaSet" and "pod-template-hash" in pod["metadata"].get("labels", {})
    return ("Deployment", name.rpartition("-")[0]) if has_hash else (kind, name)


def _is_active(pod: Body) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in (
        "Succeeded",
        "Failed",
    )


def run_stories(
    stories: Mapping[str, Callable[..., Story]],
    minutes: float,
    version: str,
    first: int | None,
    only: str = "",
    directory_of_records: Path | None = None,
) -> int:
    """Print the result of each scenario and the totals.

    Return 1 if a certain pod is wrong.
    """
    comparison_record.ignore_missing_comparisons()
    end = time.monotonic() + 60 * minutes
    total = StoryResult()
    count = 0
    source = f"{SOURCE}, {only}" if only else SOURCE
    stories = {name: story for name, story in stories.items() if only in name}
    first_number = comparison_record.find_next_seed(source, version) if first is None else 0
    with (
        tempfile.TemporaryDirectory() as directory,
        start_cluster(Path(directory), has_stories=True) as cluster,
    ):
        for body in (*build_priority_classes(PRIORITIES), SERVICE_ACCOUNT):
            cluster.create(body)
        for number in itertools.count(first_number):
            if time.monotonic() > end:
                break
            name = list(stories)[number % len(stories)]
            seed = number // len(stories) + (first or 0)
            story = stories[name](random.Random(f"{name}-{seed}"))
            for node in story.nodes:
                node["status"]["nodeInfo"]["kubeletVersion"] = f"v{version}"
            try:
                result = run_story(cluster, story)
            except Exception:  # noqa: BLE001 - the other stories still run
                traceback.print_exc(file=sys.stdout)
                result = StoryResult(wrong=["failed"])
                clear_story(cluster)
            count += 1
            total.certain += result.certain
            total.pods += result.pods
            total.wrong += result.wrong
            print(f"{name} {seed}: {result.certain} of {result.pods} pods certain", flush=True)
            for text in result.wrong:
                print(f"  WRONG {text}", flush=True)
            for text in result.outdated:
                print(f"  OUTDATED {text}", flush=True)
            if first is None:
                records = [] if result.wrong else result.records
                comparison_record.add_world(source, version, records)
            if directory_of_records is not None:
                record = {"change": story.change, "dump": result.dump, "real": result.real}
                path = directory_of_records / f"{name}-{seed}.json".replace(" ", "-")
                path.write_text(json.dumps(record))
    print(f"{count} stories, {total.pods} pods, {total.certain} certain, {len(total.wrong)} wrong")
    return int(bool(total.wrong))


if __name__ == "__main__":
    from tests.nightly.story_table import STORIES

    arguments = [*sys.argv[1:], "", "", ""]
    directory_of_records = Path(arguments[4]) if arguments[4] else None
    first_seed = int(arguments[2]) if arguments[2] else None
    sys.exit(
        run_stories(
            STORIES,
            float(arguments[0]),
            arguments[1],
            first_seed,
            arguments[3],
            directory_of_records,
        )
    )
