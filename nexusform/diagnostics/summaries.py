"""Summaries of diagnostics: the id in words, with exceptions listed here.

Code and tools recognize a diagnostic by its id, so the meaning of an id never changes. If a summary contains
names or figures, the caller passes a headline. docs/reference/diagnostics.md lists every id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SPELLINGS: Final[Mapping[str, str]] = {
    "arm": "ARM",
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
    "anti-affinity-cannot-be-met": "Anti-affinity cannot be met",
    "anti-affinity-cannot-be-met-at-the-largest-scale": "Anti-affinity cannot be met at the largest scale",
    "anti-affinity-of-pods-cannot-be-met": "Anti-affinity of pods cannot be met",
    "cannot-import-non-existent-remote-object": "Cannot import non-existent remote object",
    "daemonset-gets-no-pod": "A DaemonSet gets no pod",
    "does-not-fit": "VMs do not fit",
    "duplicate-check": "Duplicate check configuration",
    "duplicate-resource": "Duplicate resource configuration",
    "even-control-plane": "Even number of control-plane nodes",
    "fits-in-some-draws": "VMs may not fit",
    "flag-state-needs-the-local-backend": "Flag -state needs the local backend",
    "fleet-apply-was-begun-before": "This plan of sites was begun before",
    "guard-rail": "The plan breaks a guard rail",
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
    "machine-goes-with-vms-on-it": "A machine goes with VMs on it",
    "machine-is-gone-under-vms": "VMs stand on machines that nobody manages",
    "missing-key-value-separator": "Missing key/value separator",
    "no-instance-found-for-the-given-address": "No instance found for the given address!",
    "no-member-cluster": "No member cluster is declared",
    "no-sites-file": "No file of sites",
    "no-state-file-was-found": "No state file was found!",
    "no-surge-room": "no-surge-room: no room for the surge VMs of an upgrade",
    "node-without-a-vm": "Nodes without a VM",
    "nodes-of-unlisted-pools": "Nodes of unlisted agent pools",
    "nothing-to-target": "Nothing has this address",
    "plan-does-not-account-for-everything": "The plan does not account for everything that stands",
    "pods-of-lost-nodes-left-out": "Pods of lost nodes are left out",
    "provider-cannot-do-this": "The provider cannot do this",
    "reference-to-count-in-non-counted-context": 'Reference to "count" in non-counted context',
    "reference-to-each-in-context-without-for-each": 'Reference to "each" in context without for_each',
    "remembered-backend-config-counts": "Remembered -backend-config counts",
    "remote-state-is-missing": "No such state",
    "runs-out-beside-machines": "Addresses or storage run out",
    "self-referencing-local-value": "Self-referencing local value",
    "self-referential-block": "Self-referential block",
    "sensitive-value-decides": "Sensitive value decides a placement",
    "separation": "Separation rule does not hold",
    "shared-machine": "shared-machine: VMs of one cluster share a machine",
    "site-is-refused": "A site is refused",
    "site-loses-what-runs": "A site loses what runs on it",
    "site-no-longer-declared": "A site is no longer declared",
    "sites-changed-since-the-plan": "The sites changed since the plan",
    "size-outside-of-the-vdu-s-bounds": "Size outside of the VDU's bounds",
    "sku-mismatch": "sku-mismatch: VM SKU made for other hardware",
    "small-before-large": "small-before-large: created before a larger one",
    "source-is-not-local": "Source is no local directory",
    "unknown-count-argument": "Invalid count argument",
    "unknown-for-each-argument": "Invalid for_each argument",
    "unmanaged-vms": "VMs that belong to no resource",
    "unterminated-constructor": "Unterminated constructor expression",
    "values-not-read": "Values are not read",
    "wave-waits-for-approval": "A wave waits for approval",
    "wave-was-stopped": "A wave was stopped",
    "which-pod": "Which pod?",
    "which-site": "Which site?",
    "which-subscription": "Which subscription?",
    "zones-pinned": "zones-pinned: pool pinned to availability zones",
    "zones-too-small": "zones-too-small: fewer machines in the zones than VMs in the pool",
}


def get_summary(kind: str) -> str:
    """Return the summary of a diagnostic's kind (its id): `unknown-vm-sku` is "Unknown VM SKU"."""
    if kind in _SUMMARIES:
        return _SUMMARIES[kind]
    text = " ".join(_SPELLINGS.get(word, word) for word in kind.split("-"))
    return text[:1].upper() + text[1:]
