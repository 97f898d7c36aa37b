"""VMs to place, placed VMs, and scores of predicted placements."""

# Public names of the package, by module.
PUBLIC = {
    "consequence_record": (
        "ALL_ON_ONE_RACK CONTENT_RISKS Consequence ConsequenceCause ConsequenceKind "
        "DESTROYED_CONTENT LEFT_CLUSTER QUORUM_ON_ONE_RACK RACK_RISKS "
        "STOPPED_WORKLOAD build_consequence_document"
    ),
    "consequences": (
        "ConsequenceSeverity ConsequenceTable DataFate LASTING_LOSS LOSS_WITH_DATA "
        "LOSS_WITH_UNKNOWN_DATA NO_CONSEQUENCES ObjectChange ObjectTitles Outcome combine_fates "
        "get_worst_severity"
    ),
    "prediction_scores": (
        "add_predictions_to_note compute_score COUNT_PREDICTION list_wrong_certain "
        "lower_share_to_accuracy MACHINE_PREDICTION NOT_VERIFIED_KEY parse_record PredictionRecord "
        "RACK_PREDICTION RECORD_KEY PredictionRecordScore VerifiedPrediction TIE_PREDICTION "
        "VM_PREDICTIONS"
    ),
    "recreations": "RecreatedPool RecreatedVm count_nodes_up",
    "node_properties": "CONTROL_PLANE_TAINT NodeProperties",
    "vm_demands": (
        "ClaimDemand compute_number_sort_key index_pools index_vms PlacementGroupRule NO_DEMAND "
        "MACHINE_LOST OBSERVED PlacedVm PoolDemand VmDemand"
    ),
}
