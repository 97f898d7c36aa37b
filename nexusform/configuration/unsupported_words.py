"""Unsupported words of Terraform 1.15 and OpenTofu 1.12: meaning, version and alternative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_STACK: Final = "Stacks (Terraform 1.13) are not supported. Plan many sites with `nexusform sites`."

# Advice by word.
ROOT_WORDS: Final[Mapping[str, str]] = {
    "terraform": 'Write settings in a block of type "nexusform".',
    "ephemeral": (
        "Ephemeral resources (Terraform 1.10, OpenTofu 1.11) are not supported: nexusform keeps every resource in its "
        "state. Pass secrets in ephemeral variables."
    ),
    "action": "Actions (Terraform 1.14) are not supported. Run the command after `nexusform apply`.",
    "list": "Queries (Terraform 1.14) are not supported. Import existing objects with `nexusform import -from=DIR`.",
    "component": _STACK,
    "deployment": _STACK,
    "stack": _STACK,
}
PROVIDER_WORDS: Final[Mapping[str, str]] = {
    "for_each": "Several providers in one block (OpenTofu 1.9) are not supported. Write one block with an alias each."
}
LIFECYCLE_WORDS: Final[Mapping[str, str]] = {"action_trigger": ROOT_WORDS["action"]}
