"""Execution of a plan's steps through providers, without decisions."""

# Public names of the package, by module.
PUBLIC = {
    "answer_comparison": "compare_answer WrongPrediction",
    "prediction_checks": (
        "list_completed_objects list_vms_without_machine select_tied build_journal_records "
        "verify_predictions verify_object_predictions PredictionResults"
    ),
    "open_predictions": "read_open_predictions",
    "events": "ExecutionOptions StepListener StepOutcome StepEvent",
    "executor": "ApplyResult execute_plan",
    "step_results": "MachineLocations",
    "apply_recorder": (
        "build_opening_records build_start_record ApplyRecorder recover_step_outcomes"
    ),
    "provider_calls": "get_provider_name get_failed_change merge_note",
}
