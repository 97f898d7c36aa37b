"""Common part of observing providers: read sites, and verify changes made by others.

Until then, their step waits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import enclose, format_first_items, format_list, select_word_form
from nexusform.domains.azure.importers.azure_request_bodies import (
    UPGRADE_DEFAULTS,
    omit_members,
    read_hugepages,
    select_members,
)
from nexusform.domains.azure.providers.machine_cordons import (
    MACHINE,
    RACK,
    explain_unsupported_action,
    find_cordon_differences,
)
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ManualStepPending,
    ObjectKey,
    ProviderProblem,
    ReadRequest,
    ReadResult,
    SiteCapture,
)
from nexusform.json_data.plain_data import Path, get_list, get_mapping, get_value_at_path
from nexusform.providers.clock import read_clock
from nexusform.providers.optional_provider_interfaces import FixedIdentity
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.resource_types.machine_facts import EXPORTED_FACTS, UNCORDONED
from nexusform.scheduling.machine_actions import MACHINE_ACTION_TYPE
from nexusform.schemas.block_schema import FORGOTTEN_KEY, UNMANAGED_KEY, UNREAD_KEY

# The importers are loaded where a site is read.
if TYPE_CHECKING:
    from nexusform.domains.azure.importers.az_import import ImportedSiteObject
    from nexusform.domains.azure.importers.az_records import AzCluster, AzMachine, AzSite

# Returns the current sites and findings about them.
ReadSites: TypeAlias = "Callable[[], tuple[tuple[AzSite, ...], list[Problem]]]"

_MAX_NAMES: Final = 4
# One VM on a machine, as in the note UNMANAGED.
_UnmanagedRow: TypeAlias = tuple[str, str, int, int, int, int]

# In the private note of an object.
GROUP_KEY: Final = "resource_group"
# Types unknown to Azure; they exist only in state.
_SITE: Final = "nexus_site"
_STRATEGY: Final = "update_strategy"
_STATE_ONLY_TYPES: Final = frozenset(
    {_SITE, "nexus_vm_sku", "nexus_separation_rule", MACHINE_ACTION_TYPE}
)
_CLUSTER: Final = "nexus_kubernetes_cluster"
_POOL: Final = "nexus_agent_pool"
_VM: Final = "nexus_virtual_machine"
# Kind of document that lists the objects of a type. An object that a complete list lacks
# does not exist.
_LIST_KINDS: Final[Mapping[str, str]] = {
    RACK: "racks",
    MACHINE: "bare_metal_machines",
    _CLUSTER: "kubernetes_clusters",
    _POOL: "kubernetes_clusters",
    _VM: "virtual_machines",
}


class ObservedSites(FixedIdentity):
    """Sites read once, on first use."""

    sends_changes = False
    observes_objects = True
    _runs_actions = False

    def __init__(
        self,
        name: str,
        source: str,
        advice: str,
        read_sites: ReadSites,
        *,
        is_captured: bool = False,
        verify_absence: Callable[[Sequence[ReadRequest]], None] = lambda _requests: None,
        identity: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the source, and read nothing yet.

        `source` is its name in messages. `advice` is the user's task if no change is visible.
        With `is_captured`, the sites are from a capture. `verify_absence` raises if an
        unlisted object exists.
        """
        self.name = name
        self.source = source
        self._advice = advice
        self._read = read_sites
        self.is_captured = is_captured
        self._verify_absence = verify_absence
        super().__init__(get_mapping(identity))
        self._lock = Lock()
        self._sites: Mapping[str, AzSite] | None = None  # by name
        # Findings about the source, with recorded site names.
        self._findings: list[Problem] = []
        # Machines by site and name.
        self._machines: dict[str, dict[str, AzMachine]] = {}
        # Attributes of objects in state.
        self._recorded: tuple[Mapping[str, Any], ...] = ()
        # Ids of pools with a block of their own; sites list them in clusters.
        self._separate_pools: set[str] = set()
        # Pairs of type and id.
        self._managed: set[tuple[str, str]] = set()
        # Requested ids by site and type.
        self._unobserved: dict[tuple[str, str], set[str]] = {}

    def set_state_objects(
        self, objects: Iterable[Mapping[str, Any]], managed: Iterable[tuple[str, str]]
    ) -> None:
        """Take the attributes of this provider's objects in state, and type and id of all objects.

        Sites keep their recorded names, separate pools stay separate, and VMs of `managed` objects
        count as managed.
        """
        self._recorded = tuple(objects)
        self._managed.update(managed)
        pools = [str(known["id"]) for known in self._recorded if "kubernetes_cluster_id" in known]
        # Only type and id count.
        self._record_separate_pools(ObjectKey(_POOL, pool, creation=0) for pool in pools)

    def discard_reads(
        self, objects: Iterable[Mapping[str, Any]], managed: Iterable[tuple[str, str]]
    ) -> None:
        """Discard the sites read so far, and take the objects of the state now."""
        self._discard_cache()
        self.set_state_objects(objects, managed)

    def describe_last_change(self, _resource_type: str, _name: str) -> str:
        """Return "": parsed sites have no authors."""
        return ""

    def list_machine_activity(self, _since: str) -> Mapping[str, str]:
        """Return {}: an export has no actions."""
        return {}

    def _discard_cache(self) -> None:
        """Discard the sites read so far."""
        with self._lock:
            self._sites = None
            self._machines = {}

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read the objects; nodes keep recorded numbers.

        Raises ProviderProblem, also if an unlisted object exists.
        """
        self._record_separate_pools(request.key for request in requests)
        objects = self._build_objects([request.known_attributes for request in requests])
        machine_names = _collect_machines_by_rack(objects.values())
        unmanaged_rows = self._collect_unmanaged_vms(objects.values())
        results: list[ReadResult] = []
        # Requests for objects in state that are missing on the site.
        missing: list[ReadRequest] = []
        for request in requests:
            result = self._read_object(request, objects, machine_names, unmanaged_rows)
            if request.attributes and not result.attributes:
                missing.append(request)
                # Hardware that is gone is a difference of the site, not a change to plan.
                if request.key.type in {RACK, MACHINE}:
                    result = ReadResult(request.attributes)
            results.append(result)
        self._verify_absence(missing)
        return results

    def create(self, request: ChangeRequest) -> ChangeResult:
        """Verify the creation of the object.

        Raises ProviderProblem until it exists, and for machine actions.
        """
        if request.key.type == MACHINE_ACTION_TYPE:
            raise ProviderProblem(explain_unsupported_action(request.planned_attributes))
        return self._verify_change_is_visible(request, "made")

    def update(self, request: ChangeRequest) -> ChangeResult:
        """Verify that the change is done.

        Raises ProviderProblem until it is visible.
        """
        if request.is_release:
            return self._verify_release(request)
        return self._verify_change_is_visible(request, "changed")

    def delete(self, request: ChangeRequest) -> None:
        """Verify the deletion of an object, made by an operator.

        Raises ManualStepPending while it may exist.
        """
        key = request.key
        self._record_separate_pools([key])
        if key.type in _STATE_ONLY_TYPES:
            # Azure has no such object.
            return
        observed_objects = self._build_objects([request.prior_attributes])
        exists = (key.type, key.id) in observed_objects
        # An incomplete list may lack an existing object.
        if exists or not self._has_complete_list_for_object(key):
            raise ManualStepPending(self._describe_not_done(request, "removed"))
        self._verify_absence(
            [ReadRequest(key, request.prior_attributes, private_note=request.private_note)]
        )

    def find(
        self, resource_type: str, object_id: str
    ) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """Find an object by type and id; it is managed from now on.

        Return None if no site lists it.
        """
        # The number is for objects in state.
        key = ObjectKey(resource_type, object_id, creation=0)
        self._record_separate_pools([key])
        self._managed.add((resource_type, object_id))
        item = self._build_objects([]).get((resource_type, object_id))
        return None if item is None else (key, item.attributes)

    def list_workload_ids(self) -> frozenset[tuple[str, str]]:
        """Return type and id of all clusters, and of all VMs outside clusters.

        Raises ProviderProblem.
        """
        return frozenset(
            key for key in self._build_objects([]) if key[0] in (_CLUSTER, "nexus_virtual_machine")
        )

    def collect_site_notes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the racks and machines of each site as listed, and its unread facts, by name.

        Raises ProviderProblem.
        """
        from nexusform.domains.azure.importers.az_import import build_site_note

        return {
            name: build_site_note(site, self._managed) for name, site in self._read_sites().items()
        }

    def _build_objects(
        self,
        recorded: Sequence[Mapping[str, Any]],
        pools: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[tuple[str, str], ImportedSiteObject]:
        """Build the objects of all sites by type and id.

        `recorded` are attributes of clusters and pools: their nodes keep their numbers. Arguments
        of uncaptured pools come from `pools`, or without it from `recorded`.
        """
        from nexusform.domains.azure.importers.az_import import build_imported_sites, extract_pools
        from nexusform.domains.azure.importers.az_recorded_nodes import (
            add_pool_arguments,
            collect_recorded_nodes,
        )

        recorded_nodes = collect_recorded_nodes(recorded)
        if pools is not None:
            recorded_nodes = add_pool_arguments(recorded_nodes, pools)
        imported_sites = build_imported_sites(self._read_sites().values(), recorded_nodes)
        site_objects = chain.from_iterable(site.objects for site in imported_sites)
        return {
            (item.type, item.id): item
            for item in extract_pools(site_objects, self._list_separate_pools())
        }

    def _record_separate_pools(self, keys: Iterable[ObjectKey]) -> None:
        """Record the pools with a block of their own: they are objects outside their cluster."""
        with self._lock:
            self._separate_pools.update(key.id for key in keys if key.type == _POOL)

    def _list_separate_pools(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._separate_pools)

    def _read_object(
        self,
        request: ReadRequest,
        objects: Mapping[tuple[str, str], ImportedSiteObject],
        machine_names: Mapping[str, set[str]],
        unmanaged_rows: Mapping[tuple[str, str], Mapping[str, _UnmanagedRow]],
    ) -> ReadResult:
        """Read an object from the site.

        A missing one does not exist, or is as in state if its list is incomplete.
        """
        key = request.key
        if key.type in _STATE_ONLY_TYPES:
            return self._read_state_only_object(request)
        item = objects.get((key.type, key.id))
        # Of a cluster or pool, else None.
        cluster = self._find_cluster(key)
        lacks_node_list = cluster is not None and not cluster.has_node_list
        if item is None:
            if self._has_complete_list_for_object(key):
                return ReadResult(attributes=None)
            # Else a warning about its nodes suffices.
            if not lacks_node_list:
                self._unobserved.setdefault((key.id.partition("/")[0], key.type), set()).add(key.id)
            # As recorded; a new one does not exist.
            return ReadResult(request.attributes or None, is_observed=False)
        attributes = _remove_generated_machines(
            _merge_observed(request.known_attributes, item), item, machine_names
        )
        facts_note = self._build_machine_facts_note(key, attributes, request.private_note)
        if lacks_node_list:
            return ReadResult(
                _restore_recorded_nodes(attributes, request.known_attributes), is_observed=False
            )
        recorded_nodes = request.known_attributes.get("nodes")
        if isinstance(recorded_nodes, Mapping):
            # Nodes missing on the site were deleted, except those recorded without a platform name.
            kept = {name for name, node in recorded_nodes.items() if not node["platform_name"]}
            attributes = _remove_missing_nodes(attributes, kept)
        group_note = omit_empty({GROUP_KEY: item.resource_group})
        note = {
            **_build_unmanaged_vms_note(key, attributes, unmanaged_rows),
            **facts_note,
            **group_note,
        }
        return ReadResult(attributes, note=note)

    def _read_state_only_object(self, request: ReadRequest) -> ReadResult:
        """Read an object known only to the state.

        For a site, the note (private data in state) and a configured update strategy are observed.
        Raises ProviderProblem for a source of another subscription.
        """
        recorded = request.attributes
        site = self._find_site(request.key, _SITE)
        # Another type or a site missing in the source, or a new object.
        if site is None or not recorded:
            return ReadResult(recorded or None, is_observed=False)
        strategy = site.inventory.update_strategy
        if recorded.get(_STRATEGY) and strategy is not None:
            recorded = {**recorded, _STRATEGY: strategy}
        from nexusform.domains.azure.importers.az_import import (
            build_site_note,
            describe_other_subscription,
        )

        if difference := describe_other_subscription(site, request.private_note):
            raise ProviderProblem(
                f"{self.source[0].upper()}{self.source[1:]} is of another subscription: "
                f"{difference}"
            )
        # None removes recorded facts that are read now.
        removed_note = dict.fromkeys({UNREAD_KEY} & request.private_note.keys())
        note = {**removed_note, **build_site_note(site, self._managed)}
        return ReadResult(recorded, is_observed=False, note=note)

    def _build_machine_facts_note(
        self, key: ObjectKey, attributes: Mapping[str, Any], recorded_note: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Build the note of observed facts of a machine or a rack's machines; {} for others.

        Private data in state.
        """
        site = self._find_site(key, RACK, MACHINE)
        if site is None:
            # Of another type, or of an unlisted site.
            return {}
        if site.name not in self._machines:
            self._machines[site.name] = {
                machine.name: machine for machine in site.inventory.machines
            }
        from nexusform.domains.azure.importers.az_import import build_observed_facts_note

        exported_at = site.inventory.exported_at if site.inventory.is_age_certain else None
        # Of the export (None: unknown), or now.
        time = exported_at if self.is_captured else read_clock()
        return build_observed_facts_note(attributes, self._machines[site.name], recorded_note, time)

    def _has_complete_list_for_object(self, key: ObjectKey) -> bool:
        """Return True if the site lists all objects of its kind.

        Then an unlisted object does not exist.
        """
        site = self._find_site(key, *_LIST_KINDS)
        if site is None or _LIST_KINDS[key.type] not in site.inventory.listed_kinds:
            # The list is incomplete.
            return False
        # Azure itself is queried about unlisted objects.
        if self.is_captured and key.type in {RACK, MACHINE}:
            # SITE/RACK, or SITE/RACK/MACHINE.
            rack = key.id.split("/")[1]
            if site.inventory.lacks_machines or rack in site.inventory.racks_without_machines:
                # Other resources contradict the list.
                return False
        # A listed cluster exists, even if it could not be imported.
        return key.type != _CLUSTER or self._find_cluster(key) is None

    def _find_site(self, key: ObjectKey, *types: str) -> AzSite | None:
        """Find the site named first in an object's id.

        Return None for an unlisted site, or a type not in `types`.
        """
        return self._read_sites().get(key.id.partition("/")[0]) if key.type in types else None

    def _find_cluster(self, key: ObjectKey) -> AzCluster | None:
        """Find the cluster named in the id of a cluster or pool.

        Return None for another object, or without this cluster.
        """
        site = self._find_site(key, _CLUSTER, _POOL)
        if site is None:
            # Another type, or an unlisted site.
            return None
        # SITE/CLUSTER or SITE/CLUSTER/POOL.
        name = key.id.split("/")[1]
        return next((cluster for cluster in site.inventory.clusters if cluster.name == name), None)

    def _collect_unmanaged_vms(
        self, objects: Iterable[ImportedSiteObject]
    ) -> dict[tuple[str, str], dict[str, _UnmanagedRow]]:
        """Collect rows (machine, VM, vCPUs, memory, disk, cells) of unmanaged VMs.

        The rows are by site and machine, then by VM name.
        """
        from nexusform.domains.azure.importers.az_import import find_unmanaged_vms

        rows_by_machine: dict[tuple[str, str], dict[str, _UnmanagedRow]] = {}
        for site in self._read_sites().values():
            for vm in find_unmanaged_vms(site, self._managed):
                rows = rows_by_machine.setdefault((site.name, vm.machine), {})
                shape = vm.shape
                figures = (
                    shape.cpu_cores,
                    shape.memory_gib,
                    shape.disk_gib,
                    max(shape.numa_cells, 1),
                )
                rows[vm.name] = (vm.machine, vm.name, *figures)
        for item in objects:
            if item.type != MACHINE:
                continue
            machine = str(item.attributes["name"])
            # `occupied` also has nodes beyond their pool's count and sizes beyond a VM SKU. VMs
            # listed above stay.
            for block in item.attributes["occupied"]:
                figures = (
                    block["cpu_cores"],
                    block["memory_gib"],
                    block["disk_gib"],
                    block["numa_cells"],
                )
                rows = rows_by_machine.setdefault((item.id.partition("/")[0], machine), {})
                rows.setdefault(block["name"], (machine, block["name"], *figures))
        return rows_by_machine

    def list_warnings(self) -> list[Problem]:
        """Collect warnings about observed sites.

        They are about requested but unobserved objects, unmanaged VMs, and capture times
        in the future.
        """
        if self._sites is None:
            # Nothing was read.
            return []
        from nexusform.domains.azure.providers.site_warnings import SiteWarningBuilder

        warnings = SiteWarningBuilder(
            self.source, self._sites, self._unobserved, self._managed, self._findings
        ).build_warnings()
        future_times = [
            warning
            for site in self._sites.values()
            for warning in self._build_future_time_warnings(site)
        ]
        return [*warnings, *dict.fromkeys(future_times)]  # each once

    def list_captures(self) -> list[SiteCapture]:
        """List the captured sites."""
        if self._sites is None or not self.is_captured:
            # Nothing was read, or it is current.
            return []
        captures: list[SiteCapture] = []
        for name, site in self._sites.items():
            # A time in the future.
            is_wrong = bool(self._build_future_time_warnings(site))
            time = "" if is_wrong else site.inventory.exported_at or ""
            captures.append(SiteCapture(name, time, not site.inventory.is_age_certain))
        return captures

    def _build_future_time_warnings(self, site: AzSite) -> list[Problem]:
        """Build a warning about the time of a captured site if it is in the future."""
        from nexusform.domains.azure.importers.az_capture_commands import build_future_time_warnings

        return (
            build_future_time_warnings(site.inventory.exported_at, read_clock())
            if self.is_captured
            else []
        )

    def _read_sites(self) -> Mapping[str, AzSite]:
        """Read the sites once, by recorded name.

        Raises ProviderProblem.
        """
        from nexusform.domains.azure.importers.az_recorded_nodes import (
            locate_vms_on_unlisted_machines,
        )
        from nexusform.domains.azure.importers.site_separation import apply_recorded_site_names

        with self._lock:
            if self._sites is None:
                sites, problems = self._read()
                errors = [problem for problem in problems if problem.severity is Severity.ERROR]
                if errors:
                    raise ProviderProblem(f"{errors[0]}" if errors[0].file else errors[0].detail)
                named_sites = apply_recorded_site_names(sites, self._recorded)
                new_names = {
                    site.name: named.name for site, named in zip(sites, named_sites, strict=True)
                }
                self._findings = [
                    replace(problem, site_id=new_names.get(problem.site_id, problem.site_id))
                    for problem in problems
                ]
                if self.is_captured:
                    named_sites = locate_vms_on_unlisted_machines(named_sites, self._recorded)
                self._sites = {site.name: site for site in named_sites}
            return self._sites

    def _verify_change_is_visible(self, request: ChangeRequest, participle: str) -> ChangeResult:
        """Return the observed object.

        Raises ManualStepPending (`participle`: "made") if it differs from the plan.
        """
        planned = request.planned_attributes
        key = request.key
        # Only the update strategy of a site is observed.
        if key.type in _STATE_ONLY_TYPES:
            strategy = planned.get(_STRATEGY)
            site = self._find_site(key, _SITE) if strategy else None
            if site is not None and site.inventory.update_strategy not in (None, strategy):
                raise ManualStepPending(self._describe_not_done(request, participle, (_STRATEGY,)))
            return ChangeResult(planned)
        self._record_separate_pools([key])
        # Prior values of uncaptured pools.
        objects = self._build_objects([planned], pools=[request.prior_attributes])
        observation = build_observed_object(request, objects)
        if observation is None:
            raise ManualStepPending(self._describe_not_done(request, participle))
        # Statuses by machine id.
        cordon_statuses = {
            object_id: str(item.attributes["cordon_status"])
            for (kind, object_id), item in objects.items()
            if kind == MACHINE
        }
        differing = (*observation.differing, *find_cordon_differences(request, cordon_statuses))
        if differing:
            raise ManualStepPending(self._describe_not_done(request, participle, differing))
        observed = dict(observation.answer.attributes)
        planned_nodes = planned.get("nodes")
        # A cluster or a pool.
        if isinstance(planned_nodes, Mapping):
            missing_nodes = find_missing_nodes(observed, planned)
            if missing_nodes:
                form = select_word_form(len(missing_nodes), "node")
                names = f"{form} {format_first_items(missing_nodes, _MAX_NAMES)}"
                raise ManualStepPending(self._describe_not_done(request, participle, missing=names))
            # Other missing nodes may be those of a later step: leave them out.
            observed = _remove_missing_nodes(observed, planned_nodes)
        answer = replace(observation.answer, attributes=observed)
        if key.type not in {RACK, MACHINE}:
            # Only racks and machines have observed facts.
            return answer
        return replace(
            answer, note=self._build_machine_facts_note(key, observed, request.private_note)
        )

    def _verify_release(self, request: ChangeRequest) -> ChangeResult:
        """Verify a step for releasing capacity, by the values after all steps of its object.

        Raises ManualStepPending while they are not visible, or a plain VM has its machine, with the
        commands to delete the nodes remaining.
        """
        from nexusform.domains.azure.providers.node_recreation import (
            find_nodes_to_delete,
            render_node_deletion,
        )

        self._record_separate_pools([request.key])
        item = self._build_objects([request.prior_attributes]).get(
            (request.key.type, request.key.id)
        )
        observed = item.attributes if item is not None else {}
        if request.key.type == _VM and observed.get("machine") in {
            None,
            request.prior_attributes.get("machine"),
        }:
            raise ManualStepPending(self._describe_not_done(request, "re-created", ("machine",)))
        remaining_names = find_nodes_to_delete(request, get_mapping(observed, "nodes"))
        cluster = self._find_cluster(request.key)
        if remaining_names and cluster is not None:
            commands = render_node_deletion(cluster.name, remaining_names)
            raise ManualStepPending(
                "\n".join([self._describe_not_done(request, "changed"), *commands])
            )
        self._verify_change_is_visible(
            replace(request, planned=request.final_attributes), "changed"
        )
        return ChangeResult(request.planned_attributes)

    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """Return an error for each new machine action with the index of its request.

        There is none if the provider runs the actions.
        """
        if self._runs_actions:
            # They are valid.
            return []
        return [
            (
                number,
                Problem((), "unsupported-by-provider", explain_unsupported_action(request.planned)),
            )
            for number, request in enumerate(requests)
            if request.key.type == MACHINE_ACTION_TYPE and request.planned and not request.prior
        ]

    def _describe_not_done(
        self,
        request: ChangeRequest,
        participle: str,
        differing: Sequence[str] = (),
        missing: str = "",
    ) -> str:
        """Describe why a change does not count as done.

        `participle` is "made", "changed", "re-created" or "removed". `missing` are parts that
        the site lacks.
        """
        relation = "has another" if participle == "made" else "still has the old"
        observed = enclose(f"{relation} ", format_list(differing)) or "does not show it"
        if missing:
            observed = f"lacks {missing}"
        if "machine_count" in differing:
            observed += (
                ". The machines of that rack have other names: set machine_count = 0 and declare a "
                "nexus_bare_metal_machine for each (`nexusform import -from` does this)"
            )
        cluster = self._find_cluster(request.key)
        uncaptured = ""
        if cluster is not None and not cluster.has_node_list:
            uncaptured = f" The nodes of {cluster.name} were not captured."
        elif cluster is not None and not cluster.has_pool_list:
            uncaptured = (
                f" The agent pools of {cluster.name} were not captured; only their nodes are known."
            )
        subject = f"{request.key.type} {request.key.id}"
        site_name = request.key.id.partition("/")[0]
        if site_name not in self._read_sites():
            fact = (
                f"Whether {subject} is {participle} is unknown: {self.source} does not contain "
                f"the site {site_name}"
            )
        elif participle != "removed":
            fact = f"{subject} is not {participle} yet: {self.source} {observed}"
        elif (request.key.type, request.key.id) in self._build_objects([request.prior_attributes]):
            fact = f"{subject} is not removed yet: {self.source} still contains it"
        else:
            fact = (
                f"Whether {subject} is removed is unknown: {self.source} has no complete list of "
                "its kind"
            )
        return (
            f"{fact}.{uncaptured} This provider sends no changes: make it on the site, "
            f"{self._advice}, and apply."
        )


class ObservedObjectComparison(Struct, frozen=True):
    """Observed object for a planned one, and the names of attributes that differ.

    The object is `answer`. The names are those of attributes with another value than planned.
    """

    answer: ChangeResult
    differing: tuple[str, ...]


def build_observed_object(
    request: ChangeRequest, objects: Mapping[tuple[str, str], ImportedSiteObject]
) -> ObservedObjectComparison | None:
    """Compare a requested object with the site; None if not listed.

    For a cluster, only pools of its block count.
    """
    key = request.key
    planned = request.planned_attributes
    item = objects.get((key.type, key.id))
    if item is None:
        return None
    if key.type == _CLUSTER:
        prior = request.prior_attributes
        from nexusform.domains.azure.importers.az_import import remove_pools

        own_pools = {*get_mapping(planned, "agent_pool"), *get_mapping(prior, "agent_pool")}
        item = remove_pools(item, item.attributes["agent_pool"].keys() - own_pools)
    merged = _merge_observed(planned, item)
    attributes = _remove_generated_machines(
        merged, item, _collect_machines_by_rack(objects.values())
    )
    differing = tuple(
        name
        for name in _COMPARED_ATTRIBUTES.get(key.type, ())
        if attributes[name] != planned.get(name)
    )
    names = _OBSERVED_ATTRIBUTES.get(key.type, ())
    # May differ from the plan.
    observed_paths: list[Path] = [(name,) for name in names if name != "nodes"]
    if "nodes" in names:
        observed_paths += [("nodes", node) for node in attributes["nodes"]]
    return ObservedObjectComparison(ChangeResult(attributes, tuple(observed_paths)), differing)


_UPGRADE_SETTINGS: Final = "upgrade_settings"
# Requested attributes visible on a site, and attributes decided by the platform, by type.
_REQUESTED_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    RACK: ("availability_zone",),
    _CLUSTER: ("kubernetes_version", "control_plane", "agent_pool"),
    _POOL: (
        "node_count",
        "vm_sku_name",
        "availability_zones",
        "mode",
        "labels",
        "taint",
        "upgrade_settings",
    ),
    "nexus_virtual_machine": ("cpu_cores", "memory_gib", "disk_gib"),
}
_COMPARED_ATTRIBUTES: Final = {
    **_REQUESTED_ATTRIBUTES,
    RACK: ("availability_zone", "machine_count"),
}
# Maps with every entry observed.
_LABELED_MAPS: Final = ("agent_pool", "nodes")
_OBSERVED_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    _CLUSTER: ("nodes", "node_count"),
    _POOL: ("nodes",),
    MACHINE: tuple(fact.name for fact in EXPORTED_FACTS if fact.attribute.observed),
    "nexus_virtual_machine": ("machine", "rack", "availability_zone", "cells", "provenance"),
}


def _collect_machines_by_rack(objects: Iterable[ImportedSiteObject]) -> dict[str, set[str]]:
    """Collect the names of the observed machines by rack id."""
    names: dict[str, set[str]] = {}
    for item in objects:
        if item.type == MACHINE:
            names.setdefault(item.attributes["rack_id"], set()).add(item.attributes["name"])
    return names


def _remove_generated_machines(
    attributes: dict[str, Any], item: ImportedSiteObject, machine_names: Mapping[str, set[str]]
) -> dict[str, Any]:
    """Return a rack without generated machines if the observed ones have other names.

    Generated machines are those of machine_count.
    """
    generated = attributes.get("machines")
    # None but for racks.
    observed = machine_names.get(item.id)
    if not generated or not observed or not observed.isdisjoint(generated):
        # None generated, none observed, or some in common.
        return attributes
    # So that no VM is predicted on a missing machine.
    return {**attributes, "machine_count": 0, "machines": {}}


def find_missing_nodes(
    observed: Mapping[str, Any], planned: Mapping[str, Any] | None = None
) -> list[str]:
    """Find the nodes of an object without a platform name in Azure.

    With `planned`, the nodes are only those planned on a machine.
    """
    nodes = get_mapping(observed, "nodes")
    missing = [name for name, node in nodes.items() if not node.get("platform_name")]
    return [
        name
        for name in missing
        if planned is None or get_mapping(planned, "nodes", name).get("machine")
    ]


def _replace_nodes(attributes: dict[str, Any], nodes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cluster or pool with other nodes."""
    # The count is computed, but an argument of a pool.
    count = {"node_count": len(nodes)} if "agent_pool" in attributes else {}
    return {**attributes, "nodes": nodes, **count}


def _remove_missing_nodes(attributes: dict[str, Any], kept: Collection[str]) -> dict[str, Any]:
    """Return a cluster or pool without the nodes missing on the site, except those to keep."""
    nodes = attributes["nodes"].items()
    return _replace_nodes(
        attributes, {name: node for name, node in nodes if node["platform_name"] or name in kept}
    )


def _restore_recorded_nodes(
    attributes: dict[str, Any], recorded: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a cluster or pool with its recorded nodes.

    The source has no list of nodes, only their count.
    """
    before = recorded.get("nodes")
    # Its creation failed, and no node is known to exist since.
    if before == {}:
        return _replace_nodes(attributes, nodes={})
    before = get_mapping(before)
    return _replace_nodes(
        attributes, {name: before.get(name, node) for name, node in attributes["nodes"].items()}
    )


def _build_unmanaged_vms_note(
    key: ObjectKey,
    attributes: Mapping[str, Any],
    unmanaged_rows: Mapping[tuple[str, str], Mapping[str, _UnmanagedRow]],
) -> Mapping[str, Any]:
    """Build the entries of unmanaged VMs in the note of a rack or machine, {} for other objects.

    The note is private data in state. VMs in the occupied blocks of the object are left out.
    `unmanaged_rows` are by site and machine, then by VM name.
    """
    if key.type not in {RACK, MACHINE}:
        return {}  # no hardware
    site = key.id.partition("/")[0]
    machines = [attributes["name"]] if key.type == MACHINE else get_mapping(attributes, "machines")
    configured = {block["name"] for block in get_list(attributes, "occupied")}
    rows: list[list[Any]] = []
    for machine in machines:
        on_machine = unmanaged_rows.get((site, machine), {})
        rows += [list(row) for name, row in sorted(on_machine.items()) if name not in configured]
    # None removes an entry: VMs forgotten (removed from state) are among the unmanaged ones now, or
    # do not exist.
    return {UNMANAGED_KEY: rows or None, FORGOTTEN_KEY: None}


def _merge_observed(attributes: Mapping[str, Any], item: ImportedSiteObject) -> dict[str, Any]:
    """Return the recorded attributes, overridden by observed values.

    Without recorded ones, return all observed.
    """
    if not attributes:
        return dict(item.attributes)
    merged: dict[str, Any] = {}
    for name in (
        *_REQUESTED_ATTRIBUTES.get(item.type, ()),
        *_OBSERVED_ATTRIBUTES.get(item.type, ()),
    ):
        recorded = attributes.get(name)
        observed = item.attributes[name]
        if name in _LABELED_MAPS and isinstance(recorded, Mapping):
            # Pools or nodes not observed were removed.
            recorded = select_members(recorded, observed)
            if name == "agent_pool":
                observed = _remove_requested_hugepages(recorded, observed)
                observed = {
                    label: _keep_default_settings(get_mapping(recorded, label), pool)
                    for label, pool in observed.items()
                }
        elif name == _UPGRADE_SETTINGS:
            observed = _keep_default_settings(attributes, item.attributes)[name]
        merged[name] = _merge_value(recorded, observed)
    if item.type == MACHINE and attributes.get("cordoned"):
        # If False, the plan cordons it again.
        merged["cordoned"] = merged["cordon_status"] != UNCORDONED
    return {**attributes, **merged}


def _keep_default_settings(
    recorded: Mapping[str, Any], observed: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return an observed pool with the recorded upgrade settings if both are the defaults.

    Settings at their defaults are observed as none.
    """
    settings = get_mapping(recorded, _UPGRADE_SETTINGS)
    is_default = all(
        settings.get(name) in (None, default) for name, default in UPGRADE_DEFAULTS.items()
    )
    if not settings or not is_default or observed[_UPGRADE_SETTINGS] is not None:
        return observed
    return {**observed, _UPGRADE_SETTINGS: settings}


def _remove_requested_hugepages(
    recorded: Mapping[str, Any], observed: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the observed pools without the hugepages equal to those requested.

    Without these, the pools do not differ. They may be requested in the azure block of the pool, or
    in another notation: "8192Mi" for "8Gi".
    """
    pools = dict(observed)
    for label, pool in recorded.items():
        options = get_value_at_path(pool, "azure", "body", "properties", "agentOptions")
        is_in_azure_block = options and not pool.get("kubelet")
        if is_in_azure_block or read_hugepages(pool) == read_hugepages(get_mapping(pools, label)):
            pools[label] = omit_members(pools[label], ("kubelet",))
    return pools


def _merge_value(recorded: Any, observed: Any) -> Any:
    """Return the observed value, or the recorded one (in state) if both mean the same.

    Objects are merged by member. Empty and absent values are equal, and so are lists of texts in
    another order. Members of an object that were not observed stay as recorded. Example: recorded
    {"count": 2, "labels": None, "azure": 1} and observed {"count": 3, "labels": {}} become
    {"count": 3, "labels": None, "azure": 1}.
    """
    if not recorded and not observed:
        # Both are empty or absent.
        return recorded
    if isinstance(recorded, Mapping) and isinstance(observed, Mapping):
        observed_members = {
            name: _merge_value(recorded.get(name), part) for name, part in observed.items()
        }
        return {**recorded, **observed_members}
    are_lists = isinstance(recorded, list) and isinstance(observed, list)
    if are_lists and all(isinstance(element, str) for element in recorded):
        has_same_texts = sorted(recorded) == sorted(map(str, observed))
        return recorded if has_same_texts else observed
    return observed
