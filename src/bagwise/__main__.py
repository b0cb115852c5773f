"""``python -m bagwise`` is the command ``bagwise``; Ctrl-C stops it cleanly from the beginning.

So nothing is imported here before :func:`main` runs: the libraries behind the commands take their
time, and an interrupt in the middle of an import is a traceback, an ImportError, or lost.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

# Seconds after which to look again whether an import is over.
AGAIN = 0.02

INTERRUPTED = 130
STOPPED = "bagwise: stopped; nothing was written\n"


def main() -> None:
    """Run the command line."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as by nohup
        for name in ("SIGINT", "SIGALRM"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), _stop)
    _open_closed()
    try:
        from bagwise.cli import main as run

        run()
    except KeyboardInterrupt:  # before a command had begun
        if sys.stderr is not None:
            sys.stderr.write(STOPPED)
        _leave()
    except SystemExit as end:
        if end.code == INTERRUPTED:
            _leave()
        raise
    finally:
        if signal.getsignal(signal.SIGINT) is _stop:  # what is left is the end of the process
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _leave() -> NoReturn:
    """End the process as interrupted, in our own words.

    Python itself would kill it with SIGINT if Ctrl-C came while code from a string was run, of
    which dataclasses and typer have some.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.flush()
    os._exit(INTERRUPTED)


def _stop(_: int, frame: FrameType | None) -> None:
    """Interrupt the work; an import that is under way is first let come to its end."""
    if hasattr(signal, "setitimer") and _importing(frame):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        return
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
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
