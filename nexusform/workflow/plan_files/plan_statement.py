"""Provenance statement of a signed plan.

The statement is an in-toto Statement with SLSA provenance in a DSSE envelope. Tools such as
cosign and slsa-verifier read it. Its sources are in-toto.io/Statement/v1,
slsa.dev/provenance/v0.2 and DSSE 1.0.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

import nexusform
from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.encryption.key_providers import EncryptionProblem
from nexusform.encryption.signatures import (
    PLAN_PURPOSE,
    check_statement,
    sign_digest,
    sign_statement,
)
from nexusform.interfaces.plugins import FileProblem
from nexusform.plans.plan import PlanInputs
from nexusform.plans.plan_checks import EvaluationEnvironment
from nexusform.state import json_codec
from nexusform.workflow.opening.system_io import read_file, write_output

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
_SUFFIX: Final = ".intoto.jsonl"
# Maximum bytes of a statement.
_MAX_BYTES: Final = 1 << 26


class Signer(Struct, frozen=True):
    """Private key of a signer, and its file."""

    key: bytes
    key_file: str

    def sign_digest(self, digest: str, purpose: bytes = PLAN_PURPOSE) -> dict[str, str]:
        """Return the signature of a plan, or another document, with this digest.

        Raises EncryptionProblem.
        """
        return sign_digest(digest, self.key, self.key_file, purpose)


class StatementContent(Struct, frozen=True):
    """Content of a statement: digests, inputs of the plans, version and time.

    The digests are the SHA-256 of each subject by name.
    """

    digests: Mapping[str, str]
    bases: Sequence[PlanInputs]
    nexusform_version: str
    timestamp: str


def write_statement(content: StatementContent, path: str, signer: Signer) -> list[Diagnostic]:
    """Write the statement of a signed plan next to its file, as PATH.intoto.jsonl.

    Return an error if it fails. An in-toto statement names the results of a build (`subject`: the
    plan) and its inputs (`materials`: the commits and the files that planning read), each with a
    digest. It is signed in an envelope.
    """
    evaluations = [basis.evaluation for basis in content.bases if basis.evaluation]
    # Paths and digests; several plans may read the same file.
    files: set[tuple[str, str]] = set()
    for evaluation in evaluations:
        files.update((file.path, file.sha256) for file in evaluation.files)
    materials: list[dict[str, Any]] = []
    for commit in sorted({basis.commit for basis in content.bases if basis.commit}):
        # Of the Git repository, by the length of its hashes.
        algorithm = "sha1" if len(commit) == 40 else "sha256"
        materials.append({"uri": "git", "digest": {algorithm: commit}})
    materials += [
        {"uri": f"file:{file_path}", "digest": {"sha256": digest}}
        for file_path, digest in sorted(files)
    ]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in content.digests.items()
        ],
        "predicateType": "https://slsa.dev/provenance/v0.2",
        "predicate": {
            "builder": {
                "id": f"urn:nexusform:{content.nexusform_version or nexusform.__version__}"
            },
            "buildType": "urn:nexusform:plan",
            "invocation": {
                "parameters": {"places": _describe_places(content.bases)},
                "environment": _describe_environment(evaluations),
            },
            "metadata": {"buildFinishedOn": content.timestamp},
            "materials": materials,
        },
    }
    payload = json_codec.render_json(statement)
    try:
        envelope = {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [sign_statement(PAYLOAD_TYPE, payload, signer.key, signer.key_file)],
        }
        write_output(f"{path}{_SUFFIX}", json_codec.render_json(envelope) + b"\n")
    except (OSError, EncryptionProblem) as problem:
        return [
            build_error(
                "plan-signing-failed",
                f'The statement "{path}{_SUFFIX}" cannot be written: {problem}.',
            )
        ]
    return []


def check_plan_statement(digest: str, path: str, key_file: str) -> list[Diagnostic]:
    """Return an error if a plan's statement (a file next to it) is forged or for another digest.

    Without a statement there is no error.
    """
    statement_path = f"{path}{_SUFFIX}"
    if not Path(statement_path).exists():
        return []
    try:
        envelope = json_codec.parse_json(read_file(statement_path, _MAX_BYTES))
        payload = base64.b64decode(str(envelope["payload"]), validate=True)
        check_statement(
            PAYLOAD_TYPE, payload, envelope["signatures"], read_file(key_file, _MAX_BYTES), key_file
        )
        subjects = [
            subject["digest"]["sha256"] for subject in json_codec.parse_json(payload)["subject"]
        ]
        rejection = "" if digest in subjects else "It is about another plan"
    except (FileProblem, EncryptionProblem) as problem:
        rejection = str(problem).removesuffix(".")
    except (json_codec.JsonProblem, binascii.Error, LookupError, TypeError, ValueError):
        rejection = "It is not an in-toto statement"
    if not rejection:
        return []
    detail = (
        f'The statement "{statement_path}" is rejected. {rejection}. Sign the plan again. No '
        "changes were made."
    )
    return [build_error("saved-plan-not-verified", detail)]


def _describe_places(bases: Sequence[PlanInputs]) -> list[dict[str, str]]:
    """Describe the places of all plans: repository, directory, backend, state and commit."""
    places = {basis.origin for basis in bases if basis.origin is not None}
    return [
        {name: getattr(place, name) for name in place.__struct_fields__}
        for place in sorted(places, key=lambda place: (place.directory, place.location))
    ]


def _describe_environment(evaluations: Sequence[EvaluationEnvironment]) -> Mapping[str, Any]:
    """Describe the evaluation of all plans together.

    Confined only if every one was, with all roots and sources.
    """
    if not evaluations:
        return {}
    description: dict[str, Any] = {
        "confined": all(evaluation.confined for evaluation in evaluations),
        "root": sorted({evaluation.root for evaluation in evaluations}),
    }
    for name in ("origins", "programs", "environment_read"):
        values_by_plan = [getattr(evaluation, name) for evaluation in evaluations]
        description[name] = sorted({*chain(*values_by_plan)})
    return description
