"""What a placement already holds, as a rule sees it during one cycle."""

from __future__ import annotations

from msgspec import Struct

from nexusform.scheduling.fleet.roster import Mask


class Standing(Struct, frozen=True):
    """`current`: members with a scheduled or bound binding under the present policy snapshot;
    `obsolete`: members whose binding was made under an earlier one.
    """

    current: Mask = 0
    obsolete: Mask = 0
