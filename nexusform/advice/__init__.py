"""Lint: one file per rule, registry.py lists them."""

# What other rooms may use of this one.
DOOR = {
    "facts": "Facts PoolFacts rehearsal SiteFacts",
    "registry": "advise RULE_IDS RULES",
}
