"""Record of a plan's place and evaluation: sandbox, files, servers, programs and variables."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.files.access_record import get_recorded_accesses
from nexusform.files.regular_files import Confinement, is_path_below
from nexusform.interfaces.state_storage import StateBackend
from nexusform.plans.plan import Plan
from nexusform.plans.plan_checks import EvaluatedFile, EvaluationEnvironment, PlanOrigin
from nexusform.workflow.opening.command_context import (
    CommandContext,
    find_work_tree,
    list_variable_files,
)
from nexusform.workflow.opening.git_work_tree import (
    describe_directory,
    find_commit_or_none,
    find_repository,
    find_top,
)
from nexusform.workflow.opening.project import Project


def record_evaluation(plan: Plan, project: Project) -> Plan:
    """Return the plan with a record of its place, its variable files and its evaluation.

    Files (with digests, and whether they are in the work tree), servers, programs, and variables of
    the environment by name, without their values.
    """
    context = project.context
    accesses = get_recorded_accesses()
    root = context.confinement.root or find_work_tree(context.directory)
    files = _list_evaluated_files(plan, project, accesses.files, Confinement(root))
    # Variables of the environment used without a record: inputs, the workspace, encryption.
    names = [f"NF_VAR_{name}" for name in project.configuration.root.variables]
    names += ["NF_WORKSPACE", "TF_WORKSPACE", "NF_ENCRYPTION"]
    environment_names = {
        *accesses.variables,
        *[name for name in names if name in context.environment],
    }
    evaluation = EvaluationEnvironment(
        confined=bool(context.confinement.root),
        root=_format_relative(root, context.directory),
        files=tuple(sorted(files, key=lambda file: file.path)),
        origins=tuple(sorted(accesses.origins)),
        programs=tuple(sorted(accesses.programs)),
        environment_read=tuple(sorted(environment_names)),
    )
    # An unconfined run allows any address.
    prefixes = tuple(sorted(context.allow_remote)) if evaluation.confined else ()
    basis = replace(plan.basis, evaluation=evaluation, allowed_prefixes=prefixes)
    # A plan that is applied keeps the place and the files that it was made with.
    if basis.variable_files is None:
        basis = replace(basis, variable_files=_list_variable_files(context, accesses.files))
    if basis.origin is None:
        basis = replace(basis, origin=find_plan_origin(project))
    return replace(plan, basis=basis)


def find_plan_origin(project: Project) -> PlanOrigin:
    """Return the place of the plans of a project."""
    return find_backend_origin(project.context, project.configuration, project.backend)


def find_backend_origin(
    context: CommandContext, configuration: Configuration, backend: StateBackend
) -> PlanOrigin:
    """Return the place of the plans of a configuration with a backend."""
    kind = "local" if context.state_path else configuration.settings.backend_type
    return build_plan_origin(context, kind, backend.describe())


def build_plan_origin(context: CommandContext, backend: str, location: str) -> PlanOrigin:
    """Build the place of plans in a directory, with a state of a backend at a location."""
    directory = context.directory
    environment = context.environment
    confinement = context.directory_confinement
    if backend == "local":
        location = _describe_local_location(location, directory)
    return PlanOrigin(
        repository=find_repository(directory, environment, confinement),
        directory=describe_directory(directory),
        backend=backend,
        location=location,
        commit=find_commit_or_none(directory, environment, confinement),
        has_work_tree=find_top(directory) is not None,
    )


def _describe_local_location(location: str, directory: str) -> str:
    """Return the path of a local state, relative to the directory if it moves with the clone.

    Jobs have their clones in different directories. An absolute path outside of the work tree is
    the same in all of them.
    """
    real_directory = os.path.realpath(directory)
    # A relative path starts with the directory, and may lead out of it.
    if not Path(location).is_absolute() or is_path_below(location, os.path.normpath(directory)):
        return _format_relative(location, directory)
    top = str(find_top(directory) or real_directory)
    for path in (os.path.normpath(location), os.path.realpath(location)):
        if is_path_below(path, top):
            return _format_relative(path, directory)
    return os.path.normpath(location).replace(os.sep, "/")


def _list_variable_files(
    context: CommandContext, accessed_files: Mapping[str, str]
) -> dict[str, str]:
    """List the digests of the variable files in the work tree, by path relative to the directory.

    Other ones, such as secrets of a job, are not there at apply.
    """
    digests: dict[str, str] = {}
    for path in list_variable_files(context):
        if not is_in_work_tree(path, context.directory):
            continue
        absolute_path = os.path.abspath(path)  # noqa: PTH100 - keeps links
        digest = accessed_files.get(absolute_path)
        if digest is not None:
            digests[_format_relative(absolute_path, context.directory)] = digest
    return digests


def is_in_work_tree(path: str, directory: str) -> bool:
    """Return whether a file is in the work tree of a directory, with its links resolved."""
    return is_path_below(os.path.realpath(path), find_work_tree(directory))


def _list_evaluated_files(
    plan: Plan, project: Project, accessed_files: Mapping[str, str], work_tree: Confinement
) -> list[EvaluatedFile]:
    """List the files read for a plan with digests.

    `accessed_files`, by path, are those of settings and variables.
    """
    directory = os.path.abspath(project.context.directory)  # noqa: PTH100
    digests: dict[str, str] = {}  # by path
    for path, digest in accessed_files.items():
        shown_path = _format_relative(path, directory) if work_tree.is_inside(path) else path
        digests[shown_path] = digest
    for name, text in project.configuration.file_texts.items():
        digests[name] = sha256(text.encode()).hexdigest()
    # Files read by functions and by data sources.
    digests |= {**plan.basis.files, **plan.basis.data_files}
    files: list[EvaluatedFile] = []
    for path, digest in digests.items():
        recorded_path = os.path.normpath(path).replace(os.sep, "/")
        files.append(
            EvaluatedFile(recorded_path, digest, work_tree.is_inside(os.path.realpath(path)))
        )
    return files


def _format_relative(path: str, directory: str) -> str:
    """Return a path relative to a directory, with slashes; unchanged on another drive."""
    try:
        return os.path.relpath(path, os.path.realpath(directory)).replace(os.sep, "/")
    except ValueError:
        return path
