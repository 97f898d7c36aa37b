"""Saved plans: write, read and export plan files, and open their projects."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration, Module
from nexusform.configuration.loader import load_configuration
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors, select_errors
from nexusform.domain_table import LazyTable, collect_object_references
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.plugins import FileProblem
from nexusform.interfaces.state_storage import StateBackend, is_encrypted
from nexusform.json_data.plain_data import convert_to_plain, convert_to_value
from nexusform.plans.plan import Plan, VariableValue
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.resource_types.registry import build_registries
from nexusform.state import state_codec
from nexusform.state.objects import EMPTY, State
from nexusform.values.typed_value import Value
from nexusform.workflow.opening.command_context import (
    CommandContext,
    ConfinementSource,
    intersect_prefixes,
    load_project_configuration,
    read_project_variables,
    restrict_context_to_plan,
)
from nexusform.workflow.opening.encryption_settings import decrypt_file, encrypt_plan
from nexusform.workflow.opening.project import OpenResult, create_project, open_backend, select_variable_values
from nexusform.workflow.opening.system_io import open_file, read_file, write_output
from nexusform.workflow.plan_files.failed_plans import check_failed_plan
from nexusform.workflow.plan_files.plan_statement import Signer, StatementContent, write_statement
from nexusform.workflow.runs.run import Run

_LIMIT_HINT: Final = "To allow a larger file, raise the limit: -limit=file_mib=N or NF_LIMIT_FILE_MIB=N."
_MAX_NAMES = 5
_UNSET_VARIABLE = "no-value-for-required-variable"


def save_plan(
    plan: Plan, run: Run, path: str, signer: Signer | None = None, *, durable: bool = True
) -> list[Diagnostic]:
    """Write a plan file: signed if there is a `signer`, encrypted if configured. If not `durable`, it is not synced."""
    project = run.project  # planning may have added generated configuration
    configuration = project.configuration
    configuration_texts = {name: source.text for name, source in configuration.files.items()}
    try:
        prior = run.stored.state
        prior_document = {} if prior is EMPTY else state_codec.build_plain_document(prior)
        unsigned = plan_file.write_plan_file(plan, configuration_texts, prior_document)
        document = plan_file.sign_archive(unsigned, signer.sign_digest) if signer else unsigned
    except FileProblem as problem:
        return [build_error("plan-save-failed", str(problem))]
    if len(document) > project.context.get_max_file_size():
        detail = f"It has {len(document)} bytes, more than commands read. {_LIMIT_HINT}"
        return [build_error("plan-save-failed", detail)]
    document, problems = encrypt_plan(document, configuration, project.context)
    if has_errors(problems):
        return problems
    try:
        write_output(path, document, private=True, durable=durable)  # it contains sensitive values
    except OSError as problem:
        return [*problems, build_error("plan-save-failed", f'"{path}" cannot be written: {problem.strerror}.')]
    if signer is not None:
        content = build_statement_content(plan, plan_file.compute_digest(unsigned), document, path)
        problems += write_statement(content, path, signer)
    return problems


def build_statement_content(plan: Plan, digest: str, document: bytes, path: str) -> StatementContent:
    """Build the content of a plan's statement; `document` is its file."""
    digests = {Path(path).name: plan_file.compute_digest(document), "plan": digest}
    return StatementContent(digests, (plan.basis,), plan.nexusform_version, plan.timestamp)


def read_plan(path: str, context: CommandContext) -> tuple[SavedPlan | None, list[Diagnostic]]:
    """Read a plan file, decrypted with the settings of configuration and environment; None with errors."""
    try:
        data = read_limited_file(path, context)
    except FileProblem as problem:
        hint = "" if Path(path).exists() else f" To save a plan: nexusform plan -out={shlex.quote(path)}"
        return None, [build_error("unreadable-plan", f"{problem}{hint}")]
    data, problems = decrypt_document(data, path, context)
    if has_errors(problems):
        return None, problems
    saved, plan_problems = plan_file.read_plan_file(data, path)
    return saved, [*problems, *plan_problems]


def read_complete_plan(path: str, context: CommandContext) -> tuple[SavedPlan | None, list[Diagnostic]]:
    """Read a plan file; None with errors if it is unreadable or the plan of a failed run."""
    saved, problems = read_plan(path, context)
    if saved is not None:
        problems += check_failed_plan(saved, path)
    return (None if has_errors(problems) else saved), problems


def read_prior_state(saved: SavedPlan, path: str) -> tuple[State | None, list[Diagnostic]]:
    """Return the state before a plan, as stored in its file; None with errors."""
    if not saved.prior_state:
        return EMPTY, []
    return state_codec.decode_plain_document(saved.prior_state, path)


def get_configuration_sources(saved: SavedPlan) -> dict[str, SourceFile]:
    """Return the configuration files of a plan."""
    return {name: SourceFile(name, text) for name, text in saved.configuration_files.items()}


def read_limited_file(path: str, context: CommandContext) -> bytes:
    """Read a plan or state file named by the operator. Raises FileProblem."""
    max_bytes = context.get_max_file_size()
    confinement = context.confinement.get_operator_confinement(path)
    return read_file(path, max_bytes, confinement, hint=_LIMIT_HINT)


def open_limited_file(path: str, context: CommandContext) -> BinaryIO:
    """Open a plan file named by the operator for reading in pieces. Raises FileProblem."""
    return open_file(
        path, context.get_max_file_size(), context.confinement.get_operator_confinement(path), hint=_LIMIT_HINT
    )


def decrypt_document(document: bytes, path: str, context: CommandContext) -> tuple[bytes, list[Diagnostic]]:
    """Return a state or plan file, decrypted if encrypted; b"" with errors."""
    if not is_encrypted(document):
        return document, []
    configuration, _ = load_project_configuration(context)
    return decrypt_file(document, path, configuration, context)


def open_saved_plan(
    context: CommandContext, saved: SavedPlan, backend: StateBackend | None = None, *, is_verified: bool = False
) -> OpenResult:
    """Open the project of a saved plan: its configuration and variables as reviewed. Its state is in `backend` (None:
    the one of its configuration). `is_verified` as in `build_plan_context`.
    """
    configuration, problems = load_plan_configuration(context, saved)
    sources = get_configuration_sources(saved)
    if has_errors(problems):
        return OpenResult(project=None, diagnostics=tuple(problems), sources=sources)
    ephemeral, new_problems = read_ephemeral_variables(context, configuration, saved.plan)
    problems += [*check_variables_unchanged(context, configuration, saved.plan), *new_problems]
    try:
        own_context, context = context, build_plan_context(context, saved.plan, is_verified=is_verified)
    except ValueError as problem:
        return OpenResult(None, (*problems, build_error("unreadable-plan", str(problem))), sources)
    if backend is None:
        # If the directory has the same configuration, the plan does not decide the use of credentials.
        is_own = context.confinement_source is ConfinementSource.PLAN and _is_current_configuration(own_context, saved)
        backend, new_problems = open_backend(own_context if is_own else context, configuration)
        problems += new_problems
    if backend is None or has_errors(problems):
        return OpenResult(project=None, diagnostics=tuple(problems), sources=sources)
    variables = {**get_planned_variables(saved.plan), **ephemeral}
    answers = saved.plan.basis.answers
    project = create_project(context, configuration, variables, sources, backend, answers)
    return OpenResult(project, tuple(problems), sources)


def build_plan_context(context: CommandContext, plan: Plan, *, is_verified: bool = False) -> CommandContext:
    """Return the context for the contents of a plan file, at least as confined as the plan was. `is_verified`: signed
    or from the journal, so it may be unconfined. Raises ValueError if it cannot be confined here.
    """
    if context.confinement_source is ConfinementSource.DISABLED:  # by -confine=false
        return context
    evaluation = plan.basis.evaluation  # None in plans without this record
    was_unconfined = evaluation is not None and not evaluation.confined
    if is_verified and was_unconfined and context.confinement_source is not ConfinementSource.OPERATOR:
        return replace(context, confinement=UNCONFINED, confinement_source=ConfinementSource.NONE)
    if not context.confinement.root:
        context = restrict_context_to_plan(context)
    if evaluation is None or not evaluation.confined:
        return context
    return replace(context, allow_remote=intersect_prefixes(context.allow_remote, plan.basis.allowed_prefixes))


def _is_current_configuration(context: CommandContext, saved: SavedPlan) -> bool:
    """Return whether the directory has the plan's configuration, so the same backend: no variable determines it."""
    configuration, _ = load_project_configuration(context)
    return _is_equal_to_snapshot(configuration, saved.configuration_files)


def _is_equal_to_snapshot(configuration: Configuration, snapshot: Mapping[str, str]) -> bool:
    return {name: source.text for name, source in configuration.files.items()} == dict(snapshot)


def get_planned_variables(plan: Plan) -> dict[str, Value]:
    """Return the variables of a plan."""
    return {name: _convert_variable(variable) for name, variable in plan.variables.items()}


def _convert_variable(variable: VariableValue) -> Value:
    return convert_to_value(variable.value, variable.type, [()] if variable.sensitive else ())


def load_plan_configuration(context: CommandContext, saved: SavedPlan) -> tuple[Configuration, list[Diagnostic]]:
    """Load the directory's configuration if it is equal to the plan's, else the files in the plan, with errors."""
    configuration, _ = load_project_configuration(context)
    # Constants may have other values now than in the plan.
    if not configuration.constants and _is_equal_to_snapshot(configuration, saved.configuration_files):
        return configuration, []
    type_registries = build_registries()
    with tempfile.TemporaryDirectory(prefix="nexusform-plan-") as directory:
        # The directory of the root module is deep enough for names with `..`.
        top = Path(directory)
        depth = max((PurePosixPath(name).parts.count("..") for name in saved.configuration_files), default=0)
        root = top.joinpath(*(f"d{n}" for n in range(depth + 1)))
        root.mkdir(parents=True)
        for name, text in saved.configuration_files.items():
            path = (root / name.lstrip("/")).resolve()
            if path.is_relative_to(top.resolve()):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        configuration, problems = load_configuration(
            str(root),
            cache_directory=None,
            managed=type_registries.schemas["managed"],
            data=type_registries.schemas["data"],
            confinement=Confinement(os.path.realpath(directory)),
            read_constants=lambda _: (get_planned_variables(saved.plan), []),  # as planned
        )
        if configuration.root.directory:  # empty after syntax errors
            root_module = _move_module(configuration.root, str(root), context.directory)
            configuration = replace(configuration, root=root_module)
    return configuration, select_errors(problems)


def _move_module(module: Module, root: str, directory: str) -> Module:
    """Return a module and its child modules relative to another root directory."""
    new_directory = os.path.normpath(Path(directory, os.path.relpath(module.directory, root)))
    calls = {
        name: replace(call, module=_move_module(call.module, root, directory)) for name, call in module.calls.items()
    }
    return replace(module, directory=new_directory, calls=calls)


def check_variables_unchanged(context: CommandContext, configuration: Configuration, plan: Plan) -> list[Diagnostic]:
    """Return errors for variables now set to another value than in the plan. Unset variables are no error."""
    variables, problems = read_project_variables(context, configuration)
    errors = [error for error in select_errors(problems) if error.id != _UNSET_VARIABLE]
    for name, (value, origin) in variables.items():
        planned = plan.variables.get(name)
        if origin.is_default or planned is None:
            continue
        if value.is_wholly_known and convert_to_plain(value)[0] != planned.value:
            errors.append(
                build_error(
                    "saved-plan-variables-mismatch",
                    f'The variable "{name}" has another value ({origin.text}) than in the saved plan. A '
                    "saved plan is applied as reviewed. Remove the variable, or plan again.",
                )
            )
    return errors


def read_ephemeral_variables(
    context: CommandContext, configuration: Configuration, plan: Plan
) -> tuple[dict[str, Value], list[Diagnostic]]:
    """Read the ephemeral variables again: plans do not store them. Exactly those set for the plan must be set."""
    declared = {name: variable for name, variable in configuration.root.variables.items() if variable.ephemeral}
    if not declared:
        return {}, []
    variables, _ = read_project_variables(context, configuration)
    values = {
        name: value
        for name, value in select_variable_values(configuration, variables).items()
        if name in declared and not value.is_null and value.is_known
    }
    errors = []
    for name, variable in declared.items():
        if (name in values) == (name in plan.basis.ephemeral_variables):  # set both times, or never
            continue
        if name in values:
            error_id, reason = "ephemeral-variable-not-set-in-plan", "was not set in the plan, so it cannot be set now."
        else:
            error_id, reason = _UNSET_VARIABLE, "was set in the plan, and plans do not contain its value. Set it again."
        errors.append(build_error(error_id, f'The ephemeral variable "{name}" {reason}', variable.span))
    return values, errors


# Writer of a plan in another tool's format: text ("" without content for it), and diagnostics about omitted parts.
Writer: TypeAlias = Callable[[Plan], tuple[str, list[Diagnostic]]]

_WRITERS: Final[Mapping[str, Writer]] = LazyTable(collect_object_references("exports"))
FORMATS: Final = tuple(_WRITERS)


class ExportResult(Struct, frozen=True):
    """The text, "" without content, and diagnostics."""

    text: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def export_plan(context: CommandContext, path: str, format_name: str) -> ExportResult:
    """Return a saved plan in another tool's format (one of FORMATS)."""
    saved, problems = read_complete_plan(path, context)
    if saved is None:
        return ExportResult(diagnostics=tuple(problems))
    text, export_diagnostics = _WRITERS[format_name](saved.plan)
    return ExportResult(text, (*problems, *export_diagnostics))
