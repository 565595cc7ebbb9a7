"""What the run surface of OpenWOP refuses in words of its own (contract §2.3)."""

from collections.abc import Sequence

from assay.errors import Forbidden, NotFound, Refusal
from assay.serve.web.responses import STATUS


class NotProvided(Refusal):
    """A family that this host has, and that its operator has switched off; or one that it has not at all."""

    code = "capability_not_provided"

    def __init__(self, capability: str) -> None:
        self.capability = capability
        super().__init__(f"this host does not offer {capability}; /.well-known/openwop says what it offers")

    @property
    def details(self) -> dict[str, object]:
        return {"capability": self.capability}


class MockForbidden(Refusal):
    """A test double that only test keys could use, and there are none."""

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
    """A word about usage that carries a credential (RFC 0026)."""

    code = "provider_usage_credential_leak"

    def __init__(self) -> None:
        super().__init__(
            "payload: it holds a reference to a secret, and usage is told to everybody who follows"
        )


class ForeignTenant(Forbidden):
    """A body that names a tenant which is not the credential's (contract §2.2)."""

    def __init__(self) -> None:
        Refusal.__init__(self, "tenantId: a run belongs to the tenant of the key it is asked for with")

    @property
    def details(self) -> dict[str, object]:
        return {"field": "tenantId"}


class NotEnded(Refusal):
    """What comes at the end was asked for before it (contract §3.4)."""

    code = "conflict"

    def __init__(self, run: str, status: str) -> None:
        self.status = status
        super().__init__(f"run {run} is {status}: it has no summary yet")

    @property
    def details(self) -> dict[str, object]:
        return {"runStatus": self.status}


class NotScored(NotFound):
    """It ended without a summary."""

    def __init__(self, run: str, status: str) -> None:
        super().__init__(f"run {run} is {status}: it has no summary")

    @property
    def details(self) -> dict[str, object]:
        return {"reason": "eval_not_completed"}


OPENWOP_STATUS: dict[type[Exception], int] = {NotEnded: 409, NotProvided: 501, MockForbidden: 403}
STATUS.update(OPENWOP_STATUS)  # a refusal of this file cannot be raised before this line has run
