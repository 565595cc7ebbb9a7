"""Agents of frameworks, one adapter each. tests/backends/agents/frameworks tests what all adapters guarantee."""
