"""Provenance statement of a signed plan: an in-toto Statement with SLSA provenance in a DSSE envelope. Tools
such as cosign and slsa-verifier read it. Sources: in-toto.io/Statement/v1, slsa.dev/provenance/v0.2, DSSE 1.0.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import nexusform
from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.encryption.keys import EncryptionProblem
from nexusform.encryption.signatures import check_statement, sign_statement
from nexusform.interfaces.plugins import FileProblem
from nexusform.plans.saved.plan_file import SavedPlan, compute_digest
from nexusform.state import json_codec
from nexusform.workflow.opening.system_io import read_file, write_output

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_SUFFIX: Final = ".intoto.jsonl"
_MAX_BYTES: Final = 1 << 26  # bytes of a statement


def write_statement(saved: SavedPlan, document: bytes, path: str, key: bytes, key_file: str) -> list[Diagnostic]:
    """Write the statement of a signed plan beside its file. `document` is the content of the file."""
    payload = json_codec.render_json(_build_statement(saved, document, Path(path).name))
    try:
        envelope = {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [sign_statement(PAYLOAD_TYPE, payload, key, key_file)],
        }
        write_output(f"{path}{_SUFFIX}", json_codec.render_json(envelope) + b"\n")
    except (OSError, EncryptionProblem) as problem:
        return [build_error("plan-signing-failed", f'The statement "{path}{_SUFFIX}" cannot be written: {problem}.')]
    return []


def check_plan_statement(saved: SavedPlan, path: str, key_file: str) -> list[Diagnostic]:
    """Return an error if the statement beside a plan is forged, or about another plan. It may be missing."""
    statement_path = f"{path}{_SUFFIX}"
    if not Path(statement_path).exists():
        return []
    try:
        envelope = json_codec.parse_json(read_file(statement_path, _MAX_BYTES))
        payload = base64.b64decode(str(envelope["payload"]), validate=True)
        check_statement(PAYLOAD_TYPE, payload, envelope["signatures"], read_file(key_file, _MAX_BYTES), key_file)
        subjects = [subject["digest"]["sha256"] for subject in json_codec.parse_json(payload)["subject"]]
        reason = "" if saved.digest in subjects else "It is about another plan"
    except (FileProblem, EncryptionProblem) as problem:
        reason = str(problem).removesuffix(".")
    except (json_codec.JsonProblem, binascii.Error, LookupError, TypeError, ValueError):
        reason = "It is not an in-toto statement"
    if not reason:
        return []
    detail = f'The statement "{statement_path}" is rejected. {reason}. Sign the plan again. No changes were made.'
    return [build_error("saved-plan-not-verified", detail)]


def _build_statement(saved: SavedPlan, document: bytes, name: str) -> dict[str, Any]:
    """Build the statement. Its subjects are the file, and the plan regardless of signature and encryption."""
    basis = saved.plan.basis
    commit = [{"uri": "git", "digest": {"sha1" if len(basis.commit) == 40 else "sha256": basis.commit}}]
    files = basis.evaluation.files if basis.evaluation else ()
    materials = [{"uri": f"file:{file.path}", "digest": {"sha256": file.sha256}} for file in files]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [_build_subject(name, compute_digest(document)), _build_subject("plan", saved.digest)],
        "predicateType": "https://slsa.dev/provenance/v0.2",
        "predicate": {
            "builder": {"id": f"urn:nexusform:{saved.plan.nexusform_version or nexusform.__version__}"},
            "buildType": "urn:nexusform:plan",
            "invocation": {"environment": _describe_environment(saved)},
            "metadata": {"buildFinishedOn": saved.plan.timestamp},
            "materials": [*(commit if basis.commit else []), *materials],
        },
    }


def _build_subject(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest}}


def _describe_environment(saved: SavedPlan) -> Mapping[str, Any]:
    evaluation = saved.plan.basis.evaluation
    if evaluation is None:
        return {}
    names = ("confined", "root", "origins", "programs", "environment_read")
    return {name: getattr(evaluation, name) for name in names}
