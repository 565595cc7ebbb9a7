"""The exit codes of the command. A gate of the library has them too."""

PASSED = 0  # done; and where something was measured, it passed
ERROR = 1  # something could not be measured, or the run failed
USAGE = 2  # wrong usage, or an invalid file
NOT_PASSED = 3  # measured, and not good enough
