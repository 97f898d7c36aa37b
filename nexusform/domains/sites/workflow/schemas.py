"""What the blocks of nexusform.sites.hcl may say."""

from __future__ import annotations

from typing import Final

from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting
from nexusform.value_types import BOOL, DYNAMIC, NUMBER, STRING, MapType

# `30s`, `5m`, `1h30m`; an empty text is none.
DURATION: Final = r"(?=.)(?:\d{1,5}h)?(?:\d{1,5}m)?(?:\d{1,7}s)?"


def _count(description: str, *, least: int) -> Attribute:
    return Attribute(NUMBER, description, optional=True, minimum=least)


_OF_A_SITE: Final = {
    "source": Attribute(
        STRING, "The directory of the site's root module, from the directory of this file.", optional=True
    ),
    "inputs": Attribute(DYNAMIC, "Values of the root module's variables, by name.", optional=True),
    "labels": Attribute(MapType(STRING), "What the site is known by in reports and maps.", optional=True),
    "wave": Attribute(STRING, "The wave that it is applied in; the last one when absent.", optional=True),
}
DEFAULTS: Final = BlockSchema(_OF_A_SITE, description="What holds for every site that says nothing else.")
SITE: Final = BlockSchema(
    {
        **_OF_A_SITE,
        "destroy": Attribute(BOOL, "Everything that the site has is taken down.", optional=True),
    },
    description="One site.",
)
_LIMITS: Final = {
    "max_unavailable": _count("How many sites may be being applied, or have failed, at a time.", least=1),
    "max_parallel": _count("How many sites may be being applied at a time.", least=1),
    "max_failures": _count("How many sites may fail or be refused before the wave stops.", least=0),
    "max_miss_rate": Attribute(
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
        "soak": Attribute(
            STRING,
            "How long to wait after it before the next wave.",
            optional=True,
            pattern=DURATION,
            pattern_hint='a duration such as "30s", "5m" or "1h30m"',
        ),
        "gate": Attribute(
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
        "max_requests_per_minute": _count(
            "How many requests an Azure subscription may be sent in a minute, by all workers together.",
            least=1,
        ),
    },
    {"wave": NestedBlock(_WAVE, Nesting.MAP, "A wave; they run in the order in which they stand.", "name")},
    description="How the sites are applied.",
)
