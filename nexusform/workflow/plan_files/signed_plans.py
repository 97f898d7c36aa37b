"""Signing saved plans, and looking whether one is signed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.encryption.keys import EncryptionProblem
from nexusform.encryption.signatures import check_signature, sign
from nexusform.plans.saved import plan_file
from nexusform.ports import FileProblem
from nexusform.regular_files import Confinement
from nexusform.state_ports import is_sealed
from nexusform.workflow.opening.encryption import sealed_plan
from nexusform.workflow.opening.place import Place, load_configuration
from nexusform.workflow.opening.surroundings import read_file, write_output
from nexusform.workflow.plan_files.saved_plans import Signer, read_limited, unsealed

_LARGEST_KEY: Final = 1 << 16  # bytes


def signer_of(key_file: str, confinement: Confinement) -> tuple[Signer | None, list[Diagnostic]]:
    """What signs with the key of a file; an error when there is no such key in it."""
    try:
        key = read_file(key_file, _LARGEST_KEY, confinement.of_operator(key_file))
        sign("", key, key_file)
    except (FileProblem, EncryptionProblem) as problem:
        return None, [error("the-plan-cannot-be-signed", str(problem))]
    return lambda digest: sign(digest, key, key_file), []


def sign_plan(path: str, key_file: str, place: Place) -> list[Diagnostic]:
    """Sign the plan of a file, as it stands there; encrypted again where it was."""
    signer, problems = signer_of(key_file, place.confinement)
    if signer is None:
        return problems
    try:
        written = read_limited(path, place)
    except FileProblem as problem:
        return [error("the-plan-cannot-be-read", str(problem))]
    data, problems = unsealed(written, path, place)
    saved, wrong = plan_file.read(data, path) if not has_errors(problems) else (None, [])
    members = plan_file.unpack(data) if saved is not None else None
    if members is None:
        return [*problems, *wrong]
    document = plan_file.pack(plan_file.with_signature(members, signer))
    if is_sealed(written):
        document, problems = sealed_plan(document, load_configuration(place)[0], place)
    return problems if has_errors(problems) else [*problems, *write_signed(path, document)]


def write_signed(path: str, document: bytes | Iterable[bytes]) -> list[Diagnostic]:
    """Write a plan file, which may come in pieces, in the place of the one that was not signed."""
    try:
        write_output(path, document, private=True)
    except OSError as problem:
        detail = f'"{path}" cannot be written: {problem.strerror}.'
        return [error("the-plan-cannot-be-saved", detail)]
    return []


def signature_problems(
    signature: Mapping[str, Any] | None, signed_digest: str, key_file: str, confinement: Confinement
) -> list[Diagnostic]:
    """Why a plan is not one that was signed with the key whose public half stands in a file."""
    try:
        key = read_file(key_file, _LARGEST_KEY, confinement.of_operator(key_file))
        check_signature(signature, signed_digest, key, key_file)
    except (FileProblem, EncryptionProblem) as problem:
        return [error("saved-plan-is-not-verified", f"{problem} Nothing was done.")]
    return []
