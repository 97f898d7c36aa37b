"""Where a code host keeps the configuration: from -source-url, or from the environment of its CI."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import click
from msgspec import Struct

from nexusform.rendering.report.code_origin import CodeOrigin


class _Host(Struct, frozen=True):
    """The variables by which a CI system says which commit it runs, where that is, and where its clone is.

    `files` stands between the repository's address and the commit.
    """

    repository: tuple[str, ...]
    files: str
    commit: str
    clone: str


_HOSTS: Final = (
    _Host(("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"), "blob", "GITHUB_SHA", "GITHUB_WORKSPACE"),
    _Host(("CI_PROJECT_URL",), "-/blob", "CI_COMMIT_SHA", "CI_PROJECT_DIR"),
)


def origin_of(source_url: str, environment: Mapping[str, str] = os.environ) -> CodeOrigin:
    """The origin of the configuration in this directory.

    `source_url` is the address of that directory, "" = what the environment says. Raises a usage error for
    one that is no address of a web page.
    """
    if source_url and not source_url.startswith(("https://", "http://")):
        raise click.UsageError(f'-source-url: "{source_url}" does not begin with https:// or http://.')
    for host in _HOSTS:
        commit = environment.get(host.commit, "")
        if commit:
            return _origin_at(host, commit, source_url, environment)
    return CodeOrigin(url=source_url)


def _origin_at(host: _Host, commit: str, source_url: str, environment: Mapping[str, str]) -> CodeOrigin:
    """The origin as one CI system tells it."""
    if source_url:
        return CodeOrigin(source_url, commit=commit)
    repository = "/".join(environment.get(name, "").rstrip("/") for name in host.repository)
    directory = _inside(environment.get(host.clone, ""))
    if not repository.startswith(("https://", "http://")) or directory is None:
        return CodeOrigin(commit=commit)
    return CodeOrigin(f"{repository}/{host.files}/{commit}", directory, commit)


def _inside(clone: str) -> str | None:
    """The path from a clone to this directory; None where it is not inside."""
    if not clone:
        return None
    path = os.path.relpath(os.path.realpath(os.curdir), os.path.realpath(clone))
    if path == os.pardir or path.startswith(os.pardir + os.sep):
        return None
    return "" if path == os.curdir else path.replace(os.sep, "/")
