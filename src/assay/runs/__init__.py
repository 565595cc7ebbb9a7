"""The way every run goes."""
