"""Refusals with error codes of OpenWOP's own, and their HTTP statuses (openwop-contract §2.3)."""

from collections.abc import Sequence

from assay.errors import Forbidden, NotFound, Refusal
from assay.packs.archive import PackTooLarge
from assay.serve.web.responses import STATUS


class NotProvided(Refusal):
    """A capability that the operator has switched off, or that this host does not have."""

    code = "capability_not_provided"

    def __init__(self, capability: str) -> None:
        self.capability = capability
        super().__init__(
            f"this host does not offer {capability}; /.well-known/openwop lists its capabilities"
        )

    @property
    def details(self) -> dict[str, object]:
        return {"capability": self.capability}


class MockForbidden(Refusal):
    """A test double was requested. Only test keys could use one, and this host has none."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class UnsupportedMode(Refusal):
    """A `streamMode` that does not exist, or that excludes another one of the list."""

    code = "unsupported_stream_mode"

    def __init__(self, message: str, supported: Sequence[str]) -> None:
        self.supported = tuple(supported)
        super().__init__(message)

    @property
    def details(self) -> dict[str, object]:
        return {"supported": list(self.supported)}


class CredentialLeak(Refusal):
    """A usage event that contains a credential (RFC 0026)."""

    code = "provider_usage_credential_leak"

    def __init__(self) -> None:
        super().__init__(
            "payload: it contains a reference to a secret, and all followers of the run see usage events"
        )


class ForeignTenant(Forbidden):
    """The body names another tenant than the one of the key (openwop-contract §2.2)."""

    def __init__(self) -> None:
        Refusal.__init__(self, "tenantId: expected the tenant of the key")

    @property
    def details(self) -> dict[str, object]:
        return {"field": "tenantId"}


class NotEnded(Refusal):
    """The summary was requested before the run ended (openwop-contract §3.4)."""

    code = "conflict"

    def __init__(self, run: str, status: str) -> None:
        self.status = status
        super().__init__(f"run {run} is {status}: it has no summary yet")

    @property
    def details(self) -> dict[str, object]:
        return {"runStatus": self.status}


class NotScored(NotFound):
    """The run ended without a summary."""

    def __init__(self, run: str, status: str) -> None:
        super().__init__(f"run {run} is {status}: it has no summary")

    @property
    def details(self) -> dict[str, object]:
        return {"reason": "eval_not_completed"}


OPENWOP_STATUS: dict[type[Exception], int] = {
    NotEnded: 409,
    NotProvided: 501,
    MockForbidden: 403,
    PackTooLarge: 413,
}
STATUS.update(OPENWOP_STATUS)  # a refusal of this file cannot be raised before this line has run
