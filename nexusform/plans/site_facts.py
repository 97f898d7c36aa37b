"""Facts of whole sites that are no attributes of an object, such as creation times."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

# By provider, and by name: the id of an object, a colon and the fact.
SiteFacts: TypeAlias = Mapping[str, Mapping[str, str]]


def list_changed_facts(before: SiteFacts, after: SiteFacts) -> Iterator[str]:
    """Yield a clause for each fact of a site, read twice, that has another value.

    A fact of an object that appeared or left is none.
    """
    for provider, facts in after.items():
        known_facts = before.get(provider, {})
        known_ids = {name.partition(": ")[0] for name in known_facts}
        for name, value in facts.items():
            known = known_facts.get(name, "none")
            if known != value and name.partition(": ")[0] in known_ids:
                yield f"{name} changed from {known} to {value}"
