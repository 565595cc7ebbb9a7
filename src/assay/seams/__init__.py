"""What the published conformance suite expects on a host: sample agents, workflows, suites, a mock node. Test-only."""
