"""Every attack of `make soak`, on a real server: another tenant is answered meanwhile, and SIGTERM ends the server."""

import pytest

from two_tenants import under_attack

from bench.attacks import ATTACKS, LONG  # isort: skip  # pyright: ignore[reportMissingImports]


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in LONG])
def test_another_tenant_is_answered(two_tenants, name):
    under_attack(two_tenants, ATTACKS[name])
