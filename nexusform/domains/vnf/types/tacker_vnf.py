"""tacker_vnf: a VNF whose VMs come from a real TOSCA VNFD, a HOT file, or both."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.address import Address
from nexusform.demands import CONTROL_PLANE_TAINT, GroupRule, NodeMarks, PlacedVm, PoolDemand, VmDemand
from nexusform.diagnostics import Problem, Severity
from nexusform.documents.shapes import mappings_at
from nexusform.domains.vnf.importers.vnf_model import Rule, Unmet, Vnf, counts, largest, size_problems, unmet
from nexusform.domains.vnf.types.vnf_documents import (
    CONTROL_PLANE_ROLE,
    REQUEST,
    VDU_BLOCK,
    WORKER,
    block_problems,
    document_path,
    document_problems,
    documents_known,
    read_documents,
    role_of,
    sku_of,
    sku_text,
    unpack,
    vdu_problems,
)
from nexusform.kubernetes.matching import Taint
from nexusform.ports import ResourceType, Surroundings, Unplaced, VmFamily
from nexusform.resource_types.hardware import with_vfs
from nexusform.resource_types.kubelet import (
    KUBELET_BLOCK,
    kubelet_of,
    kubelet_problems,
)
from nexusform.resource_types.shared_arguments import (
    even_control_plane,
    id_attribute,
    is_known,
    joined_id,
    name_attribute,
    parent_attribute,
    unknown_skus,
)
from nexusform.scheduling.kubelet import Platform
from nexusform.scheduling.racks.vms import Placement
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import DYNAMIC, NUMBER, STRING, ListType, MapType, ObjectType
from nexusform.values import UNKNOWN
from nexusform.words import form

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
DECIDED: Final = "decided"
CIS_NODE_LABEL: Final = "CIS-node"
MACHINE_LABEL: Final = "kubernetes.io/zone"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
SPECIFICATION: Final = "specification"
MGMT_DRIVER: Final = "mgmt_driver"
INSTANTIATED: Final = "instantiated"
SCALED: Final = "scaled"
HEALED: Final = "healed"
# How a VNFC came, by what its VM says of it: the trigger of the plan that places it, or a recorded word.
# Whatever else makes a VM of a VNF that stands anew is healing in Tacker's words.
_CAME: Final = {
    "": INSTANTIATED,
    "new": INSTANTIATED,
    "cluster_replaced": INSTANTIATED,
    "requested": INSTANTIATED,
    "scale_out": SCALED,
    SCALED: SCALED,
}
UNSATISFIABLE: Final = "anti-affinity-cannot-be-met"
TOO_LARGE: Final = "anti-affinity-cannot-be-met-at-the-largest-scale"

VNFC: Final = ObjectType.of(
    {
        "vdu": STRING,
        "number": NUMBER,
        "machine": STRING,
        "rack": STRING,
        "availability_zone": STRING,
        "numa_cells": ListType(NUMBER),
        "labels": MapType(STRING),
        "came": STRING,
        "provenance": STRING,
    }
)


def _argument(kind: Any, description: str) -> Attribute:
    return Attribute(kind, description, optional=True, decides_placement=True)


_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<site>/<name>"),
        "site_id": parent_attribute("nexus_site"),
        "name": name_attribute("VNF"),
        "vnfd": _argument(STRING, "Text of the VNFD (ETSI SOL001 or SOL006). Required: vnfd or base_hot."),
        "base_hot": _argument(STRING, "Text of the HOT file with the VMs."),
        "nested": _argument(MapType(STRING), "Texts of the nested HOT templates, by file name."),
        "csar": _argument(
            STRING,
            "VNF package (CSAR), a directory or zip file, instead of vnfd, base_hot and nested. TOSCA-"
            "Metadata and flavour_id locate the files.",
        ),
        REQUEST: _argument(
            STRING,
            "Text of the instantiate request (ETSI SOL003, JSON). Its flavourId, instantiationLevelId and "
            "additionalParams replace flavour_id, instantiation_level and parameters.",
        ),
        "parameters": _argument(DYNAMIC, "Parameters of the HOT file and inputs of the VNFD."),
        "flavour_id": _argument(STRING, "Deployment flavour, if the VNFD has several."),
        "instantiation_level": _argument(
            STRING, "Instantiation level of the VNFD. Default: its default level, else the initial deltas."
        ),
        "scale_levels": _argument(MapType(NUMBER), "Scale level by scaling aspect."),
        "labels": _argument(MapType(STRING), "Extra labels of worker nodes."),
        "label_source": Attribute(
            STRING,
            f'Source of hardware labels. "{SPECIFICATION}": every worker gets {CIS_NODE_LABEL}, '
            f'{MACHINE_LABEL} and {ZONE_LABEL}. "{MGMT_DRIVER}": as Tacker\'s management driver, '
            f"{CIS_NODE_LABEL} only. At instantiation it needs a server group with exactly the policy "
            "anti-affinity; at scale-out and healing a scaling group that passes scheduler_hints.",
            optional=True,
            choices=(SPECIFICATION, MGMT_DRIVER),
            decides_placement=True,
        ),
        "grant_zone": _argument(
            STRING,
            f'Zone id in the grants of the NFVO. Only with label_source = "{MGMT_DRIVER}"; the same '
            f"workers then get {MACHINE_LABEL}.",
        ),
        "taints": _argument(
            DYNAMIC,
            "Taints of worker nodes: a list of { key, value, effect }; value is optional.",
        ),
        "vnfcs": Attribute(MapType(VNFC), "VMs by name, with machine and NUMA cells.", computed=True),
    },
    {"vdu": VDU_BLOCK, "kubelet": KUBELET_BLOCK},
    "A VNF from a TOSCA VNFD or a HOT file, placed by its affinity rules.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: `<site>/<name>`."""
    return joined_id(attributes.get("site_id"), attributes.get("name"))


# --- checks ------------------------------------------------------------------------------------


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the arguments, and everything that was found in the documents."""
    blocks = attributes.get("vdu")
    blocks = blocks if isinstance(blocks, dict) else {}
    problems = list(block_problems(blocks))
    if all(attributes.get(name) is None for name in ("vnfd", "base_hot", "csar")):
        problems.append(
            Problem(
                (),
                "missing-required-argument",
                'A tacker_vnf needs "vnfd", "base_hot", or both, for example vnfd = file("vnfd.yaml"), or '
                '"csar", the path of a package.',
            )
        )
    problems += kubelet_problems(attributes.get("kubelet"), ("kubelet",))
    problems += _taint_problems(attributes.get("taints"))
    if attributes.get("grant_zone") is not None and attributes.get("label_source") in (None, SPECIFICATION):
        problems.append(
            Problem(
                ("grant_zone",),
                "conflicting-arguments",
                f'grant_zone is read with label_source = "{MGMT_DRIVER}" alone. Set that, or drop '
                "grant_zone.",
            )
        )
    parameters = attributes.get("parameters")
    if is_known(parameters) and not isinstance(parameters, dict):
        problems.append(
            Problem(
                ("parameters",),
                "incorrect-attribute-value-type",
                "parameters must be a map of values by name.",
            )
        )
    if not documents_known(attributes):
        return problems
    read = read_documents(attributes)
    problems += document_problems(read.findings)
    if not any(problem.severity == "error" for problem in read.findings):
        problems += vdu_problems(read.vnf, blocks)
        problems += _size_problems(read.vnf, attributes)
    return problems


def _taint_problems(taints: Any) -> Iterator[Problem]:
    """What is wrong with taints."""
    if not is_known(taints):
        return
    if not isinstance(taints, list):
        yield Problem(("taints",), "invalid-taint", "taints is a list of { key, value, effect }.")
        return
    for at, taint in enumerate(taints):
        if not isinstance(taint, dict) or not is_known(taint.get("key")):
            yield Problem(("taints", at), "invalid-taint", "A taint has a key and an effect.")
        elif taint.get("effect") not in (*_EFFECTS, UNKNOWN) or not taint.keys() <= {
            "key",
            "value",
            "effect",
        }:
            text = f"A taint is {{ key, value, effect }}; its effect is one of {', '.join(_EFFECTS)}."
            yield Problem(("taints", at), "invalid-taint", text)


def _size_problems(vnf: Vnf, attributes: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the size that is asked for, and where bounds of the VNFD cut it."""
    level, scale = attributes.get("instantiation_level"), attributes.get("scale_levels")
    if level is UNKNOWN or scale is UNKNOWN:
        return
    known = {name: value for name, value in (scale or {}).items() if is_known(value)}
    for name, value in known.items():
        if not isinstance(value, int):
            yield Problem(
                ("scale_levels", name),
                "invalid-number",
                f'The level of "{name}" must be a whole number, not {value}.',
            )
    whole = {name: value for name, value in known.items() if isinstance(value, int)}
    wrong = size_problems(vnf, level or "", whole)
    yield from wrong
    if wrong or len(whole) < len(known):
        return
    for cut in counts(vnf, level or "", whole).clamped:
        vdu = vnf.vdu(cut.vdu)
        assert vdu is not None
        bound = "least" if cut.taken > cut.asked else "most"
        yield Problem(
            document_path(vdu.origin.file),
            "size-outside-of-the-vdu-s-bounds",
            f'{vdu.origin}: the size asked for gives "{cut.vdu}" {cut.asked} VMs, and its profile allows at '
            f"{bound} {cut.taken}; {cut.taken} are placed.",
            Severity.WARNING,
        )


def _unmet_problem(unmet_rule: Unmet, kind: str, severity: Severity, machines: int) -> Problem:
    """What is said of a rule that cannot be met."""
    rule = unmet_rule.rule
    vdus = ", ".join(f'"{name}"' for name in rule.vdus)
    scope = f" (scope {rule.label})" if rule.label and rule.label != "anti-affinity" else ""
    text = f'{rule.origin}: "{rule.name}" keeps the VMs of {vdus} apart{scope}'
    if unmet_rule.against is not None:
        other = unmet_rule.against
        text += (
            f', and "{other.name}" ({other.origin}) keeps {unmet_rule.vms} of them together on one '
            f"{other.scope}. Drop one of the two, or take VDUs out of it."
        )
    else:
        at_most = f" with up to {rule.most} on each" if rule.most > 1 else ""
        room = machines if rule.scope == "machine" else unmet_rule.room // rule.most
        has = f"the site has {room} {form(room, rule.scope)}"
        when = "" if severity is Severity.ERROR else " at the largest scale"
        has = "a VNF stands on one site" if rule.scope == "site" else has
        text += (
            f"{at_most}: {unmet_rule.vms} VMs{when}, and {has}. Add machines or racks, ask for "
            "fewer VMs, or make the rule soft."
        )
    return Problem(document_path(rule.origin.file), kind, text, severity)


# --- VMs ---------------------------------------------------------------------------------------


def demand(
    attributes: Mapping[str, Any], surroundings: Surroundings, _address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """One pool per VDU, in source order."""
    if not documents_known(attributes):
        return None, []
    vnf = read_documents(attributes).vnf
    name, blocks = str(attributes["name"]), attributes.get("vdu") or {}
    numbers = _numbers(vnf, attributes)
    problems = list(_unmet(vnf, numbers, attributes, surroundings))
    pools = []
    for vdu in vnf.vdus:
        block = blocks.get(vdu.name) or {}
        sku = sku_of(vdu, block, surroundings)
        if isinstance(sku, Problem):
            problems.append(sku)
            continue
        own = range(numbers[vdu.name])
        sku = with_vfs(sku, block)
        is_plane = role_of(vdu.name, block) == CONTROL_PLANE_ROLE
        problems += even_control_plane(len(own), ("vdu", vdu.name)) if is_plane else ()
        figures = (sku.vcpus, sku.memory_gib, sku.disk_gib) if not block.get("vm_sku_name") else ()
        pools.append(
            PoolDemand(
                vdu.name,
                tuple(own),
                tuple(f"{name}-{vdu.name}-{number}" for number in own),
                sku,
                triggers=(("sku_changed", (sku.name, *figures)),),
                path=("vdu", vdu.name),
                groups=tuple(_group(rule) for rule in vnf.rules if vdu.name in rule.vdus),
                control_plane=is_plane,
            )
        )
    if any(problem.severity is Severity.ERROR for problem in problems):
        return None, problems
    site_id = str(attributes["site_id"])
    return VmDemand(site_id, f"vnf:{identify(attributes)}", name, tuple(pools), provenance=DECIDED), problems


def _numbers(vnf: Vnf, attributes: Mapping[str, Any]) -> Mapping[str, int]:
    scale = {name: int(level) for name, level in (attributes.get("scale_levels") or {}).items() if level}
    return counts(vnf, attributes.get("instantiation_level") or "", scale).numbers


def _group(rule: Rule) -> GroupRule:
    label = f"the others of {rule.name} ({rule.origin})"
    return GroupRule(
        name=label, affinity=rule.affinity, hard=rule.hard, scope=rule.scope, pools=rule.vdus, most=rule.most
    )


def _unmet(
    vnf: Vnf, numbers: Mapping[str, int], attributes: Mapping[str, Any], surroundings: Surroundings
) -> Iterator[Problem]:
    """Rules that cannot be met by so many VMs (errors), or not at the largest scale (warnings)."""
    machines = surroundings.machines(str(attributes["site_id"]))
    if not machines:  # a site without machines is an error of its own
        return
    racks = len({machine.rack for machine in machines})
    now = unmet(vnf, numbers, len(machines), racks)
    for unmet_rule in now:
        yield _unmet_problem(unmet_rule, UNSATISFIABLE, Severity.ERROR, len(machines))
    known = {unmet_rule.rule for unmet_rule in now}
    most = largest(vnf, attributes.get("instantiation_level") or "").numbers
    for unmet_rule in unmet(vnf, most, len(machines), racks):
        if unmet_rule.rule not in known:
            yield _unmet_problem(unmet_rule, TOO_LARGE, Severity.WARNING, len(machines))


def standing(attributes: Mapping[str, Any]) -> tuple[PlacedVm, ...]:
    """The VMs behind the VNFCs of a prior object."""
    vnfcs = attributes.get("vnfcs")
    if not isinstance(vnfcs, Mapping) or not documents_known(attributes):
        return ()
    blocks = attributes.get("vdu") or {}
    skus = {
        vdu.name: sku_text(vdu, blocks.get(vdu.name) or {}) for vdu in read_documents(attributes).vnf.vdus
    }
    return tuple(
        PlacedVm(
            pool=vnfc["vdu"],
            number=vnfc["number"],
            name=name,
            sku_name=skus.get(vnfc["vdu"], ""),
            placement=Placement(
                vnfc["machine"], vnfc["rack"], vnfc["availability_zone"], tuple(vnfc.get("numa_cells") or ())
            ),
            provenance=vnfc.get("provenance") or DECIDED,
            came=vnfc.get("came") or "",
        )
        for name, vnfc in vnfcs.items()
        if vnfc.get("machine")
    )


def assemble(
    _attributes: Mapping[str, Any],
    _surroundings: Surroundings,
    placed: Sequence[PlacedVm],
    _unplaced: Unplaced,
) -> dict[str, Any]:
    """`vnfcs`; labels are derived when read, and so is `came` of what was instantiated."""
    return {
        "vnfcs": {
            vm.name: {
                "vdu": vm.pool,
                "number": vm.number,
                "machine": vm.placement.machine,
                "rack": vm.placement.rack,
                "availability_zone": vm.placement.availability_zone,
                "numa_cells": list(vm.placement.cells) or None,
                "provenance": vm.provenance,
                **_recorded(_came(vm)),
            }
            for vm in placed
        },
    }


def _came(vm: PlacedVm) -> str:
    return _CAME.get(vm.came, HEALED)


def _recorded(came: str) -> dict[str, str]:
    """What state holds of how a VNFC came; nothing of an instantiated one."""
    return {} if came == INSTANTIATED else {"came": came}


class _Worker(Struct, frozen=True):
    """A worker as whoever labels it sees it."""

    vdu: str
    came: str
    machine: str
    zone: str


def _labels(attributes: Mapping[str, Any], worker: _Worker) -> dict[str, str]:
    """The labels that somebody gives the node of a worker: the user's, its machine and zone."""
    own = attributes.get("labels") or {}
    if attributes.get("label_source") != MGMT_DRIVER:
        return {
            **own,
            CIS_NODE_LABEL: worker.machine,
            MACHINE_LABEL: worker.machine,
            ZONE_LABEL: worker.zone,
        }
    vdu = read_documents(attributes).vnf.vdu(worker.vdu)
    if vdu is None or not (vdu.kept_apart if worker.came == INSTANTIATED else vdu.hinted):
        return dict(own)
    granted = attributes.get("grant_zone")
    zone = {MACHINE_LABEL: str(granted)} if granted else {}
    return {**own, CIS_NODE_LABEL: worker.machine, **zone}


def present(attributes: Mapping[str, Any], name: str) -> Any:
    """VNFCs are read with their labels and how they came."""
    value = attributes.get(name)
    if name != "vnfcs" or not isinstance(value, Mapping):
        return value
    shown: dict[str, Any] = {}
    for vnfc, values in value.items():
        works = _role(attributes, values["vdu"]) == WORKER
        came = values.get("came") or INSTANTIATED
        worker = _Worker(values["vdu"], came, values["machine"], values["availability_zone"])
        labels = _labels(attributes, worker) if works else {}
        shown[vnfc] = {**values, "came": came, "labels": labels}
    return shown


def node(attributes: Mapping[str, Any], vm: PlacedVm, _cluster: Mapping[str, Any]) -> NodeMarks:
    """A VNFC as a node of the cluster that the VNF makes: pods go to workers."""
    block = (attributes.get("vdu") or {}).get(vm.pool) or {}
    blocks = attributes.get("kubelet"), block.get("kubelet")
    kubelet = kubelet_of(Platform.KUBEADM, *blocks)
    if _role(attributes, vm.pool) != WORKER:
        return NodeMarks({}, (CONTROL_PLANE_TAINT,), kubelet)
    worker = _Worker(vm.pool, _came(vm), vm.placement.machine, vm.placement.availability_zone)
    labels = _labels(attributes, worker)
    # What is none is told where it is written.
    taints = [
        Taint(str(taint["key"]), str(taint.get("value") or ""), str(taint["effect"]))
        for taint in mappings_at(attributes, "taints")
        if taint.keys() >= {"key", "effect"}
    ]
    return NodeMarks(labels, tuple(taints), kubelet)


def _role(attributes: Mapping[str, Any], vdu: str) -> str:
    return role_of(vdu, (attributes.get("vdu") or {}).get(vdu) or {})


def wrong_skus(attributes: Mapping[str, Any], known: Collection[str]) -> list[Problem]:
    """The VM SKUs of the vdu blocks that nobody knows."""
    blocks = attributes.get("vdu")
    vdus = blocks.items() if isinstance(blocks, dict) else ()
    return unknown_skus(
        [(("vdu", name, "vm_sku_name"), block.get("vm_sku_name")) for name, block in vdus], known
    )


TACKER_VNF: Final = ResourceType(
    "tacker_vnf",
    4,
    _SCHEMA,
    identify,
    check=check,
    unpack=unpack,
    vms=VmFamily(demand, standing, assemble, wrong_skus, node),
    present=present,
)
