"""Run all cases, or those of a kind, or one: ``python -m fuzz [kind [number]]``."""

import argparse
import os
import sys
import time

from fuzz.report import Tally, describe
from fuzz.runner import FULL, SHORT, run_all, run_one


def main():
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kind", nargs="?", choices=FULL, help="only cases of this kind")
    parser.add_argument("number", nargs="?", type=int, help="only this case, with all that it drew")
    parser.add_argument("--short", action="store_true", help="the cases of make test")
    parser.add_argument("--times", type=float, default=1.0, help="so many times as many cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at once")
    given = parser.parse_args()
    if given.number is not None:
        result = run_one(given.kind, given.number)
        print(describe(result))
        sys.exit(bool(result.findings))
    wanted = SHORT if given.short else FULL
    cases = [
        (kind, given.first + number)
        for kind, count in wanted.items()
        for number in range(int(count * given.times))
        if given.kind in (None, kind)
    ]
    tally, start = Tally(), time.monotonic()
    run_all(cases, given.jobs, tally.add)
    print(tally.text(time.monotonic() - start))
    sys.exit(bool(tally.findings))


if __name__ == "__main__":
    main()
