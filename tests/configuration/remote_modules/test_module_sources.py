from __future__ import annotations

import pytest

from nexusform.configuration.remote_modules.module_lock import (
    LockedModule,
    parse_lock_file,
    render_lock_file,
)
from nexusform.configuration.remote_modules.module_sources import (
    InvalidModuleSource,
    get_contacted_address,
    parse_module_source,
)
from nexusform.configuration.version_constraints import (
    is_constraint_valid,
    is_version_matching,
    sort_versions,
)
from nexusform.diagnostics.diagnostic import SourceFile

SHA = "0123456789abcdef" * 4
# Source, canonical package, directory, and the address that -allow-module allows.
FORMS = [
    ("github.com/org/repo", "git::https://github.com/org/repo.git", "", "https://github.com/org/repo.git"),
    (
        "github.com/org/repo//a/b?ref=v1",
        "git::https://github.com/org/repo.git?ref=v1",
        "a/b",
        "https://github.com/org/repo.git",
    ),
    (
        "gitlab.com/group/sub/repo.git",
        "git::https://gitlab.com/group/sub/repo.git",
        "",
        "https://gitlab.com/group/sub/repo.git",
    ),
    (
        "git::https://EXAMPLE.com:8443/repo?ref=refs/heads/x&depth=1",
        "git::https://example.com:8443/repo?ref=refs/heads/x",
        "",
        "https://example.com:8443/repo",
    ),
    (
        "https://example.com/repo.git//x",
        "git::https://example.com/repo.git",
        "x",
        "https://example.com/repo.git",
    ),
    (
        "git@example.com:org/repo.git//x?ref=a",
        "git::ssh://git@example.com/org/repo.git?ref=a",
        "x",
        "ssh://example.com/org/repo.git",
    ),
    (
        "git::ssh://example.com/repo.git",
        "git::ssh://example.com/repo.git",
        "",
        "ssh://example.com/repo.git",
    ),
    (
        f"https://example.com/a.tgz//m?checksum={SHA}",
        f"https://example.com/a.tgz?archive=tar.gz&checksum=sha256:{SHA}",
        "m",
        "https://example.com/a.tgz",
    ),
    (
        f"https://example.com/api?sha=1&archive=zip&checksum=sha256:{SHA}",
        f"https://example.com/api?archive=zip&checksum=sha256:{SHA}",
        "",
        "https://example.com/api",
    ),
    (
        f"https://example.com/a.zip//*/m?checksum=sha256:{SHA}",
        f"https://example.com/a.zip//*?archive=zip&checksum=sha256:{SHA}",
        "m",
        "https://example.com/a.zip",
    ),
    (
        "team/site/nexus//m",
        "registry.opentofu.org/team/site/nexus",
        "m",
        "https://registry.opentofu.org/team/site/nexus",
    ),
    (
        "app.example.com:8443/team/site/nexus",
        "app.example.com:8443/team/site/nexus",
        "",
        "https://app.example.com:8443/team/site/nexus",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("source", "package", "directory", "address"), FORMS)
def test_forms(source: str, package: str, directory: str, address: str) -> None:
    parsed = parse_module_source(source)
    assert parsed.package == package
    assert parsed.subdirectory == directory
    assert get_contacted_address(parsed) == address
    # The canonical form is a source itself.
    assert parse_module_source(package).package == package


@pytest.mark.parametrize(
    "source",
    [
        "git::https://user:secret-word@example.com/m",
        "https://secret-word@example.com/a.zip",
        f"https://u:secret-word@example.com/a.zip?checksum={SHA}",
        "secret-word::https://x",
        "git::secret-word://x/y",
        "git::https://example.com/m?secret-word=1&ref=x",
        "example.com/a.zip?sig=secret-word@",
    ],
)
def test_message_has_no_password(source: str) -> None:
    with pytest.raises(InvalidModuleSource) as failure:
        parse_module_source(source)
    if "@" in source:
        assert "secret-word" not in str(failure.value)


VERSIONS = [
    ("1.2.3", "1.2.3", True),
    ("1.2.3", "= 1.2.3, != 1.2.4", True),
    ("1.2.3", "v1.2", False),
    ("1.2.3", "~> 1.2", True),
    ("2.0.0", "~> 1.2", False),
    ("1.3.0", "~> 1.2.0", False),
    ("1.2.9", "~> 1.2.0", True),
    ("1.10.0", "> 1.9", True),
    ("1.9.0", ">= 1.9, < 1.9.1", True),
    ("1.0.0-beta.1", ">= 0.1", False),
    ("1.0.0-beta.1", "1.0.0-beta.1", True),
    ("1.0.0-beta.1", "", False),
    ("1.0.0", "", True),
    ("1.0", "", False),
    ("x", ">= 0", False),
]


@pytest.mark.parametrize(("version", "constraint", "expected"), VERSIONS)
def test_versions(version: str, constraint: str, expected: bool) -> None:
    assert is_version_matching(version, constraint) is expected


def test_newest_version() -> None:
    versions = ["1.9.0", "1.10.0", "2.0.0-rc.1", "1.10.0-rc.2", "bad", "0.1.0"]
    assert sort_versions(versions, "")[-1] == "1.10.0"
    assert sort_versions(versions, "< 1.10")[-1] == "1.9.0"
    assert sort_versions(versions, "2.0.0-rc.1")[-1] == "2.0.0-rc.1"
    assert sort_versions(versions, "> 5") == []
    assert not is_constraint_valid("newest")
    assert not is_constraint_valid("~> 1.2,")


def test_lock_file_is_read_as_written() -> None:
    module = LockedModule("a.b", 'x"${y}%{z}\\', f"h1:{'A' * 43}=", "~> 1.0", "1.2.0", "ab" * 20)
    text = render_lock_file([module, LockedModule("a", "s", f"h1:{'B' * 43}=")])
    modules, problems = parse_lock_file(SourceFile("lock", text))
    assert problems == []
    assert [*modules] == ["a", "a.b"]
    entry = modules["a.b"]
    assert (entry.source, entry.constraints, entry.version) == (module.source, "~> 1.0", "1.2.0")
    assert render_lock_file(modules.values()) == text


@pytest.mark.parametrize("source", ["oci://ghcr.io/org/module?tag=v1", "oci::ghcr.io/org/module"])
def test_module_of_an_oci_registry_says_what_to_do(source: str) -> None:
    with pytest.raises(InvalidModuleSource, match="Modules of OCI registries are not supported"):
        parse_module_source(source)
