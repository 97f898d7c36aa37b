"""What an API server says when it refuses, in words for people."""

from __future__ import annotations

from nexusform.domains.hub.api.hub_words import Refusal, Refused


def test_a_policy_of_the_hub_is_named_with_its_own_words() -> None:
    message = (
        'clusterresourceplacements.placement.kubernetes-fleet.io "web" is forbidden: '
        "ValidatingAdmissionPolicy 'max-two' with binding 'max-two' denied request: two clusters at most"
    )
    refused = Refused(422, {"kind": "Status", "reason": "Invalid", "message": message})
    assert refused.kind is Refusal.WEBHOOK
    assert refused.words == 'policy "max-two": two clusters at most'
