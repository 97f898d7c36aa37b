"""Secrets of a job that belong to no server and to no program of a test."""

from __future__ import annotations

import pytest

CANARY = "canary-51c0"
# Variables with secrets of the job, of other tools and of other systems.
VARIABLES = (
    "NF_TOKEN_registry_example_com",
    "NF_VAR_password",
    "NF_STATE_PASSWORD",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "CI_JOB_TOKEN",
    "SYSTEM_ACCESSTOKEN",
    "PGPASSWORD",
    "PG_CONN_STR",
    "NPM_TOKEN",
    "DOCKER_PASSWORD",
    "SSH_PRIVATE_KEY",
)
# Variables with secrets of clouds: programs that sign in get them, servers do not.
CLOUD_VARIABLES = ("AWS_SECRET_ACCESS_KEY", "GOOGLE_CREDENTIALS", "OS_PASSWORD", "VAULT_TOKEN")


def set_foreign_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set each variable to a value of its own."""
    for name in (*VARIABLES, *CLOUD_VARIABLES):
        monkeypatch.setenv(name, f"{CANARY}-{name}")


def find_secrets(text: str) -> set[str]:
    """Return the names of the variables whose values are in a text."""
    return {name for name in (*VARIABLES, *CLOUD_VARIABLES) if f"{CANARY}-{name}" in text}
