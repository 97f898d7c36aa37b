"""fleet_hub_manifest blocks in a plan: those with a cluster_id bring their pods there at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress
from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, did_you_mean
from nexusform.domains.pods.importers.kubernetes_manifests import (
    Manifest,
    is_reserved,
    read_manifests,
    unwrapped,
)
from nexusform.domains.pods.planning.brought import PriorPods
from nexusform.domains.pods.planning.nodes import clusters_with_nodes
from nexusform.domains.pods.planning.observed import Elsewhere, observed_clusters
from nexusform.domains.pods.planning.phase import OBJECT_REPLACED, PodPhase
from nexusform.domains.pods.scheduling.risks import PodWarning
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.preparation.order import FLEET_PHASE, Order
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import Action
from nexusform.ports import Kind, Registries
from nexusform.state.objects import InstanceState
from nexusform.values import UNKNOWN
from nexusform.words import first_of, form

_MOST_PLACES: Final = 5


@lru_cache(maxsize=256)
def objects_in(body: str) -> tuple[Manifest, ...]:
    """The objects of a YAML text, envelopes opened."""
    return unwrapped(read_manifests("yaml_body", body).manifests).manifests


# --- what stands -------------------------------------------------------------------------------


def prior_pods(
    instances: Mapping[Address, InstanceState], registries: Registries, members: Mapping[str, str]
) -> Iterator[PriorPods]:
    """The pods that a state's instances hold, object by object in the order of creation; `members` are the
    members in that state: name -> cluster id.
    """
    standing = [
        (address, instance.current) for address, instance in instances.items() if instance.current is not None
    ]
    standing.sort(key=lambda item: item[1].creation)
    on_hub: tuple[Manifest, ...] | None = None
    for address, current in standing:
        workloads = current.attributes.get("workloads")
        if not isinstance(workloads, Mapping):
            continue
        kind = registries.kind_of(address.type)
        brought = registries.resource_types[address.type].brought if kind is Kind.PLACEMENT else None
        cluster_id = _target(current.attributes)
        if kind is Kind.MANIFEST and cluster_id:
            yield PriorPods(str(address), cluster_id, workloads, _objects_of(current.attributes))
        elif brought is not None:
            noted = brought(current.attributes, current.private)
            if noted is None and on_hub is None:
                on_hub = _prior_hub_objects(instances, registries)
            for member in dict.fromkeys((*workloads, *(noted or ()))):
                # An imported placement notes nothing of its members: they have what is on the hub.
                made_from = on_hub or ()
                if noted is not None:
                    made_from = unwrapped(noted.get(member, ())).manifests
                on_member = workloads.get(member) or {}
                if not on_member and not made_from:
                    continue  # it brings nothing there
                cluster_id = members.get(member, member)
                yield PriorPods(str(address), cluster_id, on_member, made_from)


def _prior_hub_objects(
    instances: Mapping[Address, InstanceState], registries: Registries
) -> tuple[Manifest, ...]:
    """The objects on the hub, for placements to select."""
    objects: list[Manifest] = []
    for address, instance in instances.items():
        current = instance.current
        if current is None or registries.kind_of(address.type) is not Kind.MANIFEST:
            continue
        if not current.attributes.get("cluster_id"):
            objects += _objects_of(current.attributes)
    return tuple(objects)


def _objects_of(attributes: Mapping[str, Any]) -> tuple[Manifest, ...]:
    return objects_in(str(attributes.get("yaml_body") or ""))


def prior_members(instances: Mapping[Address, InstanceState], registries: Registries) -> dict[str, str]:
    """The members that state holds: name -> id of the cluster that each is."""
    members = {}
    for address, instance in instances.items():
        if registries.kind_of(address.type) is Kind.MEMBER and instance.current is not None:
            attributes = instance.current.attributes
            cluster_id = str(attributes.get("kubernetes_cluster_id") or "")
            if cluster_id:
                members[str(attributes.get("name"))] = cluster_id
    return members


def pods_over(blocks: Blocks, objects: Iterable[VmObject], elsewhere: Elsewhere) -> PodPhase:
    """The pods of a plan over the VMs as they stand after phase 4, and over clusters of other states. What
    was brought by objects whose block is gone has left.
    """
    registries = blocks.request.registries
    members = prior_members(blocks.prior.instances, registries)
    left_out = {str(each) for each in blocks.prior.instances if not blocks.selection.has(each)}
    standing = [
        replace(each, left_out=each.address in left_out)
        for each in prior_pods(blocks.prior.instances, registries, members)
    ]
    objects = list(objects)
    clusters = {**elsewhere.clusters, **clusters_with_nodes(objects)}
    observed = observed_clusters(elsewhere, clusters, objects)
    clusters |= {cluster_id: each.cluster for cluster_id, each in observed.items()}
    pods = PodPhase(clusters, standing, members, elsewhere.pods, observed)
    for address, instance in blocks.instances.items():
        runs_on = instance.action is Action.FORGET
        if instance.going and instance.type.kind is Kind.MANIFEST:
            pods.leave(str(address), _target(instance.before), "workload_removed", runs_on=runs_on)
        elif instance.going and instance.type.kind is Kind.PLACEMENT:
            for member in (instance.before or {}).get("workloads") or {}:
                pods.leave(str(address), member, runs_on=runs_on)
    return pods


# --- blocks ------------------------------------------------------------------------------------


def plan_fleet_objects(blocks: Blocks, evaluation: Evaluation, pods: PodPhase) -> list[Diagnostic]:
    """Phase 5: members and whatever else stands on the hub, manifests in batches."""
    types = blocks.request.registries.resource_types
    phase = [block for block in blocks.order.of(FLEET_PHASE) if types[block.type].fleet is not None]
    manifests = frozenset(block.address for block in phase if types[block.type].kind is Kind.MANIFEST)
    problems: list[Diagnostic] = []
    for batch in _batches(phase, blocks.order, manifests):
        if batch[0].address in manifests:
            problems += plan_manifests(batch, blocks, evaluation, pods)
        else:
            blocks.plan_ordinary(batch[0], evaluation)
    return problems


def plan_manifests(
    manifest_blocks: Sequence[ResourceBlock], blocks: Blocks, evaluation: Evaluation, pods: PodPhase
) -> list[Diagnostic]:
    """Plan hub manifests that do not refer to each other: all of them stand in one queue."""
    instances: list[Instance] = []
    for block in manifest_blocks:
        expanded = blocks.expanded(block, evaluation)
        assert expanded is not None
        blocks.diagnostics += expanded.diagnostics
        for instance in expanded.instances:
            if instance.configured:
                blocks.diagnostics += blocks.evaluate_known(instance, evaluation)
                if instance.config is not None and not instance.broken:
                    blocks.preview(instance, evaluation)
        instances += expanded.instances
    _leave(instances, pods)
    problems = _unknown_clusters(instances, pods)
    workloads = _place_pods(instances, pods)
    for instance in instances:
        if instance.configured:
            blocks.conclude(instance, {"workloads": workloads.get(instance.address)}, evaluation)
        blocks.keep(instance, evaluation)
    return problems


def _target(attributes: Mapping[str, Any] | None) -> str:
    """The cluster that an object names, "" when it names none or it is not known."""
    cluster_id = (attributes or {}).get("cluster_id")
    return cluster_id if isinstance(cluster_id, str) else ""


def _leave(instances: Iterable[Instance], pods: PodPhase) -> None:
    """What goes, and what goes to another cluster, leaves where it was."""
    for instance in instances:
        before = _target(instance.before)
        if not before:
            continue
        if instance.going:
            pods.leave(str(instance.address), before, "workload_removed")
        elif instance.replaced:
            pods.leave(str(instance.address), before, OBJECT_REPLACED)
        elif instance.config is not None and _target(instance.config) != before:
            pods.leave(str(instance.address), before)


def _unknown_clusters(instances: Iterable[Instance], pods: PodPhase) -> list[Diagnostic]:
    """An error per manifest for a cluster that nobody knows."""
    problems: list[Diagnostic] = []
    known = sorted(pods.clusters)
    for instance in instances:
        target = _target(instance.config)
        if not target or instance.going or instance.broken or target in pods.clusters:
            continue
        choice = f" Known: {', '.join(known[:10])}." if known else ""
        detail = f'No cluster has the id "{target}".{did_you_mean(target, known)}{choice}'
        problems.append(instance.problem(Problem(("cluster_id",), "unknown-cluster", detail)))
        instance.broken = True
    return problems


def _place_pods(instances: Iterable[Instance], pods: PodPhase) -> dict[Address, Any]:
    """The `workloads` of every instance that names a cluster, cluster by cluster, older objects first."""
    by_cluster: dict[str, list[tuple[Instance, tuple[Manifest, ...]]]] = {}
    for instance in instances:
        target = _target(instance.config)
        if instance.broken or instance.going or not target or instance.config is None:
            continue
        body = instance.config.get("yaml_body")
        if body is UNKNOWN or not isinstance(body, str):
            continue
        by_cluster.setdefault(target, []).append((instance, objects_in(body)))
    values: dict[Address, Any] = {}
    for cluster_id, brought in by_cluster.items():
        brought.sort(key=lambda pair: _age(pair[0]))
        objects = [(str(instance.address), manifests) for instance, manifests in brought]
        shown = pods.place_together(cluster_id, objects)
        values |= {instance.address: shown[str(instance.address)] for instance, _ in brought}
    return values


def _age(instance: Instance) -> tuple[bool, int]:
    """Sorts what stands by its creation, and what is new after it."""
    return (False, instance.prior.creation) if instance.prior is not None else (True, 0)


def _batches(
    phase: Sequence[ResourceBlock], order: Order, manifests: AbstractSet[ConfigAddress]
) -> list[list[ResourceBlock]]:
    """Blocks of phase 5 in an order that keeps what they refer to before them: manifests together, as far
    as none refers to another, every other block alone.
    """
    batches: list[list[ResourceBlock]] = []
    waiting: list[ResourceBlock] = []
    for block in phase:
        needs = order.direct_needs(block.address)
        if any(other.address in needs for other in waiting):
            batches.append(waiting)
            waiting = []
        if block.address in manifests:
            waiting.append(block)
        else:
            batches.append([block])
    return [*batches, waiting] if waiting else batches


# --- words -------------------------------------------------------------------------------------


def manifest_findings(pods: PodPhase, instances: Mapping[Address, Instance]) -> Iterator[Diagnostic]:
    """What is wrong with manifests, at the block that brings them."""
    by_address = {str(address): instance for address, instance in instances.items()}
    for address, finding in pods.findings:
        instance = by_address.get(address)
        if instance is not None:
            at = ("yaml_body",) if instance.type.kind is Kind.MANIFEST else ()
            detail = f"yaml_body:{finding.line}: {finding.detail}" if finding.line else finding.detail
            yield instance.problem(Problem(at, finding.id, detail, finding.severity, brief=finding.brief))


def pod_risks(pods: PodPhase, instances: Mapping[Address, Instance]) -> Iterator[Diagnostic]:
    """What pods risk, at the block that brings them: a kind of risk of one workload once, with all places."""
    by_address = {str(address): instance for address, instance in instances.items()}
    yield from _without_namespace(pods, by_address)
    clusters = pods.clusters_of_objects()
    alike: dict[tuple[str, str, str], list[_Risk]] = {}
    for address, cluster, warning in pods.warnings:
        alike.setdefault((address, warning.workload, warning.kind), []).append((cluster, warning))
    for (address, _, kind), risks in alike.items():
        instance = by_address.get(address)
        if instance is not None:
            named = len(clusters[address]) > 1
            problem = Problem((), kind, _together(risks, named=named), Severity.WARNING)
            yield replace(instance.problem(problem), brief=_brief(risks, named=named))


def _without_namespace(pods: PodPhase, instances: Mapping[str, Instance]) -> Iterator[Diagnostic]:
    """Objects of single clusters whose pods are in a namespace that nothing brings there. Of those that
    placements bring, the placements warn.
    """
    of_members = _namespaces_of_members(instances.values())
    for address, cluster_id, missing in pods.missing_namespaces():
        instance = instances.get(address)
        if instance is None or instance.type.kind is not Kind.MANIFEST:
            continue
        cluster = pods.clusters[cluster_id].name
        for namespace in sorted(missing - of_members.get(cluster_id, set())):
            if is_reserved(namespace):
                continue
            detail = (
                f"Nothing brings the namespace {namespace} to {cluster}, and without it the objects cannot "
                "be applied there. Add a Namespace to yaml_body, or name it in namespaces of the member "
                "where it is there already."
            )
            problem = Problem(
                ("yaml_body",),
                "namespace-is-not-on-the-cluster",
                detail,
                Severity.WARNING,
                brief=f"{namespace}: nothing brings it to {cluster}",
            )
            yield instance.problem(problem)


def _namespaces_of_members(instances: Iterable[Instance]) -> dict[str, set[str]]:
    """The namespaces that members are said to have, by the id of the cluster that each is."""
    namespaces: dict[str, set[str]] = {}
    for instance in instances:
        member = instance.config or {}
        cluster_id = member.get("kubernetes_cluster_id")
        names = member.get("namespaces")
        if (
            instance.type.kind is Kind.MEMBER
            and isinstance(cluster_id, str)
            and isinstance(names, Collection)
        ):
            namespaces.setdefault(cluster_id, set()).update(names or ())
    return namespaces


_Risk: TypeAlias = tuple[str, PodWarning]  # the cluster's name, and what is risked there


def _together(risks: Sequence[_Risk], *, named: bool) -> str:
    """Warnings of one kind about one workload as one. `named`: it is on several clusters, so each is named.

    Of shared machines and racks the first is told whole, of the others which they are; anything else differs
    from cluster to cluster.
    """
    cluster, first = risks[0]
    if not first.place:
        return " ".join(_by_cluster([(other, warning.detail) for other, warning in risks], named=named))
    detail = f"On cluster {cluster}: {first.detail}" if named else first.detail
    others = dict.fromkeys(
        f"{warning.place} ({other})" if named else warning.place for other, warning in risks
    )
    places = list(others)[1:]
    return f"{detail} Its pods share {first_of(places, _MOST_PLACES)}, too." if places else detail


def _by_cluster(texts: Iterable[tuple[str, str]], *, named: bool) -> Iterator[str]:
    """Each text once, after the clusters of which it is true; what they are about is said with the first."""
    clusters: dict[str, list[str]] = {}
    for cluster, text in texts:
        clusters.setdefault(text, []).append(cluster)
    about = ""
    for text, of_text in clusters.items():
        where = f"On {form(len(of_text), 'cluster')} {first_of(of_text, _MOST_PLACES)}: " if named else ""
        yield f"{where}{text.removeprefix(about)}"
        about = about or f"{text.partition(': ')[0]}: "


def _brief(risks: Sequence[_Risk], *, named: bool) -> str:
    """The same in a line, with the first one's reason; "" where the warnings have none."""
    brief = risks[0][1].brief
    subject, _, text = brief.partition(": ")
    if not named or not text:
        return brief
    _, colon, reason = text.partition(": ")
    said = [f"{_head(warning.brief)} on {cluster}" for cluster, warning in risks]
    return f"{subject}: {'; '.join(said)}{colon}{reason}"


def _head(brief: str) -> str:
    """`2 Pending` of `web/shop: 2 Pending: why`."""
    return brief.partition(": ")[2].partition(": ")[0]
