"""Runner: cases in processes of their own, so that one that hangs or crashes is but a finding."""

import multiprocessing
import signal
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import wait

SECONDS_PER_CASE = 300.0
GRACE = 15.0  # for code that does not listen to signals, until its process is stopped

# How many cases of each kind: all of them, and those of a short run.
FULL = {"bags": 2000, "fit": 4000, "tables": 1500, "files": 1500, "command": 1000}
SHORT = {"bags": 50, "fit": 40, "tables": 25, "files": 25, "command": 10}


@dataclass
class Result:
    """How a case ended, as it is sent from one process to another."""

    kind: str
    number: int
    findings: list[str] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)
    seconds: float = 0.0


class TooLong(BaseException):
    """The case took too long; no ``except Exception`` keeps it."""


def run_one(kind, number):
    """Run one case, with an alarm."""
    from fuzz.kinds import run_case

    def ring(*_):
        raise TooLong

    start = time.perf_counter()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_PER_CASE)
    try:
        trial = run_case(kind, number)
        result = Result(kind, number, trial.findings, trial.drawn, trial.counts, trial.details)
    except TooLong:
        result = Result(kind, number, [f"hang: not done after {SECONDS_PER_CASE:.0f} s"])
    except Exception:
        result = Result(kind, number, ["a fault of the fuzzer"], details=[traceback.format_exc()])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    result.seconds = time.perf_counter() - start
    return result


def serve(pipe):
    """Run the cases that come through a pipe, until it is closed."""
    from bagwise._utils.work import one_thread

    with one_thread("blas"):
        while True:
            try:
                case = pipe.recv()
            except EOFError:
                return
            pipe.send(run_one(*case))


class Worker:
    """A process that runs one case after another."""

    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()

    def start(self, case):
        self.case, self.deadline = case, time.monotonic() + SECONDS_PER_CASE + GRACE
        self.pipe.send(case)

    def stop(self):
        self.process.kill()
        self.process.join()


def run_all(cases, n_workers, done):
    """Run cases in several processes and call ``done`` with each result."""
    cases = iter(cases)
    workers = [Worker() for _ in range(n_workers)]
    busy = []
    try:
        for worker in workers:
            _next(worker, cases, busy)
        while busy:
            wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in list(busy):
                result = _result(worker)
                if result is None:
                    continue
                busy.remove(worker)
                done(result)
                if not worker.process.is_alive():
                    worker.__init__()
                _next(worker, cases, busy)
    finally:
        for worker in workers:
            worker.stop()


def _next(worker, cases, busy):
    case = next(cases, None)
    if case is not None:
        worker.start(case)
        busy.append(worker)


def _result(worker):
    """Return the result of a worker's case; a finding if it died or hangs; None if still at it."""
    if worker.pipe.poll():
        try:
            return worker.pipe.recv()
        except EOFError:
            worker.process.join(GRACE)
            code = worker.process.exitcode
            return Result(*worker.case, [f"crash: the process ended with code {code}"])
    if time.monotonic() > worker.deadline:
        worker.stop()
        return Result(*worker.case, [f"hang: stopped after {SECONDS_PER_CASE + GRACE:.0f} s"])
    return None
