"""The command that checks whether another host keeps the protocols."""
