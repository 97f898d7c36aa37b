"""Documents of a tacker_vnf, parsed once per text.

Findings are problems, and `vdu` blocks have size and role.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics.diagnostic import DiagnosticsError, Problem, Severity, suggest_name
from nexusform.diagnostics.summaries import get_summary
from nexusform.domains.openstack.scheduling.nova_host_records import (
    build_sku_name,
    is_form_of_flavor,
)
from nexusform.domains.vnf.importers.vnf_records import Vdu, Vnf, VnfSourceDocuments
from nexusform.interfaces.plugins import FileProblem, Files, ResourceContext
from nexusform.json_data.plain_data import (
    Path,
    get_mapping,
    get_value_at_path,
    has_unknown_part,
    unify_json_error,
)
from nexusform.language.evaluation_run import MissingDirectory
from nexusform.resource_types.kubelet_block import KUBELET_BLOCK, check_kubelet
from nexusform.resource_types.machine_facts import VFS
from nexusform.resource_types.shared_arguments import (
    build_unknown_sku_problem,
    check_memory,
    check_whole_numbers,
    is_set_and_known,
)
from nexusform.scheduling.racks.vms import VmSku, round_up_to_mib
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    OnChange,
)
from nexusform.schemas.value_types import NUMBER, STRING
from nexusform.values.typed_value import UNKNOWN

if TYPE_CHECKING:
    from nexusform.domains.vnf.importers.vnf_reading import ParsedVnf


DOCUMENTS: Final = ("vnfd", "base_hot", "nested", "parameters", "flavour_id")
# Arguments contained in a package.
PACKAGED: Final = ("vnfd", "base_hot", "nested")
PARAMETERS: Final = "parameters"
REQUEST: Final = "instantiate_request"
VIM_CONNECTIONS: Final = "vim_connection_info_wo"
VIM_CONNECTIONS_VERSION: Final = "vim_connection_info_wo_version"
# Placement fields of the request, and the matching arguments.
REQUEST_FIELDS: Final = {
    "flavourId": "flavour_id",
    "instantiationLevelId": "instantiation_level",
    "additionalParams": PARAMETERS,
}
_NESTED: Final = 'nested["'
_KINDS: Final = {"vnfd": "VNFD", "base_hot": "HOT file"}


def read_package_and_request(
    attributes: Mapping[str, Any], files: Files
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the arguments from the instantiate request and the package, and their problems."""
    request, problems = _read_instantiate_request(attributes)
    package, package_problems = _read_package_arguments({**attributes, **request}, files)
    return {**request, **package}, [*problems, *package_problems]


def _read_instantiate_request(
    attributes: Mapping[str, Any],
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the arguments in the instantiate request of a block (ETSI SOL003, JSON), and problems.

    The arguments are flavour_id, instantiation_level and parameters, unknown while the request
    is. A configured argument must be equal, or not be set; configured parameters override those
    of the request.
    """
    text = attributes.get(REQUEST)
    if text is None:
        return {}, []
    if text is UNKNOWN:
        return {
            name: UNKNOWN for name in REQUEST_FIELDS.values() if attributes.get(name) is None
        }, []
    body = _parse_request_body(str(text))
    if isinstance(body, Problem):
        return {}, [body]
    arguments: dict[str, Any] = {}
    problems = []
    for field, name in REQUEST_FIELDS.items():
        requested = body.get(field)
        configured = attributes.get(name)
        if requested is None:
            # The VDU is not in the request.
            continue
        kind, noun = (dict, "an object") if name == PARAMETERS else (str, "a text")
        if not isinstance(requested, kind):
            problems.append(_build_request_problem(f"{field} is not {noun}."))
        elif isinstance(configured, dict):
            arguments[name] = {**body[field], **configured}
        elif configured in (None, requested):
            arguments[name] = requested
        elif is_set_and_known(configured):
            # An unknown value is no conflict yet.
            text = (
                f'{name} is "{configured}", but {field} of the request is "{requested}". Remove '
                "one, or correct it."
            )
            problems.append(Problem((name,), "conflicting-arguments", text))
    return arguments, problems


def find_request_secrets(attributes: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the paths of the parameters from the instantiate request: they may be secrets."""
    text = attributes.get(REQUEST)
    body = _parse_request_body(text) if isinstance(text, str) else None
    if not isinstance(body, dict):
        # Absent, unknown, or reported.
        return ()
    names = get_mapping(body, "additionalParams")
    parameters = get_mapping(attributes, PARAMETERS)
    return tuple((PARAMETERS, name) for name in names if name in parameters)


def check_vim_connections(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return no arguments, and the problems of the write-only connections without their text."""
    connections = attributes.get(VIM_CONNECTIONS)
    version = attributes.get(VIM_CONNECTIONS_VERSION)
    text = attributes.get(REQUEST)
    detail = ""
    name = VIM_CONNECTIONS
    if connections is None:
        name = VIM_CONNECTIONS_VERSION
        if version is not None:
            detail = f"{name} has no effect without {VIM_CONNECTIONS}. Remove it."
    elif version is None:
        detail = f"Set {VIM_CONNECTIONS_VERSION} with it: a new number sends new connections."
    elif isinstance(text, str) and "vimConnectionInfo" in get_mapping(_parse_request_body(text)):
        detail = f"{REQUEST} has vimConnectionInfo, too. Remove it there: the state keeps its text."
    if detail:
        return {}, [Problem((name,), "conflicting-arguments", detail)]
    is_valid = isinstance(connections, dict) and all(
        isinstance(connection, dict) or connection is UNKNOWN for connection in connections.values()
    )
    if is_valid or not is_set_and_known(connections):
        return {}, []
    detail = (
        f"{VIM_CONNECTIONS} must be a map of connections by id, such as "
        "{ vim1 = { vimType = ..., interfaceInfo = ..., accessInfo = ... } }."
    )
    return {}, [Problem((name,), "incorrect-attribute-value-type", detail)]


def _parse_request_body(text: str) -> dict[str, Any] | Problem:
    """Return the body of an instantiate request, or the problem of its text."""
    try:
        body = json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as problem:
        error = unify_json_error(problem)
        return _build_request_problem(f"line {error.lineno}, column {error.colno}: {error.msg}.")
    except (ValueError, RecursionError):
        return _build_request_problem("it is nested too deeply, or contains NaN or Infinity.")
    return body if isinstance(body, dict) else _build_request_problem("it is not a JSON object.")


def _reject_constant(name: str) -> None:
    """Raise ValueError for a number unknown to JSON, such as NaN."""
    raise ValueError(name)


def _build_request_problem(detail: str) -> Problem:
    return Problem(
        (REQUEST,),
        "invalid-instantiate-request",
        f"The instantiate request cannot be read: {detail}",
    )


def _read_package_arguments(
    attributes: Mapping[str, Any], files: Files
) -> tuple[dict[str, Any], list[Problem]]:
    """Return the arguments read from the package in `csar`, and problems.

    The arguments are vnfd, base_hot and nested. They are UNKNOWN while the path or the flavour is.
    There are none without a package, or with a problem.
    """
    path = attributes.get("csar")
    flavour = attributes.get("flavour_id")
    if path is None:
        return {}, []
    conflicting_names = [name for name in PACKAGED if attributes.get(name)]
    if conflicting_names:
        text = (
            f"csar already contains {', '.join(conflicting_names)}. Remove csar, or the other "
            "arguments."
        )
        return {}, [Problem(("csar",), "conflicting-arguments", text)]
    if path is UNKNOWN or flavour is UNKNOWN:
        return dict.fromkeys(PACKAGED, UNKNOWN), []
    from nexusform.domains.vnf.importers.vnf_package import read_vnf_package

    try:
        package = read_vnf_package(str(path), str(flavour or ""), files)
    except MissingDirectory:
        text = f'There is no package "{path}", neither a zip file nor a directory.'
        return {}, [Problem(("csar",), "unreadable-file", text)]
    except FileProblem as problem:
        return {}, [Problem(("csar",), "unreadable-file", str(problem))]
    except DiagnosticsError as problem:
        diagnostic = problem.diagnostics[0]
        return {}, [Problem(("csar",), diagnostic.id, f'"{path}": {diagnostic.detail}')]
    return {
        "vnfd": package.vnfd,
        "base_hot": package.base_hot,
        "nested": dict(package.nested) or None,
    }, []


def has_standard_user_data(attributes: Mapping[str, Any]) -> bool:
    """Return whether Tacker's StandardUserData makes the HOT file.

    VMs by index, each with its own zone.
    """
    user_data = get_value_at_path(attributes, PARAMETERS, "lcm-operation-user-data-class")
    return bool(user_data == "StandardUserData")


def has_known_documents(attributes: Mapping[str, Any]) -> bool:
    """Return whether all documents are known, and at least one exists."""
    if any(has_unknown_part(attributes.get(name)) for name in DOCUMENTS):
        return False
    return any(isinstance(attributes.get(name), str) for name in ("vnfd", "base_hot"))


def read_documents(attributes: Mapping[str, Any]) -> ParsedVnf:
    """Parse the VNF documents in the arguments (all known).

    Equal documents are parsed once.
    """
    nested = get_mapping(attributes, "nested")
    return _read_cached(
        attributes.get("vnfd"),
        attributes.get("base_hot"),
        tuple((name, text) for name, text in sorted(nested.items()) if isinstance(text, str)),
        json.dumps(get_mapping(attributes, PARAMETERS), sort_keys=True),
        attributes.get("flavour_id") or "",
    )


# A VNF is read several times per plan; the result is immutable and depends on the texts alone.
@lru_cache(maxsize=64)
def _read_cached(
    vnfd: str | None,
    base_hot: str | None,
    nested: tuple[tuple[str, str], ...],
    parameter_json: str,
    flavour: str,
) -> ParsedVnf:
    """Parse the documents of a VNF, once for equal ones.

    All parameters are hashable, as the cache requires.
    """
    # Few configurations have a VNF: the TOSCA and HOT parsers are loaded on demand.
    from nexusform.domains.vnf.importers.vnf_reading import read_vnf

    return read_vnf(
        VnfSourceDocuments(
            vnfd=vnfd,
            base_hot=base_hot,
            nested=dict(nested),
            parameters=json.loads(parameter_json),
            flavour_id=flavour,
        )
    )


def build_document_problems(findings: Iterable[Problem]) -> list[Problem]:
    """Return findings as problems of the document arguments.

    Each error is a problem of its own. Warnings are merged by document and kind.
    """
    problems = []
    lines_by_kind: dict[tuple[str, str], list[str]] = {}
    for problem in findings:
        line = f":{problem.line}" if problem.line else ""
        text = f"{problem.file}{line}: {problem.detail}"
        if problem.severity is Severity.ERROR:
            problems.append(
                Problem(get_document_path(problem.file), problem.id, text, line=problem.line)
            )
        else:
            lines_by_kind.setdefault((problem.file, problem.id), []).append(text)
    for (file, kind), lines in lines_by_kind.items():
        headline = f"{get_summary(kind)} ({_KINDS.get(file, 'nested template')})"
        problems.append(
            Problem(
                get_document_path(file),
                kind,
                "\n".join(lines),
                Severity.WARNING,
                headline,
                is_multiline=True,
            )
        )
    return problems


def get_document_path(file: str) -> Path:
    """Return the path of the argument with a document, such as ("vnfd",) or ("nested", FILE)."""
    if file.startswith(_NESTED):
        return ("nested", file.removeprefix(_NESTED).removesuffix('"]'))
    return (file,)


WORKER: Final = "Worker"
CONTROL_PLANE_ROLE: Final = "ControlPlane"
# The VDU of this name in the specification has the Kubernetes masters.
MASTER: Final = "masterNode"


def _create_size_attribute(description: str, minimum: int, **more: Any) -> AttributeSchema:
    """Build an optional number attribute.

    The placement depends on it, and its change replaces the pool.
    """
    return AttributeSchema(
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
            "vm_sku_name": AttributeSchema(
                STRING,
                "VM SKU, instead of vcpus and memory_gib.",
                optional=True,
                on_change=OnChange.REPLACE_POOL,
                decides_placement=True,
            ),
            "vcpus": _create_size_attribute("vCPUs per VM. Default: from the documents.", 1),
            "memory_gib": _create_size_attribute(
                "Memory per VM in GiB, counted in MiB. Default: from the documents.",
                0,
                allows_fractions=True,
            ),
            "disk_gib": _create_size_attribute(
                "Disk per VM in GiB. Default: from the documents, else 0.", 0
            ),
            "sriov_vfs": VFS,
            "image": AttributeSchema(
                STRING,
                "Image in OpenStack, by name or id. Default: from the documents.",
                optional=True,
                decides_placement=True,
            ),
            "role": AttributeSchema(
                STRING,
                f'Role of its VMs in the Kubernetes cluster. Default: "{WORKER}", and '
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


def get_vm_role(name: str, block: Mapping[str, Any]) -> str:
    """Return the role of the VMs of a VDU: of its block, else by the name of the VDU."""
    return str(block.get("role") or (CONTROL_PLANE_ROLE if name == MASTER else WORKER))


def format_sku(vdu: Vdu, block: Mapping[str, Any]) -> str:
    """Return the name of the SKU or flavor of a VDU, else its size as text."""
    flavor = get_flavor(vdu, block)
    if flavor:
        return flavor
    vcpus, memory, _ = resolve_vdu_size(vdu, block)
    return f"{vcpus} vCPU / {memory if memory is None else f'{memory:g}'} GiB"


def get_flavor(vdu: Vdu, block: Mapping[str, Any]) -> str:
    """Return the name of the SKU or flavor of a VDU, or "" if it has only a size."""
    if block.get("vm_sku_name"):
        return str(block["vm_sku_name"])
    return vdu.flavor if _is_sized_by_flavor(vdu, block) else ""


def _is_sized_by_flavor(vdu: Vdu, block: Mapping[str, Any]) -> bool:
    """Return whether the size is that of the VM SKU named like the flavor.

    Neither block nor documents give one.
    """
    has_document_size = None not in (vdu.size.vcpus, vdu.size.memory_gib)
    return bool(vdu.flavor) and not has_document_size and not _has_block_size(block)


def _has_block_size(block: Mapping[str, Any]) -> bool:
    """Return whether a vdu block sets the size."""
    return (block.get("vcpus"), block.get("memory_gib")) != (None, None)


def resolve_vdu_size(vdu: Vdu, block: Mapping[str, Any]) -> tuple[int | None, float | None, int]:
    """Return (vCPUs, GiB of memory, GiB of disk) of a VDU.

    The sizes are those of its configured block, else of the documents. Unknown vCPUs or memory are
    None. An unknown disk is 0 GiB.
    """
    size = vdu.size
    vcpus = block.get("vcpus")
    memory = block.get("memory_gib")
    disk = block.get("disk_gib")
    return (
        size.vcpus if vcpus is None else int(vcpus),
        size.memory_gib if memory is None else round_up_to_mib(memory),
        (size.disk_gib or 0) if disk is None else int(disk),
    )


def resolve_vdu_sku(
    vdu: Vdu, block: Mapping[str, Any], context: ResourceContext, site_id: str
) -> VmSku | Problem:
    """Return the VM SKU of a VDU on a site: of its block, else of its flavor, else of its size.

    Return a Problem if unknown. It is about the site if that is missing: it has the flavors.
    """
    sku = _find_vdu_sku(vdu, block, context, site_id)
    if isinstance(sku, VmSku) or sku.id != "unknown-vm-sku" or context.list_machines(site_id):
        return sku
    detail = (
        f'No site with machines has the id "{site_id}". Write a reference such as '
        "openstack_site.NAME.id."
    )
    return Problem(("site_id",), "unknown-site", detail)


def _find_vdu_sku(
    vdu: Vdu, block: Mapping[str, Any], context: ResourceContext, site_id: str
) -> VmSku | Problem:
    """Return the VM SKU of a VDU, or the Problem of an unknown one."""
    name = block.get("vm_sku_name")
    if name:
        sku = _find_sku(str(name), vdu, block, context, site_id)
        path = ("vdu", vdu.name, "vm_sku_name")
        return sku or build_unknown_sku_problem(str(name), path, _list_flavors(context, site_id))
    flavor_sku = find_flavor_sku(vdu, block, context, site_id)
    if flavor_sku is not None:
        return flavor_sku
    if _is_sized_by_flavor(vdu, block):
        return _build_unknown_flavor_problem(vdu, _list_flavors(context, site_id), site_id)
    vcpus, memory, disk = resolve_vdu_size(vdu, block)
    if vcpus is None or memory is None:
        return build_missing_size_problem(vdu, vcpus, memory)
    return VmSku(
        name=format_sku(vdu, block), vcpus=vcpus, emulator_vcpus=0, memory_gib=memory, disk_gib=disk
    )


def _list_flavors(context: ResourceContext, site_id: str) -> list[str]:
    """Return the flavors and VM SKUs that a user can name for VMs of a site."""
    return [name for name in context.list_sku_names(site_id) if not is_form_of_flavor(name)]


def find_flavor_sku(
    vdu: Vdu, block: Mapping[str, Any], context: ResourceContext, site_id: str
) -> VmSku | None:
    """Return the SKU of the flavor of a VDU on a site, None if its size is set otherwise.

    Tacker requests the flavor that a VNFD names, and Nova takes its size, not that of the VNFD.
    """
    is_requested = bool(vdu.capability) and vdu.flavor == vdu.capability
    if _is_sized_by_flavor(vdu, block) or (is_requested and not _has_block_size(block)):
        return _find_sku(vdu.flavor, vdu, block, context, site_id)
    return None


def _find_sku(
    name: str, vdu: Vdu, block: Mapping[str, Any], context: ResourceContext, site_id: str
) -> VmSku | None:
    """Return the SKU of a flavor with the image of the VDU, else of the flavor alone, else None."""
    image = str(block.get("image") or vdu.image)  # "": unknown
    names = [build_sku_name(name, image), name]
    if vdu.boots_from_volume:
        # A flavor without a root disk has no form of its own for volumes.
        names = [
            *(build_sku_name(name, part, boots_from_volume=True) for part in (image, "")),
            *names,
        ]
    found = (context.find_sku(sku_name, site_id) for sku_name in names)
    return next((sku for sku in found if sku is not None), None)


def build_missing_size_problem(vdu: Vdu, vcpus: int | None, memory: float | None) -> Problem:
    """Return the problem of a VDU without size."""
    sizes = {"vCPUs": vcpus, "memory": memory}
    missing_text = " and no ".join(name for name, size in sizes.items() if size is None)
    block = f'a block vdu "{vdu.name}" with vm_sku_name, or with vcpus and memory_gib'
    if vdu.missing_template:
        # It may have no server, or several.
        detail = (
            f'The nested template "{vdu.missing_template}" of "{vdu.name}" ({vdu.origin}) is not '
            f"given, so the documents define no {missing_text}. Give the file with nested or csar. "
            f"If it has exactly one server, you can add {block} instead."
        )
        return Problem(("vdu", vdu.name), "vdu-without-size", detail)
    # VDUs of a CNF have neither size nor image: Tacker creates pods for them.
    advice = (
        ""
        if vdu.flavor or vdu.image
        else " If it is a container (CNF), plan its pods with fleet_hub_manifest."
    )
    flavor = (
        f', or a resource nexus_vm_sku called "{vdu.flavor}", as its flavor' if vdu.flavor else ""
    )
    detail = (
        f'The documents define no {missing_text} for the VDU "{vdu.name}" ({vdu.origin}). Add '
        f"{block}{flavor}.{advice}"
    )
    return Problem(("vdu", vdu.name), "vdu-without-size", detail)


def _build_unknown_flavor_problem(vdu: Vdu, known: Sequence[str], site_id: str) -> Problem:
    """Return the problem of a flavor that gives a VDU its size, and that its site does not have."""
    detail = (
        f'The VDU "{vdu.name}" ({vdu.origin}) has the flavor "{vdu.flavor}", and neither a flavor '
        f'of the site "{site_id}" nor a nexus_vm_sku has this name.'
        f"{suggest_name(vdu.flavor, known)} On an openstack_site, capture flavors.json with the "
        f'flavors of all projects (--all). Else add a block vdu "{vdu.name}" with vm_sku_name, or '
        f'a nexus_vm_sku with name = "{vdu.flavor}".'
    )
    return Problem(("vdu", vdu.name), "unknown-vm-sku", detail)


def list_block_problems(blocks: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the vdu blocks by name, without a look at the documents."""
    for name, block in blocks.items():
        path: Path = ("vdu", name)
        yield from check_whole_numbers(block, ("vcpus", "disk_gib", "sriov_vfs"), path)
        yield from check_memory(block, path)
        yield from check_kubelet(block.get("kubelet"), (*path, "kubelet"))
        size_names = list_block_sizes(block)
        if block.get("vm_sku_name") is not None and size_names:
            detail = (
                f'The block vdu "{name}" has vm_sku_name and {", ".join(size_names)}. Set a SKU '
                "or figures, not both."
            )
            yield Problem((*path, "vm_sku_name"), "conflicting-arguments", detail)


def list_block_sizes(block: Mapping[str, Any]) -> list[str]:
    """Return the names of the figures of size that a vdu block sets."""
    names = ("vcpus", "memory_gib", "disk_gib")
    return [name for name in names if block.get(name) is not None]


def list_vdu_problems(vnf: Vnf, blocks: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield problems for blocks without a VDU in the documents, and for VDUs without a size.

    A VM SKU has a size, and so may the flavor of a VDU; only a plan knows it. An unknown size
    is not missing.
    """
    names = [vdu.name for vdu in vnf.vdus]
    for name in blocks:
        if name not in names:
            detail = (
                f'The documents have no VDU "{name}".{suggest_name(name, names)} Known VDUs: '
                f"{', '.join(names)}."
            )
            yield Problem(("vdu", name), "unknown-vdu", detail)
    for vdu in vnf.vdus:
        block = get_mapping(blocks, vdu.name)
        has_unknown_size = UNKNOWN in (block.get("vcpus"), block.get("memory_gib"))
        if (
            has_unknown_size
            or block.get("vm_sku_name") is not None
            or _is_sized_by_flavor(vdu, block)
        ):
            continue
        vcpus, memory, _ = resolve_vdu_size(vdu, block)
        if None in (vcpus, memory):
            yield build_missing_size_problem(vdu, vcpus, memory)


# Parameter of an operation with the ids of failed ones to be repeated: the NFVO grants it again.
RETRY_KEY: Final = "nexusform-retry-of"


def compute_target_levels(attributes: Mapping[str, Any]) -> dict[str, int]:
    """Return the scale level of each aspect of a VNF.

    The level is the configured one, else that of its instantiation level.
    """
    instantiation_level = read_documents(attributes).vnf.find_level(
        attributes.get("instantiation_level")
    )
    levels = dict(instantiation_level.scale_levels)
    for aspect, level in get_mapping(attributes, "scale_levels").items():
        levels[aspect] = int(level)
    return levels
