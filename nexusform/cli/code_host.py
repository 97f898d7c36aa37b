"""Location of the configuration at a code host, from -source-url or the CI environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import click
from msgspec import Struct

from nexusform.rendering.report.code_origin import CodeOrigin


class _CiSystem(Struct, frozen=True):
    """Environment variables of a CI system with repository, commit and clone directory. `files` is the path
    segment between the repository address and the commit.
    """

    repository: tuple[str, ...]
    files: str
    commit: str
    clone: str


_HOSTS: Final = (
    _CiSystem(("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"), "blob", "GITHUB_SHA", "GITHUB_WORKSPACE"),
    _CiSystem(("CI_PROJECT_URL",), "-/blob", "CI_COMMIT_SHA", "CI_PROJECT_DIR"),
)


def find_code_origin(source_url: str, environment: Mapping[str, str] = os.environ) -> CodeOrigin:
    """Return the origin of the configuration in this directory. `source_url` is the address of that
    directory, "" = from the environment. Raises a usage error for an invalid address.
    """
    if source_url and not source_url.startswith(("https://", "http://")):
        raise click.UsageError(f'-source-url: "{source_url}" must start with https:// or http://.')
    for host in _HOSTS:
        commit = environment.get(host.commit, "")
        if commit:
            return _build_code_origin(host, commit, source_url, environment)
    return CodeOrigin(url=source_url)


def _build_code_origin(host: _CiSystem, commit: str, source_url: str, environment: Mapping[str, str]) -> CodeOrigin:
    """Build the origin from the variables of one CI system."""
    if source_url:
        return CodeOrigin(source_url, commit=commit)
    repository = "/".join(environment.get(name, "").rstrip("/") for name in host.repository)
    directory = _get_path_in_clone(environment.get(host.clone, ""))
    if not repository.startswith(("https://", "http://")) or directory is None:
        return CodeOrigin(commit=commit)
    return CodeOrigin(f"{repository}/{host.files}/{commit}", directory, commit)


def _get_path_in_clone(clone: str) -> str | None:
    """Return the path from a clone to this directory, or None if outside."""
    if not clone:
        return None
    path = os.path.relpath(os.path.realpath(os.curdir), os.path.realpath(clone))
    if path == os.pardir or path.startswith(os.pardir + os.sep):
        return None
    return "" if path == os.curdir else path.replace(os.sep, "/")
