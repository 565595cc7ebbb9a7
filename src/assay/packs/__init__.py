"""Packs: agents with their prompts, schemas and suites, in one signed archive (contract §7)."""
