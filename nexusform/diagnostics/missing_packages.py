"""Packages of extras: the command that installs a missing one."""

from collections.abc import Mapping
from typing import Final

# The extra of each package outside of the required ones, by the first part of its module names.
# tests/test_dependencies.py compares it with the imports and pyproject.toml.
EXTRAS: Final[Mapping[str, str]] = {
    "azure": "azure",
    "boto3": "s3",
    "botocore": "s3",
    "cel_expr_python": "devices",
    "cryptography": "encryption",
    "distributed": "cluster",
    "highspy": "optimize",
    "lightkube": "kubernetes",
    "lsprotocol": "editor",
    "numpy": "optimize",
    "psycopg": "postgres",
    "pygls": "editor",
    "requests": "azure",
}


def format_installation(extra: str) -> str:
    """Format the command for the packages of an extra. nexusform itself is in no package index."""
    return f"pip install '.[{extra}]' in a checkout of nexusform"


def find_extra(problem: ImportError) -> str:
    """Return the extra that installs the missing package; "" for a package of no extra."""
    return EXTRAS.get((problem.name or "").partition(".")[0], "")


def describe_missing_package(problem: ImportError) -> str:
    """Format the missing package of an extra with the command that installs it.

    Raises the problem again if the package is of no extra: this is a bug.
    """
    extra = find_extra(problem)
    if not extra:
        raise problem
    return f"the package {problem.name}: {format_installation(extra)}"
