"""Print how many secrets leak, for each wrapping and each kind; or how many lines of files are altered.

python -m tests.redaction [--samples N] [--known] [--kind TEXT] [--wrapping TEXT] [--examples]
python -m tests.redaction --altered PATH...
"""

import argparse
from collections import Counter
from pathlib import Path

from tests.redaction.kinds import KINDS
from tests.redaction.measure import SEED, measure
from tests.redaction.ordinary_files import count_altered
from tests.redaction.wrappings import LIMITED, WRAPPINGS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.redaction")
    parser.add_argument("--samples", type=int, default=10, help="secrets of each kind")
    parser.add_argument("--known", action="store_true", help="tell the redaction the secrets")
    parser.add_argument("--kind", default="", help="only kinds whose name contains this")
    parser.add_argument("--wrapping", default="", help="only wrappings whose name contains this")
    parser.add_argument("--examples", action="store_true", help="print one leak for each kind and wrapping")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--altered", nargs="+", type=Path, help="print the altered lines of these files")
    options = parser.parse_args()
    if options.altered:
        print_altered(options.altered)
    else:
        print_leaks(options)


def print_altered(paths: list[Path]) -> None:
    counted = count_altered(paths)
    for path, before, after in counted.altered:
        print(f"{path}\n  {before[:300]!r}\n  {after[:300]!r}")
    print(f"{len(counted.altered)} of {counted.lines} lines altered")


def print_leaks(options: argparse.Namespace) -> None:
    kinds = [kind for kind in KINDS if options.kind in kind.name]
    wrappings = [wrapping for wrapping in WRAPPINGS if options.wrapping in wrapping.name]
    totals: dict[str, Counter[str]] = {"wrapping": Counter(), "kind": Counter()}
    leaked: dict[str, Counter[str]] = {"wrapping": Counter(), "kind": Counter()}
    for cell in measure(kinds, wrappings, options.samples, known=options.known, seed=options.seed):
        for by, name in (("wrapping", cell.wrapping), ("kind", cell.kind)):
            totals[by][name] += cell.samples
            leaked[by][name] += len(cell.leaked)
        if options.examples and cell.leaked:
            print(f"{cell.kind}, {cell.wrapping}: {len(cell.leaked)} of {cell.samples}\n  {cell.leaked[0]}")
    for by, samples_of in totals.items():
        print(f"\n{by:30} samples  leaked")
        for name, samples in sorted(samples_of.items(), key=lambda each: leaked[by][each[0]] / each[1]):
            share = leaked[by][name] / samples
            mark = "  limit 2 %" if by == "wrapping" and name in LIMITED and not options.known else ""
            print(f"{name:30} {samples:7} {share:7.2%}{mark}")
    samples, leaks = totals["wrapping"].total(), leaked["wrapping"].total()
    print(f"\n{len(kinds)} kinds, {len(wrappings)} wrappings")
    print(f"{leaks} of {samples} leaked, {leaks / samples:.2%}")


if __name__ == "__main__":
    main()
