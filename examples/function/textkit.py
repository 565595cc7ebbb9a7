"""A plain function under test: it makes a slug from a title, with a bug that its suite finds."""

import re


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
