"""Summaries of diagnostics: the id in words, with exceptions listed here.

Code and tools recognize a diagnostic by its id, so the meaning of an id never changes. If a
summary contains names or figures, the caller passes a headline. docs/reference/diagnostics.md
explains common ids.
"""

from collections.abc import Mapping
from typing import Final

_SPELLINGS: Final[Mapping[str, str]] = {
    "arm": "ARM",
    "daemonset": "DaemonSet",
    "json": "JSON",
    "junit": "JUnit",
    "kubernetes": "Kubernetes",
    "numa": "NUMA",
    "pending": "Pending",
    "sku": "SKU",
    "system": "System",
    "terraform": "Terraform",
    "vdu": "VDU",
    "vfs": "VFs",
    "vm": "VM",
    "vms": "VMs",
    "vnf": "VNF",
    "yaml": "YAML",
}

_SUMMARIES: Final[Mapping[str, str]] = {
    "ambiguous-pod": "Which pod?",
    "ambiguous-site": "Which site?",
    "ambiguous-subscription": "Which subscription?",
    "anti-affinity-below-two-instances": "Anti-affinity over a VDU with fewer than 2 instances",
    "cannot-import-non-existent-remote-object": "Cannot import non-existent remote object",
    "creation-rejected-by-azure": "Azure will reject a new object",
    "deleted-machine-with-vms": "Cannot delete a machine that runs VMs",
    "destructive-rename": "A rename without a moved block destroys objects",
    "duplicate-check": "Duplicate check configuration",
    "duplicate-resource": "Duplicate resource configuration",
    "errored-saved-plan": "Saved plan has errors",
    "even-control-plane": "Even number of control-plane nodes",
    "guard-rail": "Guard rail exceeded",
    "invalid-address-in-option": "Invalid address in an option",
    "invalid-azure-body": "Invalid body in an azure block",
    "invalid-backend-config": "Invalid -backend-config",
    "invalid-combination-of-count-and-for-each": 'Invalid combination of "count" and "for_each"',
    "invalid-depends-on-reference": "Invalid depends_on reference",
    "invalid-dynamic-for-each-value": "Invalid dynamic for_each value",
    "invalid-for-condition": "Invalid 'for' condition",
    "invalid-for-directive": "Invalid 'for' directive",
    "invalid-for-each-argument": "Invalid for_each argument",
    "invalid-for-expression": "Invalid 'for' expression",
    "invalid-moved-addresses": 'Invalid "moved" addresses',
    "invalid-multi-line-string": "Invalid multi-line string",
    "invalid-object-attribute": "Invalid attribute of a named object",
    "invalid-self-reference": 'Invalid "self" reference',
    "invalid-single-argument-block-definition": "Invalid single-argument block definition",
    "invalid-site-name": "Invalid name of a site",
    "invalid-trigger": "Invalid reference in replace_triggered_by expression",
    "invalid-var-option": "Invalid -var option",
    "iteration-over-non-iterable-value": "Iteration over non-iterable value",
    "missing-key-value-separator": "Missing key/value separator",
    "no-instance-found-for-the-given-address": "No instance found for the given address!",
    "no-joint-surge-capacity": (
        "no-joint-surge-capacity: no capacity to upgrade all pools of a cluster at once"
    ),
    "no-sites-file": "No file of sites",
    "no-state-file-was-found": "No state file was found!",
    "no-surge-capacity": "no-surge-capacity: no capacity for the surge VMs of an upgrade",
    "nothing-to-target": "Unknown address",
    "pool-rename": "A pool cannot be renamed",
    "reference-to-count-in-non-counted-context": 'Reference to "count" in non-counted context',
    "reference-to-each-in-context-without-for-each": (
        'Reference to "each" in context without for_each'
    ),
    "remembered-backend-config-counts": "Remembered -backend-config counts",
    "rules-left-out-by-tacker": "Placement rules left out by Tacker",
    "self-referencing-local-value": "Self-referencing local value",
    "self-referential-block": "Self-referential block",
    "sensitive-value-decides": "Sensitive value decides a placement",
    "separation": "Separation rule does not hold",
    "separation-unknown": "Separation rule is not checked completely",
    "shared-machine": "shared-machine: VMs of one cluster share a machine",
    "site-no-longer-declared": "A site is no longer declared",
    "sites-apply-already-started": "Apply of sites already started",
    "sku-mismatch": "sku-mismatch: VM SKU made for other hardware",
    "small-before-large": "small-before-large: created before a larger one",
    "unfinished-plan": "The plan was not completed",
    "unknown-count-argument": "Invalid count argument",
    "unknown-for-each-argument": "Invalid for_each argument",
    "unmanaged-vms": "VMs that belong to no resource",
    "unsatisfiable-anti-affinity": "Unsatisfiable anti-affinity",
    "unsatisfiable-pod-anti-affinity": "Unsatisfiable pod anti-affinity",
    "unsatisfiable-scaled-anti-affinity": "Unsatisfiable anti-affinity at the largest scale",
    "unsupported-state-flag": "Unsupported -state flag",
    "unterminated-constructor": "Unterminated constructor expression",
    "values-not-read": "Values are not read",
    "vdu-size-bounds": "VDU size out of bounds",
    "vms-on-missing-machine": "VMs on missing machines",
    "wave-waits-for-approval": "A wave waits for approval",
    "zones-pinned": "zones-pinned: pool pinned to availability zones",
    "zones-too-small": "zones-too-small: fewer machines in the zones than VMs in the pool",
}


def get_summary(kind: str) -> str:
    """Return the summary of a diagnostic's kind (its id): `unknown-vm-sku` is "Unknown VM SKU"."""
    if kind in _SUMMARIES:
        return _SUMMARIES[kind]
    text = " ".join(_SPELLINGS.get(word, word) for word in kind.split("-"))
    return text[:1].upper() + text[1:]
