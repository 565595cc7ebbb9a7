"""Checks of installed packages are found, and an environment without them needs no `importlib.metadata`."""

import sys
import zipfile
from importlib.metadata import entry_points

import pytest

from assay.checks import STANDARD
from assay.checks.registry import GROUP, installed_checkers, installed_entry_points, may_offer_checks

OFFERS = f"[{GROUP}]\npolite = polite_checks:Polite\n"
OTHERS = "[console_scripts]\nassay = assay.__main__:main\n"
MODULE = "import assay\nclass Polite(assay.Checker):\n    type = 'polite'\n    def run(self, services): return {'passed': True}\n"


def finders():
    """Those of Python: a package that another test has imported may have added one."""
    return [
        one
        for one in sys.meta_path
        if getattr(one, "__name__", "") == "PathFinder" or not hasattr(one, "find_distributions")
    ]


def folder(path, name, text):
    (path / name).mkdir(parents=True)
    (path / name / "METADATA").write_text("Metadata-Version: 2.1\nName: polite\nVersion: 1.0\n")
    (path / name / "entry_points.txt").write_text(text)
    return str(path)


def archive(path, text):
    file = path / "polite.zip"
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(
            "polite-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: polite\nVersion: 1.0\n"
        )
        opened.writestr("polite-1.0.dist-info/entry_points.txt", text)
    return str(file)


PLACES = {
    "none": (str, False),
    "missing": (lambda path: str(path / "missing"), False),
    "others": (lambda path: folder(path, "other-1.0.dist-info", OTHERS), False),
    "wheel": (lambda path: folder(path, "polite-1.0.dist-info", OFFERS), True),
    "upper case": (lambda path: folder(path, "Polite-1.0.DIST-INFO", OFFERS), True),
    "egg-info": (lambda path: folder(path, "polite.egg-info", OFFERS), True),
    "egg": (lambda path: folder(path / "polite-1.0.egg", "EGG-INFO", OFFERS), True),
    "archive": (lambda path: archive(path, OFFERS), True),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_entry_points_are_those_of_importlib(tmp_path, monkeypatch, place):
    make, offers = PLACES[place]
    directory = make(tmp_path)
    assert may_offer_checks([directory], finders()) == offers
    monkeypatch.setattr(sys, "path", [directory, *sys.path])
    assert installed_entry_points() == tuple(entry_points(group=GROUP))


def test_another_finder_may_offer_checks():
    class Finder:
        def find_distributions(self, context):
            return iter(())

    assert not may_offer_checks([], finders())
    assert may_offer_checks([], [*finders(), Finder()])


def test_the_check_of_a_package_that_is_installed_is_available(tmp_path, monkeypatch):
    (tmp_path / "polite_checks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(folder(tmp_path, "polite-1.0.dist-info", OFFERS))
    (check,) = installed_checkers()
    assert check.type == "polite"
    assert STANDARD.with_checks([check]).find("polite", None) is check
