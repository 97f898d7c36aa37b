"""`plan -check-with=heat=PYTHON`: requests of servers, read again from HOT files by Heat.

Heat's own parser, groups and Server resources build the requests of each VNF. They must equal those
that nexusform reads: flavor, image, zone, root disk, local disks, server group, and the order of
creation. A VNF with other documents than HOT files, or with unread facts, is not checked.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, json

from nexusform.domains.program_checks.workflow.loopback_programs import (
    LoopbackPrograms,
    ProgramProblem,
    open_programs,
)
from nexusform.domains.vnf.importers.vnf_records import Vdu, Vnf
from nexusform.domains.vnf.types.vnf_documents import PARAMETERS, read_documents
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan_checks import DecisionDifference, ProgramCheck
from nexusform.workflow.program_checks import ProgramCheckOutcome, ProgramCheckProblem

PROGRAM: Final = "heat"
_VNF_TYPE: Final = "tacker_vnf"
_PLATFORM: Final = "Nova"
_DRIVER: Final = "heat_driver.py"
# Arguments that change the documents or numbers of a HOT file.
_OTHER_ARGUMENTS: Final = ("vnfd", "csar", "instantiate_request", "scale_levels")


class ServerRequest(NamedTuple):
    """Request of a server, as Heat sends it to Nova; "" for a value that the stack creates.

    `image` is "" for a server that boots from a volume.
    """

    flavor: str
    image: str
    zone: str
    boots_from_volume: bool
    ephemeral_gib: int
    swap_mib: int
    policy: str
    max_per_host: int

    def describe(self) -> str:
        """Return the request as text."""
        root = "from volume" if self.boots_from_volume else self.image
        disks = f"ephemeral {self.ephemeral_gib} GiB, swap {self.swap_mib} MiB"
        has_disks = self.ephemeral_gib or self.swap_mib
        parts = (self.flavor, root, self.zone, disks if has_disks else "", self.policy)
        return ", ".join(part for part in parts if part)


class StackRequests(Struct, frozen=True):
    """Servers of a stack by request, and the pairs of requests in an order of creation."""

    servers: Counter[ServerRequest]
    order: frozenset[tuple[ServerRequest, ServerRequest]]


class _CheckedVnf(Struct, frozen=True):
    """VNF whose HOT files Heat reads: its address and arguments, and nexusform's reading."""

    address: str
    attributes: Mapping[str, Any]
    requests: StackRequests


def check_with_heat(result: PlanResult, python: str, seconds: float) -> ProgramCheckOutcome:
    """Compare the requests of servers of the planned VNFs with those of Heat's parser.

    `python` is an interpreter with Heat installed. Raises ProgramCheckProblem.
    """
    program = shutil.which(python)
    if program is None:
        raise ProgramCheckProblem(f"{python} is no program.")
    vnfs = list(_list_checked_vnfs(result))
    try:
        with open_programs(str(Path(program).parent)) as running:
            answers, has_timed_out = _run_driver(running, Path(program).name, vnfs, seconds)
    except ProgramProblem as problem:
        raise ProgramCheckProblem(str(problem)) from None
    version = str(answers[0][PROGRAM]) if answers else "of unknown version"
    differences: list[DecisionDifference] = []
    checked = 0
    # The time may end before the last one.
    for vnf, answer in zip(vnfs, answers[1:], strict=False):
        checked += vnf.requests.servers.total()
        differences += _compare(vnf, answer)
    total = sum(
        sum(len(pool.numbers) for pool in vm_object.pools)
        for vm_object in result.objects.values()
        if vm_object.instance.address.type == _VNF_TYPE and not vm_object.instance.is_removed
    )
    summary = ProgramCheck(PROGRAM, version, checked, total, "VM", tuple(differences))
    return ProgramCheckOutcome(summary, has_timed_out=has_timed_out)


def _list_checked_vnfs(result: PlanResult) -> Iterator[_CheckedVnf]:
    """Yield the VNFs on OpenStack that are described by HOT files alone."""
    for address, vm_object in result.objects.items():
        attributes = vm_object.instance.argument_values
        site = vm_object.request.site
        if address.type != _VNF_TYPE or attributes is None or site is None:
            continue
        has_other_arguments = any(attributes.get(name) for name in _OTHER_ARGUMENTS)
        if site.scheduler.profile.platform != _PLATFORM or has_other_arguments:
            continue
        reading = read_documents(attributes)
        is_read = all(fact.reading_platform == _PLATFORM for fact in reading.unread)
        if is_read and vm_object.pools:
            requests = build_requests(reading.vnf)
            yield _CheckedVnf(str(address), attributes, requests)


def _run_driver(
    running: LoopbackPrograms, program: str, vnfs: list[_CheckedVnf], seconds: float
) -> tuple[list[Any], bool]:
    """Return the answers of the driver, and whether the time ended before the last one.

    Raises ProgramProblem.
    """
    driver = running.get_path(_DRIVER)
    source = running.get_path("stacks.jsonl")
    answers = running.get_path("answers.jsonl")
    driver.write_bytes(resources.files(__package__).joinpath(_DRIVER).read_bytes())
    documents = (
        {
            "template": get_text(vnf.attributes, "base_hot"),
            "files": get_mapping(vnf.attributes, "nested"),
            "parameters": get_mapping(vnf.attributes, PARAMETERS),
        }
        for vnf in vnfs
    )
    source.write_bytes(b"".join(json.encode(document) + b"\n" for document in documents))
    running.start(program, "-I", "-W", "ignore", str(driver), str(source), str(answers))
    has_timed_out = not running.wait_for_end(program, seconds)
    lines = answers.read_bytes().splitlines(keepends=True) if answers.exists() else []
    return [json.decode(line) for line in lines if line.endswith(b"\n")], has_timed_out


def build_requests(vnf: Vnf) -> StackRequests:
    """Return the requests that nexusform reads from the HOT files of a VNF."""
    rules = {name: rule for rule in vnf.rules for name in rule.vdus}
    requests = {}
    for vdu in vnf.vdus:
        rule = rules.get(vdu.name)
        policy = (rule.label, rule.max_per_location) if rule is not None else ("", 1)
        requests[vdu.name] = ServerRequest(
            vdu.flavor,
            "" if vdu.boots_from_volume else vdu.image,
            f"{vdu.availability_zone}:{vdu.host}" if vdu.host else vdu.availability_zone,
            vdu.boots_from_volume,
            *vdu.local_disks,
            *policy,
        )
    servers = Counter({requests[vdu.name]: 0 for vdu in vnf.vdus})
    for vdu in vnf.vdus:
        servers[requests[vdu.name]] += vdu.initial
    by_name = {vdu.name: vdu for vdu in vnf.vdus}
    order = frozenset(
        (requests[earlier], requests[vdu.name])
        for vdu in vnf.vdus
        for earlier in _list_earlier_vdus(vdu, by_name)
        if vdu.initial and by_name[earlier].initial
    )
    return StackRequests(+servers, order)


def _list_earlier_vdus(vdu: Vdu, by_name: Mapping[str, Vdu]) -> list[str]:
    """Return the VDUs whose servers are created before those of a VDU."""
    found: dict[str, None] = {}
    waiting = [vdu]
    while waiting:
        for name in waiting.pop().awaited:
            if name not in found and name in by_name:
                found[name] = None
                waiting.append(by_name[name])
    return list(found)


def parse_requests(servers: list[Mapping[str, Any]]) -> StackRequests:
    """Return the requests in an answer of the driver."""
    requests = [_parse_request(server) for server in servers]
    order = frozenset(
        (requests[earlier], request)
        for request, server in zip(requests, servers, strict=True)
        for earlier, other in enumerate(servers)
        if any(other["path"][: len(needed)] == needed for needed in server["needs"])
    )
    return StackRequests(Counter(requests), order)


def _parse_request(server: Mapping[str, Any]) -> ServerRequest:
    """Return one request in an answer of the driver."""
    devices = server["devices"]
    boots_from_volume = any(
        device["destination_type"] == "volume" and device["boot_index"] == 0 for device in devices
    ) or (not server["image"] and bool(server["old_devices"]))
    local = [device for device in devices if device["destination_type"] == "local"]
    swaps = [device for device in local if device.get("guest_format") == "swap"]
    group = server["group"] or {}
    return ServerRequest(
        server["flavor"] or "",
        "" if boots_from_volume else server["image"] or "",
        server["zone"],
        boots_from_volume,
        sum(int(device.get("volume_size") or 0) for device in local if device not in swaps),
        sum(int(device.get("volume_size") or 0) for device in swaps),
        group.get("policy", ""),
        int(group.get("max") or 1),
    )


def _compare(vnf: _CheckedVnf, answer: Mapping[str, Any]) -> Iterator[DecisionDifference]:
    """Yield the differences of a VNF: other servers, another order, or a refused stack."""
    if "problem" in answer:
        yield _build_difference(vnf, "the stack", "accepted", f"refused: {answer['problem']}")
        return
    actual = parse_requests(answer["servers"])
    planned = vnf.requests
    if actual.servers != planned.servers:
        yield _build_difference(
            vnf,
            "servers",
            _describe_servers(planned.servers - actual.servers),
            _describe_servers(actual.servers - planned.servers),
        )
    elif actual.order != planned.order:
        yield _build_difference(
            vnf,
            "the order of creation",
            _describe_order(planned.order - actual.order),
            _describe_order(actual.order - planned.order),
        )


def _build_difference(
    vnf: _CheckedVnf, subject: str, planned: str, actual: str
) -> DecisionDifference:
    return DecisionDifference(vnf.address, subject, planned, actual, is_reading=True)


def _describe_servers(servers: Counter[ServerRequest]) -> str:
    """Return servers as text: `2 x big, plain`; "" without any."""
    texts = sorted(f"{count} x {request.describe()}" for request, count in servers.items())
    return "; ".join(texts)


def _describe_order(pairs: frozenset[tuple[ServerRequest, ServerRequest]]) -> str:
    """Return pairs as text: `big before small`; "" without any."""
    return "; ".join(
        sorted(f"{first.describe()} before {last.describe()}" for first, last in pairs)
    )
