"""What an agent eval ends in: scorecard, report, findings."""
