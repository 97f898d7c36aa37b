"""Declarations of a configuration: its blocks as records, its limits, its constants."""

# Public names of the package, by module.
PUBLIC = {
    "configuration": (
        "AnyBody CallHeader Check Condition Configuration DEFAULT_PROVIDER Encryption "
        "EncryptionTarget ImportBlock KeyProviderBlock Lifecycle MethodName Module ModuleCall "
        "Output ProviderBlock ResourceBlock Settings Variable"
    ),
    "limits": (
        "build_limit_error DEFAULT PlanSizeLimits merge_limits parse_limit_overrides "
        "VARIABLE_PREFIX"
    ),
}
