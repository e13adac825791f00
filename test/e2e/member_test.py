#!/usr/bin/env python3
"""Members that lose, damage or swap their volumes, and clusters that grow: with the etcd of .capstan/etcd and with every
newer one that tools/build-etcd has left in the cache. CAPSTAN_E2E_VERSIONS=3.4,3.6 takes fewer.
"""
import os
import sys
import unittest

from cluster_cases import SEED
from member_cases import HealingMixin, ScalingMixin, StartingMixin
from restoring_cases import RestoringMixin
from versions_test import cached


def wanted(version):
    only = [v for v in os.environ.get("CAPSTAN_E2E_VERSIONS", "").split(",") if v]
    return not only or any(version.startswith(v) for v in only)


def make_tests(version, directory):
    suffix = version.replace(".", "_")
    return [type(f"{kind.__name__.removesuffix('Mixin')}_{suffix}", (kind, unittest.TestCase), {"etcd_dir": directory})
            for kind in (StartingMixin, HealingMixin, ScalingMixin, RestoringMixin)]


def main():
    suite = unittest.TestSuite()
    versions = {"3.4": None, **cached()}  # None: what CAPSTAN_ETCD_DIR says
    names = sys.argv[1:]
    for version, directory in versions.items():
        if wanted(version):
            print(f"run: etcd {version}", file=sys.stderr)
            for case in make_tests(version, directory):
                for test in unittest.defaultTestLoader.loadTestsFromTestCase(case):
                    if not names or any(name in test.id() for name in names):
                        suite.addTest(test)
    print(f"seed {SEED}", file=sys.stderr)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
