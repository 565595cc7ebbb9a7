"""Encryption at rest: `keyring`, with the keys of `ASSAY_EVIDENCE_KEY`."""
