"""Long campaigns: what only shows after thousands of tries.

    python -m benchmarks.campaign [sbc] [coverage] [fuzz] [kills] [--share 1.0] [--jobs 2]

- sbc: simulation-based calibration of every sampled model, 1,000 replications each
- coverage: 50, 80 and 95 % intervals by bag size in 200 simulated worlds
- fuzz: 100,000 generated cases, hostile ones among them
- kills: 1,000 times ``kill -9`` at a random moment of fit, update and reproduce: is all there

Work comes in numbered units, and each is a line of ``campaign-<part>.jsonl`` (in docs/results, or
``--out``) once it is done: a campaign that is stopped goes on where it was. ``--share .1`` does the
first tenth of the units. ``campaign.md`` has tables of whatever units there are.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bagwise._utils.work import Progress
from benchmarks.campaign_parts import PARTS

TESTS = Path(__file__).resolve().parents[1] / "tests"

# Units that a process does before it makes room for a new one: compiled code piles up. (By hand:
# a pool that is told so, max_tasks_per_child, waits for ever in Python 3.11.)
UNITS_PER_PROCESS = 50


def done(path: Path) -> dict[int, Any]:
    """Return the units of a file by number; a line that was cut by a kill is as if not there."""
    found = dict[int, Any]()
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[row["unit"]] = row
    return found


def work(name: str, unit: int) -> dict[str, Any]:
    """Do one unit, in a process of its own."""
    start = time.perf_counter()
    made = PARTS[name].run(unit)
    return {"unit": unit, "seconds": round(time.perf_counter() - start, 2), **made}


def run(name: str, units: Sequence[int], path: Path, jobs: int) -> list[str]:
    """Do the units that are not there yet, and keep each as it is done; return what went wrong.

    A unit that fails does not end the others, and is done again the next time.
    """
    failed = list[str]()
    left = sorted(set(units) - done(path).keys())
    rounds = [
        left[k : k + jobs * UNITS_PER_PROCESS]
        for k in range(0, len(left), jobs * UNITS_PER_PROCESS)
    ]
    with Progress(f"{name}", len(left)) as bar, path.open("a", encoding="utf-8") as file:
        if path.stat().st_size:
            file.write("\n")  # after a line that was cut
        for some in rounds:
            with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
                under_way = {pool.submit(work, name, unit): unit for unit in some}
                for future in as_completed(under_way):
                    bar.advance(1)
                    error = future.exception()
                    if error is not None:
                        failed.append(
                            f"{name} {under_way[future]}: {type(error).__name__}: {error}"
                        )
                        continue
                    file.write(json.dumps(future.result()) + "\n")
                    file.flush()
    return failed


def tables(folder: Path) -> Iterator[str]:
    """Return what was found so far, in Markdown."""
    yield "# Campaigns"
    yield ""
    yield "By `make campaign` (`python -m benchmarks.campaign`), which goes on where it was."
    for name, part in PARTS.items():
        rows = list(done(folder / f"campaign-{name}.jsonl").values())
        if rows:
            hours = sum(row["seconds"] for row in rows) / 3600
            yield ""
            yield f"## {part.title}"
            yield ""
            yield f"{len(rows):,} of {part.units:,} units, {hours:.1f} hours of one process, by the"
            yield "clock, on machines that had other work as well."
            yield ""
            yield from part.table(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run campaigns and write their tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; by default all")
    parser.add_argument("--share", type=float, default=1.0, help="of the units")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.parts) - set(PARTS))
    if unknown:
        parser.error(f"{', '.join(unknown)} is none of {', '.join(PARTS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    sys.path.append(str(TESTS))  # whose simulations are used; processes have the same path
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # as there are processes: threads of BLAS,
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")  # and ours
    failed = list[str]()
    for name in given.parts or PARTS:
        units = range(max(1, round(given.share * PARTS[name].units)))
        failed += run(name, units, given.out / f"campaign-{name}.jsonl", given.jobs)
        page = "\n".join(tables(given.out)) + "\n"
        (given.out / "campaign.md").write_text(page, encoding="utf-8")
    print((given.out / "campaign.md").read_text(encoding="utf-8"), end="")
    if failed:
        sys.exit("\n".join(["units that failed, and will be tried again:", *failed]))


if __name__ == "__main__":
    main()
