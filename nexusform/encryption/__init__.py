"""Encryption at rest of state, journal and plan files."""

# Public names of the package, by module.
PUBLIC = {
    "document_cipher": "PLAN read_encryption_purpose DocumentCipher EncryptedBackend",
    "key_providers": "EncryptionProblem",
    "signatures": (
        "check_signature sign_digest sign_statement check_statement PLAN_PURPOSE "
        "REVOCATIONS_PURPOSE"
    ),
}
