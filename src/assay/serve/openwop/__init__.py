"""OpenWOP over HTTP: runs, events, evals, workflows, agents and suites (openwop-contract §1–§6, §9)."""
