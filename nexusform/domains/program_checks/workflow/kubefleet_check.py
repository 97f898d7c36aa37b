"""`plan -check-with=kubefleet=DIR`.

The check compares the clusters of new placements with those picked by a running hub agent.

DIR also has the definitions of KubeFleet's kinds in `crds/`. Members join with the labels, taints,
properties and resources of the plan. Only cluster-scoped placements without earlier bindings are
checked: they need no history.
"""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from nexusform.domains.fleet.planning.fleet_phases import find_planned_fleet
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.rendering.manifest_export import render_fleet_manifests
from nexusform.domains.fleet.scheduling.bindings import BindingState, Health, Member
from nexusform.domains.program_checks.workflow.kubernetes_objects import Body
from nexusform.domains.program_checks.workflow.loopback_programs import (
    LoopbackPrograms,
    ProgramProblem,
    open_programs,
)
from nexusform.json_data.plain_data import get_mapping
from nexusform.network.web_errors import find_free_port
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan_checks import DecisionDifference, ProgramCheck
from nexusform.resource_types.registry import build_registries
from nexusform.workflow.program_checks import ProgramCheckOutcome, ProgramCheckProblem

PROGRAM: Final = "kubefleet"
_AGENT: Final = "hubagent"
_MEMBERS: Final = "/apis/cluster.kubernetes-fleet.io/v1beta1"
_PLACEMENTS: Final = "/apis/placement.kubernetes-fleet.io/v1beta1"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_HEALTH: Final = {Health.HEALTHY: "True", Health.UNHEALTHY: "False"}
_MERGE: Final = "merge-patch"
_MEMBER_SECONDS: Final = 120.0
# The scheduler ignores members after 5 minutes without a heartbeat.
_HEARTBEAT_SECONDS: Final = 60.0
# Version of the module in the build information of Go: hubagent prints none.
_MODULE: Final = re.compile(rb"(?:mod|dep)\tgithub\.com/kubefleet-dev/kubefleet\tv([\w.+-]{1,80})")


def check_with_kubefleet(
    result: PlanResult, locations: Mapping[str, str], seconds: float
) -> ProgramCheckOutcome:
    """Compare the clusters of new cluster-scoped placements with those chosen by the hub agent.

    `locations` has the directory of its programs; after `seconds`, the other placements are left
    out. Raises ProgramCheckProblem.
    """
    programs = locations[PROGRAM]
    fleet = find_planned_fleet(result)
    placements: list[PlacementPlan] = []
    members: tuple[Member, ...] = ()
    if fleet is not None:
        placements = list(fleet.outcome.placements.values())
        members = fleet.outcome.member_list.members
    new_placements = [
        placement
        for placement in placements
        if placement.spec.is_new
        and not placement.spec.configuration.namespace
        and not placement.is_left_unchanged
    ]
    manifests = yaml.safe_load_all(render_fleet_manifests(result.plan, build_registries()).text)
    manifests_by_name = {
        body["metadata"]["name"]: body
        for body in manifests
        if isinstance(body, dict) and body.get("kind") == "ClusterResourcePlacement"
    }
    if any(member.health not in _HEALTH for member in members):
        raise ProgramCheckProblem("A member has not joined, or reports no health.")
    end = time.monotonic() + seconds
    has_timed_out = False
    try:
        version = read_agent_version(Path(programs, _AGENT))
        with open_programs(programs) as running:
            start_hub_agent(running, Path(programs))
            check = FleetCheck(running, version, manifests_by_name)
            check.join_members(members)
            for placement in new_placements:
                has_timed_out = time.monotonic() > end
                if has_timed_out:
                    break
                check.check_placement(placement)
    except ProgramProblem as problem:
        raise ProgramCheckProblem(str(problem)) from None
    # The total includes those that are not checked.
    total = len([placement for placement in placements if placement.needs_scheduling])
    summary = ProgramCheck(
        PROGRAM, version, check.checked, total, "placement", tuple(check.differences)
    )
    return ProgramCheckOutcome(summary, tuple(check.cases), has_timed_out)


def read_agent_version(program: Path) -> str:
    """Read the version in the build information of a hub agent, else "of unknown version".

    Raises ProgramProblem.
    """
    try:
        found = _MODULE.search(program.read_bytes())
    except OSError as problem:
        raise ProgramProblem(f"{program} cannot be read: {problem.strerror}.") from None
    return found[1].decode() if found and found[1] != b"0.0.0" else "of unknown version"


def start_hub_agent(running: LoopbackPrograms, programs: Path) -> None:
    """Start an API server with the kinds (CRDs) of KubeFleet, then its hub agent.

    Raises ProgramProblem.
    """
    files = sorted((programs / "crds").glob("*.yaml"))
    if not files:
        raise ProgramProblem(
            f"{programs / 'crds'} has no definitions (config/crd/bases of KubeFleet)."
        )
    running.start_api_server()
    names = []
    for file in files:
        try:
            body = yaml.safe_load(file.read_text("utf-8"))
            names.append(body["metadata"]["name"])
        except (OSError, yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError):
            raise ProgramProblem(f"{file} is not a definition of a kind.") from None
        running.call("POST", _DEFINITIONS, body)
    running.call(
        "POST", "/api/v1/namespaces", build_named_object("v1", "Namespace", "fleet-system")
    )
    for name in names:
        running.wait_for("kube-apiserver", partial(_is_custom_resource_served, running, name))
    running.start(
        _AGENT,
        "--leader-elect=false",
        f"--metrics-bind-address=127.0.0.1:{find_free_port()}",
        f"--health-probe-bind-address=127.0.0.1:{find_free_port()}",
        "--enable-webhook=false",
        "--enable-guard-rail=false",
        "--enable-cluster-inventory-apis=false",
        "--resource-snapshot-creation-minimum-interval=0s",
        "--resource-changes-collection-duration=0s",
        environment={"KUBECONFIG": str(running.kubeconfig), "POD_NAMESPACE": "fleet-system"},
    )


class FleetCheck:
    """Running hub with its members, and the results so far.

    `manifests` are the placements by name.
    """

    def __init__(
        self, running: LoopbackPrograms, version: str, manifests: Mapping[str, Body]
    ) -> None:
        """Prepare a check with running programs, without members yet.

        `manifests` are the exported placements by name.
        """
        self.checked = 0
        self.differences: list[DecisionDifference] = []
        self.cases: list[Body] = []
        self._running = running
        self._version = version
        self._manifests = manifests
        self._members: list[Body] = []
        # Path, member and generation of each agent.
        self._agents: list[tuple[str, Member, int]] = []
        self._last_heartbeat = 0.0

    def join_members(self, members: tuple[Member, ...]) -> None:
        """Create the members, report their status as agents do, and wait until all joined.

        Raises ProgramProblem.
        """
        for member in members:
            body = build_named_object(
                "cluster.kubernetes-fleet.io/v1beta1", "MemberCluster", member.name
            )
            body["metadata"]["labels"] = dict(member.labels)
            taints = [
                {"key": taint.key, "value": taint.value, "effect": taint.effect}
                for taint in member.taints
            ]
            identity = {"kind": "User", "name": "member", "apiGroup": "rbac.authorization.k8s.io"}
            body["spec"] = {"identity": identity, "taints": taints}
            self._members.append(self._running.call("POST", f"{_MEMBERS}/memberclusters", body))
        for member in members:
            name = member.name
            path = f"{_MEMBERS}/namespaces/fleet-member-{name}/internalmemberclusters/{name}"
            agent = self._running.wait_for(
                _AGENT, partial(self._running.call, "GET", path), _MEMBER_SECONDS
            )
            # For the heartbeats.
            self._agents.append((path, member, agent["metadata"]["generation"]))
        self._send_heartbeats()
        for index, member in enumerate(members):
            path = f"{_MEMBERS}/memberclusters/{member.name}"
            self._running.wait_for(_AGENT, partial(self._has_joined, path), _MEMBER_SECONDS)
            self._members[index] = self._running.call("GET", path)

    def _send_heartbeats(self) -> None:
        """Report the status of every member, as its agent does."""
        self._last_heartbeat = time.monotonic()
        for path, member, generation in self._agents:
            status = _build_member_agent_status(member, generation)
            self._running.call("PATCH", f"{path}/status", {"status": status}, _MERGE)

    def _has_joined(self, path: str) -> bool:
        return bool(self._running.call("GET", path).get("status", {}).get("agentStatus"))

    def check_placement(self, placement: PlacementPlan) -> None:
        """Compare the clusters of a placement with the hub agent's; record any difference.

        Raises ProgramProblem.
        """
        name = placement.spec.configuration.name
        manifest = self._manifests.get(name)
        # Not part of the exported manifests.
        if manifest is None:
            return
        if time.monotonic() > self._last_heartbeat + _HEARTBEAT_SECONDS:
            self._send_heartbeats()
        # Resources have no effect on the choice of clusters.
        selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing"}
        policy = {"policy": manifest["spec"]["policy"]} if manifest["spec"].get("policy") else {}
        body = build_named_object(
            "placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement", name
        )
        body["spec"] = {**policy, "resourceSelectors": [selector]}
        path = f"{_PLACEMENTS}/clusterresourceplacements"
        self._running.call("POST", path, body)
        # Of the condition Scheduled at each poll; "" before the decision.
        statuses: list[str] = []

        def is_decided() -> bool:
            statuses.append(find_scheduled_status(self._running.call("GET", f"{path}/{name}")))
            return bool(statuses[-1])

        self._running.wait_for(_AGENT, is_decided, _MEMBER_SECONDS)
        actual = {
            item["spec"]["targetCluster"]: read_binding_scores(item["spec"])
            for item in self.list_bindings(name)
            if item["spec"]["state"] != "Unscheduled"
        }
        scheduled_bindings = [
            item for item in placement.bindings if item.state is not BindingState.UNSCHEDULED
        ]
        predicted = sorted(binding.cluster for binding in scheduled_bindings)
        self.checked += 1
        if predicted == list(actual):  # both sorted
            return
        self.differences.append(
            DecisionDifference(placement.address, name, ", ".join(predicted), ", ".join(actual))
        )
        self.cases.append(
            {
                "system": PROGRAM,
                "version": self._version,
                "snapshot": {
                    "members": self._members,
                    "placement": None,
                    "bindings": [],
                    "fulfilled": False,
                },
                "request": {"members": self._members, "placement": body},
                "decision": {"clusters": actual, "fulfilled": statuses[-1] == "True"},
                "equivalent": [],
            }
        )

    def list_bindings(self, name: str) -> list[Body]:
        """Return the bindings of a placement by cluster.

        Raises ProgramProblem.
        """
        query = f"labelSelector=kubernetes-fleet.io/parent-CRP={name}"
        bindings: list[Body] = self._running.call(
            "GET", f"{_PLACEMENTS}/clusterresourcebindings?{query}"
        )["items"]
        return sorted(bindings, key=lambda item: str(item["spec"]["targetCluster"]))


def _build_member_agent_status(member: Member, generation: int) -> Body:
    """Build the status reported by the agent of a member."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": kind,
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": now,
        }
        for kind, status in (("Joined", "True"), ("Healthy", _HEALTH[member.health]))
    ]
    resources = member.resources
    amounts = {
        "capacity": resources.total,
        "allocatable": resources.allocatable,
        "available": resources.available,
    }
    return {
        "agentStatus": [
            {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": now}
        ],
        "properties": {
            name: {"value": text, "observationTime": now}
            for name, text in member.properties.items()
        },
        "resourceUsage": {
            "observationTime": now,
            **{
                kind: {name: str(value) for name, value in item.items()}
                for kind, item in amounts.items()
            },
        },
    }


def build_named_object(version: str, kind: str, name: str) -> dict[str, Any]:
    """Build an object with a name."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _is_custom_resource_served(running: LoopbackPrograms, name: str) -> bool:
    conditions = (
        running.call("GET", f"{_DEFINITIONS}/{name}").get("status", {}).get("conditions", ())
    )
    return ("Established", "True") in {(item["type"], item["status"]) for item in conditions}


def find_scheduled_status(placement: Body) -> str:
    """Return the status of the condition Scheduled, "" if the scheduler has not decided."""
    for item in placement.get("status", {}).get("conditions", ()):
        is_current = item.get("observedGeneration") == placement["metadata"]["generation"]
        if (
            item["type"] == "ClusterResourcePlacementScheduled"
            and item["status"] != "Unknown"
            and is_current
        ):
            return str(item["status"])
    return ""


def read_binding_scores(spec: Body) -> dict[str, int | None]:
    """Return the scores of a binding.

    KubeFleet names the score for topology spread "priorityScore".
    """
    scores = get_mapping(spec, "clusterDecision", "clusterScore")
    return {"affinity": scores.get("affinityScore"), "topologySpread": scores.get("priorityScore")}
