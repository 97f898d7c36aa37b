"""A fleet's plan as a file: a ZIP of one document and a plan file per site that changes.

The plans of sites are those that `nexusform show` reads. The file has the form of a plan file (members
stored as they are, in one order, at one time), and sensitive values stand in it as they do there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from os import fstat
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

import nexusform
from nexusform.diagnostics import Diagnostic, Refused, development_file, error
from nexusform.domains.sites.types.fleet_plan import FleetPlan, fleet_digest
from nexusform.domains.sites.workflow.site_work import PLAN_SUFFIX
from nexusform.plans.saved import plan_file
from nexusform.ports import FileProblem
from nexusform.regular_files import read_regular
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.surroundings import write_output
from nexusform.workflow.plan_files.saved_plans import Signer, open_limited
from nexusform.workflow.plan_files.signed_plans import signature_problems, signer_of, write_signed

_FORMAT: Final = "nexusform"
_KIND: Final = "sites-plan"
_OF_DEVELOPMENT: Final = "nexusform-sites-plan"  # the format of plans before the first release
_VERSION: Final = 1
_MANIFEST: Final = plan_file.PLAN_OF_SITES
_FOLDER: Final = "plans/"


class _Head(Struct, frozen=True):
    format: str = ""


class _Manifest(Struct, frozen=True):
    format: str
    kind: str
    version: int
    nexusform_version: str
    plan: FleetPlan


def save_fleet_plan(
    plan: FleetPlan, spool: Path, path: str, largest: int, signer: Signer | None = None
) -> list[Diagnostic]:
    """Gather the plans that workers wrote into one file, signed when a signer is there."""
    try:
        write_output(path, plan_file.packed(_members(plan, spool, largest, signer)), private=True)
    except (OSError, FileProblem) as problem:
        words = problem.strerror if isinstance(problem, OSError) else problem
        return [error("the-plan-cannot-be-saved", f'"{path}" cannot be written: {words}')]
    return []


def _members(
    plan: FleetPlan, spool: Path, largest: int, signer: Signer | None
) -> Iterator[tuple[str, bytes]]:
    """The parts of the file, one after the other: never more than one site's plan is in memory."""
    manifest = _Manifest(_FORMAT, _KIND, _VERSION, nexusform.__version__, plan)
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    digests = {_MANIFEST: plan_file.digest(content)}
    yield _MANIFEST, content
    del content  # the largest part by far
    for site in plan.sites:
        if site.answer.plan:
            name = f"{site.name}{PLAN_SUFFIX}"
            yield f"{_FOLDER}{name}", read_regular(spool / name, largest, follow=False)
            digests[f"{_FOLDER}{name}"] = site.answer.plan
    if signer is not None:
        yield plan_file.signature_over(digests, signer)


class _Read(Struct, frozen=True):
    """A file that was read: its plan, the digests of its parts, and the signature that it has."""

    plan: FleetPlan
    digests: Mapping[str, str]
    signature: Mapping[str, Any] | None
    signed_digest: str


def sign_fleet_plan(path: str, key_file: str, place: Place) -> list[Diagnostic]:
    """Sign the plan of sites in a file."""
    signer, problems = signer_of(key_file, place.confinement)
    if signer is None:
        return problems
    try:
        digests = _read(path, place).digests
        signature = plan_file.signature_over(_unsigned(digests), signer)
        with open_limited(path, place) as file:
            parts = (part for part in _parts(file) if part[0] in _unsigned(digests))
            return write_signed(path, plan_file.packed(chain(parts, (signature,))))
    except Refused as refused:
        return list(refused.diagnostics)
    except plan_file.Torn:
        return [_torn(path)]
    except FileProblem as problem:
        return [error("the-plan-cannot-be-read", str(problem))]


def read_fleet_plan(
    path: str, place: Place, key_files: Sequence[str] = ()
) -> tuple[FleetPlan | None, list[Diagnostic]]:
    """The plan in a file; None and why where it is none, damaged, that of a newer nexusform, or not signed
    with each of the keys whose public halves are in `key_files`.
    """
    try:
        read = _read(path, place)
    except Refused as refused:
        return None, list(refused.diagnostics)
    except plan_file.Torn:
        return None, [_torn(path)]
    except FileProblem as problem:
        return None, [error("the-plan-cannot-be-read", str(problem))]
    problems: list[Diagnostic] = []
    for key in key_files:
        problems += signature_problems(read.signature, read.signed_digest, key, place.confinement)
    if not problems:
        problems = _problems_of_parts(path, read)
    return (None if problems else read.plan), problems


def _read(path: str, place: Place) -> _Read:
    """Read a file part by part: of the plans of sites one at a time is in memory, and its digest stays.

    Raises FileProblem, Refused, plan_file.Torn.
    """
    digests: dict[str, str] = {}
    last = ("", b"")
    plan: FleetPlan | None = None
    with open_limited(path, place) as file:
        for name, content in _parts(file):
            if plan is None:
                plan = _plan_of(path, name, content)
            digests[name] = plan_file.digest(content)
            last = name, content
    if plan is None:
        raise _none(path)
    signature, digest = plan_file.signature_of(digests, last, path)
    return _Read(plan, digests, signature, digest)


def _parts(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    return plan_file.each_member(file, fstat(file.fileno()).st_size)


def _plan_of(path: str, name: str, content: bytes) -> FleetPlan:
    """What the first part says. Raises Refused."""
    if name != _MANIFEST:
        raise _none(path)
    try:
        if msgspec.json.decode(content, type=_Head).format == _OF_DEVELOPMENT:
            raise Refused(development_file(path, "run plan again"))
        manifest = msgspec.json.decode(content, type=_Manifest)
    except msgspec.MsgspecError as problem:
        raise Refused(_damaged(path, f"Its first part cannot be read ({problem}).")) from None
    if (manifest.format, manifest.kind) != (_FORMAT, _KIND) or manifest.version > _VERSION:
        detail = f"{path} was made by nexusform {manifest.nexusform_version}; plan again with this one."
        raise Refused(error("plan-of-a-newer-nexusform", detail))
    return manifest.plan


def _unsigned(digests: Mapping[str, str]) -> Mapping[str, str]:
    """The parts that a signature is made of."""
    return {name: digest for name, digest in digests.items() if name == _MANIFEST or name.startswith(_FOLDER)}


def _problems_of_parts(path: str, read: _Read) -> list[Diagnostic]:
    """Whether the parts of a plan are those that it names."""
    if fleet_digest(read.plan.sites, read.plan.waves) != read.plan.digest:
        return [_damaged(path, "Its sites are not those that its digest stands for.")]
    for site in read.plan.sites:
        digest = read.digests.get(f"{_FOLDER}{site.name}{PLAN_SUFFIX}")
        if site.answer.plan and digest != site.answer.plan:
            return [_damaged(path, f'The plan of the site "{site.name}" is not the one that it names.')]
    return []


def _none(path: str) -> Refused:
    detail = f"{path} is not a plan of sites, as `nexusform sites plan -out=FILE` writes them."
    return Refused(error("not-a-plan-file", detail))


def _torn(path: str) -> Diagnostic:
    return _damaged(path, "Bytes are missing, changed or added.")


def _damaged(path: str, why: str) -> Diagnostic:
    return error("damaged-plan-file", f"{path} cannot be used. {why} Fetch it again, or plan again.")
