"""Compare random changes of fleets with a running hub agent, change by change.

Clusters, reasons, snapshots, conditions and rollouts of each plan are compared with the hub.
Run: NEXUSFORM_HUB_PROGRAMS=DIR NEXUSFORM_HUB_CASES=DIR python -m tests.nightly.hub_stories
MINUTES [FLEETS] [SEED]
"""

from __future__ import annotations

import copy
import json
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nexusform.state.objects import EMPTY, State
from tests.domains.hub.api_programs import CRDS, MERGE, PROGRAMS
from tests.domains.hub.real_hub import RealHub
from tests.planning.harness import attributes, build_state_after, list_errors, plan

Body = dict[str, Any]
_PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1"
_CLUSTERS = "/apis/cluster.kubernetes-fleet.io/v1beta1"
_MEMBERS = tuple(f"m{number}" for number in range(6))
_ZONE = "zone"
_PROPERTY = "example.com/rank"
_TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
# By kind: plural, resource type, and the path in front of the plural.
_KINDS: Mapping[str, tuple[str, str, str]] = {
    "ClusterResourcePlacementDisruptionBudget": (
        "clusterresourceplacementdisruptionbudgets",
        "fleet_placement_disruption_budget",
        _PLACEMENTS,
    ),
    "ClusterResourcePlacementEviction": (
        "clusterresourceplacementevictions",
        "fleet_placement_eviction",
        _PLACEMENTS,
    ),
    "Namespace": ("namespaces", "fleet_hub_manifest", "/api/v1"),
    "ConfigMap": ("configmaps", "fleet_hub_manifest", "/api/v1/namespaces/{namespace}"),
    "Deployment": ("deployments", "fleet_hub_manifest", "/apis/apps/v1/namespaces/{namespace}"),
    "ResourceEnvelope": (
        "resourceenvelopes",
        "fleet_hub_manifest",
        f"{_PLACEMENTS}/namespaces/{{namespace}}",
    ),
    "ClusterRole": ("clusterroles", "fleet_hub_manifest", "/apis/rbac.authorization.k8s.io/v1"),
    "ClusterResourceOverride": (
        "clusterresourceoverrides",
        "fleet_cluster_resource_override",
        _PLACEMENTS,
    ),
    "ResourceOverride": (
        "resourceoverrides",
        "fleet_resource_override",
        f"{_PLACEMENTS}/namespaces/{{namespace}}",
    ),
    "ClusterResourcePlacement": (
        "clusterresourceplacements",
        "fleet_cluster_resource_placement",
        _PLACEMENTS,
    ),
    "ResourcePlacement": (
        "resourceplacements",
        "fleet_resource_placement",
        f"{_PLACEMENTS}/namespaces/{{namespace}}",
    ),
    "ClusterStagedUpdateStrategy": (
        "clusterstagedupdatestrategies",
        "fleet_cluster_staged_update_strategy",
        _PLACEMENTS,
    ),
    "ClusterStagedUpdateRun": (
        "clusterstagedupdateruns",
        "fleet_cluster_staged_update_run",
        _PLACEMENTS,
    ),
}
_RUN = "ClusterStagedUpdateRun"
_CRP = "ClusterResourcePlacement"
_RP = "ResourcePlacement"
_EVICTION = "ClusterResourcePlacementEviction"
_FIRST_KINDS = ("ClusterResourcePlacementDisruptionBudget", _EVICTION)
# Longer than the hub agent collects changes of content.
_QUIET_SECONDS = 3.0
_MAX_SECONDS = 90.0
# The longest pause of a rollout in these stories.
_MAX_PAUSE_SECONDS = 120.0


class Member:
    """A member of the fleet as configured."""

    def __init__(self, labels: dict[str, str], rank: int) -> None:
        self.labels = labels
        self.rank: int | None = rank
        self.is_tainted = False


class Story:
    """One random fleet: its objects, and the changes of each step."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.name = f"s{seed}"
        draw = self.random
        self.members = {
            name: Member(
                {"env": draw.choice(("prod", "canary")), _ZONE: draw.choice("abc")},
                draw.randint(1, 9),
            )
            for name in _MEMBERS[: draw.randint(3, 5)]
        }
        # A ResourcePlacement of single objects in its namespace, without evictions and budgets.
        self.is_namespaced = draw.random() < 0.25
        self.placement_kind = _RP if self.is_namespaced else _CRP
        self.is_external = not self.is_namespaced and draw.random() < 0.45
        # Runs with two stages and an approval between them.
        self.has_approvals = self.is_external and draw.random() < 0.5
        # Names of runs.
        self.approved: set[str] = set()
        self.kind = draw.choices(("PickAll", "PickN", "PickFixed"), (3, 4, 1))[0]
        self.objects: dict[tuple[str, str], Body] = {}
        self.steps = draw.randint(4, 8)
        self.number = 0
        self._build_first_objects()

    # --- objects ---------------------------------------------------------------------------------

    def _build_first_objects(self) -> None:
        self._set(self._build("v1", "Namespace", self.name))
        self._set({**self._build("v1", "ConfigMap", "settings"), "data": {"a": "1", "b": "2"}})
        if self.random.random() < 0.6:
            self._set(self._build_deployment(2))
        self._set(
            {
                **self._build("rbac.authorization.k8s.io/v1", "ClusterRole", f"{self.name}-role"),
                "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
            }
        )
        strategy: Body = {"type": "External"}
        if not self.is_external:
            values = {"maxUnavailable": self.random.choice((1, 2, "50%")), "maxSurge": 1}
            rolling = {**values, "unavailablePeriodSeconds": 1}
            strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        if self.random.random() < 0.3:
            self.change_envelope()
        placement = self._build_fleet_object(self.placement_kind, self.name)
        first_selector = (
            ("ConfigMap", "settings") if self.is_namespaced else ("Namespace", self.name)
        )
        placement["spec"] = {
            "resourceSelectors": [self._build_selector(*first_selector)],
            "policy": self._draw_policy(),
            "strategy": strategy,
        }
        self._set(placement)
        if self.is_external:
            stages: list[Body] = [{"name": "all", "labelSelector": {}, "maxConcurrency": "100%"}]
            if self.has_approvals:
                stages = [
                    {
                        "name": env,
                        "labelSelector": {"matchLabels": {"env": env}},
                        "maxConcurrency": "100%",
                    }
                    for env in ("canary", "prod")
                ]
                stages[0]["afterStageTasks"] = [{"type": "Approval"}]
            body = self._build_fleet_object("ClusterStagedUpdateStrategy", self.name)
            self._set({**body, "spec": {"stages": stages}})

    def _build(self, version: str, kind: str, name: str) -> Body:
        metadata: Body = {"name": name}
        if "{namespace}" in _KINDS[kind][2]:
            metadata["namespace"] = self.name
        return {"apiVersion": version, "kind": kind, "metadata": metadata}

    def _build_fleet_object(self, kind: str, name: str) -> Body:
        return self._build("placement.kubernetes-fleet.io/v1beta1", kind, name)

    def _build_deployment(self, replicas: int) -> Body:
        labels = {"app": "web"}
        container = {"name": "web", "image": f"registry.example/web:{self.random.randint(1, 9)}"}
        return {
            **self._build("apps/v1", "Deployment", "web"),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }

    def _build_selector(self, kind: str, name: str) -> Body:
        groups = {"ClusterRole": "rbac.authorization.k8s.io", "Deployment": "apps"}
        return {"group": groups.get(kind, ""), "version": "v1", "kind": kind, "name": name}

    def _draw_policy(self) -> Body:
        draw = self.random
        if self.kind == "PickFixed":
            names = draw.sample(sorted(self.members), min(2, len(self.members)))
            return {"placementType": "PickFixed", "clusterNames": names}
        policy: Body = {"placementType": self.kind}
        if self.kind == "PickN":
            policy["numberOfClusters"] = draw.randint(1, 4)
            if draw.random() < 0.35:
                constraint = {
                    "maxSkew": draw.choice((1, 2)),
                    "topologyKey": _ZONE,
                    "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
                }
                policy["topologySpreadConstraints"] = [constraint]
        shape = draw.choice(("none", "none", "labels", "property", "preferred"))
        terms: Body = {}
        if shape == "labels":
            terms = {"labelSelector": {"matchLabels": {"env": "prod"}}}
        elif shape == "property":
            value = str(draw.randint(2, 6))
            expression = {"name": _PROPERTY, "operator": "Gt", "values": [value]}
            terms = {"propertySelector": {"matchExpressions": [expression]}}
        if terms:
            required = {"clusterSelectorTerms": [terms]}
            rule = "requiredDuringSchedulingIgnoredDuringExecution"
            policy["affinity"] = {"clusterAffinity": {rule: required}}
        elif shape == "preferred" and self.kind == "PickN":
            preference = {"labelSelector": {"matchLabels": {"env": "prod"}}}
            rule = "preferredDuringSchedulingIgnoredDuringExecution"
            item = {"weight": 20, "preference": preference}
            policy["affinity"] = {"clusterAffinity": {rule: [item]}}
        return policy

    def _set(self, body: Body) -> None:
        self.objects[body["kind"], body["metadata"]["name"]] = body

    def _get(self, kind: str, name: str) -> Body | None:
        return self.objects.get((kind, name))

    @property
    def placement(self) -> Body:
        """The body of the placement."""
        return self.objects[self.placement_kind, self.name]

    # --- changes ---------------------------------------------------------------------------------

    def change(self) -> list[str]:
        """Change one to three things; return their names."""
        self.number += 1
        changes: list[tuple[Callable[[], None], int]] = [
            (self.change_data, 3),
            (self.change_deployment, 2),
            (self.edit_silently, 3),
            (self.change_selectors, 2),
            (self.change_policy, 3),
            (self.change_strategy, 1),
            (self.change_override, 2),
            (self.change_envelope, 2),
            (self.relabel_member, 2),
            (self.taint_member, 1),
            (self.change_property, 2),
            (self.join_member, 1),
            (self.leave_member, 1),
        ]
        if not self.is_namespaced:
            changes += [
                (self.remove_namespace, 1),
                (self.change_budget, 1),
                (self.evict_cluster, 2),
            ]
        if self.is_external:
            changes.append((self.start_run, 6))
        if self.has_approvals:
            changes.append((self.approve_run, 6))
        chosen: list[Callable[[], None]] = []
        functions, weights = zip(*changes, strict=True)
        for function in self.random.choices(functions, weights, k=self.random.choice((1, 1, 2, 3))):
            if function not in chosen:
                chosen.append(function)
        # Rollouts go on while a member leaves, and with the settings before a change of them. So
        # nothing else changes with these. The removal of a namespace takes longer than the hub
        # collects changes, so other changes of content may get a snapshot of their own.
        alone = (self.leave_member, self.change_strategy, self.remove_namespace)
        chosen = [function for function in chosen if function in alone][:1] or chosen
        for function in chosen:
            function()
        return [function.__name__ for function in chosen]

    def change_data(self) -> None:
        settings = self._get("ConfigMap", "settings")
        if settings is not None:
            settings["data"]["a"] = str(self.number + 10)

    def change_deployment(self) -> None:
        if self._get("Namespace", self.name) is None:
            return
        if self._get("Deployment", "web") is not None and self.random.random() < 0.4:
            del self.objects["Deployment", "web"]
        else:
            self._set(self._build_deployment(self.random.randint(0, 3)))

    def remove_namespace(self) -> None:
        """Remove the namespace with its content, or add it again."""
        if self._get("Namespace", self.name) is None:
            self._set(self._build("v1", "Namespace", self.name))
            self._set({**self._build("v1", "ConfigMap", "settings"), "data": {"a": "1"}})
            return
        kinds = ("Deployment", "ConfigMap", "ResourceEnvelope")
        for key in [key for key in self.objects if key[0] in kinds]:
            del self.objects[key]
        del self.objects["Namespace", self.name]

    def edit_silently(self) -> None:
        """Edit what a hub does not notice."""
        self.placement["spec"]["resourceSelectors"].reverse()
        self.objects = dict(reversed(self.objects.items()))
        deployment = self._get("Deployment", "web")
        if deployment is not None:
            deployment["spec"].setdefault("revisionHistoryLimit", 10)
            deployment["spec"]["template"]["spec"].setdefault("restartPolicy", "Always")
        settings = self._get("ConfigMap", "settings")
        if settings is not None:
            note = "kubectl.kubernetes.io/last-applied-configuration"
            settings["metadata"]["annotations"] = {note: f'{{"step":{self.number}}}'}

    def change_selectors(self) -> None:
        selectors = self.placement["spec"]["resourceSelectors"]
        selector = self._build_selector("ClusterRole", f"{self.name}-role")
        if self.is_namespaced:
            selector = self._build_selector("Deployment", "web")
        if selector in selectors:
            selectors.remove(selector)
        else:
            selectors.append(selector)

    def change_policy(self) -> None:
        self.placement["spec"]["policy"] = self._draw_policy()

    def change_strategy(self) -> None:
        rolling = self.placement["spec"]["strategy"].get("rollingUpdate")
        if rolling is not None:
            rolling["maxUnavailable"] = self.random.choice((1, 2, 3, "50%"))

    def change_envelope(self) -> None:
        """Add, change or remove objects that only members get."""
        if self._get("Namespace", self.name) is None:
            return
        if self._get("ResourceEnvelope", "sealed") is not None and self.random.random() < 0.4:
            del self.objects["ResourceEnvelope", "sealed"]
            return
        sealed = {**self._build("v1", "ConfigMap", "inner"), "data": {"step": str(self.number)}}
        envelope = self._build_fleet_object("ResourceEnvelope", "sealed")
        self._set({**envelope, "data": {"inner.yaml": sealed}})

    def change_override(self) -> None:
        name = f"{self.name}-o"
        key = ("ResourceOverride" if self.is_namespaced else "ClusterResourceOverride", name)
        if key in self.objects and self.random.random() < 0.4:
            del self.objects[key]
            return
        label = {"matchLabels": {"env": self.random.choice(("prod", "canary"))}}
        rule = {
            "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": label}]},
            "jsonPatchOverrides": [
                {"op": "add", "path": "/metadata/labels", "value": {"step": str(self.number)}}
            ],
        }
        body = self._build_fleet_object(*key)
        role = self._build_selector("ClusterRole", f"{self.name}-role")
        selectors = {"clusterResourceSelectors": [role]}
        if self.is_namespaced:
            selectors = {"resourceSelectors": [self._build_selector("ConfigMap", "settings")]}
        scope = {"scope": "Namespaced"} if self.is_namespaced else {}
        body["spec"] = {
            "placement": {"name": self.name, **scope},
            **selectors,
            "policy": {"overrideRules": [rule]},
        }
        self._set(body)

    def change_budget(self) -> None:
        body = self._build_fleet_object("ClusterResourcePlacementDisruptionBudget", self.name)
        self._set({**body, "spec": {"minAvailable": self.random.randint(0, 3)}})

    def evict_cluster(self) -> None:
        name = f"{self.name}-{self.number}"
        body = self._build_fleet_object("ClusterResourcePlacementEviction", name)
        cluster = self.random.choice(sorted(self.members))
        self._set({**body, "spec": {"placementName": self.name, "clusterName": cluster}})

    def start_run(self) -> None:
        body = self._build_fleet_object("ClusterStagedUpdateRun", f"{self.name}-{self.number}")
        strategy = {"placementName": self.name, "stagedRolloutStrategyName": self.name}
        self._set({**body, "spec": {**strategy, "state": "Run"}})

    def approve_run(self) -> None:
        """Approve the last run that is not approved yet."""
        runs = [name for kind, name in self.objects if kind == _RUN and name not in self.approved]
        if runs:
            self.approved.add(max(runs, key=lambda name: int(name.rpartition("-")[2])))

    def relabel_member(self) -> None:
        member = self.members[self.random.choice(sorted(self.members))]
        member.labels["env"] = "canary" if member.labels["env"] == "prod" else "prod"

    def taint_member(self) -> None:
        member = self.members[self.random.choice(sorted(self.members))]
        member.is_tainted = not member.is_tainted

    def change_property(self) -> None:
        member = self.members[self.random.choice(sorted(self.members))]
        member.rank = None if self.random.random() < 0.3 else self.random.randint(1, 9)

    def join_member(self) -> None:
        free = [name for name in _MEMBERS if name not in self.members]
        if free:
            self.members[free[0]] = Member({"env": "prod", _ZONE: "a"}, self.random.randint(1, 9))

    def leave_member(self) -> None:
        if len(self.members) > 2:
            del self.members[self.random.choice(sorted(self.members))]

    # --- configuration ---------------------------------------------------------------------------

    def render(self) -> str:
        """Return the configuration of nexusform."""
        blocks = []
        for name, member in sorted(self.members.items()):
            figures = {} if member.rank is None else {_PROPERTY: str(member.rank)}
            taint = ""
            if member.is_tainted:
                lines = "".join(f"    {key} = {json.dumps(_TAINT[key])}\n" for key in _TAINT)
                taint = f"  taint {{\n{lines}  }}\n"
            blocks.append(
                f'resource "fleet_member_cluster" "{name}" {{\n'
                f"  labels     = {json.dumps(member.labels)}\n"
                f"  properties = {json.dumps(figures)}\n{taint}}}\n"
            )
        for (kind, name), body in self.objects.items():
            resource_type = _KINDS[kind][1]
            argument = "yaml_body" if resource_type == "fleet_hub_manifest" else "manifest"
            label = f"{kind.lower()}-{name}"
            text = json.dumps(json.dumps(body))
            blocks.append(f'resource "{resource_type}" "{label}" {{\n  {argument} = {text}\n}}\n')
        blocks += [
            f'resource "fleet_cluster_approval_request" "{run}" {{\n'
            f'  name = "{run}-after-canary"\n  parent_stage_rollout = "{run}"\n'
            '  target_stage = "canary"\n}\n'
            for run in sorted(self.approved)
        ]
        return "".join(blocks)


class Twin:
    """The same fleet on a running hub."""

    def __init__(self, hub: RealHub) -> None:
        self._hub = hub
        self._applied: dict[tuple[str, str], Body] = {}
        self._joined: set[str] = set()
        self._members: dict[str, tuple[dict[str, str], int | None, bool]] = {}
        self._approved: set[str] = set()
        # Of the placement of this story.
        self._placement = ""
        self._prefix = "cluster"

    def apply(self, story: Story) -> None:
        """Make the hub equal to a story: members, removals, objects, runs and evictions."""
        self._placement = _build_path(story.placement)
        self._prefix = "" if story.is_namespaced else "cluster"
        for name in sorted(self._joined - story.members.keys()):
            self._hub.leave(name)
        if self._write_members(story.members):
            self._wait_until_quiet(story.name)
        # As nexusform orders the steps: changes of a placement follow its evictions.
        self._write_kinds(story, _FIRST_KINDS)
        removed = [key for key in self._applied if key not in story.objects]
        for key in sorted(removed, key=lambda key: list(_KINDS).index(key[0]), reverse=True):
            self._delete(self._applied.pop(key))
        self._write_kinds(story, [kind for kind in _KINDS if kind not in _FIRST_KINDS])
        self._wait_until_quiet(story.name)
        for run in sorted(story.approved - self._approved):
            self._approve(run)
        self._approved = set(story.approved)
        self._wait_until_quiet(story.name)

    def _approve(self, run: str) -> None:
        """Approve a run if it asks for it: an aborted or finished run does not."""
        path = f"{_PLACEMENTS}/clusterapprovalrequests/{run}-after-canary"
        if "error" in self._hub.call("GET", path):
            return
        condition = {
            "type": "Approved",
            "status": "True",
            "reason": "Reviewed",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        status = {"status": {"conditions": [condition]}}
        self._hub.call("PATCH", f"{path}/status", status, MERGE)

    def _write_kinds(self, story: Story, kinds: Iterable[str]) -> None:
        """Write the changed objects of these kinds; wait before a run and after an eviction."""
        for kind in kinds:
            bodies = [
                body
                for key, body in story.objects.items()
                if key[0] == kind and self._applied.get(key) != body
            ]
            if kind == _RUN and bodies:
                self._wait_until_quiet(story.name)
            for body in bodies:
                self._write(body)
            if kind == _EVICTION and bodies:
                self._wait_until_quiet(story.name)

    def remove(self, story: Story) -> None:
        """Remove all objects of a story."""
        for key in reversed(list(_KINDS)):
            for body in [body for (kind, _), body in self._applied.items() if kind == key]:
                self._delete(body)
        self._applied.clear()
        self._approved.clear()
        self._wait(lambda: not self._list(f"{self._prefix}resourcebindings", story.name))

    def _write_members(self, members: Mapping[str, Member]) -> bool:
        """Write labels, taints and properties of changed members; return whether there are any."""
        forms = {
            name: (dict(item.labels), item.rank, item.is_tainted) for name, item in members.items()
        }
        changed = [name for name, form in forms.items() if self._members.get(name) != form]
        has_left = bool(self._members.keys() - forms.keys())
        self._members = forms
        fresh = {name: member for name, member in members.items() if name not in self._joined}
        self._hub.join({name: member.labels for name, member in fresh.items()})
        self._joined = set(members)
        for name in changed:
            member = members[name]
            path = f"{_CLUSTERS}/memberclusters/{name}"
            body = self._hub.call("GET", path)
            labels = {**dict.fromkeys(body["metadata"].get("labels") or {}), **member.labels}
            spec = {"taints": [_TAINT] if member.is_tainted else None}
            self._hub.call("PATCH", path, {"metadata": {"labels": labels}, "spec": spec}, MERGE)
            observed = {"value": str(member.rank), "observationTime": "2026-11-21T03:00:00Z"}
            value = None if member.rank is None else observed
            own = f"{_CLUSTERS}/namespaces/fleet-member-{name}/internalmemberclusters/{name}"
            status = {"status": {"properties": {_PROPERTY: value}}}
            self._hub.call("PATCH", f"{own}/status", status, MERGE)
        return bool(changed) or has_left

    def _write(self, body: Body) -> None:
        self._wait(lambda: "error" not in self._put(body), 30)
        self._applied[body["kind"], body["metadata"]["name"]] = copy.deepcopy(body)

    def _put(self, body: Body) -> Body:
        return self._hub.apply(_build_path(body), body, "story")

    def _delete(self, body: Body) -> None:
        path = _build_path(body)
        self._hub.call("DELETE", path)
        if body["kind"] in ("Namespace", _CRP, _RP):
            self._wait(lambda: self._hub.call("GET", path).get("error") == 404)

    def _list(self, plural: str, name: str) -> list[Body]:
        label = f"kubernetes-fleet.io%2Fparent-CRP%3D{name}"
        return list(
            self._hub.call("GET", f"{_PLACEMENTS}/{plural}?labelSelector={label}").get("items")
            or ()
        )

    def read(self, name: str) -> Body:
        """Return what the hub decided on a placement, in the form of `read_prediction`."""
        body = self._hub.call("GET", self._placement)
        status = body.get("status") or {}
        bindings = {}
        for item in self._list(f"{self._prefix}resourcebindings", name):
            spec = item["spec"]
            if not item["metadata"].get("deletionTimestamp"):
                bindings[spec["targetCluster"]] = (
                    spec["state"],
                    _read_number(spec.get("resourceSnapshotName"), name),
                )
        snapshots = self._list(f"{self._prefix}resourcesnapshots", name)
        indexes = [int(each["metadata"]["labels"][_INDEX]) for each in snapshots]
        policies = self._list(f"{self._prefix}schedulingpolicysnapshots", name)
        numbers = [int(each["metadata"]["labels"][_POLICY_INDEX]) for each in policies]
        return {
            "bindings": bindings,
            "snapshot": max(indexes, default=None),
            "policy": max(numbers, default=None),
            "conditions": _simplify(status.get("conditions") or ()),
            "clusters": {
                each["clusterName"]: _simplify(each.get("conditions") or ())
                for each in status.get("placementStatuses") or ()
                if each.get("clusterName")
            },
            "selected": sorted(
                f"{each['kind']} {each['name']}" for each in status.get("selectedResources") or ()
            ),
        }

    def _wait_until_quiet(self, name: str) -> None:
        """Wait until nothing of a placement has changed for a time, and its runs have ended."""
        last: list[str] = []
        since = time.monotonic()
        end = since + _MAX_SECONDS
        while time.monotonic() < end:
            versions = sorted(self._list_versions(name))
            if versions != last:
                last = versions
                since = time.monotonic()
            if time.monotonic() - since > _QUIET_SECONDS and not self._is_running(name):
                return
            time.sleep(0.4)

    def _list_versions(self, name: str) -> Iterator[str]:
        plurals = (f"{self._prefix}resourcebindings", f"{self._prefix}resourcesnapshots", "works")
        for plural in plurals:
            for item in self._list(plural, name):
                yield item["metadata"]["uid"] + item["metadata"]["resourceVersion"]
        body = self._hub.call("GET", self._placement)
        yield str((body.get("metadata") or {}).get("resourceVersion"))

    def describe_runs(self, name: str) -> Iterator[str]:
        """Yield a line per staged run of a placement: its conditions."""
        for run in self._hub.call("GET", f"{_PLACEMENTS}/clusterstagedupdateruns")["items"]:
            if run["spec"]["placementName"] == name:
                conditions = (run.get("status") or {}).get("conditions") or ()
                yield f"  run {run['metadata']['name']}: {_simplify(conditions)}"

    def _is_running(self, name: str) -> bool:
        runs = self._hub.call("GET", f"{_PLACEMENTS}/clusterstagedupdateruns").get("items") or ()
        requests = (
            self._hub.call("GET", f"{_PLACEMENTS}/clusterapprovalrequests").get("items") or ()
        )
        waiting = {
            each["spec"]["parentStageRollout"]
            for each in requests
            if not (each.get("status") or {}).get("conditions")
        }
        for run in runs:
            if run["metadata"]["name"] in waiting:
                continue
            statuses = {
                each["type"]: each["status"]
                for each in (run.get("status") or {}).get("conditions") or ()
            }
            has_ended = "Succeeded" in statuses or statuses.get("Initialized") == "False"
            if run["spec"]["placementName"] == name and not has_ended:
                return True
        return False

    def _wait(self, holds: Callable[[], bool], seconds: float = _MAX_SECONDS) -> None:
        end = time.monotonic() + seconds
        while not holds() and time.monotonic() < end:
            time.sleep(0.3)


_INDEX = "kubernetes-fleet.io/resource-index"
_POLICY_INDEX = "kubernetes-fleet.io/policy-index"


def _build_path(body: Body) -> str:
    plural, _, prefix = _KINDS[body["kind"]]
    metadata = body["metadata"]
    return f"{prefix.format(namespace=metadata.get('namespace'))}/{plural}/{metadata['name']}"


def _read_number(snapshot: str | None, name: str) -> int | None:
    if not snapshot:
        return None
    return int(snapshot.removeprefix(f"{name}-").removesuffix("-snapshot"))


def _simplify(conditions: Any) -> list[tuple[str, ...]]:
    # Spread scores of kept clusters differ between two runs of the same story.
    return sorted(
        (each["type"], each["status"], each["reason"], _SPREAD.sub("spread score", each["message"]))
        for each in conditions
    )


_SPREAD = re.compile(r"topology spread score: -?\d+")


def read_prediction(state: State, story: Story) -> Body:
    """Return the decisions on a placement in a state."""
    kind = story.placement_kind
    address = f"{_KINDS[kind][1]}.{kind.lower()}-{story.name}"
    found = attributes(state, address)
    (instance,) = [item for at, item in state.instances.items() if str(at) == address]
    assert instance.current is not None
    snapshots = (instance.current.private or {}).get("snapshots") or ()
    return {
        "bindings": {
            name: (each["state"], each.get("resource_snapshot"))
            for name, each in found["bindings"].items()
        },
        "snapshot": max((int(each["index"]) for each in snapshots), default=None),
        "policy": found["policy_snapshot"]["index"],
        "conditions": _simplify(found["conditions"] or ()),
        "clusters": {
            each["cluster_name"]: _simplify(each["conditions"])
            for each in found["placement_statuses"] or ()
            if each["cluster_name"]
        },
        "selected": sorted(
            f"{each['kind']} {each['name']}" for each in found["selected_resources"] or ()
        ),
    }


def compare_step(state: State, story: Story, twin: Twin) -> list[str]:
    """Return a line for each part of a prediction that the hub does not reach.

    A hub looks at a blocked rollout after growing pauses, also if its strategy changes.
    """
    ours = read_prediction(state, story)
    _ignore_snapshots_of_departed_members(ours, story)
    end = time.monotonic() + _MAX_PAUSE_SECONDS
    while True:
        theirs = twin.read(story.name)
        _ignore_snapshots_of_departed_members(theirs, story)
        lines = find_differences(ours, theirs)
        if not lines or time.monotonic() > end:
            break
        time.sleep(5)
    different = {line.split(":")[0].strip() for line in lines}
    for part in ours:
        COMPARED[f"{part} {'different' if part in different else 'equal'}"] += 1
    return lines


def _ignore_snapshots_of_departed_members(side: Body, story: Story) -> None:
    """Ignore the snapshots of bindings that stay after their member left.

    While a member leaves, its binding is not ready, so a rollout that waits may update it first.
    """
    for cluster, (state, _snapshot) in side["bindings"].items():
        if state == "Unscheduled" and cluster not in story.members:
            side["bindings"][cluster] = (state, None)


COMPARED: Counter[str] = Counter()


def find_differences(ours: Body, theirs: Body) -> list[str]:
    """Return a line for each part that differs."""
    lines = []
    for part, value in ours.items():
        # With staged runs, a hub lists none until all clusters have one snapshot.
        if part == "selected" and not theirs[part]:
            continue
        if value != theirs[part]:
            lines.append(
                f"  {part}: planned {value!r}\n  {' ' * len(part)}      hub {theirs[part]!r}"
            )
    return lines


def run_story(seed: int, twin: Twin) -> bool:
    """Run one story; print the differences and return whether there are none."""
    story = Story(seed)
    state = EMPTY
    changes = ["create"]
    log: list[str] = []
    is_equal = True
    for step in range(story.steps + 1):
        if step:
            previous = copy.deepcopy((story.members, story.objects, story.approved))
            changes = story.change()
            result = plan(story.render(), state)
            if list_errors(result):
                # The plan rejects the change.
                COMPARED["rejected plans"] += 1
                story.members, story.objects, story.approved = previous
                continue
        else:
            result = plan(story.render(), state)
            assert not list_errors(result), [each.detail for each in list_errors(result)]
        log.append(", ".join(changes))
        state = build_state_after(result, state)
        twin.apply(story)
        COMPARED["steps"] += 1
        lines = compare_step(state, story, twin)
        if lines:
            is_equal = False
            strategy = "External" if story.is_external else "RollingUpdate"
            kind = f"{story.placement_kind}, {story.kind}, {strategy}"
            print(f"story {seed} ({kind}), step {step} of [{'; '.join(log)}]:", flush=True)
            print("\n".join((*lines, *twin.describe_runs(story.name))), flush=True)
            break
    twin.remove(story)
    return is_equal


# A run takes a new snapshot at once only on a hub that does not collect changes. Other rollouts
# take one snapshot of the changes that come together.
_COLLECTION = {True: "0s", False: "1s"}


def run_stories(minutes: float, count: int, first: int) -> int:
    """Run stories until the time is over, and print totals; return 1 after a difference.

    Fleets with staged runs have a hub of their own.
    """
    end = time.monotonic() + 60 * minutes
    done = wrong = 0
    with ExitStack() as stack:
        twins: dict[bool, Twin] = {}
        while done < count and time.monotonic() < end:
            is_external = Story(first + done).is_external
            if is_external not in twins:
                directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                hub = RealHub(PROGRAMS, CRDS, directory, collection=_COLLECTION[is_external])
                stack.callback(hub.close)
                twins[is_external] = Twin(hub)
            twin = twins[is_external]
            # On a busy machine steps may overlap: a difference counts if it occurs again.
            is_equal = run_story(first + done, twin) or run_story(first + done, twin)
            wrong += not is_equal
            done += 1
            print(f"{done} stories, {wrong} with differences", flush=True)
    print(f"{done} stories, {wrong} with differences; {dict(sorted(COMPARED.items()))}")
    return int(bool(wrong))


if __name__ == "__main__":
    # The servers end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments = sys.argv[1:]
    seed = int(arguments[2]) if len(arguments) > 2 else int(time.time()) % 1_000_000
    sys.exit(
        run_stories(float(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 60, seed)
    )
