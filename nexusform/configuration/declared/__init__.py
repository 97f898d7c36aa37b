"""What a configuration declares: its blocks as records, its limits, its constants."""

# What other rooms may use of this one.
DOOR = {
    "configuration": (
        "AnyBody Check Condition Configuration DEFAULT_PROVIDER Encryption EncryptionTarget ImportBlock "
        "KeyProviderBlock Lifecycle MethodName Module ModuleCall Output ProviderBlock Removed "
        "ResourceBlock Settings Variable"
    ),
    "constants": "constant constant_flag constant_text is_constant NO_NAMES",
    "limits": "beyond DEFAULT Limits limits_of operators_limits VARIABLE",
}
