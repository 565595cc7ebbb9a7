"""What seals the record at rest: `ring`, made of the keys in `ASSAY_EVIDENCE_KEY`."""
