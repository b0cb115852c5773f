"""The checker of links finds what leads nowhere."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))

from check_links import broken


def test_pages_anchors_and_pictures_are_followed(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a><img src="no.png">')
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html#gone">a</a><a href="#here">')
    assert broken(tmp_path) == ["a.html: no.png", "b.html: a.html#gone"]


def test_other_hosts_are_left_alone(tmp_path):
    (tmp_path / "a.html").write_text('<a href="https://example.org/x">x</a><a href="mailto:x">')
    assert broken(tmp_path) == []
