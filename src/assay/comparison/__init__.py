"""Results of runs, compared: policies, verdicts and gates."""
