#!/usr/bin/env python3
"""The main cluster tests once more for each newer etcd that tools/build-etcd has left in the cache.

Builds nothing. Says first which versions run and which do not; with none of them the test is skipped in words.
"""
import http.client
import json
import os
import pathlib
import re
import sys
import unittest
import urllib.parse

from cluster_cases import SEED, CrashesMixin, ThreeMembersMixin

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "capstan"
WANTED = {"3.5": "3.5.33", "3.6": "3.6.16"}  # minor -> the version to build when none is there
SKIPPED = 77  # meson's exit code for it


def cached():
    """version -> directory of its programs."""
    found = {}
    for path in CACHE.glob("etcd-*/bin/etcd"):
        version = path.parent.parent.name.removeprefix("etcd-")
        if re.fullmatch(r"\d+\.\d+\.\d+", version) and os.access(path, os.X_OK):
            found[version] = path.parent
    return dict(sorted(found.items(), key=lambda item: [int(n) for n in item[0].split(".")]))


def reported_version(endpoint):
    connection = http.client.HTTPConnection(urllib.parse.urlparse(endpoint).netloc, timeout=5)
    try:
        connection.request("GET", "/version")
        return json.loads(connection.getresponse().read())["etcdserver"]
    finally:
        connection.close()


def make_tests(version, directory):
    def test_it_is_this_version(self):
        self.assertEqual({reported_version(e) for e in self.cluster.endpoints()}, {version})

    suffix = version.replace(".", "_")
    members = type(f"ThreeMembers_{suffix}", (ThreeMembersMixin, unittest.TestCase),
                   {"etcd_dir": directory, "test_it_is_this_version": test_it_is_this_version})
    crashes = type(f"Crashes_{suffix}", (CrashesMixin, unittest.TestCase), {"etcd_dir": directory})
    return [members, crashes]


def main():
    versions = cached()
    print(f"seed {SEED}", file=sys.stderr)
    print("run: " + (", ".join(f"etcd {version}" for version in versions) or "none"), file=sys.stderr)
    for minor, version in WANTED.items():
        if not any(v.startswith(minor + ".") for v in versions):
            print(f"not run: etcd {minor}: none in {CACHE}; tools/build-etcd {version} builds one", file=sys.stderr)
    if not versions:
        return SKIPPED
    loader = unittest.TestLoader()
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for v, d in versions.items() for case in make_tests(v, d))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
