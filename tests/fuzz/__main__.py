"""Run many cases: python -m fuzz experiments --count 10000 (in the folder tests)."""

from __future__ import annotations

import argparse
import collections
import sys
import time
from collections.abc import Sequence

from . import jobs, workers
from .judge import Finding

PROGRESS_INTERVAL_S = 30.0


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kind", choices=jobs.JOBS)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=1000, help="number of cases")
    parser.add_argument("--workers", type=int, default=2, help="number of processes")
    parser.add_argument(
        "--show", action="store_true", help="print the cases instead of running them"
    )
    given = parser.parse_args()
    kind = jobs.JOBS[given.kind]
    numbers = range(given.first, given.first + given.count)
    if given.show:
        for number in numbers:
            print(kind.show(number))
        return
    tally = Tally()
    try:
        tally.run(kind, numbers, given.workers)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    tally.print_summary()
    sys.exit(1 if tally.findings else 0)


class Tally:
    """How cases ended, and their findings by cause."""

    def __init__(self) -> None:
        self.verdicts: collections.Counter[str] = collections.Counter()
        self.findings: dict[tuple[str, str], list[int]] = {}
        self.began = self.printed = time.monotonic()

    def run(self, kind: jobs.Kind, numbers: Sequence[int], n_workers: int) -> None:
        """Run the cases; print the first finding of each cause, and the progress now and then."""
        for done in workers.do(kind.job, numbers, workers=n_workers, wall_s=kind.wall_s):
            self.verdicts[done.verdict] += 1
            for finding in done.findings:
                self._add(done.number, finding)
            if time.monotonic() - self.printed > PROGRESS_INTERVAL_S:
                self.printed = time.monotonic()
                print(f"{self.verdicts.total()} cases, {self._seconds():.0f} s", flush=True)

    def _add(self, number: int, finding: Finding) -> None:
        cause = finding.kind, finding.what
        if cause not in self.findings:
            print(f"{number}: {': '.join(cause)}: {finding.detail[:300]!r}", flush=True)
        self.findings.setdefault(cause, []).append(number)

    def _seconds(self) -> float:
        return time.monotonic() - self.began

    def print_summary(self) -> None:
        """Print the counts, the most frequent causes first."""
        print(f"\n{self.verdicts.total()} cases, {self._seconds():.0f} s: {dict(self.verdicts)}")
        for cause, numbers in sorted(self.findings.items(), key=lambda item: -len(item[1])):
            shown = ", ".join(map(str, numbers[:6]))
            print(f"{len(numbers):5d} {': '.join(cause)}   (cases {shown})")


if __name__ == "__main__":
    main()
