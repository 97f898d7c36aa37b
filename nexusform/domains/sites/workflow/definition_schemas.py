"""Schemas of the blocks of nexusform.sites.hcl."""

from __future__ import annotations

from typing import Final

from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import BOOL, DYNAMIC, NUMBER, STRING, MapType

# `30s`, `5m`, `1h30m`; not an empty string.
DURATION: Final = r"(?=.)(?:\d{1,5}h)?(?:\d{1,5}m)?(?:\d{1,7}s)?"


def _make_count_attribute(description: str, *, minimum: int) -> AttributeSchema:
    return AttributeSchema(NUMBER, description, optional=True, minimum=minimum)


_SITE_ATTRIBUTES: Final = {
    "source": AttributeSchema(STRING, "Root module directory of the site, relative to this file.", optional=True),
    "inputs": AttributeSchema(DYNAMIC, "Values of the root module's variables by name.", optional=True),
    "labels": AttributeSchema(MapType(STRING), "Display name of the site in reports and maps.", optional=True),
    "wave": AttributeSchema(STRING, "Wave of the site. Default: the last one.", optional=True),
}
DEFAULTS: Final = BlockSchema(_SITE_ATTRIBUTES, description="Defaults for all sites.")
SITE: Final = BlockSchema(
    {**_SITE_ATTRIBUTES, "destroy": AttributeSchema(BOOL, "Delete everything of the site.", optional=True)},
    description="One site.",
)
_LIMITS: Final = {
    "max_unavailable": _make_count_attribute("Maximum number of sites in progress or failed.", minimum=1),
    "max_parallel": _make_count_attribute("Maximum number of sites in progress.", minimum=1),
    "max_failures": _make_count_attribute(
        "Maximum number of failed or rejected sites before the wave stops.", minimum=0
    ),
    "max_miss_rate": AttributeSchema(
        NUMBER, "Maximum share of wrong predictions, from 0 to 1.", optional=True, minimum=0, maximum=1
    ),
}
_WAVE: Final = BlockSchema(
    {
        **_LIMITS,
        "soak": AttributeSchema(
            STRING,
            "Wait time before the next wave.",
            optional=True,
            pattern=DURATION,
            pattern_hint='a duration such as "30s", "5m" or "1h30m"',
        ),
        "gate": AttributeSchema(
            STRING, "`approve`: the wave waits for approval.", optional=True, choices=("approve", "none")
        ),
    },
    description="Sites applied together.",
)
STRATEGY: Final = BlockSchema(
    {
        **_LIMITS,
        "max_requests_per_minute": _make_count_attribute(
            "Maximum number of requests per minute to an Azure subscription, from all workers.", minimum=1
        ),
    },
    {"wave": NestedBlock(_WAVE, Nesting.MAP, "Wave; waves run in file order.", "name")},
    description="Rules for applying the sites.",
)
