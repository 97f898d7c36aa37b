"""Errors of an API server: classification and messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import enclose
from nexusform.json_data.plain_data import get_text, list_mappings

_WEBHOOK_DENIAL: Final = re.compile(
    r'admission webhook "([^"]*)" denied the request: ?(.*)', re.DOTALL
)
_WEBHOOK_TIMEOUT: Final = re.compile(
    r'failed calling webhook "([^"]*)": ?(?:failed to call webhook: ?)?(.*)', re.DOTALL
)
_POLICY_DENIAL: Final = re.compile(
    r"ValidatingAdmissionPolicy '([^']*)'.*denied request: ?(.*)", re.DOTALL
)
_MANAGER: Final = re.compile(r'conflict with "([^"]*)"')
_TYPED_PATCH_ERROR: Final = re.compile(
    r"failed to create typed patch object \(.*?\): (.*)", re.DOTALL
)
# Form of the server's message for each pattern, filled with its groups.
_MESSAGE_FORMS: Final = {
    _WEBHOOK_DENIAL: 'webhook "{}": {}',
    _WEBHOOK_TIMEOUT: 'its webhook "{}" does not answer ({})',
    _POLICY_DENIAL: 'policy "{}": {}',
    _TYPED_PATCH_ERROR: "{}",
}
_PERMISSION_ERROR: Final = re.compile(
    r'User "([^"]*)" cannot (\w+) resource "([^"]*)"(?: in API group "([^"]*)")?'
)
_UNCHECKED_RULES: Final = "<nil>: Invalid value: null: some validation rules were not checked"


class ApiErrorKind(StrEnum):
    """Kind of an API error."""

    # Missing field, wrong type, violated rule.
    SCHEMA = "schema"
    WEBHOOK = "webhook"
    WEBHOOK_TIMEOUT = "webhook that does not answer"
    PERMISSION = "rights"
    OTHER_MANAGER = "other manager"
    # The object has a different version or uid.
    CONFLICT = "conflict"
    UNAUTHENTICATED = "not signed in"
    UNKNOWN_KIND = "no such kind"
    NOT_FOUND = "no such object"
    EXPIRED = "too old"
    TEMPORARY = "later"
    OTHER = "other"


_KINDS_BY_STATUS: Final[Mapping[int, ApiErrorKind]] = {
    401: ApiErrorKind.UNAUTHENTICATED,
    410: ApiErrorKind.EXPIRED,
    **dict.fromkeys((429, 500, 502, 503, 504), ApiErrorKind.TEMPORARY),
}


class ApiErrorCause(Struct, frozen=True):
    """Cause of an API error: field and message.

    `manager` owns the field; `reason` is a word of the API.
    """

    field: str
    message: str
    manager: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """Field and message as text."""
        # Only the message without a field.
        return f"{self.field}: {self.message}".removeprefix(": ")


class ApiError(Exception):
    """Response without success."""

    def __init__(self, status: int, body: Any, retry_after: float | None = None) -> None:
        """Read the message and the causes in `body`.

        `retry_after` is in seconds, None if the hub requests no pause.
        """
        self.status = status
        self.body = body
        self.retry_after = retry_after
        # Whether an earlier attempt of the request may have been executed.
        self.is_repeated = False
        message = (
            (body.get("message") or body.get("reason"))
            if isinstance(body, Mapping)
            else str(body).strip()
        )
        self.message = str(message or "it does not say why")
        self.causes: list[ApiErrorCause] = []
        for item in list_mappings(body, "details", "causes"):
            field, text, reason = (get_text(item, name) for name in ("field", "message", "reason"))
            manager = ""
            # The message names the owner of the field.
            if reason == "FieldManagerConflict":
                match = _MANAGER.search(text)
                manager = match[1] if match is not None else text
            cause = ApiErrorCause(field, text, manager, reason)
            # Leave out the cause "rules were not checked": it follows from another one.
            if _UNCHECKED_RULES not in cause.text:
                self.causes.append(cause)
        self.kind = _determine_kind(status, body, self.message, self.causes)
        super().__init__(f"{status}: {self.message}")

    def hide_values(self) -> ApiError:
        """Return the error of a sensitive object.

        Fields and reasons only, because messages repeat values.
        """
        hidden = ApiError(self.status, self.body, self.retry_after)
        hidden.causes = [
            replace(cause, message=cause.reason or "rejected") for cause in self.causes
        ]
        if self.missing_permission:
            # Its message has no values.
            return hidden
        # Each once: `spec.data: FieldValueInvalid`.
        texts = dict.fromkeys(cause.text for cause in hidden.causes)
        reason = "; ".join(texts) or get_text(self.body, "reason") or "rejected"
        hidden.message = f"{reason} (its message is hidden: the object is sensitive)"
        return hidden

    @property
    def server_message(self) -> str:
        """Message of the server.

        Those of webhooks, policies and typed patches are in a shorter form.
        """
        for pattern, form in _MESSAGE_FORMS.items():
            match = pattern.search(self.message)
            if match is not None:
                return form.format(*map(str.strip, match.groups()))
        return self.message.strip()

    @property
    def reason(self) -> str:
        """Missing permission, or else the message of the server."""
        return self.missing_permission or self.server_message

    @property
    def missing_permission(self) -> str:
        """Missing permission, "" for other errors.

        An example is `User "bob" may not patch clusterresourceplacements`.
        """
        match = _PERMISSION_ERROR.search(self.message)
        if match is None:
            return ""
        name, verb, plural, group = match.groups(default="")
        return f'user "{name}" may not {verb} {plural}{enclose(".", group)}'


def _determine_kind(
    status: int, body: Any, message: str, causes: Sequence[ApiErrorCause]
) -> ApiErrorKind:
    """Determine the kind of an error by its status; ambiguous ones by message, body or causes."""
    is_denied = _POLICY_DENIAL.search(message) is not None
    has_permission_error = (
        _PERMISSION_ERROR.search(message) is not None or "forbidden: User" in message
    )
    # By status: a condition, the kind if it is met, and the other kind.
    choices = {
        400: (is_denied, ApiErrorKind.WEBHOOK, ApiErrorKind.SCHEMA),
        403: (has_permission_error, ApiErrorKind.PERMISSION, ApiErrorKind.WEBHOOK),
        404: (isinstance(body, Mapping), ApiErrorKind.NOT_FOUND, ApiErrorKind.UNKNOWN_KIND),
        409: (
            any(cause.manager for cause in causes),
            ApiErrorKind.OTHER_MANAGER,
            ApiErrorKind.CONFLICT,
        ),
    }
    # Invalid fields of a server-side apply have other statuses than 400, too.
    has_schema_error = status == 422 or (
        status != 409 and _TYPED_PATCH_ERROR.search(message) is not None
    )
    choice = choices.get(400 if has_schema_error else status)
    if choice is not None:
        is_met, kind, other_kind = choice
        return kind if is_met else other_kind
    if _WEBHOOK_TIMEOUT.search(message) is not None:
        return ApiErrorKind.WEBHOOK_TIMEOUT
    return _KINDS_BY_STATUS.get(status, ApiErrorKind.OTHER)
