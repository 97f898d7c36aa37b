"""What carries out steps. registry.py lists them."""

# What other rooms may use of this one.
DOOR = {
    "registry": "ProviderKind PROVIDERS",
    "simulated": "with_answer",
}
