"""Test-only routes of the OpenWOP conformance suite."""
