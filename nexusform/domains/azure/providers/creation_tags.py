"""Tag of a creation in Azure: proof of its author while the creation has no recorded answer.

Azure takes a creation only if the object is missing, but shows the same answer to a creation that
is sent again and to one of another state. A tag is created with the object. It stays, and no later
read needs it.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.azure.providers.arm_changes import TAGS
from nexusform.interfaces.plugins import ChangeRequest, ReadRequest
from nexusform.json_data.plain_data import get_mapping

CREATION_TAG: Final = "nexusform-creation"
_DIGITS: Final = 32


def _build_creation_tag(request: ChangeRequest | ReadRequest) -> str:
    """Return the value of the tag: that of no other state, address or creation."""
    creation = f"{request.lineage}/{request.address}#{request.key.creation}"
    return hashlib.sha256(creation.encode()).hexdigest()[:_DIGITS]


def add_creation_tag(body: Mapping[str, Any] | None, request: ChangeRequest) -> dict[str, Any]:
    """Return the body of a creation with its tag."""
    tags = {**get_mapping(body, TAGS), CREATION_TAG: _build_creation_tag(request)}
    return {**(body or {}), TAGS: tags}


def has_creation_tag(body: Mapping[str, Any], request: ChangeRequest | ReadRequest) -> bool:
    """Return True if the step of a request created an object."""
    return bool(_get_creation_tag(body) == _build_creation_tag(request))


def has_other_creation_tag(body: Mapping[str, Any], request: ChangeRequest | ReadRequest) -> bool:
    """Return True if another state, address or creation made an object."""
    return _get_creation_tag(body) not in (None, _build_creation_tag(request))


def _get_creation_tag(body: Mapping[str, Any]) -> Any:
    """Return the tag of the creation, None without it. Azure ignores case in names."""
    tags = {str(name).casefold(): value for name, value in get_mapping(body, TAGS).items()}
    return tags.get(CREATION_TAG)
