#!/usr/bin/env python3
"""Members that lose, damage or swap their volumes, and clusters that grow: with the etcd of .capstan/etcd and with the
newest one that tools/build-etcd has left in the cache. CAPSTAN_E2E_VERSIONS=3.4,3.5 takes others, "all" every one.
"""
import os
import sys
import unittest

from cluster_cases import SEED
from member_cases import HealingMixin, ScalingMixin, StartingMixin
from restoring_cases import RestoringMixin
from versions_test import cached


def wanted(versions):
    """Those of `versions`, oldest first, that run."""
    only = [v for v in os.environ.get("CAPSTAN_E2E_VERSIONS", "").split(",") if v]
    if only == ["all"]:
        return versions
    if not only:
        return [version for version in versions if version in (versions[0], versions[-1])]
    return [version for version in versions if any(version.startswith(v) for v in only)]


def make_tests(version, directory):
    suffix = version.replace(".", "_")
    return [type(f"{kind.__name__.removesuffix('Mixin')}_{suffix}", (kind, unittest.TestCase), {"etcd_dir": directory})
            for kind in (StartingMixin, HealingMixin, ScalingMixin, RestoringMixin)]


def main():
    suite = unittest.TestSuite()
    versions = {"3.4": None, **cached()}  # None: what CAPSTAN_ETCD_DIR says
    names = sys.argv[1:]
    ordered = sorted(versions, key=lambda version: [int(part) for part in version.split(".")])
    for version in ordered:
        if version not in wanted(ordered):
            print(f"left out: etcd {version} (CAPSTAN_E2E_VERSIONS=all)", file=sys.stderr)
            continue
        print(f"run: etcd {version}", file=sys.stderr)
        for case in make_tests(version, versions[version]):
            for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
                if not names or any(name in test.id() for name in names):
                    suite.addTest(test)
    print(f"seed {SEED}", file=sys.stderr)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
