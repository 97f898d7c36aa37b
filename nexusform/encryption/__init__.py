"""Encryption at rest: what becomes of state, journal and plan files before they are written."""

# What other rooms may use of this one.
DOOR = {
    "backend": "EncryptedBackend",
    "envelope": "PLAN sealed_as Sealer",
    "keys": "EncryptionProblem",
    "signatures": "check_signature sign",
}
