"""Rows, page parts and answers of whatif."""

# What other rooms may use of this one.
DOOR = {
    "failure_outline": "failure_headline",
}
