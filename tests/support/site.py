"""The script that builds the site, as a module."""

from importlib.util import module_from_spec, spec_from_file_location

from support.documents import ROOT

_spec = spec_from_file_location("site_build", ROOT / "site" / "build.py")
assert _spec is not None
assert _spec.loader is not None
build = module_from_spec(_spec)
_spec.loader.exec_module(build)
