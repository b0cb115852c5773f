"""Terminal: text as it may be shown there, whatever the names in it are made of."""

from __future__ import annotations

import re

# Controls (escape sequences begin with one), marks that turn the direction of what follows, breaks
# of lines and paragraphs, and halves of characters (as in names of files that are not UTF-8).
UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str, keep: str = "") -> str:
    r"""Return text with control characters written out, so that a terminal obeys none of them.

    Parameters
    ----------
    text : such as the id of a bag, or a sentence with a path in it
    keep : control characters that stay as they are

    Examples
    --------
    >>> print(printable("p\x1b[2J3\n"))
    p\x1b[2J3\n
    """
    return UNSHOWN.sub(
        lambda found: (
            found[0] if found[0] in keep else found[0].encode("unicode_escape").decode("ascii")
        ),
        text,
    )
