"""Resources as a hub has them: what is sent for one, and what of it the hub shows otherwise.

What is written is sent, and two things beside: the type of a rollout's strategy, which the hub fills in by an
update of its own and owns then, and the defaults inside of lists that are owned as a whole.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.shapes import objects_at
from nexusform.domains.fleet.importers.fleet_documents import read_fleet_document
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.importers.hub_objects import as_written
from nexusform.domains.fleet.rendering.manifests import hub_bodies
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.plain_data import Path
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.schema import BlockSchema, NestedBlock, Nesting

MANIFESTS: Final = "fleet_hub_manifest"
MEMBERS: Final = "fleet_member_cluster"
PLACEMENTS: Final = frozenset({"fleet_cluster_resource_placement", "fleet_resource_placement"})
RUNS: Final = frozenset({"fleet_cluster_staged_update_run", "fleet_staged_update_run"})
EVICTION: Final = "fleet_placement_eviction"
APPROVALS: Final = frozenset({"fleet_cluster_approval_request", "fleet_approval_request"})
# Sent once: what of these is gone from the hub is a record.
RECORDS: Final = frozenset({EVICTION}) | RUNS | APPROVALS
KIND_OF: Final[Mapping[str, str]] = {api.type_name: kind for kind, api in API_KINDS.items() if api.type_name}
Body = dict[str, Any]


class Sent(Struct, frozen=True):
    """An object of a resource. `path` is "" where the hub has to say first where its kind stands."""

    body: Body
    path: str

    @property
    def title(self) -> str:
        """`ConfigMap shop/settings`."""
        metadata = self.body.get("metadata") or {}
        namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return f"{self.body.get('kind')} {namespace}{metadata.get('name')}"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes two bodies one object: version changes do not count."""
        metadata = self.body.get("metadata") or {}
        group = str(self.body.get("apiVersion") or "").rpartition("/")[0]
        return (
            group,
            str(self.body.get("kind")),
            str(metadata.get("namespace") or ""),
            str(metadata.get("name")),
        )


def objects_of(type_name: str, attributes: Mapping[str, Any]) -> list[Sent]:
    """What a resource is on the hub, in the order in which the hub takes it."""
    if type_name in APPROVALS:
        return [Sent({}, _approval_path(type_name, attributes))]
    bodies = hub_bodies(type_name, RESOURCE_TYPES[type_name].schema, attributes)
    if type_name == MEMBERS and not bodies:
        bodies = [_empty_member(attributes)]
    sent: list[Sent] = []
    for body in bodies:
        body.pop("status", None)
        _complete(body)
        sent.append(Sent(body, path_of(body)))
    return sent


def _empty_member(attributes: Mapping[str, Any]) -> Body:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": attributes["name"]},
    }


def given_back(member: Sent) -> Sent:
    """A member of which nothing is ours."""
    return Sent(_empty_member({"name": member.body["metadata"]["name"]}), member.path)


def run_of_approval(type_name: str, attributes: Mapping[str, Any]) -> str:
    """The name of the run that asks for an approval."""
    read = RESOURCE_TYPES[type_name].fleet
    return str(read(attributes).run) if read is not None else ""


def _approval_path(type_name: str, attributes: Mapping[str, Any]) -> str:
    kind = KINDS[KIND_OF[type_name]]
    return kind.path(str(attributes.get("name")), str(attributes.get("namespace") or ""))


def path_of(body: Mapping[str, Any]) -> str:
    """Where an object of the fleet stands; "" for other kinds."""
    group, _, version = str(body.get("apiVersion") or "").partition("/")
    kind = KINDS.get(str(body.get("kind")))
    if kind is None or kind.group != group:
        return ""
    metadata = body.get("metadata") or {}
    return kind.path(str(metadata.get("name")), str(metadata.get("namespace") or "default"), version)


# --- what is sent beside what is written -----------------------------------------------------------


def _complete(body: Body) -> None:
    """Fill in what the hub would fill in of what it owns then, or owns as a whole."""
    complete = _COMPLETED.get(str(body.get("kind")))
    spec = body.get("spec")
    if complete is not None and isinstance(spec, dict):
        complete(spec)


def _fill(parts: Iterable[Body], defaults: Mapping[str, Any]) -> None:
    for part in parts:
        for name, value in defaults.items():
            part.setdefault(name, value)


_SELECTOR: Final = {"selectionScope": "NamespaceWithResources"}


def _placement(spec: Body) -> None:
    _fill(objects_at(spec, "resourceSelectors"), _SELECTOR)
    strategy = spec.setdefault("strategy", {})
    if isinstance(strategy, dict):
        strategy.setdefault("type", "RollingUpdate")
    policy = spec.get("policy")
    if isinstance(policy, dict):
        policy.setdefault("placementType", "PickAll")
        _fill(objects_at(policy, "tolerations"), {"operator": "Equal"})
        defaults = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        _fill(objects_at(policy, "topologySpreadConstraints"), defaults)


def _override(spec: Body) -> None:
    _fill(objects_at(spec, "clusterResourceSelectors"), _SELECTOR)
    _fill(objects_at(spec.get("policy"), "overrideRules"), {"overrideType": "JSONPatch"})


def _stages(spec: Body) -> None:
    _fill(objects_at(spec, "stages"), {"maxConcurrency": 1})


_COMPLETED: Final[Mapping[str, Callable[[Body], None]]] = {
    "ClusterResourcePlacement": _placement,
    "ResourcePlacement": _placement,
    "ClusterResourceOverride": _override,
    "ResourceOverride": _override,
    "ClusterStagedUpdateStrategy": _stages,
    "StagedUpdateStrategy": _stages,
}


# --- what the hub shows of it ------------------------------------------------------------------------


def shown_of(sent: Any, shown: Any) -> Any:
    """What the hub shows of what was sent: of mappings the same keys, of everything else all."""
    if isinstance(sent, Mapping) and isinstance(shown, Mapping):
        return {name: shown_of(value, shown[name]) for name, value in sent.items() if name in shown}
    if isinstance(sent, list) and isinstance(shown, list) and len(sent) == len(shown):
        return [shown_of(one, other) for one, other in zip(sent, shown, strict=True)]
    return shown


def differing(sent: Any, shown: Any, path: Path = ()) -> Iterator[Path]:
    """Where the hub shows something else than was sent."""
    if isinstance(sent, Mapping) and isinstance(shown, Mapping):
        for name, value in sent.items():
            if name in shown:
                yield from differing(value, shown[name], (*path, name))
            elif value not in ({}, [], None):
                yield (*path, name)
        return
    if isinstance(sent, list) and isinstance(shown, list) and len(sent) == len(shown):
        for number, (one, other) in enumerate(zip(sent, shown, strict=True)):
            yield from differing(one, other, (*path, number))
        return
    if sent != shown and not _same_amount(sent, shown):
        yield path


def _same_amount(one: Any, other: Any) -> bool:
    """Amounts are numbers or texts, and quantities are written in more than one way."""
    return isinstance(one, str | int) and isinstance(other, str | int) and str(one) == str(other)


def as_shown(
    type_name: str, attributes: Mapping[str, Any], sent: Sequence[Sent], shown: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The attributes of a resource of which the hub shows something else. `shown` are its objects that are
    there, each with what of it was sent.
    """
    by_identity = {Sent(dict(body), "").identity: body for body in shown}
    parts = [shown_of(each.body, by_identity[each.identity]) for each in sent if each.identity in by_identity]
    if type_name == MANIFESTS:
        documents = [json.dumps(part, ensure_ascii=False, indent=2) for part in parts]
        changed = {**attributes, "yaml_body": "\n---\n".join(documents)}
        derive = RESOURCE_TYPES[type_name].derive
        return {**changed, **(derive(changed) if derive is not None else {})}
    body = parts[0]
    if type_name == MEMBERS:
        return {**attributes, **_of_member(attributes, body)}
    if isinstance(attributes.get("manifest"), str):
        return {**attributes, "manifest": json.dumps(body, ensure_ascii=False, indent=2)}
    keys = {str(path[1]) for path in differing(sent[0].body, body) if path[:1] == ("spec",) and path[1:]}
    arguments = arguments_of(type_name, body)
    _without_fillings(spec_schema(type_name), arguments)
    shown_otherwise = {name: value for name, value in arguments.items() if _keys_of(name) & keys}
    return {**attributes, **shown_otherwise}


def _keys_of(name: str) -> set[str]:
    """What the API may call an argument: a repeated block stands in the plural there."""
    first_word, *further_words = name.split("_")
    key = first_word + "".join(word.capitalize() for word in further_words)
    return {key, f"{key}s"}


def _of_member(attributes: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    labels = (body.get("metadata") or {}).get("labels") or {}
    taints = (body.get("spec") or {}).get("taints") or []
    changed: dict[str, Any] = {}
    if attributes.get("labels") is not None:
        changed["labels"] = dict(labels)
    if attributes.get("taint"):
        changed["taint"] = [
            {"key": t.get("key"), "value": t.get("value") or "", "effect": t.get("effect")} for t in taints
        ]
    return changed


# --- arguments of what stands ------------------------------------------------------------------------


def arguments_of(type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that say what an object of the fleet is, as blocks."""
    kind = KIND_OF[type_name]
    schema = RESOURCE_TYPES[type_name].schema
    document = read_fleet_document(
        "manifest", json.dumps(body), API_KINDS[kind], spec_schema(type_name), lenient=False
    )
    values = _in_shape(schema, copy.deepcopy(dict(document.values)))
    spec = spec_schema(type_name)
    return {name: values[name] for name in (*spec.attributes, *spec.blocks)}


def adopted_arguments(type_name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an object that somebody else wrote, without what the hub filled in."""
    arguments = arguments_of(type_name, as_written(body))
    schema = spec_schema(type_name)
    _without_fillings(schema, arguments)
    for name, block in schema.blocks.items():
        if name != "policy" and _says_nothing(block, arguments.get(name)):
            arguments[name] = None
    return arguments


@lru_cache(maxsize=32)
def spec_schema(type_name: str) -> BlockSchema:
    """What the blocks of a type may say."""
    schema = RESOURCE_TYPES[type_name].schema
    shape = API_KINDS[KIND_OF[type_name]].spec.fields
    names = {_snake(key) for key in shape}
    return BlockSchema(
        {name: each for name, each in schema.attributes.items() if name in names}, schema.blocks
    )


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def _in_shape(schema: BlockSchema, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with all names of a schema, and its defaults where nothing is said."""
    shaped: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        value = values.get(name)
        shaped[name] = attribute.default if value is None else value
    for name, block in schema.blocks.items():
        value = values.get(name)
        if block.nesting is Nesting.LIST:
            shaped[name] = [_in_shape(block.schema, part) for part in value or ()]
        else:
            shaped[name] = None if value is None else _in_shape(block.schema, value)
    return shaped


# What a hub fills in where a block has no default of its own.
_FILLED: Final = {
    "selection_scope": "NamespaceWithResources",
    "status_reporting_scope": "ClusterScopeOnly",
    "scope": "Cluster",
}


def _without_fillings(schema: BlockSchema, values: dict[str, Any]) -> None:
    for name, attribute in schema.attributes.items():
        if attribute.default is None and values.get(name) in (_FILLED.get(name), ""):
            values[name] = None
    for name, block in schema.blocks.items():
        inner = values.get(name)
        for part in objects_at(inner if isinstance(inner, list) else [inner]):
            _without_fillings(block.schema, part)


def _says_nothing(block: NestedBlock, value: Any) -> bool:
    """Whether a block says no more than the hub fills in."""
    if value is None or block.nesting is Nesting.LIST:
        return False
    for name, attribute in block.schema.attributes.items():
        if value.get(name) not in (None, attribute.default) and value.get(name) != "Disabled":
            return False
    inner = block.schema.blocks.items()
    return all(value.get(name) in (None, []) or _says_nothing(each, value[name]) for name, each in inner)
