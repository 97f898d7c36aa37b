"""Execution of a plan's steps through providers, without decisions."""

# Public names of the package, by module.
PUBLIC = {
    "answer_comparison": "compare_answer WrongPrediction",
    "prediction_checks": (
        "list_completed_addresses list_delegated_addresses list_ties build_prediction_records verify_predictions "
        "verify_object_predictions PredictionResults"
    ),
    "events": "Listener StepOutcome StepEvent",
    "executor": "ApplyResult execute_plan ExecutionOptions",
    "step_results": "MachineLocations",
    "recorder": "build_opening_records Recorder",
    "interrupted_steps": "resolve_intents",
    "provider_calls": "get_provider_name get_unfinished_change",
}
