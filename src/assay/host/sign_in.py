"""The sign-in of the page at the OpenID provider of the settings."""

from pathlib import Path
from typing import TYPE_CHECKING

from assay.auth.oidc_settings import OidcSettings
from assay.errors import EnvironmentFailure, UsageError
from assay.extras import missing_extra
from assay.ports import Clock, Secret, Store

if TYPE_CHECKING:
    from assay.auth.sign_in import SignIn

FILE = "file:"


async def open_sign_in(settings: OidcSettings, store: Store, clock: Clock) -> "SignIn | None":
    """
    The sign-in, if the settings name a provider.

    A provider that is away may come back, so it is only logged: the page asks for a key until then.
    """
    if not settings.issuer:
        return None
    try:
        from assay.auth.oidc_provider import OidcProvider  # deferred import: the extra `guard`
        from assay.auth.sign_in import SignIn  # deferred import
    except ModuleNotFoundError as error:
        raise missing_extra("the setting oidc", "guard", error=error) from error
    from assay.auth.refreshed import log  # deferred import
    from assay.backends.issuer_http import ask  # deferred import

    provider = OidcProvider(settings, read_secret(settings.client_secret), ask, clock)
    try:
        await provider.open()
    except EnvironmentFailure as trouble:
        log.warning("sign-in: %s; nobody can sign in at the provider until it answers, keys work", trouble)
    return SignIn(settings, provider, store, clock)


def read_secret(secret: Secret | None) -> Secret | None:
    """The secret of the setting, or of the file that it names."""
    if secret is None or not secret.reveal().startswith(FILE):
        return secret
    path = secret.reveal().removeprefix(FILE).strip()
    try:
        text = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else "it is not UTF-8"
        place = "settings: oidc.client_secret"
        raise UsageError(f"{place}: {path}: expected a file that can be read, got {why}") from None
    return Secret(text) if text else None
