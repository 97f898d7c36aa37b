"""Requests of servers, built from the documents of VNFs without nexusform's readers.

Tacker's own user data makes the stack of a package, and Heat's own parser, groups and Server
resources the requests of a stack: the bodies that Nova gets. They must equal the requests that
nexusform reads: flavor, image, zone, root disk, local disks, server group, and the order of
creation. What these programs cannot build is not checked, with a reason.
"""

from __future__ import annotations

import shutil
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct, json

from nexusform.domains.program_checks.workflow.loopback_programs import (
    LoopbackPrograms,
    ProgramProblem,
    open_programs,
)
from nexusform.domains.vnf.importers.vnf_records import MACHINE, PlacementRule, Vdu, Vnf
from nexusform.domains.vnf.types.vnf_documents import PARAMETERS, REQUEST, read_documents
from nexusform.json_data.plain_data import get_list, get_mapping, get_text
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.vm_planning.vm_object import VmKey, VmObject
from nexusform.plans.plan_checks import DecisionDifference
from nexusform.scheduling.racks.vms import MIB_PER_GIB
from nexusform.workflow.program_checks import ProgramCheckProblem

HEAT: Final = "heat"
TACKER: Final = "tacker"
_VNF_TYPE: Final = "tacker_vnf"
PLATFORM: Final = "Nova"
_DRIVERS: Final = {HEAT: "heat_driver.py", "nova": "nova_driver.py", TACKER: "tacker_driver.py"}
# Files of a package that Tacker reads for a stack.
_PACKAGE_FILES: Final = (".yaml", ".yml", ".meta", ".py")
_METADATA: Final = "TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: Definitions/vnfd.yaml\n"


class ServerRequest(NamedTuple):
    """Request of a server, as Heat sends it to Nova.

    `flavor` is the size of a flavor that the stack creates. `image` is "" for a server that boots
    from a volume. `group` is the server group in a HOT file, "" for a package: rules of a VNFD have
    other names.
    """

    flavor: str
    image: str
    zone: str
    boots_from_volume: bool
    ephemeral_gib: int
    swap_mib: int
    group: str
    policy: str
    max_per_host: int

    def describe(self) -> str:
        """Return the request as text."""
        root = "from volume" if self.boots_from_volume else self.image
        disks = f"ephemeral {self.ephemeral_gib} GiB, swap {self.swap_mib} MiB"
        has_disks = self.ephemeral_gib or self.swap_mib
        group = f"{self.policy} of {self.group}" if self.group else self.policy
        parts = (self.flavor, root, self.zone, disks if has_disks else "", group)
        return ", ".join(part for part in parts if part)


class StackRequests(Struct, frozen=True):
    """Servers of a stack by request, and the pairs of requests in an order of creation."""

    servers: Counter[ServerRequest]
    order: frozenset[tuple[ServerRequest, ServerRequest]]


class StackReading(Struct, frozen=True):
    """VNF on OpenStack, and its stack as `readers` build it.

    `unchecked_reason` tells why there is no stack, "" for one. `servers` are the answers of Heat's
    driver by VM, {} with `differences`. `stack` has the flavors and volumes of the stack.
    """

    address: str
    vm_count: int
    unchecked_reason: str = ""
    readers: tuple[str, ...] = ()
    servers: Mapping[VmKey, Mapping[str, Any]] = {}
    stack: Mapping[str, Any] = {}
    differences: tuple[DecisionDifference, ...] = ()


class _Source(Struct):
    """VNF to read: its arguments, its numbers of VMs, and what the programs make of it.

    `vnf` is nexusform's reading, `document` the stack for Heat, `answer` what Heat or Tacker made.
    """

    address: str
    attributes: Mapping[str, Any]
    vm_object: VmObject
    vnf: Vnf
    is_package: bool
    unchecked_reason: str = ""
    document: Mapping[str, Any] | None = None
    readers: tuple[str, ...] = ()
    answer: Mapping[str, Any] = {}


def read_stacks(
    result: PlanResult, programs: Mapping[str, str], seconds: float
) -> tuple[list[StackReading], bool]:
    """Return the VNFs on OpenStack as their programs read them, and whether the time ended.

    `programs` are interpreters with Heat and Tacker by name. Raises ProgramCheckProblem.
    """
    if HEAT not in programs:
        raise ProgramCheckProblem(
            "Heat builds the requests of the servers. Add -check-with=heat=PYTHON, an interpreter "
            "with openstack-heat."
        )
    sources = list(_list_sources(result, has_tacker=TACKER in programs))
    packages = [source for source in sources if source.is_package and not source.unchecked_reason]
    has_timed_out = False
    if packages:
        has_timed_out = _run_tacker(programs[TACKER], packages, seconds)
    for source in sources:
        if not source.is_package:
            source.document = {
                "template": get_text(source.attributes, "base_hot"),
                "files": get_mapping(source.attributes, "nested"),
                "parameters": get_mapping(source.attributes, PARAMETERS),
            }
    stacks = [
        source
        for source in sources
        if not source.unchecked_reason and source.document is not None and not source.answer
    ]
    if stacks:
        documents = [source.document for source in stacks]
        version, answers, is_late = run_driver(HEAT, programs[HEAT], documents, seconds)
        has_timed_out |= is_late
        # The time may end before the last one.
        for source, answer in zip(stacks, answers, strict=False):
            source.answer = answer
            source.readers = (*source.readers, f"{HEAT} {version}")
    return [_build_reading(source) for source in sources], has_timed_out


def list_reasons(readings: Sequence[StackReading]) -> tuple[str, ...]:
    """Return why VNFs are not checked, each reason once."""
    return tuple(
        sorted({reading.unchecked_reason for reading in readings if reading.unchecked_reason})
    )


def list_readers(readings: Sequence[StackReading]) -> dict[str, str]:
    """Return the versions of the programs that built stacks, by name."""
    texts = sorted({text for reading in readings for text in reading.readers})
    return {name: version for name, _, version in (text.partition(" ") for text in texts)}


def _list_sources(result: PlanResult, *, has_tacker: bool) -> Iterator[_Source]:
    """Yield the VNFs on OpenStack, with the reason if their requests cannot be built."""
    for address, vm_object in result.objects.items():
        attributes = vm_object.instance.argument_values
        site = vm_object.request.site
        if address.type != _VNF_TYPE or attributes is None or site is None:
            continue
        if site.scheduler.profile.platform != PLATFORM or not vm_object.pools:
            continue
        reading = read_documents(attributes)
        is_package = any(attributes.get(name) for name in ("vnfd", "csar"))
        reason = ""
        if any(fact.reading_platform != PLATFORM for fact in reading.unread):
            reason = "facts of the documents are not read"
        elif attributes.get("scale_levels"):
            reason = "scale levels are reached by later operations"
        elif is_package and not has_tacker:
            reason = "packages and VNFDs need -check-with=tacker=PYTHON"
        elif is_package and not attributes.get("flavour_id"):
            reason = "Tacker needs a flavour_id"
        elif not attributes.get("base_hot"):
            reason = "there is no HOT file"
        yield _Source(str(address), attributes, vm_object, reading.vnf, is_package, reason)


def _run_tacker(python: str, sources: Sequence[_Source], seconds: float) -> bool:
    """Let Tacker make the stacks of packages; return whether the time ended before the last one.

    Raises ProgramCheckProblem.
    """
    documents = [{"request": _build_instantiate_request(source.attributes)} for source in sources]
    attributes = [source.attributes for source in sources]
    version, answers, is_late = run_driver(TACKER, python, documents, seconds, attributes)
    for source, answer in zip(sources, answers, strict=False):
        source.readers = (f"{TACKER} {version}",)
        if "template" in answer:
            source.document = answer
        elif "unknown" in answer:
            source.unchecked_reason = answer["unknown"]
        else:
            source.answer = answer
    return is_late


def _build_instantiate_request(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the instantiate request of a VNF without its connections."""
    text = attributes.get(REQUEST)
    request = json.decode(text) if isinstance(text, str) else {}
    request.pop("vimConnectionInfo", None)
    arguments = {
        "flavourId": attributes.get("flavour_id"),
        "instantiationLevelId": attributes.get("instantiation_level"),
        "additionalParams": get_mapping(attributes, PARAMETERS) or None,
    }
    return request | {name: value for name, value in arguments.items() if value is not None}


def run_driver(
    name: str,
    python: str,
    documents: Sequence[Any],
    seconds: float,
    packages: Sequence[Mapping[str, Any]] = (),
) -> tuple[str, list[Any], bool]:
    """Return the version and the answers of a driver, and whether its time ended.

    `packages` are the arguments of VNFs whose packages the driver reads. Raises
    ProgramCheckProblem.
    """
    program = shutil.which(python)
    if program is None:
        raise ProgramCheckProblem(f"{python} is not a program.")
    try:
        with open_programs(str(Path(program).parent)) as running:
            for number, attributes in enumerate(packages):
                path = running.get_path(f"package{number}")
                documents[number]["package"] = _open_package(path, attributes)
            return _run_driver(running, Path(program).name, name, documents, seconds)
    except (OSError, zipfile.BadZipFile) as problem:
        raise ProgramCheckProblem(f"A package cannot be read: {problem}.") from None
    except ProgramProblem as problem:
        raise ProgramCheckProblem(str(problem)) from None


def _open_package(path: Path, attributes: Mapping[str, Any]) -> str:
    """Return the directory of a package: its own, or `path` with the files that Tacker reads."""
    package = get_text(attributes, "csar")
    if package and Path(package).is_dir():
        return str(Path(package).absolute())
    if package:
        with zipfile.ZipFile(package) as archive:
            names = [name for name in archive.namelist() if name.endswith(_PACKAGE_FILES)]
            archive.extractall(path, names)
        return str(path)
    files = {
        "TOSCA-Metadata/TOSCA.meta": _METADATA,
        "Definitions/vnfd.yaml": get_text(attributes, "vnfd"),
    }
    folder = f"BaseHOT/{attributes['flavour_id']}"
    files[f"{folder}/base.yaml"] = get_text(attributes, "base_hot")
    for name, text in get_mapping(attributes, "nested").items():
        files[f"{folder}/nested/{Path(name).name}"] = text
    for name, text in files.items():
        path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        path.joinpath(name).write_text(text, "utf-8")
    return str(path)


def _run_driver(
    running: LoopbackPrograms, program: str, name: str, documents: Sequence[Any], seconds: float
) -> tuple[str, list[Any], bool]:
    """Run a driver in the private directory, with one document per line.

    Raises ProgramProblem.
    """
    driver = running.get_path(_DRIVERS[name])
    source = running.get_path("documents.jsonl")
    answers = running.get_path("answers.jsonl")
    driver.write_bytes(resources.files(__package__).joinpath(_DRIVERS[name]).read_bytes())
    source.write_bytes(b"".join(json.encode(document) + b"\n" for document in documents))
    running.start(program, "-I", "-W", "ignore", str(driver), str(source), str(answers))
    has_timed_out = not running.wait_for_end(program, seconds)
    lines = answers.read_bytes().splitlines(keepends=True) if answers.exists() else []
    # A half-written last line is left out.
    versions, *found = [json.decode(line) for line in lines if line.endswith(b"\n")] or [{}]
    return str(versions.get(name, "of unknown version")), found, has_timed_out


def _build_reading(source: _Source) -> StackReading:
    """Compare the stack of the programs with nexusform's reading, and give each VM its server."""
    if source.unchecked_reason:
        return _build_unchecked(source, source.unchecked_reason)
    if not source.answer:
        return _build_unchecked(source, "the check ended early")
    rules = _select_rules(source.vnf)
    counts = {pool.pool: len(pool.numbers) for pool in source.vm_object.pools}
    planned = build_requests(source.vnf, counts, rules, has_group_names=not source.is_package)
    servers = get_list(source.answer, "servers")
    if _has_rules_of_grants(source.vnf, rules, servers):
        return _build_unchecked(source, "the NFVO applies rules of the VNFD in its grants")
    differences = tuple(_compare(source, planned))
    return StackReading(
        source.address,
        len(source.vm_object.requested_names),
        readers=source.readers,
        servers={} if differences else _match_servers(source, rules, servers),
        stack={name: get_mapping(source.answer, name) for name in ("flavors", "volumes")},
        differences=differences,
    )


def _build_unchecked(source: _Source, reason: str) -> StackReading:
    """Return the reading of a VNF without a stack, for a reason."""
    return StackReading(source.address, len(source.vm_object.requested_names), reason)


def _select_rules(vnf: Vnf) -> dict[str, PlacementRule]:
    """Return the rule of each VDU that a server group can apply."""
    return {name: rule for rule in vnf.rules if rule.scope == MACHINE for name in rule.vdus}


def _has_rules_of_grants(
    vnf: Vnf, rules: Mapping[str, PlacementRule], servers: Sequence[Mapping[str, Any]]
) -> bool:
    """Return whether rules of the VNFD have no server group: Tacker sends them to the NFVO."""
    of_descriptor = [rule for rule in vnf.rules if rule.origin.file == "vnfd"]
    has_wide_rules = any(rule.scope != MACHINE for rule in of_descriptor)
    has_machine_rules = any(rule in of_descriptor for rule in rules.values())
    has_groups = any(server["group"] for server in servers)
    return has_wide_rules or (has_machine_rules and not has_groups)


def build_requests(
    vnf: Vnf,
    counts: Mapping[str, int],
    rules: Mapping[str, PlacementRule],
    *,
    has_group_names: bool = True,
) -> StackRequests:
    """Return the requests that nexusform reads, for numbers of VMs by VDU."""
    requests = {
        vdu.name: _build_request(vdu, rules.get(vdu.name), has_group_names=has_group_names)
        for vdu in vnf.vdus
    }
    servers: Counter[ServerRequest] = Counter()
    for vdu in vnf.vdus:
        servers[requests[vdu.name]] += counts[vdu.name]
    by_name = {vdu.name: vdu for vdu in vnf.vdus}
    order = frozenset(
        (requests[earlier], requests[vdu.name])
        for vdu in vnf.vdus
        for earlier in _list_earlier_vdus(vdu, by_name)
        if counts[vdu.name] and counts[earlier]
    )
    return StackRequests(+servers, order)


def _build_request(vdu: Vdu, rule: PlacementRule | None, *, has_group_names: bool) -> ServerRequest:
    """Return the request of a server of a VDU."""
    policy = ""
    if rule is not None:
        strength = "" if rule.is_hard else "soft-"
        policy = f"{strength}{'affinity' if rule.is_affinity else 'anti-affinity'}"
    size = vdu.size
    memory_mib = round((size.memory_gib or 0) * MIB_PER_GIB)
    return ServerRequest(
        vdu.flavor or _describe_size(size.vcpus, memory_mib, size.disk_gib or 0),
        "" if vdu.boots_from_volume else vdu.image,
        f"{vdu.availability_zone}:{vdu.host}" if vdu.host else vdu.availability_zone,
        vdu.boots_from_volume,
        *vdu.local_disks,
        rule.name if rule is not None and has_group_names else "",
        policy,
        rule.max_per_location if rule is not None else 1,
    )


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


def _describe_size(vcpus: int | None, memory_mib: int, disk_gib: int) -> str:
    """Return the size of a flavor that the stack creates: `3 vCPU, 4096 MiB, 10 GiB of disk`."""
    return f"{vcpus} vCPU, {memory_mib} MiB, {disk_gib} GiB of disk"


def parse_requests(answer: Mapping[str, Any], *, has_group_names: bool = True) -> StackRequests:
    """Return the requests in an answer of Heat's driver."""
    servers = get_list(answer, "servers")
    requests = [
        _parse_request(server, answer, has_group_names=has_group_names) for server in servers
    ]
    order = frozenset(
        (requests[earlier], request)
        for request, server in zip(requests, servers, strict=True)
        for earlier, other in enumerate(servers)
        if any(other["path"][: len(needed)] == needed for needed in server["needs"])
    )
    return StackRequests(Counter(requests), order)


def _parse_request(
    server: Mapping[str, Any], answer: Mapping[str, Any], *, has_group_names: bool
) -> ServerRequest:
    """Return one request in an answer of Heat's driver."""
    body = server["body"]["server"]
    devices = get_list(body, "block_device_mapping_v2")
    has_boot_volume = any(
        device["destination_type"] == "volume" and device["boot_index"] == 0 for device in devices
    ) or any(
        # The root disk of Nova's old list.
        device["device_name"].removeprefix("/dev/") == "vda"
        for device in get_list(body, "block_device_mapping")
    )
    local = [
        device
        for device in devices
        if device["destination_type"] == "local" and device["source_type"] == "blank"
    ]
    swaps = [device for device in local if device.get("guest_format") == "swap"]
    group = server["group"] or {}
    flavor = body["flavorRef"]
    if created := get_mapping(answer, "flavors", flavor):
        root_gib = 0 if has_boot_volume else created["disk"]
        local_gib = created["ephemeral"] + -(-created["swap"] // MIB_PER_GIB)
        flavor = _describe_size(created["vcpus"], created["ram"], root_gib + local_gib)
    return ServerRequest(
        flavor,
        "" if has_boot_volume else body["imageRef"],
        body.get("availability_zone") or "",
        has_boot_volume,
        sum(int(device.get("volume_size") or 0) for device in local if device not in swaps),
        sum(int(device.get("volume_size") or 0) for device in swaps),
        group.get("name", "").rpartition("/")[2] if has_group_names else "",
        group.get("policy", ""),
        int(group.get("max") or 1),
    )


def _match_servers(
    source: _Source, rules: Mapping[str, PlacementRule], servers: Sequence[Mapping[str, Any]]
) -> dict[VmKey, Mapping[str, Any]]:
    """Return the server of each VM: one with its request, on its path if there are several.

    Equal servers of a VDU replace each other.
    """
    has_group_names = not source.is_package
    waiting = [
        (_parse_request(server, source.answer, has_group_names=has_group_names), server)
        for server in servers
    ]
    matches: dict[VmKey, Mapping[str, Any]] = {}
    for vdu in source.vnf.vdus:
        request = _build_request(vdu, rules.get(vdu.name), has_group_names=has_group_names)
        keys = [key for key in source.vm_object.requested_names if key[0] == vdu.name]
        for key in keys:
            same = [pair for pair in waiting if pair[0] == request]
            on_path = [pair for pair in same if _has_part(pair[1]["path"], vdu.name)]
            pair = (on_path or same)[0]
            waiting.remove(pair)
            matches[key] = pair[1]
    return matches


def _has_part(path: Sequence[str], vdu: str) -> bool:
    """Return whether a resource of the path is named as the VDU, or as one of its VMs."""
    return any(name == vdu or name.rpartition("-")[0] == vdu for name in path)


def _compare(source: _Source, planned: StackRequests) -> Iterator[DecisionDifference]:
    """Yield the differences of a VNF: other servers, another order, or a refused stack."""
    if "problem" in source.answer:
        # The last reader is the one that refuses it.
        refusal = f"{source.readers[-1]}: {source.answer['problem']}"
        yield DecisionDifference(source.address, "the stack", "", "", refusal=refusal)
        return
    actual = parse_requests(source.answer, has_group_names=not source.is_package)
    if actual.servers != planned.servers:
        yield _build_difference(
            source.address,
            "servers",
            _describe_servers(planned.servers - actual.servers),
            _describe_servers(actual.servers - planned.servers),
        )
    elif actual.order != planned.order:
        yield _build_difference(
            source.address,
            "the order of creation",
            _describe_order(planned.order - actual.order),
            _describe_order(actual.order - planned.order),
        )


def _build_difference(address: str, subject: str, planned: str, actual: str) -> DecisionDifference:
    return DecisionDifference(address, subject, planned, actual, is_reading=True)


def _describe_servers(servers: Counter[ServerRequest]) -> str:
    """Return servers as text: `2 x big, plain`; "" without any."""
    texts = sorted(f"{count} x {request.describe()}" for request, count in servers.items())
    return "; ".join(texts)


def _describe_order(pairs: frozenset[tuple[ServerRequest, ServerRequest]]) -> str:
    """Return pairs as text: `big before small`; "" without any."""
    return "; ".join(
        sorted(f"{first.describe()} before {last.describe()}" for first, last in pairs)
    )
