"""Live tools, one file a kind; what they all promise is in tests/test_tools.py."""
