"""Live tools, one file a kind; what they all promise is in tests/agents/test_tools.py."""
