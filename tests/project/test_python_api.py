"""The reference page of the Python API is the one that the code makes. `--record` writes it."""

import assay
from support.documents import DOCS
from support.python_api import page

PAGE = DOCS / "python-api.md"


def test_the_reference_of_the_python_api_is_made_from_the_code(request):
    made = page()
    if request.config.getoption("--record"):
        PAGE.write_text(made, "utf-8")
    assert PAGE.read_text("utf-8") == made


def test_the_reference_has_every_public_name():
    text = PAGE.read_text("utf-8")
    assert not [
        name for name in assay.__all__ if f"### assay.{name}\n" not in text and f"- `{name}`" not in text
    ]
