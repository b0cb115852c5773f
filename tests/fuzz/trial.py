"""Trial: one case, what it drew, what it called, and whatever must never happen."""

import re
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bagwise.exceptions import BagwiseError, BagwiseWarning

KINDS = ("bags", "fit", "tables", "files", "command")

# What has no place in a sentence for users: arrays, private names, types and places in memory.
INTERNALS = re.compile(
    r"array\(|\[\s*-?(nan|inf)\b|\bnp\.(?!isfinite)|numpy\.|<class |object at 0x|Traceback|\bself\b"
    r"|(?<![\w'\"=./-])_[a-z]\w+|\bthe (bag|weights|noise) part\b|SizeCurve|loadings|spectrum\b"
    r"|\bpa\.|pyarrow\.|narwhals|nw\.|Errno"
)
SENTENCE = re.compile(r".+; expected .+\. .+[.)?]", re.DOTALL)
LONGEST_MESSAGE = 1000
LABEL_RANGES = 10.0

# Labels that differ by less, relative to their size, have no scale of their own.
EQUAL = 1e-12


class Refused(Exception):
    """Bagwise said no, in its own words: the case ends here, and well."""


class Found(Exception):
    """Something happened that must not: the case ends here."""


@dataclass
class Trial:
    """One case.

    Attributes
    ----------
    kind, number : which;  folder : an empty folder of its own
    drawn : what was drawn, in words;  findings : what must not have happened
    counts : of calls, fits, refusals and predicted bags
    """

    kind: str
    number: int
    folder: Path
    drawn: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.rng = np.random.default_rng([KINDS.index(self.kind), self.number])

    def draw(self, what, options, odd=(), p_odd=0.1):
        """Draw an option, with probability p_odd an odd one, and write it down."""
        options = list(odd if len(odd) and self.rng.random() < p_odd else options)
        chosen = options[self.rng.integers(len(options))]
        self.drawn.append(f"{what}: {short(chosen)}")
        return chosen

    def chance(self, p):
        """Return True with probability p."""
        return bool(self.rng.random() < p)

    def call(self, what, function, *arguments, allow=(), **options):
        """Call bagwise; errors and warnings that are not its own are findings."""
        self.counts["calls"] += 1
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = function(*arguments, **options)
            except BagwiseError as error:
                self.warned(what, caught)
                self.check_message(what, str(error))
                self.counts["refused"] += 1
                self.drawn.append(f"{what} refused: {error}"[:300])
                raise Refused from None
            except allow as error:
                self.drawn.append(f"{what}: {type(error).__name__}: {error}"[:300])
                raise Refused from None
            except Exception as error:
                self.details.append(traceback.format_exc())
                self.find(what, f"raw {type(error).__name__}: {error} ({place(error)})")
                raise Found from None
        self.warned(what, caught)
        return result

    def warned(self, what, caught):
        """Note warnings; those of others are findings."""
        for warning in caught:
            if not issubclass(warning.category, BagwiseWarning):
                where = f"{Path(warning.filename).name}:{warning.lineno}"
                text = f"{warning.category.__name__}: {warning.message} ({where})"
                self.find(what, f"raw warning {text}")
            else:
                self.check_message(what, str(warning.message), sentence=False)
                self.drawn.append(f"{what} warned: {warning.message}"[:300])

    def check_message(self, what, message, *, sentence=True):
        """Find messages that show internals, are endless, or have no remedy."""
        inside = INTERNALS.search(message)
        if inside:
            self.find(what, f"message with internals ({inside.group()}): {message}")
        if len(message) > LONGEST_MESSAGE:
            self.find(what, f"message of {len(message)} characters: {message[:200]}…")
        if sentence and not SENTENCE.fullmatch(message):
            self.find(what, f"message without found, expected and remedy: {message}")

    def finite(self, what, *arrays):
        """Find NaN and infinities."""
        for array in arrays:
            array = np.asarray(array, dtype=np.float64)
            if not np.isfinite(array).all():
                self.find(what, f"silent {array[~np.isfinite(array)][0]} in the answer")

    def near_labels(self, what, mean, std, labels):
        """Find predictions beyond ten ranges of the labels.

        Labels that are equal, to what models tell apart, have a millionth, or as little of the
        stated standard deviation as an average over draws may err by.
        """
        low, high = float(np.min(labels)), float(np.max(labels))
        least = 1e-6 * (max(abs(low), abs(high)) or 1.0)
        if high - low <= EQUAL * max(abs(low), abs(high)):
            least = np.maximum(least, 0.01 * std)
        beyond = np.maximum(low - mean, mean - high) / np.maximum(high - low, least)
        if beyond.size and beyond.max() > LABEL_RANGES:
            self.find(what, f"prediction {beyond.max():.3g} label ranges beyond the labels")

    def find(self, what, text):
        """Write down what must not have happened."""
        self.findings.append(f"{what}: {text}"[:700])


def place(error):
    """Return the last place within bagwise that an error passed."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "bagwise" in Path(frame.filename).parts] or frames
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"


def short(value):
    """Write a value in a few words."""
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) < 80 else f"{text[:77]}…"
