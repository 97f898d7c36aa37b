"""Interfaces to resource types, providers, files, clocks and state storage."""

# Public names of the package, by module.
PUBLIC = {
    "plugins": (
        "EARLIER_CREATION_HINT CaptureProvider ChangeRequest ChangeResult ChangeValidatingProvider "
        "Clock DataResult DryRunProvider ExternalQueryProblem FileProblem Files ManualStepPending "
        "ObjectKey PermissionedProvider PlanAwareProvider PlanningKind PreconditionProvider "
        "Provider ProviderProblem ReadContext ReadRequest ReadResult SiteCapture "
        "PluginRegistries ResourceContext "
        "ResourceType ServerQuery ServerReader RemoteStateQuery StateReader StateUser StepPending "
        "StepProgress UnplacedVms VmHandlers get_unfinished_message"
    ),
    "state_storage": (
        "BackendProblem BatchJournalBackend CheckpointBackend ENCRYPTED_PREFIX EncryptingBackend "
        "is_encrypted list_backend_warnings LockInfo StateBackend StateLocked StoredStateVersion "
        "VersionedBackend"
    ),
}
