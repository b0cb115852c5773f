"""Follow every link within the built site: pages, anchors, pictures, scripts.

    python docs/check_links.py docs/_build/html

Links to other hosts are not followed. Whatever leads nowhere is listed, and the exit code is 1.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LEAD = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}


class Page(HTMLParser):
    """What a page leads to, and what in it can be led to."""

    def __init__(self, text: str) -> None:
        """Read the page."""
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and anchors."""
        values = dict(attrs)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(str(values[name]))
        link = values.get(LEAD.get(tag, ""))
        if link:
            self.links.append(link)


def broken(site: Path) -> list[str]:
    """Return the links that lead nowhere, with the page that has them."""
    files = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in files}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            there = target.is_file() and target.is_relative_to(site)
            anchor = unquote(parts.fragment)
            if there and anchor and target in pages:
                there = anchor in pages[target].anchors
            if not there:
                found.append(f"{path.relative_to(site)}: {link}")
    return found


def main() -> None:
    """Check the site that the command line names."""
    site = Path(sys.argv[1]).resolve()
    found = broken(site)
    pages = sum("_static" not in path.parts for path in site.rglob("*.html"))
    print("\n".join(found) or f"{pages} pages; all links within the site lead somewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
