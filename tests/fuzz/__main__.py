"""Run many cases: python -m fuzz experiments --count 10000 (in the folder tests)."""

from __future__ import annotations

import argparse
import collections
import sys
import time

from . import jobs, workers
from .judge import Finding


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kind", choices=jobs.JOBS)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=1000, help="how many")
    parser.add_argument("--workers", type=int, default=2, help="how many at the same time")
    parser.add_argument("--show", action="store_true", help="print the cases, do not do them")
    given = parser.parse_args()
    kind = jobs.JOBS[given.kind]
    numbers = range(given.first, given.first + given.count)
    if given.show:
        for number in numbers:
            print(kind.show(number))
        return
    verdicts: collections.Counter[str] = collections.Counter()
    findings: dict[tuple[str, str], list[tuple[int, Finding]]] = {}
    began = time.monotonic()
    for done in workers.do(kind.job, numbers, workers=given.workers, wall_s=kind.wall_s):
        verdicts[done.verdict] += 1
        for finding in done.findings:
            cases = findings.setdefault((finding.kind, finding.what), [])
            cases.append((done.number, finding))
            if len(cases) == 1:
                print(
                    f"{done.number}: {finding.kind}: {finding.what}: {finding.detail[:300]!r}",
                    flush=True,
                )
        if sum(verdicts.values()) % 500 == 0:
            print(f"{sum(verdicts.values())} cases, {time.monotonic() - began:.0f} s", flush=True)
    print(f"\n{dict(verdicts)} in {time.monotonic() - began:.0f} s")
    for (name, what), cases in sorted(findings.items(), key=lambda item: -len(item[1])):
        numbers_shown = ", ".join(str(number) for number, _ in cases[:6])
        print(f"{len(cases):5d} {name}: {what}   (cases {numbers_shown})")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
