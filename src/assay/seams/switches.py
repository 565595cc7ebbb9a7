"""The switches of the test-only parts: variables of the environment that only an operator sets."""

import os
from collections.abc import Mapping


def fixtures_enabled(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the conformance suite may start its own workflows here (openwop-contract §11)."""
    return (os.environ if environment is None else environment).get("OPENWOP_CONFORMANCE_SEED") == "true"


def routes_enabled(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this host serves the test-only routes of the conformance suite (openwop-contract §0.6)."""
    return (os.environ if environment is None else environment).get("OPENWOP_TEST_SEAM_ENABLED") == "true"
