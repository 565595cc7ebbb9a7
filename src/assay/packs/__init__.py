"""Packs: agents with their prompts, schemas and suites, in one signed archive (openwop-contract §7)."""
