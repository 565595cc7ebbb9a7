"""Implementations of the ports. They import the ports and the protocol only."""
