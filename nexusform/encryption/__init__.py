"""Encryption at rest of state, journal and plan files."""

# Public names of the package, by module.
PUBLIC = {
    "encrypted_backend": "EncryptedBackend",
    "envelope": "PLAN read_purpose DocumentCipher",
    "keys": "EncryptionProblem",
    "signatures": "check_signature sign_digest sign_statement check_statement",
}
