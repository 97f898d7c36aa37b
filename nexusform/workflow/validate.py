"""Find every mistake of a configuration without looking at state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nexusform.diagnostics import Diagnostic
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.workflow.project import Place, load_configuration
from nexusform.workflow.surroundings import RealFiles


@dataclass(frozen=True)
class Validation:
    """All that was found, and the files for showing where."""

    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


def validate_directory(place: Place) -> Validation:
    """Check the configuration of a directory."""
    from nexusform.planning.validation import validate

    configuration, problems = load_configuration(place)
    if configuration is None:
        return Validation(tuple(problems), {})
    problems += [p for p in validate(configuration, registries(), RealFiles()) if p not in problems]
    return Validation(tuple(problems), configuration.files)
