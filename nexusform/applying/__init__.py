"""Follow a plan's steps through providers. Decides nothing."""

# What other rooms may use of this one.
DOOR = {
    "agreement": "agree Miss",
    "claims": (
        "addresses_done addresses_left_to_others records_of_claims settle_claims settle_open Settlement "
        "vms_of"
    ),
    "events": "Listener Outcome StepEvent",
    "executor": "Applied execute Options",
    "open_claims": "open_claims OpenClaims",
    "outcomes": "Whereabouts",
    "recorder": "opening_records Recorder",
    "settling": "settle",
    "standing": "provider_of unfinished_of",
}
