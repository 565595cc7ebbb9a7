"""
The workflow kind: a small runner, its nodes, and the verdicts that gate what they come to (RFC 0090, openwop-contract
§8, §13).
"""

KIND = "workflow"  # of runs
