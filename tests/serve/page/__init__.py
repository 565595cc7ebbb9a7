"""Tests of the page. A package, so that its fixtures end with its last test."""
