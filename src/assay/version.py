"""The version of assay. The build reads it from here, so it does not depend on the metadata of an installation."""

__version__ = "0.1.0"


def is_older(version: str, other: str) -> bool:
    """Whether `version` comes before `other`. Only the leading numbers count: 1.10.0rc1 is as old as 1.10.0."""
    return _numbers(version) < _numbers(other)


def _numbers(version: str) -> list[int]:
    numbers = list[int]()
    for part in version.split("."):
        digits = len(part) - len(part.lstrip("0123456789"))
        if digits:
            numbers.append(int(part[:digits]))
        if digits < len(part):
            break
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers
