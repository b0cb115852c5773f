"""``python -m bagwise`` is the command ``bagwise``; Ctrl-C stops it cleanly from the beginning.

So nothing is imported before :func:`main` runs that Python has not imported itself, but
``signal``: the libraries behind the commands take their time, and an interrupt in the middle of an
import is a traceback, an ImportError, or lost.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # not typing's, which would have to be imported
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

# Ctrl-C, and the timer by which it waits for the end of an import.
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGALRM") if hasattr(signal, name)]

# Seconds after which to look again whether an import is over.
AGAIN = 0.02

INTERRUPTED = 130
STOPPED = "bagwise: stopped; nothing was written\n"

_waiting = False  # whether Ctrl-C waits for the end of an import
_raised = False  # whether it has interrupted the work


def main() -> None:
    """Run the command line."""
    guarded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not as by nohup
    if guarded:
        for number in SIGNALS:
            signal.signal(number, _stop)
    _open_closed()
    try:
        from bagwise.cli import main as run

        run(lambda: _waiting, lambda: _raised)
    except KeyboardInterrupt:  # before a command had begun
        if sys.stderr is not None:
            sys.stderr.write(STOPPED)
        _leave()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave()
        raise
    finally:
        if guarded:  # what is left is the end of the process, which no timer may cut short
            for number, handler in zip(SIGNALS, (signal.SIG_DFL, signal.SIG_IGN), strict=False):
                signal.signal(number, handler)


def _leave() -> NoReturn:
    """End the process as interrupted, in our own words.

    Python itself would kill it with SIGINT if Ctrl-C came while code from a string was run, of
    which dataclasses and typer have some.
    """
    for number in SIGNALS:  # who presses twice is not told twice
        signal.signal(number, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:  # nobody reads it
            pass
    os._exit(INTERRUPTED)


def _stop(_: int, frame: FrameType | None) -> None:
    """Interrupt the work; what would lose the interrupt is first let come to its end."""
    global _waiting, _raised
    _waiting = hasattr(signal, "setitimer") and _is_deaf(frame)
    if not _waiting:
        _raised = True
        raise KeyboardInterrupt
    signal.setitimer(signal.ITIMER_REAL, AGAIN)


def _is_deaf(frame: FrameType | None) -> bool:
    """Whether an import is under way, or what threadpoolctl has C call back."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib") or name.endswith("threadpoolctl.py"):
            return True
        frame = frame.f_back
    return False


def _open_closed() -> None:
    """Let closed standard streams lead nowhere: else the next file opened would be one of them."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is this one


if __name__ == "__main__":
    main()
