"""What we say we need is what we need: declared, with a floor, pinned, and quiet when imported."""

import ast
import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
OPTIONAL = PROJECT["optional-dependencies"]
EXTRAS = OPTIONAL["arviz"] + OPTIONAL["learn"] + OPTIONAL["dask"]
NEEDED = [Requirement(line) for line in PROJECT["dependencies"] + EXTRAS]
TESTED = [Requirement(line) for line in OPTIONAL["test"] if not line.startswith("bagwise[")]
SITE = [
    Requirement(line)
    for line in OPTIONAL["docs"] + OPTIONAL["release"]
    if not line.startswith("bagwise[")
]
BUILD = [Requirement(line) for line in PYPROJECT["build-system"]["requires"]]
USERS_CHOICE = {"anndata", "pandas", "polars"}  # used by those who have them

by_name = pytest.mark.parametrize("requirement", NEEDED + TESTED + SITE, ids=lambda r: r.name)


def pins():
    """Return the versions in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def imported():
    """Return the packages that our modules import, ours and Python's own left out."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"bagwise"}


@pytest.mark.parametrize("requirement", NEEDED + TESTED + SITE + BUILD, ids=lambda r: r.name)
def test_every_requirement_is_a_floor_and_nothing_else(requirement):
    """Such are the lines that ``make test-lowest`` reads."""
    assert [bound.operator for bound in requirement.specifier] == [">="]
    assert requirement.marker is None


@by_name
def test_every_requirement_is_pinned_for_the_tests(requirement):
    assert requirement.specifier.contains(pins()[canonicalize_name(requirement.name)])


def test_whatever_is_imported_is_declared():
    owners = packages_distributions()
    needed = {canonicalize_name(requirement.name) for requirement in NEEDED} | USERS_CHOICE
    missing = {
        package
        for package in imported() - USERS_CHOICE
        if not needed & {canonicalize_name(owner) for owner in owners.get(package, [])}
    }
    assert missing == set()


def test_imports_on_a_machine_without_settings_and_caches_are_quiet(tmp_path):
    """ArviZ before the split warned at the first import of the day, and wrote down that it had.

    Deprecations between old versions of others are none of our business (``make test-lowest``).
    """
    variables = ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "MPLCONFIGDIR")
    code = "\n".join(f"import {package}" for package in sorted(imported() - USERS_CHOICE))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", code],
        env=os.environ | dict.fromkeys(variables, str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
