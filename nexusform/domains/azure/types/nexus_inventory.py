"""data nexus_inventory: a site as `az networkcloud` prints it, ready for for_each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics import Problem, Severity, did_you_mean
from nexusform.documents.times import parse_duration, parse_time
from nexusform.domains.azure.importers.az_model import STANDARD_FILES, AzInventory
from nexusform.domains.azure.types.inventory_view import (
    CLUSTERS_TYPE,
    MACHINES_TYPE,
    RACKS_TYPE,
    VIRTUAL_MACHINES_TYPE,
    view_of,
)
from nexusform.ports import DataAnswer, FileProblem, Files, ReadContext, ResourceType
from nexusform.resource_types.hardware import machine_sku_names
from nexusform.resource_types.shared_arguments import is_known
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import STRING, MapType, SetType, Type

if TYPE_CHECKING:  # few configurations read an inventory
    from nexusform.domains.azure.importers.az_capture import Export

# Argument -> the kind of document that it names.
FILE_ARGUMENTS: Final[Mapping[str, str]] = {
    "bare_metal_machines_file": "bare_metal_machines",
    "racks_file": "racks",
    "virtual_machines_file": "virtual_machines",
    "kubernetes_clusters_file": "kubernetes_clusters",
    "agent_pools_file": "agent_pools",
}


def _file(what: str) -> Attribute:
    return Attribute(STRING, f"File with {what}.", optional=True)


def _computed(of: Type, description: str) -> Attribute:
    return Attribute(of, description, computed=True)


_SCHEMA: Final = BlockSchema(
    {
        "id": _computed(STRING, "The directory, or the file of machines."),
        "directory": Attribute(
            STRING,
            f"Directory with the exported files: {', '.join(f.name for f in STANDARD_FILES)}.",
            optional=True,
        ),
        "bare_metal_machines_file": _file("bare-metal machines, instead of directory"),
        "racks_file": _file("racks, instead of directory"),
        "virtual_machines_file": _file("virtual machines"),
        "kubernetes_clusters_file": _file("Kubernetes clusters"),
        "agent_pools_file": _file("agent pools"),
        "site": Attribute(
            STRING,
            "Site to read if the files contain several: name of its Nexus cluster, else of its extended "
            "location.",
            optional=True,
        ),
        "machine_sku_by_id": Attribute(
            MapType(STRING),
            "Machine SKU of the catalogue by machineSkuId. Default: from the rack SKU.",
            optional=True,
        ),
        "max_age": Attribute(
            STRING,
            'Maximum age of the export before a warning: "24h", "7d", "1h30m".',
            optional=True,
        ),
        "managed": Attribute(
            SetType(STRING),
            'Names of clusters, pools ("<cluster>/<pool>") and VMs that resources will manage but state '
            "lacks. They do not count as occupied.",
            optional=True,
        ),
        "exported_at": _computed(STRING, "Time of the export, or its newest change."),
        "racks": _computed(RACKS_TYPE, "Compute racks by name."),
        "machines": _computed(MACHINES_TYPE, "Bare-metal machines by name."),
        "virtual_machines": _computed(VIRTUAL_MACHINES_TYPE, "Plain virtual machines by name."),
        "kubernetes_clusters": _computed(CLUSTERS_TYPE, "NKS clusters by name, with their nodes."),
    },
    description="Inventory of a site, from files exported with `az networkcloud`.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The directory, or the file of machines."""
    return str(attributes.get("directory") or attributes.get("bare_metal_machines_file") or "")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Which files to read must be said in one way; SKUs and the age must be readable."""
    problems = _source_problems(attributes)
    by_id = attributes.get("machine_sku_by_id")
    names = machine_sku_names()
    if isinstance(by_id, Mapping):
        problems += [
            Problem(
                ("machine_sku_by_id", sku_id),
                "unknown-machine-sku",
                f'The catalogue has no machine SKU "{sku}".{did_you_mean(str(sku), names)} '
                f"It lists {', '.join(names)}.",
            )
            for sku_id, sku in by_id.items()
            if is_known(sku) and sku not in names
        ]
    age = attributes.get("max_age")
    if isinstance(age, str) and parse_duration(age) is None:
        problems.append(
            Problem(
                ("max_age",), "invalid-duration", f'Write a time such as "24h", "7d" or "1h30m", not "{age}".'
            )
        )
    return problems


def _source_problems(attributes: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with which arguments say what to read."""
    files = [name for name in FILE_ARGUMENTS if attributes.get(name) is not None]
    if attributes.get("directory") is not None:
        return [
            Problem(
                (name,),
                "conflicting-arguments",
                f'"directory" and "{name}" both say what to read. Keep "directory" with its standard file '
                "names, or name every file.",
            )
            for name in files
        ]
    missing = [name for name in ("bare_metal_machines_file", "racks_file") if name not in files]
    if not missing:
        return []
    return [
        Problem(
            (),
            "missing-required-argument",
            'Say what to read: either "directory", or "bare_metal_machines_file" and "racks_file" '
            f"({' and '.join(missing)} missing).",
        )
    ]


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataAnswer:
    """Read the files and give the site as maps by name."""
    reading = _read_files(attributes, context.files)
    if reading.problems:
        return DataAnswer({}, reading.problems)
    # Few configurations read an inventory: its readers are loaded for those that do.
    from nexusform.domains.azure.importers.az_inventory import read_inventory

    inventory, findings = read_inventory(
        reading.documents, attributes.get("machine_sku_by_id"), site=attributes.get("site")
    )
    argument = ("directory",) if attributes.get("directory") is not None else ()
    problems = [_problem(finding, argument) for finding in findings]
    if any(problem.severity is Severity.ERROR for problem in problems):
        return DataAnswer({}, problems)
    managed = frozenset(attributes.get("managed") or ()) | context.managed
    problems += _age_problems(attributes, inventory, context.now)
    return DataAnswer({"id": identify(attributes), **view_of(inventory, managed)}, problems)


def _problem(finding: Problem, argument: tuple[str, ...]) -> Problem:
    path = argument if finding.file else finding.path
    return Problem(path, finding.id, finding.located_detail, finding.severity, brief=finding.brief)


def _read_files(attributes: Mapping[str, Any], files: Files) -> Export:
    """The content of every file that stands."""
    from nexusform.domains.azure.importers.az_capture import Export, irregular, read_directory

    directory = attributes.get("directory")
    if directory is not None:
        try:
            names = files.glob(str(directory).rstrip("/") or "/", "*")
        except FileProblem as problem:
            detail = (
                f"{problem} A path is relative to where the command runs; in a module write "
                '"${path.module}/...".'
            )
            return Export(problems=[Problem(("directory",), "unreadable-file", detail)])
        names += irregular(str(directory), names, files.exists)
        return read_directory(str(directory), names, files.read)
    export = Export()
    for argument, kind in FILE_ARGUMENTS.items():
        name = attributes.get(argument)
        if name is not None:
            export.take(files.read, str(name), kind, (argument,))
    return export


def _age_problems(attributes: Mapping[str, Any], inventory: AzInventory, now: str) -> Iterable[Problem]:
    """A warning when the export is older than max_age allows, or tells no age."""
    max_age = attributes.get("max_age")
    limit = parse_duration(max_age) if isinstance(max_age, str) else None
    if limit is None:
        return
    made = parse_time(inventory.exported_at) if inventory.exported_at else None
    moment = parse_time(now)
    if made is None:
        yield Problem(
            ("max_age",),
            "age-of-the-inventory-unknown",
            "Nothing in the export tells when it was made. Put the time into a file exported_at beside the "
            "others: date -u +%Y-%m-%dT%H:%M:%SZ > exported_at",
            Severity.WARNING,
        )
    elif moment is not None and moment - made > limit:
        said = "was made" if inventory.age_certain else "knows of nothing newer than"
        hours = int((moment - made).total_seconds() // 3600)
        age = f"{hours // 24} days" if hours >= 48 else f"{hours} hours"
        yield Problem(
            ("max_age",),
            "old-inventory",
            f'The export {said} {inventory.exported_at}, {age} ago; max_age is "{max_age}". '
            "Capture it again before relying on this plan.",
            Severity.WARNING,
        )


NEXUS_INVENTORY: Final = ResourceType(
    "nexus_inventory", 0, _SCHEMA, identify, mode="data", check=check, read=read
)
