"""Taking objects over that stand already: import blocks, and the import command."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

import nexusform
from nexusform.address import Address, AddressProblem, parse_address
from nexusform.configuration.model import Configuration, ResourceBlock
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors, warning
from nexusform.planning.preparation.importing import (
    ImportTarget,
    adopted,
    import_targets,
    without_configuration,
)
from nexusform.planning.preparation.order import modules
from nexusform.planning.request import Imported, PlanRequest
from nexusform.ports import BackendProblem, Provider, ProviderProblem
from nexusform.providers.registry import DEFAULT
from nexusform.source import Position, SourceFile, Span
from nexusform.state import codec
from nexusform.state.model import InstanceState, ObjectState
from nexusform.workflow.generating import HEADING, generated_block
from nexusform.workflow.project import Project, load_configuration

ENDING = ".nf.hcl"


class Imports(Struct):
    """What import blocks come to.

    `found` are the objects to take over; `generated` is configuration for those that have none.
    """

    found: dict[Address, Imported] = field(default_factory=dict)
    generated: str = ""
    diagnostics: list[Diagnostic] = field(default_factory=list)


def find_imports(request: PlanRequest, providers: Mapping[str, Provider], *, generate: bool) -> Imports:
    """Ask the providers for everything that the import blocks want.

    With `generate` what has no block yet gets one, where one block can stand for it.
    """
    targets, problems = import_targets(request)
    result = Imports(diagnostics=problems)
    written: list[str] = []
    for target in targets:
        simple = not target.address.module and target.address.key is None
        if target.block is None and not (generate and simple):
            result.diagnostics.append(without_configuration(target.address, target.span))
            continue
        found = _find(target, request, providers, result.diagnostics)
        if found is None:
            continue
        result.found[target.address] = Imported(target.id, found, target.span)
        if target.block is None:
            schema = request.registries.resource_types[target.address.type].schema
            written.append(generated_block(target.address, schema, found.attributes))
    result.generated = HEADING + "\n".join(written) if written else ""
    return result


def _find(
    target: ImportTarget,
    request: PlanRequest,
    providers: Mapping[str, Provider],
    problems: list[Diagnostic],
) -> ObjectState | None:
    kind = request.registries.resource_types.get(target.address.type)
    if kind is None:
        near = did_you_mean(target.address.type, request.registries.resource_types)
        detail = f'There is no resource type "{target.address.type}".{near}'
        problems.append(error("invalid-resource-type", detail, target.span, block="import"))
        return None
    name = target.provider or DEFAULT
    provider = providers.get(name)
    if provider is None:
        detail = f'There is no provider configuration "{name}".{did_you_mean(name, providers)}'
        problems.append(error("provider-configuration-not-present", detail, target.span, block="import"))
        return None
    try:
        found = provider.find(target.address.type, target.id)
    except ProviderProblem as problem:
        problems.append(error("import-failed", str(problem), target.span, block="import"))
        return None
    if found is None:
        problems.append(_nothing_there(target, name, observes=provider.observes))
        return None
    key, attributes = found
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
    if Path(path).exists():
        detail = (
            f'"{path}" exists already. Name a file that does not, so that nothing of yours is overwritten.'
        )
        return error("target-generated-file-already-exists", detail)
    return None


def with_generated(project: Project, path: str, text: str) -> tuple[Project | None, list[Diagnostic]]:
    """The project with the generated configuration in it; written to its file."""
    problems: list[Diagnostic] = []
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as problem:
        detail = f'"{path}" cannot be written: {problem.strerror}.'
        return None, [error("generated-configuration-cannot-be-written", detail)]
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


# --- the command -------------------------------------------------------------------------------


def wanted_address(
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
    found = [b for m in modules(configuration.root) for b in m.resources.values() if b.mode == "managed"]
    return {str(b.address): b for b in found}


def import_one(
    request: PlanRequest,
    project: Project,
    providers: Mapping[str, Provider],
    block: ResourceBlock,
    wanted: tuple[Address, str],
) -> list[Diagnostic]:
    """Find one object and write it into the state; the caller holds the lock."""
    address, object_id = wanted
    state = request.state
    if address in state.instances:
        detail = (
            f"The state holds an object at {address} already. Import to another address, or let go of that "
            f"one first with `nexusform state rm {address}`."
        )
        return [error("resource-already-managed-by-nexusform", detail)]
    start = Position(1, 1, 0)
    target = ImportTarget(address, object_id, block.provider, Span("", start, start), block)
    problems: list[Diagnostic] = []
    found = _find(target, request, providers, problems)
    if found is None:
        return [replace(p, subject=None, block="") for p in problems]
    after = replace(
        state,
        instances={**state.instances, address: InstanceState(found)},
        last_creation=max(state.last_creation, found.creation),
        lineage=state.lineage or str(uuid.uuid4()),
        serial=state.serial + 1,
        nexusform_version=nexusform.__version__,
    )
    try:
        project.backend.compact(codec.encode(after))
    except BackendProblem as problem:
        return [error("the-state-cannot-be-written", str(problem))]
    return []
