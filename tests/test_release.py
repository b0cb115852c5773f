"""What is released: wheel and sdist hold what they should and nothing else."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def tracked(*paths):
    """Return the files under version control."""
    done = subprocess.run(
        ["git", "ls-files", *paths], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a checkout")
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both, without the network."""
    for package in ("build", "hatchling"):
        pytest.importorskip(package)
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return out


@pytest.mark.long
def test_the_wheel_holds_the_package_and_nothing_else(built):
    (path,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(path).namelist())
    info = f"bagwise-{VERSION}.dist-info/"
    about = {info + name for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")}
    expected = {name.removeprefix("src/") for name in tracked("src")}
    assert names == expected | about | {info + "licenses/LICENSE"}


@pytest.mark.long
def test_the_sdist_holds_what_is_tracked_and_nothing_that_is_made(built):
    (path,) = built.glob("*.tar.gz")
    root = f"bagwise-{VERSION}/"
    names = {name.removeprefix(root) for name in tarfile.open(path).getnames()}
    made = names - tracked() - {"PKG-INFO"}
    assert made == set()
    for needed in ("README.md", "SECURITY.md", "docs/conf.py", "tests/conftest.py", ".gitignore"):
        assert needed in names
    assert tracked("src", "tests", "docs/guide", "docs/gallery") <= names
    assert not any(name.startswith((".github", ".ci", "docs/_build")) for name in names)


@pytest.mark.long
def test_what_is_built_passes_the_check_of_the_index(built):
    pytest.importorskip("twine")
    files = [str(path) for path in built.iterdir()]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)


def test_versions_agree():
    import bagwise

    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert bagwise.__version__ == VERSION
    assert f"\nversion: {VERSION}\n" in citation
    assert f"\n## [{VERSION}] - " in changelog
