"""What ``make bench`` and ``make calibration`` run; not part of the package."""
