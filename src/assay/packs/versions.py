"""The order of versions by Semantic Versioning 2.0.0."""

Precedence = tuple[tuple[int, ...], bool, tuple[tuple[bool, int, str], ...]]


def precedence(version: str) -> Precedence:
    """
    A key to sort by: a pre-release comes before its release, and numbers before texts. Build metadata do not count.

        precedence("1.0.0-rc.1") < precedence("1.0.0") < precedence("1.0.1")
    """
    plain, _, pre = version.partition("+")[0].partition("-")
    parts = tuple(
        (not part.isdigit(), int(part[:18]) if part.isdigit() else 0, part)
        for part in (pre.split(".") if pre else ())
    )
    return tuple(int(part[:18]) for part in plain.split(".")), not pre, parts
