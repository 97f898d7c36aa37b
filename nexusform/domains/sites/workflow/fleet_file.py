"""A fleet's plan as a file: a ZIP of one document and a plan file per site that changes.

The plans of sites are those that `nexusform show` reads. The file has the form of a plan file (members
stored as they are, in one order, at one time), and sensitive values stand in it as they do there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

import nexusform
from nexusform.diagnostics import Diagnostic, Refused, error
from nexusform.domains.sites.types.fleet_plan import FleetPlan, fleet_digest
from nexusform.domains.sites.workflow.site_work import PLAN_SUFFIX
from nexusform.plans.saved import plan_file
from nexusform.ports import FileProblem
from nexusform.regular_files import read_regular
from nexusform.workflow.place import Place
from nexusform.workflow.saved_plans import Signer, read_limited
from nexusform.workflow.signed_plans import signature_problems, signer_of, write_signed
from nexusform.workflow.surroundings import write_output

_FORMAT: Final = "nexusform-sites-plan"
_VERSION: Final = 1
_MANIFEST: Final = plan_file.PLAN_OF_SITES
_FOLDER: Final = "plans/"


class _Manifest(Struct, frozen=True):
    format: str
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
    manifest = _Manifest(_FORMAT, _VERSION, nexusform.__version__, plan)
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


def sign_fleet_plan(path: str, key_file: str, place: Place) -> list[Diagnostic]:
    """Sign the plan of sites in a file."""
    signer, problems = signer_of(key_file, place.confinement)
    if signer is None:
        return problems
    plan, problems = read_fleet_plan(path, place)
    if plan is None:
        return problems
    members = plan_file.unpack(read_limited(path, place)) or {}
    return write_signed(path, plan_file.pack(plan_file.with_signature(members, signer)))


def read_fleet_plan(
    path: str, place: Place, key_files: Sequence[str] = ()
) -> tuple[FleetPlan | None, list[Diagnostic]]:
    """The plan in a file; None and why where it is none, damaged, that of a newer nexusform, or not signed
    with each of the keys whose public halves are in `key_files`.
    """
    try:
        data = read_limited(path, place)
    except FileProblem as problem:
        return None, [error("the-plan-cannot-be-read", str(problem))]
    first = plan_file.member_at(data, 0)
    if first is None or first[0] != _MANIFEST:
        detail = f"{path} is not a plan of sites, as `nexusform sites plan -out=FILE` writes them."
        return None, [error("not-a-plan-file", detail)]
    try:
        manifest = msgspec.json.decode(first[1], type=_Manifest)
    except msgspec.MsgspecError as problem:
        return None, [_damaged(path, f"Its first part cannot be read ({problem}).")]
    if manifest.format != _FORMAT or manifest.version > _VERSION:
        detail = f"{path} was made by nexusform {manifest.nexusform_version}; plan again with this one."
        return None, [error("plan-of-a-newer-nexusform", detail)]
    members = plan_file.unpack(data)
    if members is None:
        return None, [_damaged(path, "Bytes are missing, changed or added.")]
    try:
        signature, digest = plan_file.signature_of(members, path)
    except Refused as refused:
        return None, list(refused.diagnostics)
    problems: list[Diagnostic] = []
    for key in key_files:
        problems += signature_problems(signature, digest, key, place.confinement)
    return (None, problems) if problems else _checked(path, members, manifest.plan)


def _checked(
    path: str, members: Mapping[str, bytes], plan: FleetPlan
) -> tuple[FleetPlan | None, list[Diagnostic]]:
    """The plan, where its parts are those that it names."""
    if fleet_digest(plan.sites, plan.waves) != plan.digest:
        return None, [_damaged(path, "Its sites are not those that its digest stands for.")]
    for site in plan.sites:
        member = members.get(f"{_FOLDER}{site.name}{PLAN_SUFFIX}")
        if site.answer.plan and (member is None or plan_file.digest(member) != site.answer.plan):
            return None, [_damaged(path, f'The plan of the site "{site.name}" is not the one that it names.')]
    return plan, []


def _damaged(path: str, why: str) -> Diagnostic:
    return error("damaged-plan-file", f"{path} cannot be used. {why} Fetch it again, or plan again.")
