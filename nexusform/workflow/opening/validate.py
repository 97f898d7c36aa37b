"""Find every mistake of a configuration without looking at state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Configuration
from nexusform.diagnostics import Diagnostic, has_errors, narrowed
from nexusform.domain_table import Loaded, checks_of_domains
from nexusform.language.parser import hcl2_complaint
from nexusform.planning.request import PlanRequest
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state.objects import EMPTY
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.providers import provider_problems
from nexusform.workflow.opening.surroundings import RealFiles, plan_time

TEST_DIRECTORY: Final = "tests"
# What domains look at besides: (place, the directory of test files, texts so far) -> problems.
_CHECKS: Final[Mapping[str, Callable[[Place, str, dict[str, SourceFile]], list[Diagnostic]]]] = Loaded(
    checks_of_domains()
)


class Validation(Struct, frozen=True):
    """All diagnostics, and the files for showing where."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]

    def and_also(self, other: Validation) -> Validation:
        """Both, what both say (of a module that both call) once."""
        diagnostics = dict.fromkeys(_essence(each) for each in self.diagnostics)
        more = [each for each in other.diagnostics if _essence(each) not in diagnostics]
        return Validation((*self.diagnostics, *more), {**self.sources, **other.sources})


def validate_directory(
    place: Place, test_directory: str | None = None, *, portable: bool = False
) -> Validation:
    """Check the configuration of a directory, and its test files where they are to be looked at.

    `portable` adds warnings where tools built on the hcl2 package could not read on.
    """
    configuration, problems = load_configuration(place)
    if configuration is None:
        return Validation(tuple(problems), {})
    problems += further_problems(place, configuration, problems)
    sources = dict(configuration.files)
    if test_directory is not None:
        for check in _CHECKS.values():
            problems += check(place, test_directory, sources)
    if portable and not has_errors(problems):
        native = [source for name, source in sources.items() if name.endswith(".hcl")]
        problems += [d for source in native if (d := hcl2_complaint(source)) is not None]
    return Validation(tuple(problems), sources)


def further_problems(
    place: Place, configuration: Configuration, already_told: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """What planning would find wrong whatever the state, without what is told already."""
    from nexusform.planning.modules.validation import validate

    request = PlanRequest(
        configuration=configuration,
        variables={},
        state=EMPTY,
        registries=registries(),
        files=RealFiles(place.confinement),
        now=plan_time(place.environment),
        workspace=place.workspace,
        working_directory=place.directory,
        limits=place.limits_over(configuration.settings.limits),
    )
    known = {_essence(d) for d in already_told}
    further = [*validate(request), *provider_problems(request)]
    problems = [narrowed(d, configuration.files) for d in further if _essence(d) not in known]
    if not has_errors([*already_told, *problems]):
        problems += _advice(request, configuration)
    return problems


def _advice(request: PlanRequest, configuration: Configuration) -> list[Diagnostic]:
    """Lint, as far as it can be told without state: where every variable has a default."""
    from nexusform.planning.planner import make_plan
    from nexusform.workflow.opening.linting import literal_lint

    if any(variable.default is None for variable in configuration.root.variables.values()):
        return []
    quiet = replace(request, tie_breaks=0, ways_out=False, lint=False)
    return literal_lint(make_plan(quiet), configuration)


def _essence(diagnostic: Diagnostic) -> tuple[object, ...]:
    return diagnostic.id, diagnostic.detail, diagnostic.subject, diagnostic.address
