"""`plan -check-with=nova=PYTHON`: hosts of VMs, decided again by Nova and Placement.

Heat, and Tacker for packages, build the requests from the documents of the VNFs (stack_requests).
Nova's API reads them and may refuse them; its filters, weighers and Placement decide. Nothing of
nexusform's readers is used. The decisions on a site are repeated in their order, in one child
process. If Nova draws another of equally good hosts, the VM is added to the predicted one before
the next decision. The site and its existing servers are those of the inventory and the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.openstack.scheduling.host_usage import SERVER_RECORD
from nexusform.domains.openstack.scheduling.hosts_without_servers import build_hosts_without_servers
from nexusform.domains.openstack.scheduling.nova_host_records import (
    ACTIVE,
    ServerSize,
    build_sku_name,
)
from nexusform.domains.openstack.scheduling.nova_profile import (
    DEFAULT_FILTERS,
    DEFAULT_ZONE,
    build_nova_settings,
    build_nova_site,
)
from nexusform.domains.program_checks.workflow.stack_requests import (
    PLATFORM,
    TACKER,
    StackReading,
    list_readers,
    list_reasons,
    read_stacks,
    run_driver,
)
from nexusform.doubts.ledger import PlacedPool
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.vm_demands import PlacedVm
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import VmKey
from nexusform.plans.plan_checks import DecisionDifference, ProgramCheck
from nexusform.scheduling.racks.uncertainty.arrivals import UNTRIED, Stage
from nexusform.scheduling.racks.uncertainty.operations import (
    OccupyOperation,
    PlaceOperation,
    ReleaseOperation,
    Token,
)
from nexusform.scheduling.racks.vms import VmSku
from nexusform.workflow.program_checks import ProgramCheckOutcome

Body = dict[str, Any]
PROGRAM: Final = "nova"
_SITE_TYPE: Final = "openstack_site"
_MAX_DIFFERENCES: Final = 100
_NO_STACK: Final = "their requests come from no VNF document"
_UNCERTAIN: Final = "their hosts are uncertain"
# Facts of the cloud for which no program is asked.
_NOT_CHECKED: Final = ("the site and its servers", "quotas", "networks")
_GRANTS: Final = "what a grant sets"


class _NovaDriverRequest(Struct):
    """Request of the driver.

    `predicted` is the host, "" without a decision to check, for the `unchecked_reason`.
    """

    address: str
    name: str
    predicted: str
    body: Body
    unchecked_reason: str = ""
    readers: tuple[str, ...] = ()


class _Findings:
    """Results of the check so far: checked decisions, differences, and recorded decisions."""

    def __init__(self, version: str) -> None:
        """Start without results of this version of Nova."""
        self.checked = 0
        self.differences: list[DecisionDifference] = []
        self.cases: list[Body] = []
        self.reasons: set[str] = set()
        self._version = version

    def add(self, request: _NovaDriverRequest, answer: Any) -> None:
        """Add the answer to a request: its best hosts, the reason of a refusal, or a gap."""
        refusal = answer.get("rejected", "") if isinstance(answer, dict) else ""
        if refusal:
            self.checked += 1
            self._add_difference(request, "", refusal)
            return
        if not request.predicted:
            self.reasons.add(request.unchecked_reason)
            return
        if "unknown" in answer:
            self.reasons.add(f"{answer['unknown']} is unknown")
            return
        self.checked += 1
        hosts = answer["hosts"]
        if request.predicted in hosts:
            return
        actual = hosts[0] if hosts else ""
        if self._add_difference(request, actual, ""):
            self.cases.append(
                {
                    "system": PROGRAM,
                    "version": self._version,
                    "requests_built_by": list(request.readers),
                    **answer["case"],
                    "decision": {"host": actual or None},
                    "equivalent": [{"host": host} for host in hosts[1:]],
                }
            )

    def _add_difference(self, request: _NovaDriverRequest, actual: str, refusal: str) -> bool:
        """Add a difference, and return whether there is a place for it."""
        if len(self.differences) >= _MAX_DIFFERENCES:
            return False
        self.differences.append(
            DecisionDifference(
                request.address, request.name, request.predicted, actual, refusal=refusal
            )
        )
        return True


def check_with_nova(
    result: PlanResult, programs: Mapping[str, str], seconds: float
) -> ProgramCheckOutcome:
    """Compare the hosts planned for VMs of OpenStack sites with Nova's best ones.

    `programs` are interpreters with Nova, Heat and Tacker by name. Raises ProgramCheckProblem.
    """
    readings, has_timed_out = read_stacks(result, programs, seconds)
    by_address = {reading.address: reading for reading in readings}
    replays = [
        _NovaSiteReplay(result, site, by_address)
        for site in result.sites.values()
        if site.scheduler.profile.platform == PLATFORM
    ]
    # Only those with decisions.
    replays = [replay for replay in replays if replay.total]
    documents = [replay.build_document() for replay in replays]
    # The driver answers with its version, then request by request.
    version, answers, is_late = run_driver(PROGRAM, programs[PROGRAM], documents, seconds)
    findings = _Findings(version)
    findings.reasons.update(list_reasons(readings))
    findings.differences += [
        difference for reading in readings for difference in reading.differences
    ]
    requests = [request for replay in replays for request in replay.requests]
    # The time may end before the last one.
    for request, answer in zip(requests, answers, strict=False):
        findings.add(request, answer)
    readers = list_readers(readings)
    check = ProgramCheck(
        PROGRAM,
        version,
        findings.checked,
        sum(replay.total for replay in replays),
        "VM",
        tuple(findings.differences),
        readers=tuple(f"{name} {readers[name]}" for name in readers),
        not_checked=(*_NOT_CHECKED, *((_GRANTS,) if TACKER in readers else ())),
    )
    return ProgramCheckOutcome(
        check,
        tuple(findings.cases),
        has_timed_out or is_late,
        unchecked_reasons=tuple(sorted(filter(None, findings.reasons))),
    )


class _NovaSiteReplay:
    """Operations of a plan on one site, as requests of the driver.

    `total` is the number of decisions.
    """

    def __init__(
        self, result: PlanResult, site: SitePlan, readings: Mapping[str, StackReading]
    ) -> None:
        """Convert the operations planned on a site to requests for the driver."""
        # Decisions of the plan.
        self.total = 0
        # Requests are added below, in the order of the plan.
        self.requests: list[_NovaDriverRequest] = []
        self._site = site
        self._readings = readings
        self._ledger = result.plan.ledger
        self._attributes = next(
            dict(change.after)
            for change in result.plan.changes
            if change.address.type == _SITE_TYPE
            and change.after is not None
            and change.id == site.id
        )
        self._placed: dict[Token, tuple[str, VmKey, PlacedVm]] = {
            # By token in the scheduler: address, key and planned VM.
            token: (str(address), key, vms.placements.vms[key])
            for address, vms in result.objects.items()
            if vms.request.site is site
            for key, token in vms.placements.new_handles.items()
        }
        # VMs of before, by handle.
        kept = {
            handle: (str(address), key)
            for address, vms in result.objects.items()
            for key, (owner, handle) in vms.placements.reservations.items()
            if owner is site
        }
        self._settings = build_nova_settings(self._attributes)
        inventory = self._attributes["inventory"]
        self._requests = build_nova_site(inventory).parse_requests(self._settings.aliases)
        # Servers by name, before the plan.
        vms = site.base.list_vms()
        self._servers = {
            _name_server(vm.handle): {
                **self._build_server(vm.sku, vm.placement.machine),
                **self._build_request(*kept.get(vm.handle, ("", ("", 0)))),
            }
            for vm in vms
        }
        # With cells, devices.
        records = {vm.sku.record for vm in vms if vm.sku.record.startswith(SERVER_RECORD)}
        self._hosts = build_hosts_without_servers(inventory, self._settings, records)
        # Names of servers removed since the last request.
        released: list[str] = []
        # Names of the servers that still build, by stage.
        self._building: dict[Stage, list[str]] = {}
        for operation in self._site.operations:
            if isinstance(operation, ReleaseOperation):
                released.append(_name_server(operation.handle))
            elif operation.token in self._placed:
                # A VM of the plan, still there at its end.
                self._add_request(operation, released)
                released = []

    def build_document(self) -> Body:
        """Build the document for the driver."""
        attributes = self._attributes
        names = ("enabled_filters", "weight_multipliers", "host_subset_size", "pci_aliases")
        settings = {
            name: attributes[name]
            for name in (*names, DEFAULT_ZONE)
            if attributes.get(name) is not None
        }
        settings.setdefault("enabled_filters", list(DEFAULT_FILTERS))
        inventory = attributes["inventory"]
        limits = get_mapping(inventory, "image_limits")
        images = {
            name: {**_build_image_limits(get_mapping(limits, name)), "properties": properties}
            for name, properties in get_mapping(inventory, "images").items()
        }
        return {
            "hosts": self._hosts,
            "settings": settings,
            "flavors": get_mapping(inventory, "flavors"),
            "images": images,
            "servers": self._servers,
            "requests": [request.body for request in self.requests],
        }

    def _build_server(self, sku: VmSku, host: str) -> Body:
        """Build a server.

        The host already counts the NUMA cells and PCI devices of a server in the inventory.
        """
        server: Body = {"host": host}
        size = ServerSize(sku.vcpus, sku.memory_mib, sku.disk_gib)
        inventory: Body = self._attributes["inventory"]
        # A server in the inventory, by its key there.
        if sku.record.startswith(SERVER_RECORD):
            recorded_server = inventory["servers"][sku.record.removeprefix(SERVER_RECORD)]
            server |= {
                name: recorded_server.get(name) or 0
                for name in ("dedicated_vcpus", "emulator_vcpus")
            }
            server |= {
                name: recorded_server[name]
                for name in ("other_resources", "unallocated")
                if recorded_server.get(name)
            }
        elif sku.record:
            # The names of a flavor and perhaps an image.
            server["properties"], server["image"] = self._build_flavor_and_image_properties(
                sku.record
            )
            # Nova computes the amounts in Placement from the flavor.
            size = size.add(self._requests[sku.record].unallocated)
        return {**server, **size._asdict()}

    def _build_flavor_and_image_properties(
        self, sku_name: str
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the properties of the flavor and of the image of a SKU.

        The SKU is named after a flavor, or after both.
        """
        inventory: Body = self._attributes["inventory"]
        flavors = get_mapping(inventory, "flavors")
        images = get_mapping(inventory, "images")
        if sku_name in flavors:
            return get_mapping(flavors[sku_name], "properties"), {}
        names = ((flavor, image) for flavor in flavors for image in ("", *images))
        flavor, image = next(
            (pair for pair in names if sku_name in _list_sku_names(*pair)), ("", "")
        )
        return get_mapping(flavors.get(flavor, {}), "properties"), get_mapping(images, image)

    def _build_planned_size(self, sku: VmSku) -> Body:
        """Return the request of a VM that no reader built: the flavor and image of the plan."""
        size = self._build_server(sku, "")
        properties, image = self._build_flavor_and_image_properties(sku.name)
        names = ("vcpus", "memory_mib", "disk_gib")
        flavor = {**{name: size[name] for name in names}, "properties": properties}
        return {"flavor": flavor, "image": image}

    def _build_request(self, address: str, key: VmKey) -> Body:
        """Return the request of a VM as Heat sends it, {} if no reader built it.

        Each stack has its own server groups.
        """
        reading = self._readings.get(address)
        server = reading.servers.get(key) if reading is not None else None
        if reading is None or server is None:
            return {}
        group = server["group"]
        name = f"{address} {group['name']}" if group else ""
        return {
            "body": server["body"],
            "stack": reading.stack,
            "group": {**group, "name": name} if group else None,
        }

    def _add_request(
        self, operation: PlaceOperation | OccupyOperation, released: list[str]
    ) -> None:
        """Add a request to place a VM, after the deletion of the `released` servers.

        Its planned host is compared with Nova, unless it is no decision of the plan, or its request
        is not built by others: then `predicted` is "".
        """
        address, key, vm = self._placed[operation.token]
        name = _name_server(operation.token)
        host = vm.placement.machine
        sku = operation.demand.sku if isinstance(operation, PlaceOperation) else operation.sku
        # Without a request, it takes the capacity that the plan counts.
        request = self._build_request(address, key) or self._build_planned_size(sku)
        body = {
            **request,
            "host": host,
            "name": name,
            "released": released,
            "finished": self._finish_awaited(operation),
        }
        predicted = reason = ""
        if isinstance(operation, PlaceOperation):
            self.total += 1
            pool = PlacedPool(self._site.id, address, vm.pool, is_decided=False)
            reading = self._readings.get(address)
            doubt = self._ledger.find_doubt_of_pool(pool)
            # The order of the plan is repeated, and others are not.
            if doubt is not None and doubt.reason != UNTRIED:
                reason = _UNCERTAIN
            elif "body" in request:
                predicted = host
            elif reading is None:
                reason = _NO_STACK
            if operation.arrival is not None:
                self._building.setdefault(operation.arrival.stage, []).append(name)
        readers = self._readings[address].readers if address in self._readings else ()
        self.requests.append(_NovaDriverRequest(address, vm.name, predicted, body, reason, readers))

    def _finish_awaited(self, operation: PlaceOperation | OccupyOperation) -> list[str]:
        """Finish the servers that are complete before a request, and return their names."""
        arrival = operation.arrival if isinstance(operation, PlaceOperation) else None
        stages = arrival.awaited & self._building.keys() if arrival is not None else ()
        return [name for stage in sorted(stages) for name in self._building.pop(stage)]


def _list_sku_names(flavor: str, image: str) -> list[str]:
    """Return the names of a flavor with an image, on a local disk and on a volume."""
    return [build_sku_name(flavor, image, boots_from_volume=on) for on in (False, True)]


def _build_image_limits(limits: Mapping[str, Any]) -> Body:
    """Return what Nova's API checks of an image, as Glance names it."""
    return {
        "status": limits.get("status") or ACTIVE,
        "min_ram": limits.get("min_ram_mib") or 0,
        "min_disk": limits.get("min_disk_gib") or 0,
        "size": limits.get("size") or 0,
    }


def _name_server(token: Token) -> str:
    return f"vm{token}"
