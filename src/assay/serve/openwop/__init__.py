"""OpenWOP over HTTP: runs, events, evals, workflows, agents and suites (contract §1–§6, §9)."""
