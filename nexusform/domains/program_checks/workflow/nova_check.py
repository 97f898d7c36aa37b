"""`plan -check-with=nova=PYTHON`.

The predicted hosts of VMs are decided again by Nova's filters, weighers and Placement.

All decisions on a site are repeated in their order, in one child process. If Nova draws another of
equally good hosts, the VM is added to the predicted one before the next decision.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, json

from nexusform.domains.openstack.scheduling.host_usage import SERVER_RECORD
from nexusform.domains.openstack.scheduling.hosts_without_servers import build_hosts_without_servers
from nexusform.domains.openstack.scheduling.nova_host_records import ServerSize, build_sku_name
from nexusform.domains.openstack.scheduling.nova_profile import (
    DEFAULT_FILTERS,
    DEFAULT_ZONE,
    build_nova_settings,
    build_nova_site,
)
from nexusform.domains.program_checks.workflow.loopback_programs import (
    LoopbackPrograms,
    ProgramProblem,
    open_programs,
)
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.unread_ledger import PlacedPool
from nexusform.placements.vm_demands import PlacedVm
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.plans.plan_checks import DecisionDifference, ProgramCheck
from nexusform.scheduling.racks.uncertainty.arrivals import Stage
from nexusform.scheduling.racks.uncertainty.certainty import (
    OccupyOperation,
    PlaceOperation,
    ReleaseOperation,
    Token,
)
from nexusform.scheduling.racks.vms import Hint, HintScope, VmSku
from nexusform.workflow.program_checks import ProgramCheckOutcome, ProgramCheckProblem

Body = dict[str, Any]
PROGRAM: Final = "nova"
_PLATFORM: Final = "Nova"
_SITE_TYPE: Final = "openstack_site"
_DRIVER: Final = "nova_driver.py"
_MAX_DIFFERENCES: Final = 100


class _NovaDriverRequest(Struct):
    """Request of the driver.

    `predicted` is the host, "" without a decision to check. `servers` are those running before.
    """

    address: str
    name: str
    predicted: str
    body: Body
    servers: dict[str, Body]


def check_with_nova(result: PlanResult, python: str, seconds: float) -> ProgramCheckOutcome:
    """Compare the hosts planned for VMs of OpenStack sites with Nova's best ones.

    `python` is an interpreter with Nova installed. Raises ProgramCheckProblem.
    """
    sites = result.sites.values()
    replays = [
        _NovaSiteReplay(result, site)
        for site in sites
        if site.scheduler.profile.platform == _PLATFORM
    ]
    # Only those with decisions.
    replays = [replay for replay in replays if replay.total]
    program = shutil.which(python)
    if program is None:
        raise ProgramCheckProblem(f"{python} is not a program.")
    try:
        with open_programs(str(Path(program).parent)) as running:
            answers, has_timed_out = _run_driver(running, Path(program).name, replays, seconds)
    except ProgramProblem as problem:
        raise ProgramCheckProblem(str(problem)) from None
    # The driver answers with the versions of its programs, then with the best hosts by request.
    version = str(answers[0]["nova"]) if answers else "of unknown version"
    # Number of decisions.
    checked = 0
    differences: list[DecisionDifference] = []
    # The differences, as recorded decisions.
    cases: list[Body] = []
    requests = ((replay, request) for replay in replays for request in replay.requests)
    # The time may end before the last one.
    for (replay, request), hosts in zip(requests, answers[1:], strict=False):
        if not request.predicted:
            # No decision to compare.
            continue
        checked += 1
        if request.predicted not in hosts and len(differences) < _MAX_DIFFERENCES:
            actual = hosts[0] if hosts else ""
            differences.append(
                DecisionDifference(request.address, request.name, request.predicted, actual)
            )
            cases.append(replay.build_case(request, hosts, version))
    total = sum(replay.total for replay in replays)
    summary = ProgramCheck(PROGRAM, version, checked, total, "VM", tuple(differences))
    return ProgramCheckOutcome(summary, tuple(cases), has_timed_out)


def _run_driver(
    running: LoopbackPrograms, program: str, replays: list[_NovaSiteReplay], seconds: float
) -> tuple[list[Any], bool]:
    """Return the answers, and whether the time ended before the last one.

    Raises ProgramProblem.
    """
    driver = running.get_path(_DRIVER)
    source = running.get_path("sites.jsonl")
    answers = running.get_path("answers.jsonl")
    driver.write_bytes(resources.files(__package__).joinpath(_DRIVER).read_bytes())
    source.write_bytes(b"".join(json.encode(replay.build_document()) + b"\n" for replay in replays))
    running.start(program, "-I", "-W", "ignore", str(driver), str(source), str(answers))
    has_timed_out = not running.wait_for_end(program, seconds)
    lines = answers.read_bytes().splitlines(keepends=True) if answers.exists() else []
    # A half-written last line is left out.
    return [json.decode(line) for line in lines if line.endswith(b"\n")], has_timed_out


class _NovaSiteReplay:
    """Operations of a plan on one site, as requests of the driver.

    `total` is the number of decisions.
    """

    def __init__(self, result: PlanResult, site: SitePlan) -> None:
        """Convert the operations planned on a site to requests for the driver."""
        # Decisions of the plan.
        self.total = 0
        # Requests are added below, in the order of the plan.
        self.requests: list[_NovaDriverRequest] = []
        self._site = site
        self._ledger = result.plan.ledger
        self._attributes = next(
            dict(change.after)
            for change in result.plan.changes
            if change.address.type == _SITE_TYPE
            and change.after is not None
            and change.id == site.id
        )
        self._placed: dict[Token, tuple[str, PlacedVm]] = {
            # By token in the scheduler: address and planned VM.
            token: (str(address), vms.placements.vms[key])
            for address, vms in result.objects.items()
            if vms.request.site is site
            for key, token in vms.placements.new_handles.items()
        }
        settings = build_nova_settings(self._attributes)
        inventory = self._attributes["inventory"]
        self._requests = build_nova_site(inventory).parse_requests(settings.aliases)
        # Before the plan.
        vms = site.base.list_vms()
        # The servers by name: before the plan, and before the next request (changed below).
        self._first_servers = {
            _name_server(vm.handle): self._build_server(vm.sku, vm.placement.machine) for vm in vms
        }
        self._servers = dict(self._first_servers)
        # With cells, devices.
        records = {vm.sku.record for vm in vms if vm.sku.record.startswith(SERVER_RECORD)}
        self._hosts = build_hosts_without_servers(self._attributes["inventory"], settings, records)
        # Names of servers removed since the last request.
        released: list[str] = []
        # Names of the servers that still build, by stage.
        self._building: dict[Stage, list[str]] = {}
        for operation in self._site.operations:
            if isinstance(operation, ReleaseOperation):
                released.append(_name_server(operation.handle))
                del self._servers[released[-1]]
            elif operation.token in self._placed:
                # A VM of the plan, still there at its end.
                self._add_request(operation, released)
                released = []

    def build_document(self) -> Body:
        """Build the document for the driver."""
        requests = [request.body for request in self.requests]
        return {**self._build_site(), "servers": self._first_servers, "requests": requests}

    def build_case(self, request: _NovaDriverRequest, hosts: list[str], version: str) -> Body:
        """Build the recorded case of a decision of Nova.

        Nova chose among its equally good `hosts`.
        """
        servers = dict(request.servers)
        group = request.body["group"]
        # Of a member: the newest server there counts as it.
        for host in group["members"] if group else ():
            members = [
                name
                for name, server in servers.items()
                if server["host"] == host and "group" not in server
            ]
            if members:
                servers[members[-1]] = {**servers[members[-1]], "group": group["name"]}
        return {
            "system": PROGRAM,
            "version": version,
            "snapshot": {**self._build_site(), "servers": servers},
            "request": {name: request.body[name] for name in ("flavor", "group", "image", "zones")},
            "decision": {"host": next(iter(hosts), None)},
            "equivalent": [{"host": host} for host in hosts[1:]],
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

    def _build_site(self) -> Body:
        """Build the site of the driver without servers and requests: its hosts and settings."""
        attributes = self._attributes
        names = ("enabled_filters", "weight_multipliers", "host_subset_size", "pci_aliases")
        settings = {name: attributes[name] for name in names if attributes.get(name) is not None}
        settings.setdefault("enabled_filters", list(DEFAULT_FILTERS))
        return {"hosts": self._hosts, "settings": settings}

    def _add_request(
        self, operation: PlaceOperation | OccupyOperation, released: list[str]
    ) -> None:
        """Add a request to place a VM, after the deletion of the `released` servers.

        Its planned host is compared with Nova, unless it is no decision of the plan, or the driver
        cannot repeat the decision: then `predicted` is "".
        """
        address, vm = self._placed[operation.token]
        host = vm.placement.machine
        name = _name_server(operation.token)
        group = None
        zones = []
        predicted = ""
        image_name = ""
        if isinstance(operation, PlaceOperation):
            self.total += 1
            demand = operation.demand
            hints = operation.demand.hints
            zone = demand.constraints.platform_zone or self._attributes.get(DEFAULT_ZONE)
            zones = sorted(demand.zones or ([zone] if zone else []))
            image_name = demand.constraints.image
            pool = PlacedPool(self._site.id, address, vm.pool, is_decided=False)
            is_known = self._ledger.has_certain_hosts(pool)
            are_hints_supported = all(
                hint.scope is HintScope.MACHINE and hint.vms_by_machine for hint in hints
            )
            # Nova runs no filter for a requested host.
            is_chosen = not demand.constraints.platform_host
            if is_known and is_chosen and len(hints) <= 1 and are_hints_supported:
                # The driver can repeat the decision.
                predicted = host
                group = _build_server_group(hints[0]) if hints else None
            sku = demand.sku
        else:
            sku = operation.sku
        inventory: Body = self._attributes["inventory"]
        size = {
            name: value for name, value in self._build_server(sku, host).items() if name != "host"
        }
        properties, sku_image = self._build_flavor_and_image_properties(sku.name)
        flavor = {**size, "properties": properties}
        image = get_mapping(inventory, "images").get(image_name)
        body = {
            "flavor": flavor,
            "image": image or sku_image,
            "group": group,
            "zones": zones,
            "host": host,
            "name": name,
            "released": released,
            "finished": self._finish_awaited(operation),
        }
        self.requests.append(
            _NovaDriverRequest(address, vm.name, predicted, body, dict(self._servers))
        )
        self._servers[name] = {**size, "host": host, "is_building": True}
        arrival = operation.arrival if isinstance(operation, PlaceOperation) else None
        if arrival is not None:
            self._building.setdefault(arrival.stage, []).append(name)

    def _finish_awaited(self, operation: PlaceOperation | OccupyOperation) -> list[str]:
        """Finish the servers that are complete before a request, and return their names."""
        arrival = operation.arrival if isinstance(operation, PlaceOperation) else None
        stages = arrival.awaited & self._building.keys() if arrival is not None else ()
        names = [name for stage in sorted(stages) for name in self._building.pop(stage)]
        for name in names:
            self._servers[name] = {**self._servers[name], "is_building": False}
        return names


def _list_sku_names(flavor: str, image: str) -> list[str]:
    """Return the names of a flavor with an image, on a local disk and on a volume."""
    return [build_sku_name(flavor, image, boots_from_volume=on) for on in (False, True)]


def _name_server(token: Token) -> str:
    return f"vm{token}"


def _build_server_group(hint: Hint) -> Body:
    """Build a server group with the host of each member."""
    counts = Counter(dict(hint.vms_by_machine))
    strength = "" if hint.is_hard else "soft-"
    policy = "affinity" if hint.is_affinity else "anti-affinity"
    # An anti-affinity hint excludes `machines`, the hosts with the maximum of members; without any,
    # all have fewer.
    maximum = min((counts[name] for name in hint.machines), default=max(counts.values()) + 1)
    members = list(counts.elements())
    return {
        "name": hint.target,
        "policy": f"{strength}{policy}",
        "max": maximum,
        "members": members,
    }
