"""Record of a plan's evaluation: sandbox, files, servers, programs and variables."""

import os
from hashlib import sha256

from msgspec.structs import replace

from nexusform.files.access_record import get_recorded_accesses
from nexusform.files.regular_files import Confinement
from nexusform.plans.plan import Plan
from nexusform.plans.plan_checks import EvaluatedFile, EvaluationEnvironment
from nexusform.workflow.opening.command_context import find_work_tree
from nexusform.workflow.opening.project import Project


def record_evaluation(plan: Plan, project: Project) -> Plan:
    """Return the plan with a record of its evaluation by this process: files, servers, programs and variables."""
    context, accesses = project.context, get_recorded_accesses()
    root = context.confinement.root or find_work_tree(context.directory)
    # Digests by path of the files with settings and values of variables, of the configuration, and of those read by
    # functions and data sources.
    work_tree, directory = Confinement(root), os.path.abspath(context.directory)  # noqa: PTH100
    digests = {
        _format_relative(path, directory) if work_tree.is_inside(path) else path: digest
        for path, digest in accesses.files.items()
    }
    for name, source in project.configuration.files.items():
        digests[name] = sha256(source.text.encode()).hexdigest()
    digests |= {**plan.basis.files, **plan.basis.data_files}
    files = (
        EvaluatedFile(os.path.normpath(path).replace(os.sep, "/"), digest, work_tree.is_inside(os.path.realpath(path)))
        for path, digest in digests.items()
    )
    # Variables of the environment used without a record: values of input variables, the workspace, encryption.
    names = [f"NF_VAR_{name}" for name in project.configuration.root.variables]
    names += ["NF_WORKSPACE", "TF_WORKSPACE", "NF_ENCRYPTION"]
    evaluation = EvaluationEnvironment(
        confined=bool(context.confinement.root),
        root=_format_relative(root, context.directory),
        files=tuple(sorted(files, key=lambda file: file.path)),
        origins=tuple(sorted(accesses.origins)),
        programs=tuple(sorted(accesses.programs)),
        environment_read=tuple(sorted({*accesses.variables, *[name for name in names if name in context.environment]})),
    )
    prefixes = tuple(sorted(context.allow_remote)) if evaluation.confined else ()  # unconfined: any address
    return replace(plan, basis=replace(plan.basis, evaluation=evaluation, allowed_prefixes=prefixes))


def _format_relative(path: str, directory: str) -> str:
    """Return a path relative to a directory, with slashes; unchanged on another drive."""
    try:
        return os.path.relpath(path, os.path.realpath(directory)).replace(os.sep, "/")
    except ValueError:
        return path
