"""Signing of saved plans, and verification of signatures."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.diagnostics.phrases import format_first_items
from nexusform.encryption.key_providers import EncryptionProblem
from nexusform.encryption.signatures import check_signature, sign_digest
from nexusform.files.external_files import explain_untrusted_file, is_untrusted_path
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.plugins import FileProblem
from nexusform.interfaces.state_storage import is_encrypted
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.encryption_settings import encrypt_plan
from nexusform.workflow.opening.system_io import read_file, write_output
from nexusform.workflow.plan_files.plan_statement import Signer, write_statement
from nexusform.workflow.plan_files.saved_plans import (
    build_statement_content,
    check_failed_plan,
    decrypt_document,
    read_limited_file,
)
from nexusform.workflow.runs.plan_origin import check_origin_complete

_MAX_KEY_BYTES: Final = 1 << 16  # bytes
_MAX_NAMES: Final = 3


def create_signer(
    key_file: str, confinement: Confinement
) -> tuple[Signer | None, list[Diagnostic]]:
    """Create a signer with the key in a file; None with an error.

    A trial signature checks the key.
    """
    if is_untrusted_path(key_file, confinement):
        detail = explain_untrusted_file(
            "The private key", key_file, "a pull request could replace it"
        )
        return None, [build_error("plan-signing-failed", detail)]
    try:
        key = read_file(key_file, _MAX_KEY_BYTES, UNCONFINED)
        # It raises an error for an unusable key.
        sign_digest("", key, key_file)
    except (FileProblem, EncryptionProblem) as problem:
        return None, [build_error("plan-signing-failed", str(problem))]
    return Signer(key, key_file), []


def check_signable(*, is_confined: bool, is_unconfined_accepted: bool) -> list[Diagnostic]:
    """Return an error for signing a plan made without a sandbox.

    Unless -confine=false was typed to accept it.
    """
    if is_confined or is_unconfined_accepted:
        return []
    detail = (
        "The plan was not made in a sandbox: its configuration could use any file and address. "
        "Plan with -confine. "
        "To sign it anyway, type -confine=false."
    )
    return [build_error("plan-signing-failed", detail)]


def check_plan_signable(
    saved: SavedPlan, path: str, *, is_unconfined_accepted: bool
) -> list[Diagnostic]:
    """Return errors for a plan unfit to be signed.

    It has errors, exceeds a guard rail, records no place, was made without a sandbox, or has
    unrecorded inputs. With `is_unconfined_accepted` (-confine=false), the last two are accepted.
    """
    plan = saved.plan
    evaluation = saved.plan.basis.evaluation
    if problems := check_failed_plan(saved, path):
        return problems
    if plan.is_rejected:
        detail = "The plan has errors or exceeds a guard rail, so it cannot be applied. Plan again."
        return [build_error("plan-signing-failed", detail)]
    if problems := check_origin_complete(plan):
        return problems
    if is_unconfined_accepted:
        return []
    if evaluation is None or not evaluation.confined:
        return check_signable(is_confined=False, is_unconfined_accepted=False)
    # An evaluation records each file it read: one without a record was added to the
    # plan file later.
    recorded_names = {file.path for file in evaluation.files}
    names = (*plan.basis.files, *plan.basis.data_files, *saved.configuration_files)  # all inputs
    absent = sorted(
        {os.path.normpath(name).replace(os.sep, "/") for name in names} - recorded_names
    )
    if absent:
        detail = (
            f"The record of its evaluation lacks {format_first_items(absent, _MAX_NAMES)}: the "
            "file was modified."
        )
        return [build_error("plan-signing-failed", f"{detail} Plan again.")]
    return []


def sign_plan(
    path: str, key_file: str, context: CommandContext, *, is_unconfined_accepted: bool = False
) -> tuple[SavedPlan | None, list[Diagnostic]]:
    """Sign the plan in a file, and write its statement.

    Return the plan (None if unusable), and the problems. A file stays encrypted. With
    `is_unconfined_accepted` (-confine=false), a plan made without a sandbox is signed, too.
    """
    signer, problems = create_signer(key_file, context.confinement)
    if signer is None:
        return None, problems
    try:
        content = read_limited_file(path, context)
    except FileProblem as problem:
        return None, [build_error("unreadable-plan", str(problem))]
    data, problems = decrypt_document(content, path, context)
    if has_errors(problems):
        return None, problems
    saved, new_problems = plan_file.read_plan_file(data, path)
    problems += new_problems
    if saved is None:
        return None, problems
    problems += check_plan_signable(saved, path, is_unconfined_accepted=is_unconfined_accepted)
    # Not None for a plan read above.
    members = plan_file.unpack_archive(data)
    if members is None or has_errors(problems):
        return None, problems
    document = plan_file.pack_archive(plan_file.sign_members(members, signer.sign_digest))
    if is_encrypted(content):
        document, new_problems = encrypt_plan(
            document, load_project_configuration(context)[0], context
        )
        problems += new_problems
    if not has_errors(problems):
        problems += write_signed_plan(path, document)
    if not has_errors(problems):
        problems += write_statement(
            build_statement_content(saved.plan, saved.digest, document, path), path, signer
        )
    return saved, problems


def write_signed_plan(path: str, document: bytes | Iterable[bytes]) -> list[Diagnostic]:
    """Replace a plan file with its signed version, which may come in pieces."""
    try:
        write_output(path, document, private=True)
    except OSError as problem:
        return [build_error("plan-save-failed", f'"{path}" cannot be written: {problem.strerror}.')]
    return []


def verify_signature(
    signature: Mapping[str, Any] | None, signed_digest: str, key_file: str, confinement: Confinement
) -> list[Diagnostic]:
    """Return an error unless a plan has a valid signature; else [].

    It must be by the key pair of the public key in `key_file`.
    """
    if is_untrusted_path(key_file, confinement):
        detail = explain_untrusted_file(
            "The public key", key_file, "a pull request could replace it"
        )
        return [build_error("saved-plan-not-verified", f"{detail} No changes were made.")]
    try:
        key = read_file(key_file, _MAX_KEY_BYTES, UNCONFINED)
        check_signature(signature, signed_digest, key, key_file)
    except (FileProblem, EncryptionProblem) as problem:
        return [build_error("saved-plan-not-verified", f"{problem} No changes were made.")]
    return []
