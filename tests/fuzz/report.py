"""What is printed: each finding, with the command that runs its case again, and the counts."""

from collections import Counter, defaultdict

COUNTS = ("cases", "calls", "refused", "made", "fitted", "predictions", "findings")


def rerun(result):
    """Return the command that runs a case again."""
    return f"PYTHONPATH=tests .venv/bin/python -m fuzz {result.kind} {result.number}"


class Tally:
    """Results so far: counts by kind, and findings, printed as they come."""

    def __init__(self):
        self.counts = defaultdict(Counter)
        self.findings = []
        self.slowest = (0.0, None)

    def add(self, result):
        """Count a result, and print what it found."""
        counts = self.counts[result.kind]
        counts.update(result.counts)
        counts["cases"] += 1
        counts["findings"] += bool(result.findings)
        self.slowest = max(self.slowest, (result.seconds, rerun(result)), key=lambda pair: pair[0])
        for finding in result.findings:
            self.findings.append(finding)
            print(f"{rerun(result)}\n    {finding}", flush=True)

    def text(self, seconds):
        """Return the counts as a table."""
        lines = ["".join(f"{name:>12}" for name in ("kind", *COUNTS))]
        total = sum(self.counts.values(), Counter())
        for kind, counts in [*self.counts.items(), ("all", total)]:
            lines.append(f"{kind:>12}" + "".join(f"{counts[name]:>12,}" for name in COUNTS))
        took, command = self.slowest
        lines.append(f"{seconds:.0f} s; the slowest case took {took:.1f} s: {command}")
        return "\n".join(lines)


def describe(result):
    """Return all that is known of one case."""
    lines = [f"{result.kind} {result.number}, {result.seconds:.1f} s", *result.drawn]
    lines += [f"FOUND {finding}" for finding in result.findings] or ["nothing found"]
    return "\n".join([*lines, *result.details])
