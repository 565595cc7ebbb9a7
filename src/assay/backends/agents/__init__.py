"""Agents under test, one file per kind. tests/backends/agents/test_agents.py tests what all kinds guarantee."""
