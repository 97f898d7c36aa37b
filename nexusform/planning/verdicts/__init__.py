"""What is to be said of VMs once all are placed: how sure, what does not fit, which rules hold."""

# What other rooms may use of this one.
DOOR = {
    "fit": "DOES_NOT_FIT PINNED_DOES_NOT_FIT",
    "separation": "BROKEN",
}
