"""The composition root: settings become a registry, services and a plan. The only file that sees both sides."""

from collections.abc import Iterable

from assay.checks import STANDARD
from assay.checks.registry import Registry, from_module, installed
from assay.ports import Services
from assay.settings import Settings


def registry(settings: Settings, modules: Iterable[str] = ()) -> Registry:
    """The standard checks, those of installed packages, and those the operator names."""
    named = [from_module(spec) for spec in (*settings.check_modules, *modules)]
    return STANDARD.extended([*installed(), *named])


def services(settings: Settings) -> Services:
    return Services(limits=settings.limits)
