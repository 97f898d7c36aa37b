"""Interfaces to resource types, providers, files, clocks and state storage."""

# Public names of the package, by module.
PUBLIC = {
    "plugins": (
        "CaptureProvider ChangeRequest ChangeResult ChangeValidator Clock DataResult "
        "DryRunReporter "
        "ExternalProblem FileProblem Files FORGOTTEN_KEY ManualStepPending ObjectKey PermissionUser "
        "PlanAwareProvider PlanningKind Provider ProviderProblem ReadContext ReadRequest ReadResult "
        "PluginRegistries "
        "ResourceContext ResourceType ServerQuery ServerReader StateQuery StateReader StateUser "
        "StepPending StepProgress UNFINISHED_KEY UNMANAGED_KEY UnplacedVms VmHandlers"
    ),
    "state_storage": (
        "BackendProblem BatchJournal CheckpointBackend ENCRYPTED_PREFIX EncryptedStorage is_encrypted "
        "LockInfo StateBackend StateLocked StoredVersion VersionedBackend"
    ),
}
