#!/usr/bin/env python3
"""Counts test cases of the last `meson test` in a build directory and prints "N passed, N failed".

A gtest or unittest program counts with its cases; any other test counts as one.
"""
import json
import pathlib
import re
import sys

PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.", re.M)
FAILED = re.compile(r"^ ?\[  FAILED  \] (\d+) tests?, listed below", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.M)
UNITTEST_BAD = re.compile(r"^FAILED \((.*)\)", re.M)
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed", re.M)


def count(result):
    """(passed, failed, skipped) of one test program."""
    output = result.get("stdout", "") + "\n" + result.get("stderr", "")
    good = result["result"] in ("OK", "EXPECTEDFAIL")
    if result["result"] == "SKIP":
        return 0, 0, 1
    passed, failed = PASSED.findall(output), FAILED.findall(output)
    if passed or failed:
        totals = sum(map(int, passed)), sum(map(int, failed))
    elif UNITTEST.search(output):
        ran = sum(map(int, UNITTEST.findall(output)))
        bad = sum(int(n) for part in UNITTEST_BAD.findall(output) for n in re.findall(r"(?:failures|errors)=(\d+)", part))
        totals = ran - bad, bad
    elif PLAIN.search(output):
        pairs = PLAIN.findall(output)
        totals = sum(int(p) for p, _ in pairs), sum(int(f) for _, f in pairs)
    else:
        totals = (1, 0) if good else (0, 1)
    if not good and totals[1] == 0:  # crashed, timed out
        totals = totals[0], 1
    return totals[0], totals[1], 0


def main():
    log = pathlib.Path(sys.argv[1]) / "meson-logs" / "testlog.json"
    results = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    counts = [count(result) for result in results]
    passed, failed, skipped = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
