"""Deployments of agent versions: records, transitions, the evidence they need, and channels (RFC 0082)."""

KIND = "deployment"  # of runs
