"""Live tools, one file per kind. tests/agents/test_tools.py tests what all kinds guarantee."""
