"""Validation of the configuration of a directory without state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, has_errors, locate_line_in_text
from nexusform.domain_table import LazyTable, collect_validate_checks
from nexusform.language.parser import check_with_hcl2
from nexusform.planning.plan_request import PlanRequest
from nexusform.providers.clock import read_clock
from nexusform.resource_types.registry import build_registries
from nexusform.state.objects import EMPTY
from nexusform.workflow.opening.backend_choice import evaluate_backend_settings
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.provider_setup import check_created_objects, check_provider_blocks
from nexusform.workflow.opening.system_io import ConfinedFileAccess

TEST_DIRECTORY: Final = "tests"
# Further checks of domains: (context, directory of test files, texts so far) -> problems.
_CHECKS: Final[
    Mapping[str, Callable[[CommandContext, str, dict[str, SourceFile]], list[Diagnostic]]]
] = LazyTable(collect_validate_checks())


# Equal diagnostics have equal values of these.
_get_identity: Final = attrgetter("id", "detail", "subject", "address")


class DirectoryValidation(Struct, frozen=True):
    """All diagnostics, and the files for showing source lines."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]

    def merge(self, other: DirectoryValidation) -> DirectoryValidation:
        """Merge two validations; diagnostics in both (of a shared module) appear once."""
        new_diagnostics = _select_new_diagnostics(other.diagnostics, self.diagnostics)
        return DirectoryValidation(
            (*self.diagnostics, *new_diagnostics), {**self.sources, **other.sources}
        )


def validate_directory(
    context: CommandContext, test_directory: str | None = None, *, portable: bool = False
) -> DirectoryValidation:
    """Check the configuration of a directory, and the test files in `test_directory`.

    With None for `test_directory`, no test files are checked. `portable` adds warnings about syntax
    unsupported by tools based on the hcl2 package.
    """
    configuration, problems = load_project_configuration(context)
    problems += find_planning_problems(context, configuration, problems)
    sources = dict(configuration.files)
    if test_directory is not None:
        for check in _CHECKS.values():
            # The checks add test files to the sources.
            problems += check(context, test_directory, sources)
    if portable and not has_errors(problems):
        for name, source in sources.items():
            warning = check_with_hcl2(source) if name.endswith(".hcl") else None
            problems += [warning] if warning is not None else []
    return DirectoryValidation(tuple(problems), sources)


def find_planning_problems(
    context: CommandContext, configuration: Configuration, known_problems: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """Return problems of planning without a state, except `known_problems`.

    Without any error, lint findings are returned, too.
    """
    from nexusform.planning.modules.configuration_validation import validate_configuration

    request = PlanRequest(
        configuration=configuration,
        variables={},
        state=EMPTY,
        registries=build_registries(),
        files=ConfinedFileAccess(context.confinement),
        now=read_clock(context.environment),
        workspace=context.workspace,
        working_directory=context.working_directory,
        limits=context.merge_limits(configuration.settings.limits),
    )
    _, backend_problems = evaluate_backend_settings(configuration.settings)
    candidates = [
        *validate_configuration(request, is_plan=False),
        *check_provider_blocks(request),
        *backend_problems,
    ]
    new_problems = _select_new_diagnostics(candidates, known_problems)
    problems = [locate_line_in_text(problem, configuration.files) for problem in new_problems]
    if not has_errors([*known_problems, *problems]):
        from nexusform.planning.planner import make_plan
        from nexusform.workflow.opening.linting import lint_configuration

        # A plan needs them.
        if all(variable.default is not None for variable in configuration.root.variables.values()):
            plain_request = replace(request, samples=0, includes_remedies=False)
            result = make_plan(plain_request)
            problems += check_created_objects(result.plan, has_state=False)
            problems += lint_configuration(result, configuration)
    return problems


def _select_new_diagnostics(
    candidates: Iterable[Diagnostic], known: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return the diagnostics, each once, except the known ones.

    A module with several calls, or an output with several readers, gives the same error again.
    """
    identities = set(map(_get_identity, known))
    new_diagnostics: list[Diagnostic] = []
    for diagnostic in candidates:
        identity = _get_identity(diagnostic)
        if identity not in identities:
            identities.add(identity)
            new_diagnostics.append(diagnostic)
    return new_diagnostics
