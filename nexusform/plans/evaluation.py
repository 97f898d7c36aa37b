"""Circumstances of the evaluation of a plan, for its reviewers and signers."""

from __future__ import annotations

from msgspec import Struct


class EvaluatedFile(Struct, frozen=True):
    """File read by the evaluation. `in_root`: it is in the work tree, links resolved."""

    path: str
    sha256: str
    in_root: bool


class Evaluation(Struct, frozen=True):
    """Circumstances of an evaluation. `confined`: in a sandbox. `root` is the top of the work tree or sandbox,
    relative to the directory of the configuration. `origins` are the contacted servers, `programs` the names
    of started programs, `environment_read` the names of variables with settings or credentials.
    """

    confined: bool
    root: str = "."
    files: tuple[EvaluatedFile, ...] = ()
    origins: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    environment_read: tuple[str, ...] = ()
