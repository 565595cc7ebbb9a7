"""What every kind of run shares: intake, execution, the log, copies."""
