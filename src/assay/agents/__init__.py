"""Running one agent: its context, fixtures, hand-off schemas, usage, and its steps as events."""
