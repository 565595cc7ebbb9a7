"""The agent-eval kind: an agent is put to the tasks of a suite, and what it does there is scored (RFC 0081)."""
