"""data nexus_inventory: a site from `az networkcloud` output, usable in for_each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.documents.times import parse_duration, parse_time
from nexusform.domains.azure.importers.az_records import STANDARD_FILES, AzInventory
from nexusform.domains.azure.types.inventory_attributes import (
    CLUSTERS_TYPE,
    MACHINES_TYPE,
    RACKS_TYPE,
    VIRTUAL_MACHINES_TYPE,
    build_inventory_attributes,
)
from nexusform.interfaces.plugins import DataResult, FileProblem, Files, ReadContext, ResourceType
from nexusform.resource_types.machine_facts import list_machine_sku_names
from nexusform.resource_types.shared_arguments import is_set_and_known
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING, MapType, SetType, Type

if TYPE_CHECKING:  # few configurations read an inventory
    from nexusform.domains.azure.importers.az_capture_commands import AzExport

# Kind of document by argument.
FILE_ARGUMENTS: Final[Mapping[str, str]] = {
    "bare_metal_machines_file": "bare_metal_machines",
    "racks_file": "racks",
    "virtual_machines_file": "virtual_machines",
    "kubernetes_clusters_file": "kubernetes_clusters",
    "agent_pools_file": "agent_pools",
}


def _make_file_attribute(content: str) -> AttributeSchema:
    return AttributeSchema(STRING, f"File with {content}.", optional=True)


def _make_computed_attribute(value_type: Type, description: str) -> AttributeSchema:
    return AttributeSchema(value_type, description, computed=True)


_SCHEMA: Final = BlockSchema(
    {
        "id": _make_computed_attribute(STRING, "The directory, or the file of machines."),
        "directory": AttributeSchema(
            STRING, f"Directory with the exported files: {', '.join(f.name for f in STANDARD_FILES)}.", optional=True
        ),
        "bare_metal_machines_file": _make_file_attribute("bare-metal machines, instead of directory"),
        "racks_file": _make_file_attribute("racks, instead of directory"),
        "virtual_machines_file": _make_file_attribute("virtual machines"),
        "kubernetes_clusters_file": _make_file_attribute("Kubernetes clusters"),
        "agent_pools_file": _make_file_attribute("agent pools"),
        "site": AttributeSchema(
            STRING,
            "Site to read if the files contain several: name of its Nexus cluster, else of its extended location.",
            optional=True,
        ),
        "machine_sku_by_id": AttributeSchema(
            MapType(STRING), "Machine SKU of the catalogue by machineSkuId. Default: from the rack SKU.", optional=True
        ),
        "max_age": AttributeSchema(
            STRING, 'Maximum age of the export before a warning: "24h", "7d", "1h30m".', optional=True
        ),
        "managed": AttributeSchema(
            SetType(STRING),
            'Names of clusters, pools ("<cluster>/<pool>") and VMs that resources will manage but state '
            "lacks. They do not count as occupied.",
            optional=True,
        ),
        "exported_at": _make_computed_attribute(STRING, "Time of the export, or its newest change."),
        "racks": _make_computed_attribute(RACKS_TYPE, "Compute racks by name."),
        "machines": _make_computed_attribute(MACHINES_TYPE, "Bare-metal machines by name."),
        "virtual_machines": _make_computed_attribute(VIRTUAL_MACHINES_TYPE, "Plain virtual machines by name."),
        "kubernetes_clusters": _make_computed_attribute(CLUSTERS_TYPE, "NKS clusters by name, with their nodes."),
    },
    description="Inventory of a site, from files exported with `az networkcloud`.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the directory, or the file of machines, as id."""
    return str(attributes.get("directory") or attributes.get("bare_metal_machines_file") or "")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the arguments: one way to name files, valid SKUs and max_age."""
    problems = _check_source_arguments(attributes)
    by_id = attributes.get("machine_sku_by_id")
    names = list_machine_sku_names()
    if isinstance(by_id, Mapping):
        problems += [
            Problem(
                ("machine_sku_by_id", sku_id),
                "unknown-machine-sku",
                f'The catalogue has no machine SKU "{sku}".{suggest_name(str(sku), names)} Known: {", ".join(names)}.',
            )
            for sku_id, sku in by_id.items()
            if is_set_and_known(sku) and sku not in names
        ]
    age = attributes.get("max_age")
    if isinstance(age, str) and parse_duration(age) is None:
        problems.append(
            Problem(("max_age",), "invalid-duration", f'The age must be like "24h", "7d" or "1h30m", not "{age}".')
        )
    return problems


def _check_source_arguments(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the arguments naming directory or files."""
    files = [name for name in FILE_ARGUMENTS if attributes.get(name) is not None]
    if attributes.get("directory") is not None:
        return [
            Problem(
                (name,),
                "conflicting-arguments",
                f'"directory" and "{name}" cannot both be set. Use "directory" with its standard '
                "file names, or set every file.",
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
            'No input given. Set either "directory", or "bare_metal_machines_file" and '
            f'"racks_file" ({" and ".join(missing)} missing).',
        )
    ]


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the files and return the site as maps by name."""
    export = _read_files(attributes, context.files)
    if export.problems:
        return DataResult({}, export.problems)
    # Few configurations read an inventory, so its readers are loaded on demand.
    from nexusform.domains.azure.importers.az_inventory import read_inventory

    inventory, findings = read_inventory(
        export.documents, attributes.get("machine_sku_by_id"), site=attributes.get("site")
    )
    argument = ("directory",) if attributes.get("directory") is not None else ()
    problems = []
    for finding in findings:
        path = argument if finding.file else finding.path
        problems.append(Problem(path, finding.id, finding.located_detail, finding.severity, brief=finding.brief))
    if any(problem.severity is Severity.ERROR for problem in problems):
        return DataResult({}, problems)
    managed = frozenset(attributes.get("managed") or ()) | context.managed_names
    problems += _warn_outdated_export(attributes, inventory, context.now)
    return DataResult({"id": build_id(attributes), **build_inventory_attributes(inventory, managed)}, problems)


def _read_files(attributes: Mapping[str, Any], files: Files) -> AzExport:
    """Read every named file."""
    from nexusform.domains.azure.importers.az_capture_commands import (
        AzExport,
        find_irregular_files,
        read_export_directory,
    )

    directory = attributes.get("directory")
    if directory is not None:
        try:
            names = files.find_files(str(directory).rstrip("/") or "/", "*")
        except FileProblem as problem:
            detail = (
                f'{problem} A path is relative to where the command runs; in a module write "${{path.module}}/...".'
            )
            return AzExport(problems=[Problem(("directory",), "unreadable-file", detail)])
        names += find_irregular_files(str(directory), names, files.is_file)
        return read_export_directory(str(directory), names, files.read)
    export = AzExport()
    for argument, kind in FILE_ARGUMENTS.items():
        name = attributes.get(argument)
        if name is not None:
            export.add_file(files.read, str(name), kind, (argument,))
    return export


def _warn_outdated_export(attributes: Mapping[str, Any], inventory: AzInventory, now: str) -> Iterable[Problem]:
    """Return a warning if the export is older than max_age or its age is unknown."""
    max_age = attributes.get("max_age")
    limit = parse_duration(max_age) if isinstance(max_age, str) else None
    if limit is None:
        return
    export_time = parse_time(inventory.exported_at) if inventory.exported_at else None
    current_time = parse_time(now)
    if export_time is None:
        yield Problem(
            ("max_age",),
            "unknown-inventory-age",
            "The export has no time. Write it into a file exported_at in the same directory: date -u "
            "+%Y-%m-%dT%H:%M:%SZ > exported_at",
            Severity.WARNING,
        )
    elif current_time is not None and current_time - export_time > limit:
        age_clause = "was made" if inventory.is_age_certain else "has no data newer than"
        hours = int((current_time - export_time).total_seconds() // 3600)
        age = f"{hours // 24} days" if hours >= 48 else f"{hours} hours"
        yield Problem(
            ("max_age",),
            "old-inventory",
            f'The export {age_clause} {inventory.exported_at}, {age} ago; max_age is "{max_age}". '
            "Capture it again before you use this plan.",
            Severity.WARNING,
        )


NEXUS_INVENTORY: Final = ResourceType("nexus_inventory", 0, _SCHEMA, build_id, mode="data", check=check, read=read)
