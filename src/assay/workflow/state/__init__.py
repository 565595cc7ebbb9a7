"""The state of a workflow, without effects."""
