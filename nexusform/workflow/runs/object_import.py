"""Import of existing objects: import blocks and the import command."""

from __future__ import annotations

import os
import re
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER, Configuration, ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning, has_errors, suggest_name
from nexusform.diagnostics.source import Position, SourceFile, Span
from nexusform.domain_table import LazyTable, collect_targets
from nexusform.files.regular_files import create_file
from nexusform.interfaces.plugins import Provider, ProviderProblem, Registries
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.json_data.plain_data import Path as ValuePath
from nexusform.language.formatter import format_text
from nexusform.planning.plan_request import ImportedObject, PlanRequest
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.planning.preparation.prior_state import (
    ImportTarget,
    build_missing_configuration_error,
    list_import_targets,
    normalize_imported,
)
from nexusform.planning.vm_planning.site_plans import SiteObject, build_site_layout
from nexusform.rendering.notation.hcl_text import quote_string
from nexusform.resources.address import Address, AddressProblem, parse_address
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, Nesting, get_order_attribute
from nexusform.state import codec
from nexusform.state.objects import InstanceState, ObjectState
from nexusform.values.exact_numbers import format_number
from nexusform.workflow.opening.command_context import load_project_configuration
from nexusform.workflow.opening.project import Project

CONFIGURATION_SUFFIX: Final = ".nf.hcl"
NO_REFERENCES: Final[Mapping[ValuePath, str]] = {}
GENERATED_HEADER: Final = """\
# Written by nexusform for objects to be imported. Look it through, then keep it as your own.

"""


class ImportBlocksResult(Struct):
    """Results of import blocks: `objects` to import, and `generated_configuration` for missing blocks."""

    objects: dict[Address, ImportedObject] = field(default_factory=dict)
    generated_configuration: str = ""
    diagnostics: list[Diagnostic] = field(default_factory=list)


class ImportResult(Struct, frozen=True):
    """The result of importing everything of a source: lines, the number of new objects in the state, and
    diagnostics; `sources` are the files read.
    """

    lines: tuple[str, ...] = ()
    imported: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


# (context, value of -from, configuration file, lock options, notices) -> result
SourceImporter: TypeAlias = Callable[[Any, str, str, Any, Any], ImportResult]
SOURCE_IMPORTERS: Final[Mapping[str, SourceImporter]] = LazyTable(collect_targets("imports"))
DIRECTORY: Final = "DIR"  # key in SOURCE_IMPORTERS: any exported directory


def find_source_importer(source: str) -> SourceImporter | None:
    """Find the importer of `-from`: a named source, else any directory; None without one."""
    if source in SOURCE_IMPORTERS and not Path(source).is_dir():
        return SOURCE_IMPORTERS[source]
    return SOURCE_IMPORTERS.get(DIRECTORY)


def write_new_file(path: str, text: str) -> list[Diagnostic]:
    """Write a file that must not exist."""
    try:
        with os.fdopen(create_file(path, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        detail = f'"{path}" cannot be written: {problem.strerror}.'
        return [build_error("unwritable-generated-configuration", detail)]
    return []


def find_imports(
    request: PlanRequest, providers: Mapping[str, Provider], *, generate: bool
) -> ImportBlocksResult:
    """Find all objects of the import blocks at their providers. With `generate`, objects without a block get
    one if a single block can describe them.
    """
    targets, problems = list_import_targets(request)
    result = ImportBlocksResult(diagnostics=problems)
    blocks: list[str] = []
    numbers = request.state.last_creation
    for target in targets:
        can_generate = not target.address.module and target.address.key is None
        if target.block is None and not (generate and can_generate):
            result.diagnostics.append(build_missing_configuration_error(target.address, target.span))
            continue
        found_object = _find_object(target, request, providers, result.diagnostics)
        if found_object is None:
            continue
        if not found_object.creation:  # the provider has no creation numbers, so continue those of the state
            numbers += 1
            found_object = replace(found_object, creation=numbers)
        result.objects[target.address] = ImportedObject(target.id, found_object, target.span)
        if target.block is None:
            schema = request.registries.resource_types[target.address.type].schema
            blocks.append(render_resource_block(target.address, schema, found_object.attributes))
    attributes_by_address = {
        address: imported.object.attributes for address, imported in result.objects.items()
    }
    for address, attributes in add_computed_attributes(attributes_by_address, request.registries).items():
        imported = result.objects[address]
        result.objects[address] = replace(imported, object=replace(imported.object, attributes=attributes))
    result.generated_configuration = GENERATED_HEADER + "\n".join(blocks) if blocks else ""
    return result


def add_computed_attributes(
    objects: Mapping[Address, Mapping[str, Any]], registries: Registries
) -> dict[Address, dict[str, Any]]:
    """Add the missing attributes of existing objects that only nexusform computes from their VMs, such as the
    capacity of a cluster.
    """
    vm_objects = [SiteObject(address, attributes, 0) for address, attributes in objects.items()]
    context = build_site_layout(vm_objects, registries)
    complete = {address: dict(attributes) for address, attributes in objects.items()}
    for kind, vm_object in context.objects:
        if kind.vms is None:
            continue
        schema, values = kind.schema.attributes, complete[vm_object.address]
        arguments = {n: v for n, v in values.items() if n not in schema or schema[n].is_configurable}
        placed, unplaced = kind.vms.list_existing_vms(values), kind.vms.list_unplaced_vms(values)
        computed = kind.vms.assemble(arguments, context.context, placed, unplaced)
        values.update({name: value for name, value in computed.items() if values.get(name) is None})
    return complete


def _find_object(
    target: ImportTarget, request: PlanRequest, providers: Mapping[str, Provider], problems: list[Diagnostic]
) -> ObjectState | None:
    """Find the object of an import block at its provider, or add a problem."""
    kind = request.registries.resource_types.get(target.address.type)
    if kind is None:
        suggestion = suggest_name(target.address.type, request.registries.resource_types)
        detail = f'There is no resource type "{target.address.type}".{suggestion}'
        problems.append(build_error("invalid-resource-type", detail, target.span, block="import"))
        return None
    name = target.provider or DEFAULT_PROVIDER
    provider = providers.get(name)
    if provider is None:
        detail = f'There is no provider configuration "{name}".{suggest_name(name, providers)}'
        problems.append(
            build_error("provider-configuration-not-present", detail, target.span, block="import")
        )
        return None
    try:
        match = provider.find(target.address.type, target.id)
    except ProviderProblem as problem:
        problems.append(build_error("import-failed", str(problem), target.span, block="import"))
        return None
    if match is None:
        problems.append(_build_missing_error(target, name, observes=provider.observes_objects))
        return None
    key, attributes = match
    return ObjectState(normalize_imported(kind.schema, attributes, target.id), key.creation, provider=name)


def _build_missing_error(target: ImportTarget, provider: str, *, observes: bool) -> Diagnostic:
    detail = (
        f'While importing {target.address}, the provider "{provider}" found no single object of type '
        f'{target.address.type} with the id "{target.id}". Check the id: only existing objects can be '
        "imported."
    )
    if not observes:
        detail += ' This provider reads no site: set one, for example reality = "FILE".'
    return build_error("cannot-import-non-existent-remote-object", detail, target.span, block="import")


# --- generated configuration -------------------------------------------------------------------


def check_generated_path(path: str) -> Diagnostic | None:
    """Return an error if the configuration cannot be written to a path."""
    if os.path.lexists(path):
        detail = f'"{path}" already exists. Choose another file.'
        return build_error("generated-file-exists", detail)
    return None


def add_generated_configuration(
    project: Project, path: str, text: str
) -> tuple[Project | None, list[Diagnostic]]:
    """Write the generated configuration to its file and return the project with it."""
    problems = write_new_file(path, text)
    if problems:
        return None, problems
    is_in_directory = Path(path).resolve().parent == Path(project.context.directory).resolve()
    extra_sources: tuple[SourceFile, ...] = ()
    if not (is_in_directory and path.endswith(CONFIGURATION_SUFFIX)):
        detail = (
            f"The configuration was written to {path}. nexusform reads *{CONFIGURATION_SUFFIX} files only "
            "from the directory of the root module. Move the file there before the next plan."
        )
        problems.append(build_warning("generated-configuration-exists", detail))
        extra_sources = (SourceFile(path, text),)
    configuration, new_problems = load_project_configuration(project.context, extra_sources)
    problems += [p for p in new_problems if p not in problems]
    if configuration is None or has_errors(problems):
        return None, problems
    sources = {**project.sources, **configuration.files}
    return replace(project, configuration=configuration, sources=sources), problems


# --- a block for an object, with the hcl2 package ----------------------------------------------


def render_resource_block(
    address: Address,
    schema: BlockSchema,
    attributes: Mapping[str, Any],
    references: Mapping[ValuePath, str] = NO_REFERENCES,
    provider: str = "",
) -> str:
    """Render a resource block that describes an existing object. Null and default arguments are omitted;
    arguments in `references` (by path) are written as these expressions.
    """
    import hcl2
    from hcl2.const import IS_BLOCK

    body = {IS_BLOCK: True, **({"provider": provider} if provider else {})}
    body |= _build_body(schema, attributes, IS_BLOCK, references)
    block = {quote_string(address.type): {quote_string(address.name): body}}
    text = re.sub("\n{3,}", "\n\n", hcl2.dumps({IS_BLOCK: True, "resource": [block]}))
    formatted, _ = format_text(SourceFile("generated", text))
    return formatted


def _build_body(
    schema: BlockSchema,
    attributes: Mapping[str, Any],
    mark: str,
    references: Mapping[ValuePath, str],
    path: ValuePath = (),
) -> dict[str, Any]:
    """Build a body for the hcl2 package: arguments, then nested blocks by label. `mark` is the key that
    distinguishes a block from a map; `path` is that of the body.
    """
    document: dict[str, Any] = {mark: True, **_build_arguments(schema, attributes, references, path)}
    for name, block in schema.blocks.items():
        value = attributes.get(name)
        if not value:
            continue
        bodies: list[dict[str, Any]] = []
        for index, (label, part) in enumerate(_list_blocks(block.nesting, name, value, attributes)):
            step: ValuePath = {Nesting.SINGLE: (), Nesting.LIST: (index,)}.get(block.nesting, (label,))
            body = _build_body(block.schema, part, mark, references, (*path, name, *step))
            bodies.append({_quote_text(label): body} if label else body)
        document[name] = bodies
    return document


def _list_blocks(
    nesting: Nesting, name: str, value: Any, attributes: Mapping[str, Any]
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the blocks of one name with their labels ("": none) in source order."""
    if nesting is Nesting.SINGLE:
        return [("", value)]
    if nesting is Nesting.LIST:
        return [("", part) for part in value]
    order = attributes.get(get_order_attribute(name)) or list(value)
    return [(label, value[label]) for label in order if label in value]


def _build_arguments(
    schema: BlockSchema, attributes: Mapping[str, Any], references: Mapping[ValuePath, str], path: ValuePath
) -> dict[str, Any]:
    """Build the relevant arguments, with those in `references` as references."""
    return {
        name: references.get((*path, name)) or _build_expression(attributes[name])
        for name, attribute in schema.attributes.items()
        if _is_relevant(attribute, attributes.get(name))
    }


def _is_relevant(attribute: AttributeSchema, value: Any) -> bool:
    # a configured location would be a pin
    if not attribute.is_configurable or value is None or attribute.predicted:
        return False
    return attribute.required or value != attribute.default


def _build_expression(value: Any) -> Any:
    """Convert plain data for the hcl2 package, with quoted and escaped texts."""
    if isinstance(value, str):
        return _quote_text(value)
    if isinstance(value, Mapping):
        return {_quote_text(str(name)): _build_expression(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_build_expression(part) for part in value]
    if isinstance(value, Fraction):
        return float(format_number(value))
    return value


def _quote_text(text: str) -> str:
    """Quote a text. The hcl2 package drops a quotation mark right before an interpolation."""
    return quote_string(text).replace('\\"$${', "\\u0022$${")


# --- the command -------------------------------------------------------------------------------


def resolve_import_address(
    project: Project, text: str
) -> tuple[ResourceBlock | None, Address | None, list[Diagnostic]]:
    """Return the block and the address of `import ADDR ID`; the block must exist."""
    try:
        address = parse_address(text)
    except AddressProblem as problem:
        return None, None, [build_error("invalid-address", str(problem))]
    block = _index_blocks(project.configuration).get(str(address.config_address))
    if block is not None and address.mode == "managed":
        return block, address, []
    example = f'resource "{address.type}" "{address.name}" {{\n    # (resource arguments)\n  }}'
    detail = (
        f"The resource address {address} does not exist in the configuration.\n\nBefore importing this "
        f"resource, write its block in the module it belongs to, for example:\n\n  {example}"
    )
    return None, None, [build_error("resource-not-in-configuration", detail)]


def _index_blocks(configuration: Configuration) -> dict[str, ResourceBlock]:
    """Return the blocks of managed resources of all modules by address."""
    blocks: dict[str, ResourceBlock] = {}
    for module in iterate_modules(configuration.root):
        managed = [block for block in module.resources.values() if block.mode == "managed"]
        blocks.update({str(block.address): block for block in managed})
    return blocks


def import_object(
    request: PlanRequest,
    project: Project,
    providers: Mapping[str, Provider],
    block: ResourceBlock,
    address: Address,
    object_id: str,
    preserved_lines: Sequence[bytes],
) -> list[Diagnostic]:
    """Find one object and write it to the state; the caller holds the lock. `preserved_lines` of an
    unfinished apply stay in the journal.
    """
    state = request.state
    if address in state.instances:
        detail = (
            f"The state already has an object at {address}. Import to another address, or remove that "
            f"object from the state first: `nexusform state rm {shlex.quote(str(address))}`."
        )
        return [build_error("resource-already-managed-by-nexusform", detail)]
    start = Position(1, 1, 0)
    target = ImportTarget(
        address=address, id=object_id, provider=block.provider, span=Span("", start, start), block=block
    )
    problems: list[Diagnostic] = []
    found_object = _find_object(target, request, providers, problems)
    if found_object is None:
        return [replace(p, subject=None, block="") for p in problems]
    if not found_object.creation:  # as in find_imports
        found_object = replace(found_object, creation=state.last_creation + 1)
    new_state = replace(
        state,
        instances={**state.instances, address: InstanceState(found_object)},
        last_creation=max(state.last_creation, found_object.creation),
        lineage=state.lineage or str(uuid.uuid4()),
        serial=state.serial + 1,
        nexusform_version=nexusform.__version__,
    )
    try:
        project.backend.rewrite_journal(codec.encode_state(new_state), preserved_lines)
    except BackendProblem as problem:
        return [build_error("unwritable-state", str(problem))]
    return []
