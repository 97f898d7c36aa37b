"""Tests of each member of a request to a hub, changed by another client at each moment.

The members come from the shapes of the API's kinds, so a new one is tested without a change here.
Each one is changed before the plan's read, between plan and apply, between the read and the write
of a step, and after the write. Nothing is sent that the plan did not show.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from msgspec import Struct
from msgspec.structs import replace

pytest.importorskip("lightkube")
from nexusform.documents.field_validation import FieldKind, FieldShape
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.hub.api.hub_client import HubConnection, HubLocation
from nexusform.domains.hub.providers.field_ownership import list_sent_paths
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVAL_TYPES,
    KINDS_BY_TYPE,
    MANIFEST_TYPE,
    MEMBER_TYPE,
    build_hub_objects,
    is_different,
)
from nexusform.domains.hub.providers.hub_provider import FleetHubProvider
from nexusform.domains.hub.providers.object_access import HubOptions
from nexusform.domains.hub.providers.step_writer import HubStepWriter
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ObjectKey,
    ProviderProblem,
    ReadRequest,
)
from nexusform.json_data.plain_data import format_path, get_part
from tests.domains.hub.hub_front import PLURALS, get_api_version, get_collection_path
from tests.domains.hub.hub_server import HubServer
from tests.kill_points import tries_all

Body = dict[str, Any]
MEMBER_KIND = "MemberCluster"
NAMESPACED = {kind for kind, is_namespaced in PLURALS.values() if is_namespaced}
# The hub creates it, and its only change is a condition of its status.
APPROVAL_KINDS = {kind for kind, api in API_KINDS.items() if api.type_name in APPROVAL_TYPES}
SELECTOR = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
RULES = [{"clusterSelector": {}, "overrideType": "Delete"}]
_PLACEMENT: Body = {
    "resourceSelectors": [SELECTOR],
    "policy": {"placementType": "PickN", "numberOfClusters": 9},
}
_OVERRIDE: Body = {"resourceSelectors": [SELECTOR], "policy": {"overrideRules": RULES}}
_RUN: Body = {"placementName": "p", "stagedRolloutStrategyName": "s", "resourceSnapshotIndex": "0"}
# Fields that the hub requires besides the member.
REQUIRED: dict[str, Body] = {
    "ClusterResourcePlacement": _PLACEMENT,
    "ResourcePlacement": _PLACEMENT,
    "ClusterResourceOverride": {
        "clusterResourceSelectors": [SELECTOR],
        "policy": {"overrideRules": RULES},
    },
    "ResourceOverride": _OVERRIDE,
    "ClusterResourcePlacementEviction": {"placementName": "p", "clusterName": "c"},
    "ClusterStagedUpdateRun": _RUN,
    "StagedUpdateRun": _RUN,
    "ClusterStagedUpdateStrategy": {"stages": [{"name": "all", "labelSelector": {}}]},
    "StagedUpdateStrategy": {"stages": [{"name": "all", "labelSelector": {}}]},
}
# A member cluster gets labels and taints only. Its agent owns the rest.
SENT_OF_MEMBERS = {("metadata", "labels", "ring"), ("spec", "taints")}
# The hub rejects a change; a deletion compares it.
IMMUTABLE = {("spec", "policy", "placementType")}
# The hub fills in one of the two values, so another client has no third one.
TWO_VALUED = {("spec", "strategy", "type"), ("spec", "statusReportingScope")}
# Fields of list items that make them different.
DISTINCT = ("clusterSelector", "key", "labelSelector", "matchLabels", "name")
TEXTS = ("one", "two", "three")
AMOUNTS = ("10%", "20%", "30%")


class Member(Struct, frozen=True):
    """A member of a kind: its path, and its values at the start, as planned and of another client.

    A value of None is the absence of the member.
    """

    kind: str
    path: tuple[str, ...]
    values: tuple[Any, Any, Any]

    @property
    def is_immutable(self) -> bool:
        return self.path in IMMUTABLE


def list_members() -> Iterator[Member]:
    """Yield the members that a request may carry, of each kind."""
    for kind, api in API_KINDS.items():
        if kind in APPROVAL_KINDS:
            continue
        yield Member(kind, ("metadata", "labels", "ring"), TEXTS)
        for path, shape in list_scalars(api.spec, ("spec",)):
            if kind == MEMBER_KIND and path not in SENT_OF_MEMBERS:
                continue
            first, second, third = build_values(shape)
            yield Member(kind, path, (first, second, second if path in TWO_VALUED else third))
    # A manifest has any members; these stand for all.
    for path in (("data", "a"), ("metadata", "labels", "ring"), ("metadata", "annotations", "x")):
        yield Member("ConfigMap", path, TEXTS)


def list_scalars(
    shape: FieldShape, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], FieldShape]]:
    """Yield path and shape of each scalar; a list is one value."""
    if shape.kind is FieldKind.OBJECT and shape.fields:
        for name, part in shape.fields.items():
            yield from list_scalars(part, (*path, name))
    else:
        yield path, shape


def build_values(shape: FieldShape) -> tuple[Any, Any, Any]:
    """Build three different values of a shape."""
    if shape.kind is FieldKind.LIST:
        assert shape.items is not None
        return tuple([item] for item in build_items(shape.items))  # type: ignore[return-value]
    if shape.choices:
        first, second, third, *_ = (*shape.choices, None, None)
        return first, second, third
    if shape.kind is FieldKind.FLAG:
        return True, False, None
    if shape.kind is FieldKind.TEXTS:
        return {"k": "one"}, {"k": "two"}, {"k": "three"}
    if shape.kind is FieldKind.AMOUNT:
        return AMOUNTS
    if shape.kind is FieldKind.WHOLE:
        return 2, 3, 4
    return TEXTS


def build_items(shape: FieldShape) -> tuple[Any, Any, Any]:
    """Build three items of a list, which differ in a text."""
    if shape.kind is not FieldKind.OBJECT:
        return build_values(shape)
    items: list[Body] = [{}, {}, {}]
    for name, part in (shape.fields or {}).items():
        # Fields for one choice of the placement or stage are not combined.
        if not part.is_required and name not in DISTINCT:
            continue
        values = build_items(part) if part.kind is FieldKind.OBJECT else build_values(part)
        for number, item in enumerate(items):
            # Each item is complete, so a single choice is the same in all of them.
            item[name] = values[0] if part.choices else values[number]
    return items[0], items[1], items[2]


MEMBERS = list(list_members())
UPDATED = [member for member in MEMBERS if member.path not in IMMUTABLE | TWO_VALUED]


def format_member(member: Member) -> str:
    return f"{member.kind}-{'.'.join(member.path)}"


def set_part(body: Body, path: tuple[str, ...], value: Any) -> Body:
    """Set a part of a body; with None, leave it out."""
    *parents, name = path
    part: Any = body
    for parent in parents:
        part = part.get(parent, {}) if value is None else part.setdefault(parent, {})
    part.pop(name, None)
    if value is not None:
        part[name] = copy.deepcopy(value)
    return body


class Race:
    """One object on a hub, its provider, and another client with our field manager."""

    def __init__(self, member: Member, hub: HubServer, provider: FleetHubProvider) -> None:
        self.member = member
        self.hub = hub
        self.provider = provider
        self.start, self.target, self.other = member.values
        self.type_name = MANIFEST_TYPE
        if member.kind in API_KINDS:
            self.type_name = API_KINDS[member.kind].type_name
        self.namespace = "web" if member.kind in NAMESPACED else ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.type_name, "o", 1)

    @property
    def identity(self) -> Body:
        return {"name": "o", **({"namespace": self.namespace} if self.namespace else {})}

    def build_body(self, value: Any) -> Body:
        body: Body = {
            "apiVersion": get_api_version(self.member.kind),
            "kind": self.member.kind,
            "metadata": self.identity,
        }
        if self.member.kind in REQUIRED:
            body["spec"] = copy.deepcopy(REQUIRED[self.member.kind])
        if self.member.path[-1] == "placementType":
            # For one placement type only.
            del body["spec"]["policy"]["numberOfClusters"]
        return set_part(body, self.member.path, value)

    def build_attributes(self, value: Any) -> Body:
        body = self.build_body(value)
        if self.type_name == MANIFEST_TYPE:
            return {"yaml_body": json.dumps(body)}
        if self.type_name == MEMBER_TYPE:
            taints = get_part(body, ("spec", "taints"))
            return {
                "name": "o",
                "labels": get_part(body, ("metadata", "labels")),
                "taint": taints or [],
            }
        labels = get_part(body, ("metadata", "labels"))
        return {
            "name": "o",
            "namespace": self.namespace or None,
            "manifest": json.dumps(body),
            "labels": labels,
        }

    def create(self) -> None:
        """Create the object with its start value, as an earlier apply did."""
        if self.type_name == MEMBER_TYPE:
            identity = {"kind": "ServiceAccount", "name": "m"}
            self.hub.put(set_part(self.build_body(None), ("spec", "identity"), identity), "join")
        self.provider.create(ChangeRequest(self.key, "it", None, self.build_attributes(self.start)))
        assert self.has(self.start)

    @property
    def value(self) -> Any:
        body = self.hub.get(self.member.kind, "o", self.namespace)
        return get_part(body, self.member.path)

    def has(self, value: Any) -> bool:
        """Return whether the member has a value; the hub fills in defaults in lists."""
        return not is_different(value, self.value)

    def set_by_other_client(self) -> None:
        """Set another value with our field manager, as another state would."""
        (hub_object,) = build_hub_objects(self.type_name, self.build_attributes(self.other))
        if self.member.is_immutable:
            self.hub.put(hub_object.body, "nexusform")
            return
        path = f"{get_collection_path(self.member.kind, self.namespace)}/o"
        query = urlencode({"fieldManager": "nexusform", "#type": "apply", "force": "true"})
        content = json.dumps(hub_object.body).encode()
        status, answer = self.hub.answer("PATCH", f"{path}?{query}", "admin-token", content)
        assert status == 200, answer
        self.hub.log.clear()

    def touch(self) -> None:
        """Give the object another version: a controller writes an annotation."""
        body = self.hub.get(self.member.kind, "o", self.namespace)
        assert body is not None
        names = {name: body[name] for name in ("apiVersion", "kind")}
        metadata = {**self.identity, "annotations": {"seen": str(self.hub.version)}}
        self.hub.put({**names, "metadata": metadata})

    def plan(self, prior: Any, planned: Any, *, is_deletion: bool = False) -> ChangeRequest:
        """Read the object as a plan does; return the request of its change."""
        key = self.key
        attributes = self.build_attributes(prior)
        self.provider.read([ReadRequest(key, attributes, "it")])
        request = ChangeRequest(
            key, "it", attributes, None if is_deletion else self.build_attributes(planned)
        )
        (start_values,) = self.provider.collect_start_values([request])
        # A plan file has them as JSON.
        return replace(request, start_values=json.loads(json.dumps(start_values)))

    def resume(self, request: ChangeRequest) -> str:
        """Carry out a request that an earlier run started."""
        return self.apply(replace(request, resumed_operation="apply"))

    def apply(self, request: ChangeRequest) -> str:
        """Carry out a request; return the message of its failure, "" for success."""
        self.hub.log.clear()
        try:
            if request.planned is None:
                self.provider.delete(request)
            else:
                self.provider.update(request)
        except ProviderProblem as problem:
            return str(problem)
        return ""

    def list_writes(self) -> list[str]:
        """Return the methods of the requests with an effect."""
        return [
            method
            for method, _, is_dry_run, status in self.hub.log
            if method != "GET" and not is_dry_run and status < 400
        ]

    def run_before_write(self, call: Callable[[], None]) -> None:
        """Call a function once, between the read and the write of a step."""
        answer = self.hub.answer

        def intervene(method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
            if method != "GET" and "dryRun" not in target:
                self.hub.answer = answer  # type: ignore[method-assign]
                call()
            return answer(method, target, token, content)

        self.hub.answer = intervene  # type: ignore[method-assign]

    def run_after_write(self, call: Callable[[], None]) -> None:
        """Call a function once, after the write of a step and before its verification."""

        def intervene(method: str, _target: str) -> None:
            if method != "GET":
                self.hub.carried_out = lambda _method, _target: None
                call()

        self.hub.carried_out = intervene

    def format_difference(self) -> str:
        """Return the sentence about another value than that of the plan."""
        path = format_path(self.member.path)
        return f"{self.member.kind} {self.namespace}{'/' if self.namespace else ''}o has {path} "


@pytest.fixture
def race(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Race]:
    """Create the object of a member with its start value."""
    hub = HubServer()
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}, "setup")
    connection = HubConnection(HubLocation(str(hub.kubeconfig(tmp_path))))
    options = HubOptions("nexusform", "automatic", is_read_only=False, timeout=5.0)

    def skip_wait(writer: HubStepWriter, _written: Any) -> ChangeResult:
        return ChangeResult(writer.request.planned_attributes)

    # Other tests wait for controllers.
    monkeypatch.setattr(HubStepWriter, "_wait_for_result", skip_wait)
    monkeypatch.setattr(HubStepWriter, "_wait_until_schedulable", lambda _self, _object: None)
    race = Race(request.param, hub, FleetHubProvider("fleet", connection, options))
    try:
        race.create()
        yield race
    finally:
        connection.close()
        hub.close()


GAPS = 4


def parametrize_races(members: list[Member], gap: int) -> pytest.MarkDecorator:
    """Return the parameters of a test with each member; without all cases, with some of them."""
    selected = [
        member for number, member in enumerate(members) if tries_all() or number % GAPS == gap
    ]
    return pytest.mark.parametrize("race", selected, ids=format_member, indirect=True)


def test_members_are_those_of_the_requests() -> None:
    """Each path that a request of a kind carries is one of the members."""
    types = {*KINDS_BY_TYPE} - APPROVAL_TYPES
    assert {
        API_KINDS[kind].type_name for kind in {m.kind for m in MEMBERS} - {"ConfigMap"}
    } == types
    for kind, spec in REQUIRED.items():
        body = {
            "apiVersion": get_api_version(kind),
            "kind": kind,
            "metadata": {"name": "o"},
            "spec": spec,
        }
        attributes = {"name": "o", "namespace": "web", "manifest": json.dumps(body)}
        (hub_object,) = build_hub_objects(API_KINDS[kind].type_name, attributes)
        tested = {member.path for member in MEMBERS if member.kind == kind}
        assert set(list_sent_paths(hub_object.body)) <= tested


@parametrize_races(UPDATED, 0)
def test_value_before_the_plan_is_replaced(race: Race) -> None:
    race.set_by_other_client()
    request = race.plan(race.start, race.target)
    assert race.apply(request) == ""
    assert race.has(race.target)


@parametrize_races(UPDATED, 1)
def test_value_changed_after_the_plan_is_kept(race: Race) -> None:
    request = race.plan(race.start, race.target)
    race.set_by_other_client()
    message = race.apply(request)
    assert message.startswith(race.format_difference()), message
    assert "Plan again." in message
    assert race.list_writes() == []
    assert race.has(race.other)
    # Plan again: the apply converges.
    assert race.apply(race.plan(race.start, race.target)) == ""
    assert race.has(race.target)


@parametrize_races(UPDATED, 2)
def test_value_changed_before_the_write_is_kept(race: Race) -> None:
    request = race.plan(race.start, race.target)
    race.run_before_write(race.set_by_other_client)
    message = race.apply(request)
    assert message.startswith(race.format_difference()), message
    assert "Plan again." in message
    assert race.list_writes() == []
    assert race.has(race.other)
    assert race.apply(race.plan(race.start, race.target)) == ""
    assert race.has(race.target)


@parametrize_races(UPDATED, 3)
def test_value_changed_after_the_write_is_reported(race: Race) -> None:
    request = race.plan(race.start, race.target)
    race.run_after_write(race.set_by_other_client)
    message = race.apply(request)
    assert message.startswith(race.format_difference()), message
    assert "Plan again." in message
    assert race.has(race.other)
    assert race.apply(race.plan(race.start, race.target)) == ""
    assert race.has(race.target)


# Another client cannot remove a field that this creation applied.
CREATED = [
    member for member in UPDATED if member.kind != MEMBER_KIND and member.values[2] is not None
]


@parametrize_races(CREATED, 1)
def test_value_changed_between_the_requests_of_a_creation_is_kept(race: Race) -> None:
    """The second request of a creation hands its fields over to the configured manager."""
    existing = race.hub.get(race.member.kind, "o", race.namespace)
    assert existing is not None
    race.hub.remove(existing)
    race.run_after_write(race.set_by_other_client)
    message = race.apply(
        ChangeRequest(race.key, "it", None, race.build_attributes(race.target), lineage="l")
    )
    assert message.startswith(race.format_difference()), message
    assert "Plan again." in message
    assert race.list_writes() == []
    assert race.has(race.other)


@parametrize_races([member for member in MEMBERS if member.kind == "ConfigMap"], 2)
@pytest.mark.parametrize("is_later_removed", [False, True], ids=["write", "deletion"])
def test_value_changed_between_two_objects_of_a_step_stops_it(
    race: Race, *, is_later_removed: bool
) -> None:
    """A manifest has another object after the member's, to write or to delete."""
    later = {**race.build_body(None), "metadata": {"name": "p", "namespace": "web"}}
    if is_later_removed:
        race.provider.create(
            ChangeRequest(race.key, "it", None, {"yaml_body": json.dumps({**later, "data": {}})})
        )
    bodies = [json.dumps(race.build_body(value)) for value in (race.start, race.target)]
    other = json.dumps({**later, "data": {"b": "1"}})
    prior, planned = (f"{bodies[0]}\n---\n{json.dumps(later)}", bodies[1])
    if not is_later_removed:
        prior, planned = bodies[0], f"{bodies[1]}\n---\n{other}"
    race.provider.read([ReadRequest(race.key, {"yaml_body": prior}, "it")])
    request = ChangeRequest(race.key, "it", {"yaml_body": prior}, {"yaml_body": planned})
    (start_values,) = race.provider.collect_start_values([request])
    race.run_after_write(race.set_by_other_client)
    message = race.apply(replace(request, start_values=start_values))
    assert message.startswith(race.format_difference()), message
    assert "after this apply wrote" in message
    assert race.list_writes() == []
    assert (race.hub.get("ConfigMap", "p", "web") is not None) is is_later_removed
    assert race.has(race.other)


@parametrize_races(UPDATED, 0)
def test_unchanged_value_of_another_version_is_replaced(race: Race) -> None:
    request = race.plan(race.start, race.target)
    race.run_before_write(race.touch)
    assert race.apply(request) == ""
    assert race.has(race.target)
    assert set(race.list_writes()) == {"PATCH"}


@parametrize_races(MEMBERS, 1)
def test_object_changed_before_its_deletion_is_kept(race: Race) -> None:
    request = race.plan(race.start, None, is_deletion=True)
    race.set_by_other_client()
    message = race.apply(request)
    assert message.startswith(race.format_difference()), message
    assert race.list_writes() == []
    assert race.has(race.other)


@parametrize_races(MEMBERS, 2)
def test_object_changed_between_read_and_deletion_is_kept(race: Race) -> None:
    request = race.plan(race.start, None, is_deletion=True)
    race.run_before_write(race.set_by_other_client)
    message = race.apply(request)
    assert message.startswith(race.format_difference()), message
    assert race.list_writes() == []
    assert race.has(race.other)


@parametrize_races(MEMBERS, 3)
def test_unchanged_object_of_another_version_is_deleted(race: Race) -> None:
    request = race.plan(race.start, None, is_deletion=True)
    race.run_before_write(race.touch)
    assert race.apply(request) == ""
    if race.type_name == MEMBER_TYPE:
        # It stays without the labels and taints of the plan.
        assert race.value is None
    else:
        assert race.hub.get(race.member.kind, "o", race.namespace) is None


@parametrize_races(UPDATED, 1)
def test_resumed_step_compares_with_its_request(race: Race) -> None:
    """The earlier run sent the target, or nothing. Any other value is of another client."""
    request = race.plan(race.start, race.target)
    race.set_by_other_client()
    message = race.resume(request)
    assert message.startswith(race.format_difference()), message
    assert race.list_writes() == []
    assert race.apply(race.plan(race.start, race.target)) == ""
    # The earlier run has sent it.
    assert race.resume(request) == ""
    assert race.list_writes() == []
    assert race.has(race.target)


@parametrize_races(UPDATED, 2)
def test_plan_without_the_hub_starts_from_the_state(race: Race) -> None:
    request = ChangeRequest(
        race.key, "it", race.build_attributes(race.start), race.build_attributes(race.target)
    )
    race.set_by_other_client()
    message = race.apply(request)
    assert message.startswith(race.format_difference()), message
    assert race.list_writes() == []


MANIFESTS = [member for member in UPDATED if member.kind == "ConfigMap"]
one_race = pytest.mark.parametrize("race", MANIFESTS[:1], ids=format_member, indirect=True)


@one_race
def test_object_deleted_after_the_plan_is_not_created_again(race: Race) -> None:
    request = race.plan(race.start, race.target)
    race.hub.remove(race.hub.get("ConfigMap", "o", "web") or {})
    message = race.apply(request)
    assert message == (
        "ConfigMap web/o is not on the hub; the plan started from an existing one. Plan again."
    )
    assert race.list_writes() == []


@one_race
def test_object_deleted_before_the_write_is_not_created_again(race: Race) -> None:
    request = race.plan(race.start, race.target)
    race.run_before_write(lambda: race.hub.remove(race.hub.get("ConfigMap", "o", "web") or {}))
    assert "is not on the hub; the plan started from an existing one." in race.apply(request)
    assert race.list_writes() == []


@one_race
def test_object_deleted_after_the_write_is_reported(race: Race) -> None:
    request = race.plan(race.start, race.target)
    race.run_after_write(lambda: race.hub.remove(race.hub.get("ConfigMap", "o", "web") or {}))
    assert race.apply(request) == (
        "ConfigMap web/o was deleted on the hub after this apply wrote it. Plan again."
    )


@one_race
def test_object_with_a_new_version_before_each_write_is_given_up(
    race: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another client writes all the time: the step fails at the end, and sends nothing."""
    monkeypatch.setattr("nexusform.domains.hub.providers.versioned_writes._RETRY_SECONDS", 0.3)
    request = race.plan(race.start, race.target)
    answer = race.hub.answer

    def intervene(method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        if method != "GET":
            race.touch()
        return answer(method, target, token, content)

    race.hub.answer = intervene  # type: ignore[method-assign]
    message = race.apply(request)
    assert "the hub refuses it (409)" in message, message
    assert race.list_writes() == []


@one_race
def test_approval_keeps_conditions_of_others(race: Race) -> None:
    """The approval is one condition of a list, which a patch replaces as a whole."""
    race.hub.put(
        {
            "apiVersion": get_api_version("ClusterApprovalRequest"),
            "kind": "ClusterApprovalRequest",
            "metadata": {"name": "r-after-a"},
            "spec": {"parentStageRollout": "r", "targetStage": "a"},
        }
    )

    def add_condition() -> None:
        body = race.hub.get("ClusterApprovalRequest", "r-after-a")
        assert body is not None
        conditions = [{"type": "Seen", "status": "True"}]
        names = {name: body[name] for name in ("apiVersion", "kind")}
        race.hub.put(
            {**names, "metadata": {"name": "r-after-a"}, "status": {"conditions": conditions}}
        )

    race.run_before_write(add_condition)
    type_name = "fleet_cluster_approval_request"
    attributes = {"name": "r-after-a", "parent_stage_rollout": "r", "target_stage": "a"}
    request = ChangeRequest(ObjectKey(type_name, "r-after-a", 1), "it", None, attributes)
    assert race.apply(request) == ""
    body = race.hub.get("ClusterApprovalRequest", "r-after-a")
    assert body is not None
    assert [each["type"] for each in body["status"]["conditions"]] == ["Seen", "Approved"]


@one_race
def test_approval_of_another_run_is_not_granted(race: Race) -> None:
    race.hub.put(
        {
            "apiVersion": get_api_version("ClusterApprovalRequest"),
            "kind": "ClusterApprovalRequest",
            "metadata": {"name": "r-after-a"},
            "spec": {"parentStageRollout": "other", "targetStage": "a"},
        }
    )
    type_name = "fleet_cluster_approval_request"
    attributes = {"name": "r-after-a", "parent_stage_rollout": "r", "target_stage": "a"}
    request = ChangeRequest(ObjectKey(type_name, "r-after-a", 1), "it", None, attributes)
    assert race.apply(request) == (
        "ClusterApprovalRequest r-after-a is for the run other, not r. Plan again."
    )
    assert race.list_writes() == []


@pytest.mark.parametrize("is_sensitive", [False, True])
@one_race
def test_write_whose_answer_is_lost_is_not_of_another_client(
    race: Race, *, is_sensitive: bool
) -> None:
    """The repeated write finds the object with a new version, and with the planned values."""
    request = race.plan(race.start, race.target)
    if is_sensitive:
        # Only the version of such an object is in the plan.
        request = replace(request, is_sensitive=True)
        race.provider.read([ReadRequest(race.key, race.build_attributes(race.start), "it")])
        (start_values,) = race.provider.collect_start_values([request])
        request = replace(request, start_values=start_values)
    answer = race.hub.answer

    def lose_answer(method: str, target: str, token: str, content: bytes) -> tuple[int, Any]:
        result = answer(method, target, token, content)
        if method == "GET" or "dryRun" in target:
            return result
        race.hub.answer = answer  # type: ignore[method-assign]
        return 503, {"kind": "Status", "code": 503}

    race.hub.answer = lose_answer  # type: ignore[method-assign]
    assert race.apply(request) == ""
    assert race.has(race.target)
