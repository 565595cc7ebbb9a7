"""The reference material beside the checkout, where it is there."""

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the reference material ../shared is not here")
