"""Tests of plain messages for rejections of an API server."""

from __future__ import annotations

from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind


def test_admission_policy_is_named_with_its_message() -> None:
    message = (
        'clusterresourceplacements.placement.kubernetes-fleet.io "web" is forbidden: '
        "ValidatingAdmissionPolicy 'max-two' with binding 'max-two' denied request: two clusters "
        "at most"
    )
    refused = ApiError(422, {"kind": "Status", "reason": "Invalid", "message": message})
    assert refused.kind is ApiErrorKind.WEBHOOK
    assert refused.server_message == 'policy "max-two": two clusters at most'


def test_unresponsive_webhook_is_not_a_rejection() -> None:
    message = (
        'Internal error occurred: failed calling webhook "owner.acme.example": failed to call '
        'webhook: Post "https://10.0.0.1:443/v?timeout=1s": context deadline exceeded'
    )
    cause = {"message": message.removeprefix("Internal error occurred: ")}
    body = {
        "kind": "Status",
        "reason": "InternalError",
        "message": message,
        "details": {"causes": [cause]},
    }
    refused = ApiError(500, body)
    assert refused.kind is ApiErrorKind.WEBHOOK_TIMEOUT
    assert refused.server_message == (
        'its webhook "owner.acme.example" does not answer (Post '
        '"https://10.0.0.1:443/v?timeout=1s": context deadline exceeded)'
    )
