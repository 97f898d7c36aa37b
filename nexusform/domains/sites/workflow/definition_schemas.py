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
    "source": AttributeSchema(
        STRING, "The directory of the site's root module, from the directory of this file.", optional=True
    ),
    "inputs": AttributeSchema(DYNAMIC, "Values of the root module's variables, by name.", optional=True),
    "labels": AttributeSchema(
        MapType(STRING), "What the site is known by in reports and maps.", optional=True
    ),
    "wave": AttributeSchema(
        STRING, "The wave that it is applied in; the last one when absent.", optional=True
    ),
}
DEFAULTS: Final = BlockSchema(
    _SITE_ATTRIBUTES, description="What holds for every site that says nothing else."
)
SITE: Final = BlockSchema(
    {
        **_SITE_ATTRIBUTES,
        "destroy": AttributeSchema(BOOL, "Everything that the site has is taken down.", optional=True),
    },
    description="One site.",
)
_LIMITS: Final = {
    "max_unavailable": _make_count_attribute(
        "How many sites may be being applied, or have failed, at a time.", minimum=1
    ),
    "max_parallel": _make_count_attribute("How many sites may be being applied at a time.", minimum=1),
    "max_failures": _make_count_attribute(
        "How many sites may fail or be refused before the wave stops.", minimum=0
    ),
    "max_miss_rate": AttributeSchema(
        NUMBER,
        "Which part of the predictions may be missed, from 0 to 1.",
        optional=True,
        minimum=0,
        maximum=1,
    ),
}
_WAVE: Final = BlockSchema(
    {
        **_LIMITS,
        "soak": AttributeSchema(
            STRING,
            "How long to wait after it before the next wave.",
            optional=True,
            pattern=DURATION,
            pattern_hint='a duration such as "30s", "5m" or "1h30m"',
        ),
        "gate": AttributeSchema(
            STRING,
            "`approve`: somebody must say that it may begin.",
            optional=True,
            choices=("approve", "none"),
        ),
    },
    description="Sites that are applied together.",
)
STRATEGY: Final = BlockSchema(
    {
        **_LIMITS,
        "max_requests_per_minute": _make_count_attribute(
            "How many requests an Azure subscription may be sent in a minute, by all workers together.",
            minimum=1,
        ),
    },
    {"wave": NestedBlock(_WAVE, Nesting.MAP, "A wave; they run in the order in which they stand.", "name")},
    description="How the sites are applied.",
)
