"""Target of `show`: the state, a saved plan, or one resource."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    has_errors,
    suggest_name,
)
from nexusform.interfaces.plugins import FileProblem
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import AddressProblem, compute_address_order, parse_pattern
from nexusform.state import state_codec
from nexusform.state.objects import EMPTY, State
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored_state import load_schemas, read_stored_state
from nexusform.workflow.plan_files.saved_plans import (
    decrypt_document,
    get_configuration_sources,
    load_plan_configuration,
    read_limited_file,
    read_plan,
    read_prior_state,
)


class ShownContent(Struct, frozen=True):
    """Contents to show: a saved plan with configuration and prior state, or a state.

    With `is_of_address`, the state has only the objects at an address, and no outputs.
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    saved: SavedPlan | None = None
    configuration: Configuration | None = None
    state: State = EMPTY
    is_of_address: bool = False


def find_show_target(context: CommandContext, target: str) -> ShownContent:
    """Find the contents to show.

    `target` is an existing file, or an address of objects; "" is the whole state.
    """
    if not target:
        return _read_state(context)
    if Path(target).is_file():
        return _read_file(context, target)
    try:
        pattern = parse_pattern(target)
    except AddressProblem as problem:
        return ShownContent(
            (_build_missing_file_error(target, f"Nor is it an address: {problem}"),)
        )
    # Probably a misspelled file. Only the address of a module (`module.a`) has no resource type.
    if pattern.type not in build_registries().resource_types and not pattern.module:
        return ShownContent(
            (_build_missing_file_error(target, f'Nor is "{pattern.type}" a resource type.'),)
        )
    content = _read_state(context)
    if has_errors(content.diagnostics):
        return content
    existing = content.state.instances
    diagnostics = content.diagnostics
    addresses = sorted(filter(pattern.is_match, existing), key=compute_address_order)
    if not addresses:
        detail = f"The state has no object at {target}.{suggest_name(target, map(str, existing))}"
        diagnostics = (*diagnostics, build_error("no-such-state-resource", detail))
    state = replace(
        content.state, instances={address: existing[address] for address in addresses}, outputs={}
    )
    return replace(content, diagnostics=diagnostics, state=state, is_of_address=True)


def _read_state(context: CommandContext) -> ShownContent:
    """Read the state of the selected workspace; with errors, the contents have no state."""
    backend, problems, sources = find_backend(context)
    if backend is None:
        return ShownContent(tuple(problems), sources)
    stored, new_problems = read_stored_state(backend)
    return ShownContent(
        (*problems, *new_problems), sources, state=stored.state if stored is not None else EMPTY
    )


def _build_missing_file_error(target: str, reason: str) -> Diagnostic:
    detail = (
        f'There is no plan or state file "{target}". {reason} To save a plan: nexusform plan '
        f"-out={quote(target)}"
    )
    return build_error("no-such-plan-file", detail)


def _read_file(context: CommandContext, path: str) -> ShownContent:
    """Read a file: a saved plan (a ZIP archive) or a state document; with errors, no contents."""
    try:
        content = read_limited_file(path, context)
    except FileProblem as problem:
        return ShownContent((build_error("nothing-to-show", str(problem)),))
    content, problems = decrypt_document(content, path, context)
    if has_errors(problems):
        return ShownContent(tuple(problems))
    # No ZIP archive.
    if not content.startswith(b"PK"):
        state, problems = state_codec.decode_state(content, path, load_schemas())
        return ShownContent(tuple(problems), state=state or EMPTY)
    saved, problems = read_plan(path, context)
    if saved is None:
        return ShownContent(tuple(problems))
    configuration, _ = load_plan_configuration(context, saved)
    prior, new_problems = read_prior_state(saved, path)
    problems += new_problems
    if has_errors(problems):
        return ShownContent(tuple(problems))
    sources = get_configuration_sources(saved)
    return ShownContent(tuple(problems), sources, saved, configuration, prior or EMPTY)
