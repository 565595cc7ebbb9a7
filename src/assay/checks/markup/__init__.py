"""Checks that read markup. To add one, write its file and a line of the table."""

MARKUP_CHECKS = {"xml": "assay.checks.markup.xml:Xml"}
