"""Agents under test, one file per kind. tests/agents/test_agents.py tests what all kinds guarantee."""
