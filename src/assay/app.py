"""The composition root: settings become a registry, services and a plan. The only file that sees both sides."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from assay.checks import STANDARD
from assay.checks.registry import Registry, from_module, installed
from assay.errors import WrongUsage
from assay.ports import Services, Store
from assay.settings import Settings


def registry(settings: Settings, modules: Iterable[str] = ()) -> Registry:
    """The standard checks, those of installed packages, and those the operator names."""
    named = [from_module(spec) for spec in (*settings.check_modules, *modules)]
    return STANDARD.extended([*installed(), *named])


def services(settings: Settings) -> Services:
    return Services(limits=settings.limits)


@asynccontextmanager
async def store(settings: Settings) -> AsyncGenerator[Store]:
    """The record of this host: at `database_url`, else SQLite in its home folder. Brought up to date, and closed."""
    from assay.backends.stores.open import open_store  # a lazy door: most runs keep no record

    address = settings.database_url or _embedded(Path(settings.home))
    opened = await open_store(address)
    try:
        yield opened
    finally:
        await opened.close()


def _embedded(home: Path) -> str:
    """In a folder for us alone: what is recorded is not for others."""
    from assay.access.local import make_private  # a lazy door

    if "?" in str(home):
        raise WrongUsage(f"home: {str(home)!r} cannot hold a database, because of its '?'")
    make_private(home)
    return f"sqlite:///{home / 'assay.db'}"
