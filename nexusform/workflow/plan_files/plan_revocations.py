"""Signed lists of withdrawn plans: `sign -withdraw` writes them, `apply -revocations` reads them.

The signing job has no access to the state, so a withdrawal is a file of its own.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.encryption.key_providers import EncryptionProblem
from nexusform.encryption.signatures import REVOCATIONS_PURPOSE, check_signature
from nexusform.files.external_files import explain_untrusted_file, is_untrusted_path
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.plugins import FileProblem
from nexusform.plans.saved.plan_file import compute_digest
from nexusform.state import json_codec
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.system_io import read_file, write_output
from nexusform.workflow.plan_files.plan_signing import create_signer

_SUFFIX: Final = ".revocations.json"
_FORMAT: Final = "nexusform"
_KIND: Final = "revocations"
_VERSION: Final = 1
_MAX_BYTES: Final = 1 << 24
_MAX_KEY_BYTES: Final = 1 << 16


class RevocationList(Struct, frozen=True, forbid_unknown_fields=True):
    """Document of a revocation file: digests of withdrawn plans, and their signature."""

    format: str
    kind: str
    version: int
    plans: tuple[str, ...]
    signature: dict[str, Any]


def withdraw_plan(
    path: str, digest: str, key_file: str, revocation_file: str, context: CommandContext
) -> tuple[str, list[Diagnostic]]:
    """Add a plan, with the digest of the plan in a file, to a signed revocation file.

    Return the path of the revocation file ("": next to the plan), and the problems. An existing
    file must have a signature of the same key.
    """
    revocation_file = revocation_file or f"{path}{_SUFFIX}"
    return revocation_file, _add_plan(digest, key_file, revocation_file, context)


def _add_plan(
    plan_digest: str, key_file: str, revocation_file: str, context: CommandContext
) -> list[Diagnostic]:
    """Add a plan to a signed revocation file; return the problems."""
    signer, problems = create_signer(key_file, context.confinement)
    if signer is None:
        return problems
    withdrawn: tuple[str, ...] = ()
    if Path(revocation_file).exists():
        try:
            revocations = _read_revocations(revocation_file)
            signature = signer.sign_digest(
                _compute_list_digest(revocations.plans), REVOCATIONS_PURPOSE
            )
        except (FileProblem, EncryptionProblem) as problem:
            return [_build_error(str(problem))]
        # Signatures with Ed25519 are deterministic.
        if revocations.signature != signature:
            detail = f'"{revocation_file}" has no valid signature of {key_file}. Use another file.'
            return [_build_error(detail)]
        withdrawn = revocations.plans
    plans = tuple(sorted({*withdrawn, plan_digest}))
    document = {
        "format": _FORMAT,
        "kind": _KIND,
        "version": _VERSION,
        "plans": plans,
        "signature": signer.sign_digest(_compute_list_digest(plans), REVOCATIONS_PURPOSE),
    }
    try:
        write_output(revocation_file, json_codec.render_json(document, indent=True) + b"\n")
    except OSError as problem:
        return [_build_error(f'"{revocation_file}" cannot be written: {problem.strerror}.')]
    return problems


def check_not_withdrawn(
    digest: str, revocation_file: str, key_files: Sequence[str], confinement: Confinement
) -> list[Diagnostic]:
    """Return an error if a plan is withdrawn, or the revocation file is not usable.

    One of the public keys must have signed the file.
    """
    if is_untrusted_path(revocation_file, confinement):
        detail = explain_untrusted_file(
            "The revocation file", revocation_file, "a pull request could replace it"
        )
        return [_build_error(detail)]
    try:
        revocations = _read_revocations(revocation_file)
    except FileProblem as problem:
        return [_build_error(str(problem))]
    problems = [_check_list_signature(revocations, revocation_file, key) for key in key_files]
    if all(map(has_errors, problems)):
        return problems[0]
    if digest not in revocations.plans:
        return []
    detail = (
        f'"{revocation_file}" withdraws this plan. No changes were made. Plan again and review the '
        "new plan."
    )
    return [build_error("saved-plan-withdrawn", detail)]


def _check_list_signature(
    revocations: RevocationList, path: str, key_file: str
) -> list[Diagnostic]:
    """Return an error unless the list has a valid signature of a public key."""
    digest = _compute_list_digest(revocations.plans)
    try:
        key = read_file(key_file, _MAX_KEY_BYTES, UNCONFINED)
        check_signature(revocations.signature, digest, key, key_file, REVOCATIONS_PURPOSE)
    except FileProblem as problem:
        return [_build_error(str(problem))]
    except EncryptionProblem:
        detail = f'"{path}" has no valid signature of {key_file}. Fetch the file again.'
        return [_build_error(detail)]
    return []


def _read_revocations(path: str) -> RevocationList:
    """Read a revocation file.

    Raises FileProblem.
    """
    content = read_file(path, _MAX_BYTES, UNCONFINED)
    try:
        revocations = convert(json_codec.parse_json(content), RevocationList)
    except (json_codec.JsonProblem, ValidationError):
        raise FileProblem(
            f'"{path}" is not a revocation file of `nexusform sign -withdraw`.'
        ) from None
    if (revocations.format, revocations.kind, revocations.version) != (_FORMAT, _KIND, _VERSION):
        raise FileProblem(f'"{path}" is not a revocation file of this version of nexusform.')
    return revocations


def _compute_list_digest(plans: Iterable[str]) -> str:
    """Return the digest of a list of withdrawn plans."""
    return compute_digest("\n".join(plans).encode())


def _build_error(detail: str) -> Diagnostic:
    return build_error("revocations-not-usable", f"{detail} No changes were made.")
