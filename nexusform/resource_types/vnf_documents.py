"""The documents of a tacker_vnf: read once per text, and what is to be said about them as problems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostic_kinds import SUMMARIES
from nexusform.diagnostics import Problem, Severity
from nexusform.importers.vnf_model import VnfSources
from nexusform.plain_data import Path
from nexusform.values import UNKNOWN

if TYPE_CHECKING:
    from nexusform.importers.vnf import ReadVnf

DOCUMENTS: Final = ("vnfd", "base_hot", "nested", "parameters", "flavour_id")
_NESTED: Final = 'nested["'
_KINDS: Final = {"vnfd": "VNFD", "base_hot": "HOT file"}


def documents_known(attributes: Mapping[str, Any]) -> bool:
    """Whether all documents are known, and at least one is there."""
    if any(_has_unknown(attributes.get(name)) for name in DOCUMENTS):
        return False
    return any(isinstance(attributes.get(name), str) for name in ("vnfd", "base_hot"))


def _has_unknown(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(_has_unknown(part) for part in value)
    return value is UNKNOWN


def read_documents(attributes: Mapping[str, Any]) -> ReadVnf:
    """The VNF of the arguments, which must be known."""
    nested = attributes.get("nested") or {}
    parameters = attributes.get("parameters")
    return _read(
        attributes.get("vnfd"),
        attributes.get("base_hot"),
        tuple((name, text) for name, text in sorted(nested.items()) if isinstance(text, str)),
        json.dumps(parameters if isinstance(parameters, dict) else {}, sort_keys=True),
        attributes.get("flavour_id") or "",
    )


# One VNF is asked for several times in a plan; the result is frozen and depends on the texts alone.
@lru_cache(maxsize=64)
def _read(
    vnfd: str | None, base_hot: str | None, nested: tuple[tuple[str, str], ...], parameters: str, flavour: str
) -> ReadVnf:
    # Few configurations hold a VNF: the readers of TOSCA and HOT are loaded for those that do.
    from nexusform.importers.vnf import read_vnf

    return read_vnf(VnfSources(vnfd, base_hot, dict(nested), json.loads(parameters), flavour))


def document_problems(findings: Iterable[Problem]) -> list[Problem]:
    """Findings as problems of the arguments that hold the documents: errors one by one, warnings of one
    document and kind together, so that each line of them is seen.
    """
    problems = []
    together: dict[tuple[str, str], list[str]] = {}
    for problem in findings:
        line = f":{problem.line}" if problem.line else ""
        sentence = problem.detail if problem.detail.endswith((".", "?")) else f"{problem.detail}."
        text = f"{problem.file}{line}: {sentence}"
        if problem.severity is Severity.ERROR:
            problems.append(Problem(document_path(problem.file), problem.id, text))
        else:
            together.setdefault((problem.file, problem.id), []).append(text)
    for (file, kind), lines in together.items():
        headline = f"{SUMMARIES[kind]} ({_KINDS.get(file, 'nested template')})"
        problems.append(Problem(document_path(file), kind, "\n".join(lines), Severity.WARNING, headline))
    return problems


def document_path(file: str) -> Path:
    """Where a document stands among the arguments."""
    if file.startswith(_NESTED):
        return ("nested", file.removeprefix(_NESTED).removesuffix('"]'))
    return (file,)
