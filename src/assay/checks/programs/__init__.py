"""Checks that a caller writes: from other checks, and from code. To add one, write its file and a line of the table."""

PROGRAMS = {
    "combination": "assay.checks.programs.combination:Combination",
    "python_code": "assay.checks.programs.python_code:PythonCode",
}
