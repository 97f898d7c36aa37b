"""What a hub refuses, and what is not written over, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nexusform.domains.hub.api.hub import HubProblem
from nexusform.domains.hub.api.hub_words import Refusal, Refused
from nexusform.domains.hub.providers.hub_bodies import MANIFESTS, Sent
from nexusform.domains.hub.providers.hub_objects import managed_by
from nexusform.domains.hub.providers.hub_terms import Terms
from nexusform.ports import ObjectKey, ProviderProblem, StepWaits


def refuse_managed(terms: Terms, body: Mapping[str, Any], command: str) -> None:
    """Raises ProviderProblem for what Flux or Argo CD applies, unless the operator takes it over. An apply is
    refused while it is carried out, and goes on with what it left.
    """
    who = managed_by(body)
    if who and not terms.take_ownership:
        name = (body.get("metadata") or {}).get("name")
        over = f"nexusform {'apply -resume' if command == 'apply' else command} -take-ownership"
        if command == "import":
            over += ", or an import block, planned and applied with -take-ownership"
        raise ProviderProblem(
            f"{body.get('kind')} {name} is applied by {who}, which would change it back. Change it "
            f"there, or take it over: {over}."
        )


def stands_already(each: Sent, key: ObjectKey, address: str) -> str:
    """Why what stands on the hub is not written over, and what to write instead."""
    if key.type == MANIFESTS:
        return (
            f"{each.title} stands on the hub already, and this plan would write over it. If this state has "
            "it at another address, say so by a moved block; else take it out of the block, or delete it "
            "there."
        )
    return (
        f"{each.title} stands on the hub already and is not in state. Take it over as it stands: import "
        f"{{ to = "
        f'{address}, id = "{key.id}" }} with each argument on a line of its own.'
    )


def no_member(each: Sent) -> str:
    """Why labels and taints of a member that the hub lacks are not written."""
    return (
        f"The hub has no member {each.body['metadata']['name']}. A plan makes none: it joins by KubeFleet's "
        "join script (hack/membership/joinMC.sh), or by `az fleet member create`. "
        "If it left for good, take its block out of the configuration."
    )


def of_azure(each: Sent) -> str:
    """Where labels of a member are changed instead, when a hub of Azure denied them; "" for other objects."""
    metadata = each.body.get("metadata") or {}
    labels = metadata.get("labels") or {}
    if each.body.get("kind") != "MemberCluster" or not labels:
        return ""
    group = labels.get("fleet.azure.com/resource-group", "RG")
    pairs = " ".join(f"{name}={value}" for name, value in sorted(labels.items()) if not _of_arm(name))
    return (
        " On Azure Kubernetes Fleet Manager labels of members belong to Azure: take them out here, and run: "
        f"az fleet member update --resource-group {group} --fleet-name FLEET --name {metadata.get('name')} "
        f'--labels "{pairs}"'
    )


def _of_arm(label: str) -> bool:
    return label.startswith("fleet.azure.com/")


def refusal_words(refused: Refused, each: Sent) -> str:
    """A refusal while a step is carried out, in one sentence or more."""
    title = each.title
    if refused.kind is Refusal.OTHER_MANAGER:
        parts = [f"{each.field} belongs to {each.manager}" for each in refused.causes if each.manager]
        return (
            f"{title}: {'; '.join(parts)}. Leave the field out of the configuration, or take it over: once "
            "by nexusform apply -resume -take-ownership, for good by force_conflicts = true."
        )
    if refused.missing_right:
        return f"{title}: {refused.missing_right}."
    words = refused.words
    advice = of_azure(each) if refused.kind is Refusal.WEBHOOK else ""
    return f"{title}: the hub refuses it ({refused.status}): {words}{advice and '.'}{advice}"


@contextmanager
def while_unanswered(address: str) -> Iterator[None]:
    """A hub that does not answer any more after a step began: whether it took what was sent is not known, so
    the step is neither done nor failed. Raises StepWaits.
    """
    try:
        yield
    except HubProblem as problem:
        raise StepWaits(f"{address}: {problem} `nexusform apply -resume` goes on with it.") from None
    except Refused as refused:
        if refused.kind is not Refusal.LATER:
            raise
        why = f"the hub does not answer ({refused.status}: {refused.words})"
        raise StepWaits(f"{address}: {why}. `nexusform apply -resume` goes on with it.") from None


@contextmanager
def in_words() -> Iterator[None]:
    """What a hub refuses, or does not answer, as problems of a provider."""
    try:
        yield
    except HubProblem as problem:
        raise ProviderProblem(str(problem)) from None
    except Refused as refused:
        if refused.kind is Refusal.NOT_SIGNED_IN:
            raise ProviderProblem("The hub does not know who asks (401). Sign in again.") from None
        raise ProviderProblem(
            f"The hub refuses ({refused.status}): {refused.missing_right or refused.words}"
        ) from None
