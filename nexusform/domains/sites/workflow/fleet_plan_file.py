"""File of a fleet's plan: a ZIP with one document and a compressed plan file per changed site.

Decompressed, plans of sites are readable by `nexusform show`. The file has the form of a plan file
(members in fixed order and time), including sensitive values.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from os import fstat
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

import nexusform
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    Severity,
    build_development_file_error,
    build_error,
)
from nexusform.domains.sites.types.fleet_plan import FleetPlan, compute_fleet_digest
from nexusform.domains.sites.types.site_tasks import describe_diagnostic
from nexusform.domains.sites.workflow.site_results import build_site_diagnostics
from nexusform.domains.sites.workflow.site_worker import PLAN_SUFFIX
from nexusform.files.regular_files import read_regular
from nexusform.interfaces.plugins import FileProblem
from nexusform.plans.plan import PlanInputs
from nexusform.plans.saved import plan_file
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.system_io import write_output
from nexusform.workflow.plan_files.plan_acceptance import check_plan_signatures
from nexusform.workflow.plan_files.plan_signing import (
    check_signable,
    create_signer,
    write_signed_plan,
)
from nexusform.workflow.plan_files.plan_statement import Signer, StatementContent, write_statement
from nexusform.workflow.plan_files.saved_plans import open_limited_file

_FORMAT: Final = "nexusform"
_KIND: Final = "sites-plan"
# The format of plans before the first release.
_DEVELOPMENT_FORMAT: Final = "nexusform-sites-plan"
_VERSION: Final = 1
_MANIFEST: Final = plan_file.MULTI_SITE_PLAN
_FOLDER: Final = "plans/"
_GZIP: Final = ".gz"
# Maximum bytes of the plan of one site.
_MAX_PART_BYTES: Final = 1 << 30


class _PlanFileFormat(Struct, frozen=True):
    format: str = ""


class _PlanFileManifest(Struct, frozen=True):
    format: str
    kind: str
    version: int
    nexusform_version: str
    plan: FleetPlan


def save_fleet_plan(
    plan: FleetPlan, spool: Path, path: str, max_bytes: int, signer: Signer | None = None
) -> list[Diagnostic]:
    """Write the plan and the site plans in `spool` to one file, signed if there is a signer.

    Return errors, or [].
    """
    try:
        write_output(
            path,
            plan_file.stream_archive(_build_members(plan, spool, max_bytes, signer)),
            private=True,
        )
    except (OSError, FileProblem) as problem:
        message = problem.strerror if isinstance(problem, OSError) else problem
        return [build_error("plan-save-failed", f'"{path}" cannot be written: {message}')]
    return []


def save_failed_plan(problems: Sequence[Diagnostic], path: str) -> list[Diagnostic]:
    """Write the plan of a failed run.

    It cannot be applied.
    """
    # It has no sites.
    return save_fleet_plan(build_failed_plan(problems), spool=Path(), path=path, max_bytes=0)


def build_failed_plan(problems: Sequence[Diagnostic]) -> FleetPlan:
    """Build the plan of a failed run."""
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    return FleetPlan(
        sites=(), waves=(), now="", definition_digest="", errors=build_site_diagnostics(errors)
    )


def _build_members(
    plan: FleetPlan, spool: Path, max_bytes: int, signer: Signer | None
) -> Iterator[tuple[str, bytes]]:
    """Build the parts of the file one after another.

    Only one site's plan, read from `spool`, is in memory.
    """
    manifest = _PlanFileManifest(_FORMAT, _KIND, _VERSION, nexusform.__version__, plan)
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    digests = {_MANIFEST: plan_file.compute_digest(content)}
    yield _MANIFEST, content
    # The largest part.
    del content
    for site in plan.sites:
        if site.result.plan_digest:
            name = f"{site.name}{PLAN_SUFFIX}"
            yield _compress_part(
                f"{_FOLDER}{name}", read_regular(spool / name, max_bytes, follow=False)
            )
            digests[f"{_FOLDER}{name}"] = site.result.plan_digest
    if signer is not None:
        yield plan_file.build_signature_member(digests, signer.sign_digest)


class _PlanFileContent(Struct, frozen=True):
    """Content of a file: plan, digests of its parts, and signature."""

    plan: FleetPlan
    digests: Mapping[str, str]
    signature: Mapping[str, Any] | None
    signed_digest: str

    @property
    def digest(self) -> str:
        """Digest of the plan."""
        return self.plan.identity


def sign_fleet_plan(
    path: str, key_file: str, location: CommandContext, *, is_unconfined_accepted: bool = False
) -> list[Diagnostic]:
    """Sign the plan in a file, in place of earlier signatures; return problems.

    An unconfined one must be accepted.
    """
    signer, problems = create_signer(key_file, location.confinement)
    if signer is None:
        return problems
    plan, problems = read_fleet_plan(path, location)
    if plan is None:
        return problems
    if unsafe := check_signable(
        is_confined=plan.is_confined, is_unconfined_accepted=is_unconfined_accepted
    ):
        return unsafe
    try:
        digests = _read_plan_file(path, location).digests.items()
        # A new signature covers all parts but an older signature.
        signed_digests = {
            part: digest
            for part, digest in digests
            if part == _MANIFEST or part.startswith(_FOLDER)
        }
        signature = plan_file.build_signature_member(signed_digests, signer.sign_digest)
        with open_limited_file(path, location) as file:
            parts = (
                _compress_part(name, content)
                for name, content in _read_parts(file)
                if name in signed_digests
            )
            problems = write_signed_plan(path, plan_file.stream_archive(chain(parts, (signature,))))
        return problems or write_fleet_statement(plan, path, location, signer)
    except _READ_PROBLEMS as problem:
        return _convert_read_problem(problem, path)


def write_fleet_statement(
    plan: FleetPlan, path: str, location: CommandContext, signer: Signer
) -> list[Diagnostic]:
    """Write the provenance statement of a signed plan.

    The statement has the digests of the file, the plan and the plans of sites, and the inputs of
    these. Raises FileProblem, DiagnosticsError.
    """
    inputs: list[PlanInputs] = []
    site_digests: dict[str, str] = {}
    with open_limited_file(path, location) as file:
        file_digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            file_digest.update(chunk)
        file.seek(0)
        for name, content in _read_parts(file):
            saved, _ = plan_file.read_plan_file(content) if name.startswith(_FOLDER) else (None, [])
            if saved is not None:
                inputs.append(saved.plan.basis)
                site_digests[name] = saved.digest
    digests = {Path(path).name: file_digest.hexdigest(), "plan": plan.identity, **site_digests}
    return write_statement(
        StatementContent(digests, inputs, nexusform.__version__, plan.now), path, signer
    )


def read_fleet_plan(
    path: str, location: CommandContext, key_files: Sequence[str] = ()
) -> tuple[FleetPlan | None, list[Diagnostic]]:
    """Read the plan in a file.

    Return None, with diagnostics, if it is invalid, damaged or from a newer nexusform. The file
    must be signed with each of the public keys in `key_files`.
    """
    try:
        content = _read_plan_file(path, location)
    except _READ_PROBLEMS as problem:
        return None, _convert_read_problem(problem, path)
    problems = check_plan_signatures(content, path, key_files, location.confinement)
    # The plan of a failed run.
    if not problems and content.plan.errors:
        reasons = "\n".join(map(describe_diagnostic, content.plan.errors))
        hint = f"Fix the errors and run `nexusform sites plan -out={path}` again."
        problems = [build_error("errored-saved-plan", f"Planning failed:\n{reasons}\n{hint}")]
    elif not problems:
        problems = _verify_part_digests(path, content)
    return (None if problems else content.plan), problems


# Failures to read a plan file: each becomes diagnostics.
_READ_PROBLEMS: Final = (DiagnosticsError, plan_file.CorruptArchiveError, FileProblem)


def _convert_read_problem(problem: Exception, path: str) -> list[Diagnostic]:
    """Convert one of `_READ_PROBLEMS` to diagnostics."""
    if isinstance(problem, DiagnosticsError):
        return list(problem.diagnostics)
    if isinstance(problem, FileProblem):
        return [build_error("unreadable-plan", str(problem))]
    return [_build_damaged_file_problem(path, "Bytes are missing, changed or added.")]


def _read_plan_file(path: str, location: CommandContext) -> _PlanFileContent:
    """Read a file; of site plans keep only digests.

    Raises FileProblem, DiagnosticsError, CorruptArchiveError.
    """
    # By part name.
    digests: dict[str, str] = {}
    last_part = ("", b"")
    plan: FleetPlan | None = None
    with open_limited_file(path, location) as file:
        for name, content in _read_parts(file):
            if plan is None:
                plan = _parse_manifest(path, name, content)
            digests[name] = plan_file.compute_digest(content)
            # In the end, the signature or any other part.
            last_part = name, content
    if plan is None:
        raise _build_not_a_plan_error(path)
    signature, signed_digest = plan_file.read_signature(digests, last_part, path)
    return _PlanFileContent(plan, digests, signature, signed_digest)


def _compress_part(name: str, content: bytes) -> tuple[str, bytes]:
    """Return name and bytes of a part in the file: compressed for a site's plan.

    Digests are of the plain content.
    """
    return (
        (f"{name}{_GZIP}", gzip.compress(content, mtime=0))
        if name.startswith(_FOLDER)
        else (name, content)
    )


def _read_parts(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of a plan file: names without .gz, and decompressed contents.

    Raises CorruptArchiveError.
    """
    for name, content in plan_file.iterate_members(file, fstat(file.fileno()).st_size):
        if not name.endswith(_GZIP):
            yield name, content
            continue
        decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)  # of gzip
        try:
            part = decoder.decompress(content, _MAX_PART_BYTES)
        except zlib.error:
            raise plan_file.CorruptArchiveError from None
        # The plan is too long, cut off, or followed by other bytes.
        if not decoder.eof or decoder.unused_data:
            raise plan_file.CorruptArchiveError
        yield name.removesuffix(_GZIP), part


def _parse_manifest(path: str, name: str, content: bytes) -> FleetPlan:
    """Parse the plan in the first part of a file.

    Another format or kind counts as newer. Raises DiagnosticsError.
    """
    if name != _MANIFEST:
        raise _build_not_a_plan_error(path)
    try:
        # Before the first release.
        if msgspec.json.decode(content, type=_PlanFileFormat).format == _DEVELOPMENT_FORMAT:
            raise DiagnosticsError(build_development_file_error(path, "run plan again"))
        manifest = msgspec.json.decode(content, type=_PlanFileManifest)
    except msgspec.MsgspecError as problem:
        raise DiagnosticsError(
            _build_damaged_file_problem(path, f"Its header cannot be read ({problem}).")
        ) from None
    if (manifest.format, manifest.kind) != (_FORMAT, _KIND) or manifest.version > _VERSION:
        detail = (
            f"{path} was written by nexusform {manifest.nexusform_version}; plan again with this "
            "version."
        )
        raise DiagnosticsError(build_error("newer-plan-format", detail))
    return manifest.plan


def _verify_part_digests(path: str, content: _PlanFileContent) -> list[Diagnostic]:
    """Check the parts of a plan against its digests.

    Return the error of the first difference, or [].
    """
    if compute_fleet_digest(content.plan.sites, content.plan.waves) != content.plan.digest:
        return [_build_damaged_file_problem(path, "Its sites do not match its digest.")]
    for site in content.plan.sites:
        digest = content.digests.get(f"{_FOLDER}{site.name}{PLAN_SUFFIX}")
        if site.result.plan_digest and digest != site.result.plan_digest:
            return [
                _build_damaged_file_problem(
                    path, f'The plan of the site "{site.name}" does not match its digest.'
                )
            ]
    return []


def _build_not_a_plan_error(path: str) -> DiagnosticsError:
    detail = f"{path} is not a plan of sites written by `nexusform sites plan -out=FILE`."
    return DiagnosticsError(build_error("not-a-plan-file", detail))


def _build_damaged_file_problem(path: str, reason: str) -> Diagnostic:
    return build_error(
        "damaged-plan-file", f"{path} cannot be used. {reason} Fetch it again, or plan again."
    )
