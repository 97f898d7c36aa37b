"""Plans made once more: with a way out tried, or with everything known when apply begins."""

# What other rooms may use of this one.
DOOR = {
    "finalising": "finalised Following Settled settled",
}
