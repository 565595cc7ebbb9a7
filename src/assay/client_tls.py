"""
TLS of the connections that assay opens: which certificates it trusts.

Those of the system, or of SSL_CERT_FILE, and those of the setting `tls_ca`, for hosts with a private CA.
"""

from typing import TYPE_CHECKING

from assay.errors import UsageError

if TYPE_CHECKING:
    from ssl import SSLContext


class _Trusted:
    """The file of the settings that this process loaded last."""

    authorities = ""


_trusted = _Trusted()


def trust(path: str) -> None:
    """Trust the CAs in a PEM file too, from the next connection on; "": no others than the system's."""
    if path and path != _trusted.authorities:
        _context(path)  # a wrong file is refused at the start, not at the first connection
    _trusted.authorities = path


def client_context() -> "SSLContext":
    """The context of a new connection."""
    return _context(_trusted.authorities)


def _context(authorities: str) -> "SSLContext":
    import ssl  # deferred import: most commands open no connection

    context = ssl.create_default_context()  # it reads SSL_CERT_FILE now
    if authorities:
        try:
            context.load_verify_locations(authorities)
        except (OSError, ssl.SSLError) as wrong:
            reason = (
                wrong.strerror
                if type(wrong) is not ssl.SSLError and wrong.strerror
                else "no certificate in it"
            )
            raise UsageError(
                f"settings: tls_ca: expected a file of CA certificates as PEM, got {authorities!r}: {reason}"
            ) from None
    return context
