"""Taking objects over that stand already: import blocks, and the import command."""

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
from nexusform.address import Address, AddressProblem, parse_address
from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER, Configuration, ResourceBlock
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors, warning
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.exact_numbers import number_text
from nexusform.language.formatter import format_text
from nexusform.plain_data import Path as ValuePath
from nexusform.planning.preparation.order import modules
from nexusform.planning.preparation.prior import ImportTarget, adopted, import_targets, without_configuration
from nexusform.planning.request import Imported, PlanRequest
from nexusform.planning.vms.sites import Thing, lay_ground
from nexusform.ports import Provider, ProviderProblem, Registries
from nexusform.regular_files import create
from nexusform.rendering.notation.hcl_text import quoted
from nexusform.schema import Attribute, BlockSchema, Nesting, order_attribute
from nexusform.source import Position, SourceFile, Span
from nexusform.state import codec
from nexusform.state.objects import InstanceState, ObjectState
from nexusform.state_ports import BackendProblem
from nexusform.workflow.opening.place import load_configuration
from nexusform.workflow.opening.project import Project

ENDING: Final = ".nf.hcl"
NO_REFERENCES: Final[Mapping[ValuePath, str]] = {}
HEADING: Final = """\
# Written by nexusform for objects to be imported. Look it through, then keep it as your own.

"""


class Imports(Struct):
    """What import blocks come to.

    `objects` are those to take over; `generated` is configuration for those that have none.
    """

    objects: dict[Address, Imported] = field(default_factory=dict)
    generated: str = ""
    diagnostics: list[Diagnostic] = field(default_factory=list)


class Takeover(Struct, frozen=True):
    """What taking over everything of a source came to: what there is in lines, how many objects are new in
    the state, and what was met; `sources` are the files read.
    """

    lines: tuple[str, ...] = ()
    imported: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


# (place, what -from names, file of the configuration, how to lock, notices) -> what came of it
TakeOver: TypeAlias = Callable[[Any, str, str, Any, Any], Takeover]
SOURCES: Final[Mapping[str, TakeOver]] = Loaded(targets_of_domains("adopts"))
DIRECTORY: Final = "DIR"  # among SOURCES: any exported directory


def take_over_from(named: str) -> TakeOver | None:
    """Who takes over what `-from` names: a source by its name, else any directory; None where nobody does."""
    if named in SOURCES and not Path(named).is_dir():
        return SOURCES[named]
    return SOURCES.get(DIRECTORY)


def write_new(path: str, text: str) -> list[Diagnostic]:
    """Write a file that must not be there."""
    try:
        with os.fdopen(create(path, 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as problem:
        detail = f'"{path}" cannot be written: {problem.strerror}.'
        return [error("generated-configuration-cannot-be-written", detail)]
    return []


def find_imports(request: PlanRequest, providers: Mapping[str, Provider], *, generate: bool) -> Imports:
    """Ask the providers for everything that the import blocks want.

    With `generate` what has no block yet gets one, where one block can stand for it.
    """
    targets, problems = import_targets(request)
    result = Imports(diagnostics=problems)
    written: list[str] = []
    numbers = request.state.last_creation
    for target in targets:
        simple = not target.address.module and target.address.key is None
        if target.block is None and not (generate and simple):
            result.diagnostics.append(without_configuration(target.address, target.span))
            continue
        taken_over = _find(target, request, providers, result.diagnostics)
        if taken_over is None:
            continue
        if not taken_over.creation:  # a provider that knows no numbers: they follow what stands
            numbers += 1
            taken_over = replace(taken_over, creation=numbers)
        result.objects[target.address] = Imported(target.id, taken_over, target.span)
        if target.block is None:
            schema = request.registries.resource_types[target.address.type].schema
            written.append(generated_block(target.address, schema, taken_over.attributes))
    standing = {address: imported.object.attributes for address, imported in result.objects.items()}
    for address, attributes in with_computed(standing, request.registries).items():
        imported = result.objects[address]
        result.objects[address] = replace(imported, object=replace(imported.object, attributes=attributes))
    result.generated = HEADING + "\n".join(written) if written else ""
    return result


def with_computed(
    objects: Mapping[Address, Mapping[str, Any]], registries: Registries
) -> dict[Address, dict[str, Any]]:
    """The attributes of objects that stand with what only nexusform computes of their VMs, where it is
    lacking: the capacity of a cluster.
    """
    things = [Thing(address, attributes, 0) for address, attributes in objects.items()]
    ground = lay_ground(things, registries)
    complete = {address: dict(attributes) for address, attributes in objects.items()}
    for kind, thing in ground.things:
        if kind.vms is None:
            continue
        schema, values = kind.schema.attributes, complete[thing.address]
        arguments = {n: v for n, v in values.items() if n not in schema or schema[n].configurable}
        placed, unplaced = kind.vms.standing(values), kind.vms.unplaced(values)
        computed = kind.vms.assemble(arguments, ground.surroundings, placed, unplaced)
        values.update({name: value for name, value in computed.items() if values.get(name) is None})
    return complete


def _find(
    target: ImportTarget,
    request: PlanRequest,
    providers: Mapping[str, Provider],
    problems: list[Diagnostic],
) -> ObjectState | None:
    """The object that an import block names, as its provider finds it; None, and a problem, when it does
    not.
    """
    kind = request.registries.resource_types.get(target.address.type)
    if kind is None:
        near = did_you_mean(target.address.type, request.registries.resource_types)
        detail = f'There is no resource type "{target.address.type}".{near}'
        problems.append(error("invalid-resource-type", detail, target.span, block="import"))
        return None
    name = target.provider or DEFAULT_PROVIDER
    provider = providers.get(name)
    if provider is None:
        detail = f'There is no provider configuration "{name}".{did_you_mean(name, providers)}'
        problems.append(error("provider-configuration-not-present", detail, target.span, block="import"))
        return None
    try:
        match = provider.find(target.address.type, target.id)
    except ProviderProblem as problem:
        problems.append(error("import-failed", str(problem), target.span, block="import"))
        return None
    if match is None:
        problems.append(_nothing_there(target, name, observes=provider.observes))
        return None
    key, attributes = match
    return ObjectState(adopted(kind.schema, attributes, target.id), key.creation, provider=name)


def _nothing_there(target: ImportTarget, provider: str, *, observes: bool) -> Diagnostic:
    detail = (
        f'While importing {target.address}, the provider "{provider}" knows no object of type '
        f'{target.address.type} with the id "{target.id}", or more than one. Only objects that exist can be '
        "imported; check the id."
    )
    if not observes:
        detail += ' This provider looks at no site: give it one, for example reality = "FILE".'
    return error("cannot-import-non-existent-remote-object", detail, target.span, block="import")


# --- generated configuration -------------------------------------------------------------------


def refusal_to_generate(path: str) -> Diagnostic | None:
    """Why configuration cannot be written to a path, or None."""
    if os.path.lexists(path):
        detail = (
            f'"{path}" exists already. Name a file that does not, so that nothing of yours is overwritten.'
        )
        return error("target-generated-file-already-exists", detail)
    return None


def with_generated(project: Project, path: str, text: str) -> tuple[Project | None, list[Diagnostic]]:
    """The project with the generated configuration in it; written to its file."""
    problems = write_new(path, text)
    if problems:
        return None, problems
    beside = Path(path).resolve().parent == Path(project.place.directory).resolve()
    extra: tuple[SourceFile, ...] = ()
    if not (beside and path.endswith(ENDING)):
        detail = (
            f"The configuration was written to {path}. nexusform reads *{ENDING} files of the root module's "
            "directory only: move it there before the next plan."
        )
        problems.append(warning("generated-configuration-stands-elsewhere", detail))
        extra = (SourceFile(path, text),)
    configuration, wrong = load_configuration(project.place, extra)
    problems += [p for p in wrong if p not in problems]
    if configuration is None or has_errors(problems):
        return None, problems
    sources = {**project.sources, **configuration.files}
    return replace(project, configuration=configuration, sources=sources), problems


# --- a block for an object, with the hcl2 package ----------------------------------------------


def generated_block(
    address: Address,
    schema: BlockSchema,
    attributes: Mapping[str, Any],
    references: Mapping[ValuePath, str] = NO_REFERENCES,
    provider: str = "",
) -> str:
    """A resource block that describes the object as it stands.

    Arguments that are null or at their default are left out; those that `references` name by their path are
    written as these expressions.
    """
    import hcl2
    from hcl2.const import IS_BLOCK

    body = {IS_BLOCK: True, **({"provider": provider} if provider else {})}
    body |= _body(schema, attributes, IS_BLOCK, references)
    block = {quoted(address.type): {quoted(address.name): body}}
    text = re.sub("\n{3,}", "\n\n", hcl2.dumps({IS_BLOCK: True, "resource": [block]}))
    styled, _ = format_text(SourceFile("generated", text))
    return styled


def _body(
    schema: BlockSchema,
    attributes: Mapping[str, Any],
    mark: str,
    references: Mapping[ValuePath, str],
    at: ValuePath = (),
) -> dict[str, Any]:
    """A body as the hcl2 package has it: arguments, then nested blocks under their labels.

    `mark` is the key that tells a block from a map; `at` is the path of the body.
    """
    written: dict[str, Any] = {mark: True, **_arguments(schema, attributes, references, at)}
    for name, block in schema.blocks.items():
        value = attributes.get(name)
        if not value:
            continue
        bodies: list[dict[str, Any]] = []
        for index, (label, part) in enumerate(_parts(block.nesting, name, value, attributes)):
            step: ValuePath = {Nesting.SINGLE: (), Nesting.LIST: (index,)}.get(block.nesting, (label,))
            body = _body(block.schema, part, mark, references, (*at, name, *step))
            bodies.append({_text(label): body} if label else body)
        written[name] = bodies
    return written


def _parts(
    nesting: Nesting, name: str, value: Any, attributes: Mapping[str, Any]
) -> list[tuple[str, Mapping[str, Any]]]:
    """The blocks of one name, with their labels ("": none), in the order in which they were written."""
    if nesting is Nesting.SINGLE:
        return [("", value)]
    if nesting is Nesting.LIST:
        return [("", part) for part in value]
    order = attributes.get(order_attribute(name)) or list(value)
    return [(label, value[label]) for label in order if label in value]


def _arguments(
    schema: BlockSchema, attributes: Mapping[str, Any], references: Mapping[ValuePath, str], at: ValuePath
) -> dict[str, Any]:
    """The arguments that are worth writing, those in `references` as references."""
    return {
        name: references.get((*at, name)) or _expression(attributes[name])
        for name, attribute in schema.attributes.items()
        if _is_worth_writing(attribute, attributes.get(name))
    }


def _is_worth_writing(attribute: Attribute, value: Any) -> bool:
    if not attribute.configurable or value is None or attribute.predicted:  # a place written down is a pin
        return False
    return attribute.required or value != attribute.default


def _expression(value: Any) -> Any:
    """Plain data as the hcl2 package wants it: texts in quotes, escaped."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(str(name)): _expression(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_expression(part) for part in value]
    if isinstance(value, Fraction):
        return float(number_text(value))
    return value


def _text(text: str) -> str:
    """A text in quotes. The hcl2 package loses a quotation mark that stands right before an interpolation."""
    return quoted(text).replace('\\"$${', "\\u0022$${")


# --- the command -------------------------------------------------------------------------------


def address_to_import(
    project: Project, text: str
) -> tuple[ResourceBlock | None, Address | None, list[Diagnostic]]:
    """The address of `import ADDR ID` and its block, which must exist."""
    try:
        address = parse_address(text)
    except AddressProblem as problem:
        return None, None, [error("invalid-address", str(problem))]
    block = _blocks(project.configuration).get(str(address.config))
    if block is not None and address.mode == "managed":
        return block, address, []
    example = f'resource "{address.type}" "{address.name}" {{\n    # (resource arguments)\n  }}'
    detail = (
        f"The resource address {address} does not exist in the configuration.\n\nBefore importing this "
        f"resource, write its block in the module it belongs to, for example:\n\n  {example}"
    )
    return None, None, [error("resource-not-in-the-configuration", detail)]


def _blocks(configuration: Configuration) -> dict[str, ResourceBlock]:
    """The blocks of managed resources by address, of all modules."""
    blocks: dict[str, ResourceBlock] = {}
    for module in modules(configuration.root):
        managed = [block for block in module.resources.values() if block.mode == "managed"]
        blocks.update({str(block.address): block for block in managed})
    return blocks


def import_one(
    request: PlanRequest,
    project: Project,
    providers: Mapping[str, Provider],
    block: ResourceBlock,
    address: Address,
    object_id: str,
    kept_lines: Sequence[bytes],
) -> list[Diagnostic]:
    """Find one object and write it into the state; the caller holds the lock.

    `kept_lines` stay in the journal: what an apply that did not come to its end left to do.
    """
    state = request.state
    if address in state.instances:
        detail = (
            f"The state holds an object at {address} already. Import to another address, or let go of that "
            f"one first with `nexusform state rm {shlex.quote(str(address))}`."
        )
        return [error("resource-already-managed-by-nexusform", detail)]
    start = Position(1, 1, 0)
    target = ImportTarget(
        address=address, id=object_id, provider=block.provider, span=Span("", start, start), block=block
    )
    problems: list[Diagnostic] = []
    taken_over = _find(target, request, providers, problems)
    if taken_over is None:
        return [replace(p, subject=None, block="") for p in problems]
    if not taken_over.creation:  # as above
        taken_over = replace(taken_over, creation=state.last_creation + 1)
    after = replace(
        state,
        instances={**state.instances, address: InstanceState(taken_over)},
        last_creation=max(state.last_creation, taken_over.creation),
        lineage=state.lineage or str(uuid.uuid4()),
        serial=state.serial + 1,
        nexusform_version=nexusform.__version__,
    )
    try:
        project.backend.compact(codec.encode(after), kept_lines)
    except BackendProblem as problem:
        return [error("the-state-cannot-be-written", str(problem))]
    return []
