"""
What the published conformance suite expects on a host: sample agents, workflows, suites and a mock node. Test-only.
"""
