"""Which warnings say that something could be better, not that it does not work."""

from __future__ import annotations

from typing import Final

# Warnings worth knowing by which nothing fails; every other warning says that something does not work.
ADVICE: Final = frozenset(
    {
        "a-fresh-schedule-would-choose-otherwise",
        "a-real-hub-treats-this-differently",
        "age-of-the-inventory-unknown",
        "backend-configuration-ignored",
        "creation-times-not-captured",
        "deprecated-envelope",
        "derived-at-reading",
        "document-read-with-a-correction",
        "generated-configuration-stands-elsewhere",
        "health-of-a-member-is-unknown",
        "incomplete-list",
        "managed-from-elsewhere",
        "members-of-a-placement-share-machines",
        "more-findings",
        "node-differs-from-its-vm-sku",
        "not-read-for-placement",
        "object-will-be-forgotten",
        "old-inventory",
        "older-property-name",
        "older-state",
        "pods-are-not-predicted",
        "read-with-a-correction",
        "replicas-are-changed-by-an-autoscaler",
        "resource-targeting-is-in-effect",
        "resources-not-read",
        "resources-twice",
        "room-of-forgotten-vms-counts-as-free",
        "shared-machine",
        "shared_machine",
        "shared_rack",
        "sku-catalogue-ignored",
        "sku-mismatch",
        "small-before-large",
        "staged-run-waits-for-an-approval",
        "the-state-stays-on-this-machine",
        "unmanaged-vms",
        "value-for-undeclared-variable",
        "volumes-are-not-known",
        "zones-pinned",
        "zones-too-small",
    }
)
