"""Live tools, one file per kind. tests/backends/tools/test_tools.py tests what all kinds guarantee."""
