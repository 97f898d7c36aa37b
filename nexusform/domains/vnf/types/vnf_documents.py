"""What a tacker_vnf says of its VDUs: its documents, read once per text, with what is to be said about
them as problems, and its `vdu` blocks, what size and role each VDU gets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostic_kinds import summary_of
from nexusform.diagnostics import Problem, Refused, Severity, did_you_mean
from nexusform.domains.vnf.importers.vnf_model import Vdu, Vnf, VnfSources
from nexusform.plain_data import Path
from nexusform.ports import FileProblem, Files, Surroundings
from nexusform.resource_types.hardware import VFS
from nexusform.resource_types.kubelet import KUBELET_BLOCK, kubelet_problems
from nexusform.resource_types.shared_arguments import (
    is_known,
    memory_problems,
    unknown_sku,
    whole_number_problems,
)
from nexusform.scheduling.racks.vms import VmSku, whole_mib
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange
from nexusform.value_types import NUMBER, STRING
from nexusform.values import UNKNOWN

if TYPE_CHECKING:
    from nexusform.domains.vnf.importers.vnf import ReadVnf


DOCUMENTS: Final = ("vnfd", "base_hot", "nested", "parameters", "flavour_id")
# What a package holds.
PACKAGED: Final = ("vnfd", "base_hot", "nested")
PARAMETERS: Final = "parameters"
REQUEST: Final = "instantiate_request"
# What of it places VMs, and the argument that stands for it.
_REQUESTED: Final = {
    "flavourId": "flavour_id",
    "instantiationLevelId": "instantiation_level",
    "additionalParams": PARAMETERS,
}
_NESTED: Final = 'nested["'
_KINDS: Final = {"vnfd": "VNFD", "base_hot": "HOT file"}


def unpack(attributes: Mapping[str, Any], files: Files) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments that the instantiate request and the package say, and what is wrong with these."""
    request, problems = _requested(attributes)
    package, wrong = _packaged({**attributes, **request}, files)
    return {**request, **package}, [*problems, *wrong]


def _requested(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """flavour_id, instantiation_level and parameters of the instantiate request (ETSI SOL003, JSON)."""
    text = attributes.get(REQUEST)
    if text is None:
        return {}, []
    if text is UNKNOWN:
        return {name: UNKNOWN for name in _REQUESTED.values() if attributes.get(name) is None}, []
    body = _request_body(str(text))
    if isinstance(body, Problem):
        return {}, [body]
    arguments: dict[str, Any] = {}
    problems = []
    for field, name in _REQUESTED.items():
        asked, written = body.get(field), attributes.get(name)
        if asked is None:
            continue
        if not isinstance(asked, dict if name == PARAMETERS else str):
            problems.append(_wrong_request(f"{field} is no {'object' if name == PARAMETERS else 'text'}."))
        elif name == PARAMETERS and isinstance(written, dict):
            # Written ones are meant to correct those of the request.
            arguments[name] = {**body[field], **written}
        elif written in (None, asked):
            arguments[name] = asked
        elif is_known(written):
            text = f'{name} is "{written}", and {field} of the request "{asked}". Drop one, or correct it.'
            problems.append(Problem((name,), "conflicting-arguments", text))
    return arguments, problems


def _request_body(text: str) -> dict[str, Any] | Problem:
    """The body of a request, or what is wrong with it."""
    try:
        body = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as problem:
        return _wrong_request(f"line {problem.lineno}, column {problem.colno}: {problem.msg}.")
    except (ValueError, RecursionError):
        return _wrong_request("it is nested too deeply, or holds NaN or Infinity.")
    return body if isinstance(body, dict) else _wrong_request("it is no JSON object.")


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _wrong_request(what: str) -> Problem:
    return Problem(
        (REQUEST,), "invalid-instantiate-request", f"The instantiate request cannot be read: {what}"
    )


def _packaged(attributes: Mapping[str, Any], files: Files) -> tuple[dict[str, Any], list[Problem]]:
    """vnfd, base_hot and nested of the package that `csar` names."""
    path, flavour = attributes.get("csar"), attributes.get("flavour_id")
    if path is None:
        return {}, []
    both = [name for name in PACKAGED if attributes.get(name)]
    if both:
        text = f"csar holds what is written beside it: {', '.join(both)}. Drop csar, or the other."
        return {}, [Problem(("csar",), "conflicting-arguments", text)]
    if path is UNKNOWN or flavour is UNKNOWN:
        return dict.fromkeys(PACKAGED, UNKNOWN), []
    from nexusform.domains.vnf.importers.vnf_package import read_package

    try:
        package = read_package(str(path), str(flavour or ""), files)
    except FileProblem as problem:
        return {}, [Problem(("csar",), "unreadable-file", str(problem))]
    except Refused as refused:
        why = refused.diagnostics[0]
        return {}, [Problem(("csar",), why.id, f'"{path}": {why.detail}')]
    return {"vnfd": package.vnfd, "base_hot": package.base_hot, "nested": dict(package.nested) or None}, []


def documents_known(attributes: Mapping[str, Any]) -> bool:
    """Whether all documents are known, and at least one is there."""
    if any(_has_unknown(attributes.get(name)) for name in DOCUMENTS):
        return False
    return any(isinstance(attributes.get(name), str) for name in ("vnfd", "base_hot"))


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(_has_unknown(part) for part in value)
    return value is UNKNOWN


def read_documents(attributes: Mapping[str, Any]) -> ReadVnf:
    """The VNF of the arguments, which must be known."""
    nested = attributes.get("nested") or {}
    parameters = attributes.get("parameters")
    return _read(
        attributes.get("vnfd"),
        attributes.get("base_hot"),
        tuple((name, text) for name, text in sorted(nested.items()) if isinstance(text, str)),
        json.dumps(parameters if isinstance(parameters, dict) else {}, sort_keys=True),
        attributes.get("flavour_id") or "",
    )


# One VNF is asked for several times in a plan; the result is frozen and depends on the texts alone.
@lru_cache(maxsize=64)
def _read(
    vnfd: str | None, base_hot: str | None, nested: tuple[tuple[str, str], ...], parameters: str, flavour: str
) -> ReadVnf:
    # Few configurations hold a VNF: the readers of TOSCA and HOT are loaded for those that do.
    from nexusform.domains.vnf.importers.vnf import read_vnf

    return read_vnf(
        VnfSources(
            vnfd=vnfd,
            base_hot=base_hot,
            nested=dict(nested),
            parameters=json.loads(parameters),
            flavour_id=flavour,
        )
    )


def document_problems(findings: Iterable[Problem]) -> list[Problem]:
    """Findings as problems of the arguments that hold the documents: errors one by one, warnings of one
    document and kind together, so that each line of them is seen.
    """
    problems = []
    together: dict[tuple[str, str], list[str]] = {}
    for problem in findings:
        line = f":{problem.line}" if problem.line else ""
        sentence = problem.detail if problem.detail.endswith((".", "?")) else f"{problem.detail}."
        text = f"{problem.file}{line}: {sentence}"
        if problem.severity is Severity.ERROR:
            problems.append(Problem(document_path(problem.file), problem.id, text, line=problem.line))
        else:
            together.setdefault((problem.file, problem.id), []).append(text)
    for (file, kind), lines in together.items():
        headline = f"{summary_of(kind)} ({_KINDS.get(file, 'nested template')})"
        problems.append(Problem(document_path(file), kind, "\n".join(lines), Severity.WARNING, headline))
    return problems


def document_path(file: str) -> Path:
    """Where a document stands among the arguments."""
    if file.startswith(_NESTED):
        return ("nested", file.removeprefix(_NESTED).removesuffix('"]'))
    return (file,)


WORKER: Final = "Worker"
CONTROL_PLANE_ROLE: Final = "ControlPlane"
# The VDU that the specification calls so holds the Kubernetes masters.
MASTER: Final = "masterNode"
_SIZES: Final = ("vcpus", "memory_gib", "disk_gib")


def _size(description: str, minimum: int, **more: Any) -> Attribute:
    return Attribute(
        NUMBER,
        description,
        optional=True,
        minimum=minimum,
        on_change=OnChange.REPLACE_POOL,
        decides_placement=True,
        **more,
    )


VDU_BLOCK: Final = NestedBlock(
    BlockSchema(
        {
            "vm_sku_name": Attribute(
                STRING,
                "VM SKU, instead of vcpus and memory_gib.",
                optional=True,
                on_change=OnChange.REPLACE_POOL,
                decides_placement=True,
            ),
            "vcpus": _size("vCPUs per VM. Default: from the documents.", 1),
            "memory_gib": _size(
                "Memory per VM in GiB, counted in MiB. Default: from the documents.", 0, fractions=True
            ),
            "disk_gib": _size("Disk per VM in GiB. Default: from the documents, else 0.", 0),
            "sriov_vfs": VFS,
            "role": Attribute(
                STRING,
                f'What its VMs are in the Kubernetes cluster. Default: "{WORKER}", and '
                f'"{CONTROL_PLANE_ROLE}" for a VDU called {MASTER}.',
                optional=True,
                choices=(WORKER, CONTROL_PLANE_ROLE),
                decides_placement=True,
            ),
        },
        {"kubelet": KUBELET_BLOCK},
    ),
    Nesting.MAP,
    "Size and role of the VMs of one VDU. The label is the VDU's name.",
    label="name",
)


def role_of(name: str, block: Mapping[str, Any]) -> str:
    """The role of a VDU's VMs."""
    return str(block.get("role") or (CONTROL_PLANE_ROLE if name == MASTER else WORKER))


def sku_text(vdu: Vdu, block: Mapping[str, Any]) -> str:
    """The SKU's name, or the size in words."""
    if block.get("vm_sku_name"):
        return str(block["vm_sku_name"])
    if _by_flavor(vdu, block):
        return vdu.flavor
    vcpus, memory, _ = figures(vdu, block)
    return f"{vcpus} vCPU / {memory if memory is None else f'{memory:g}'} GiB"


def _by_flavor(vdu: Vdu, block: Mapping[str, Any]) -> bool:
    """Whether the size is that of the VM SKU called like the flavor: neither block nor documents say it."""
    sized = [block.get(key) for key in ("vcpus", "memory_gib")]
    said = vdu.size.vcpus is not None and vdu.size.memory_gib is not None
    return bool(vdu.flavor) and not said and sized == [None, None]


def figures(vdu: Vdu, block: Mapping[str, Any]) -> tuple[int | None, float | None, int]:
    """vCPUs, GiB of memory and of disk: the block's, else the documents'."""
    size = vdu.size
    vcpus = block.get("vcpus")
    memory = block.get("memory_gib")
    disk = block.get("disk_gib")
    return (
        size.vcpus if vcpus is None else int(vcpus),
        size.memory_gib if memory is None else whole_mib(memory),
        (size.disk_gib or 0) if disk is None else int(disk),
    )


def sku_of(vdu: Vdu, block: Mapping[str, Any], surroundings: Surroundings) -> VmSku | Problem:
    """The size of one VM of a VDU as a VM SKU."""
    name = block.get("vm_sku_name")
    if name:
        sku = surroundings.sku(str(name))
        known = surroundings.sku_names()
        return sku if sku is not None else unknown_sku(str(name), ("vdu", vdu.name, "vm_sku_name"), known)
    by_flavor = surroundings.sku(vdu.flavor) if _by_flavor(vdu, block) else None
    if by_flavor is not None:
        return by_flavor
    vcpus, memory, disk = figures(vdu, block)
    if vcpus is None or memory is None:
        return missing_size(vdu, vcpus, memory)
    return VmSku(name=sku_text(vdu, block), vcpus=vcpus, emulator_vcpus=0, memory_gib=memory, disk_gib=disk)


def missing_size(vdu: Vdu, vcpus: int | None, memory: float | None) -> Problem:
    """The problem of a VDU whose size nobody says."""
    if vcpus is None and memory is None:
        what = "vCPUs and no memory"
    else:
        what = "vCPUs" if vcpus is None else "memory"
    flavor = f', or a resource nexus_vm_sku called "{vdu.flavor}", as its flavor' if vdu.flavor else ""
    return Problem(
        ("vdu", vdu.name),
        "vdu-without-a-size",
        f'The documents give no {what} for the VDU "{vdu.name}" ({vdu.origin}). Add a block '
        f'vdu "{vdu.name}" with vm_sku_name, or with vcpus and memory_gib{flavor}.',
    )


def block_problems(blocks: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with the blocks by themselves."""
    for name, block in blocks.items():
        path: Path = ("vdu", name)
        yield from whole_number_problems(block, ("vcpus", "disk_gib", "sriov_vfs"), path)
        yield from memory_problems(block, path)
        yield from kubelet_problems(block.get("kubelet"), (*path, "kubelet"))
        sized = [size for size in _SIZES if block.get(size) is not None]
        if block.get("vm_sku_name") is not None and sized:
            yield Problem(
                (*path, "vm_sku_name"),
                "conflicting-arguments",
                f'The block vdu "{name}" has vm_sku_name and {", ".join(sized)}. Give a SKU, or '
                "figures, not both.",
            )


def vdu_problems(vnf: Vnf, blocks: Mapping[str, Any]) -> Iterator[Problem]:
    """Blocks for VDUs that the documents do not have, and VDUs without a size."""
    names = [vdu.name for vdu in vnf.vdus]
    for name in blocks:
        if name not in names:
            listed = ", ".join(names)
            yield Problem(
                ("vdu", name),
                "unknown-vdu",
                f'The documents have no VDU "{name}".{did_you_mean(name, names)} They have: {listed}.',
            )
    for vdu in vnf.vdus:
        block = blocks.get(vdu.name) or {}
        sizes = [block.get(key) for key in ("vm_sku_name", "vcpus", "memory_gib")]
        if any(value is not None and not is_known(value) for value in sizes) or sizes[0] is not None:
            continue
        vcpus, memory, _ = figures(vdu, block)
        if _by_flavor(vdu, block):  # only a plan knows the SKUs that it is looked up in
            continue
        if vcpus is None or memory is None:
            yield missing_size(vdu, vcpus, memory)
