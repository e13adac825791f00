#!/usr/bin/env python3
"""The API semantics capstan relies on, as one suite that runs unchanged against any server.

    conformance_test.py                 the embedded API server
    conformance_test.py --real          each kube-apiserver in the cache (tools/build-kube); 77: none there
    conformance_test.py --kubeconfig F  the server of F (a JSON kubeconfig with a client certificate)
    … [-k PATTERN]                      only the tests whose id holds PATTERN

A test that differs on a server is either fixed there or listed in differences.py, with the reason; a listed one that
passes is an error. docs/local.md tells the same differences in words.
"""
import argparse
import http.client
import importlib
import json
import pathlib
import signal
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
import control_plane  # noqa: E402
import differences  # noqa: E402
import fixtures  # noqa: E402
from embedded_server import EmbeddedServer  # noqa: E402
from kube_api import Api  # noqa: E402

CASES = sorted(path.stem for path in (HERE / "cases").glob("*.py") if path.stem != "__init__")


class Outcome(unittest.TextTestResult):
    """Failures of listed tests are expected; their success is not."""
    listed = {}
    differing = None

    def short(self, test):
        return ".".join(test.id().split(".")[-2:])

    def addFailure(self, test, error):
        if self.short(test) in self.listed:
            self.differing.add(self.short(test))
        else:
            super().addFailure(test, error)

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            if self.short(test) in self.listed:
                self.differing.add(self.short(test))
            else:
                super().addSubTest(test, subtest, error)

    def addSuccess(self, test):
        if self.short(test) in self.listed and self.short(test) not in self.differing:
            self.failures.append((test, "listed in differences.py, but it passes: take it off the list and out of docs/local.md"))
            self.stream.writeln(f"{self.short(test)}: NO LONGER DIFFERS")
        elif self.short(test) not in self.differing:
            super().addSuccess(test)


def suite(pattern):
    loader = unittest.TestLoader()
    found = unittest.TestSuite()
    for name in CASES:
        tests = loader.loadTestsFromModule(importlib.import_module(f"cases.{name}"))
        for group in tests:
            found.addTests(test for test in group if pattern in test.id())
    return found


def run(name, kubeconfig, pattern):
    """Whether every test passed on that server."""
    start = time.monotonic()
    api = Api(kubeconfig)
    fixtures.install(api)
    api.close()
    fixtures.Case.kubeconfig = kubeconfig
    tests = suite(pattern)
    Outcome.listed, Outcome.differing = differences.of(name), set()
    result = unittest.TextTestRunner(verbosity=1, resultclass=Outcome, stream=sys.stderr).run(tests)
    print(f"{name}: {result.testsRun} tests, {len(result.failures) + len(result.errors)} failed, "
          f"{len(Outcome.differing)} differ as listed, {time.monotonic() - start:.0f} s", flush=True)
    return result.wasSuccessful()


def forget(plane):
    """Compacts etcd, so that a real server too has versions that it does not know any more."""
    def etcd(call, body):
        connection = http.client.HTTPConnection("127.0.0.1", plane.etcd_port, timeout=30)
        connection.request("POST", f"/v3/kv/{call}", json.dumps(body))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return answer
    etcd("compaction", {"revision": etcd("range", {"key": "AA=="})["header"]["revision"], "physical": True})
    plane.end("apiserver")  # its cache of lists knows the old versions still
    plane.start_apiserver()


def run_real(pattern):
    versions = control_plane.available()
    if not versions:
        print("SKIPPED: no real kube-apiserver in the cache; tools/build-kube and tools/build-etcd build one")
        return control_plane.SKIPPED
    good = True
    for version in versions:
        try:
            with control_plane.ControlPlane(version) as plane:
                forget(plane)
                plane.start_controllers()
                good = run(version, plane.kubeconfig, pattern) and good
        except FileNotFoundError as error:
            print(f"SKIPPED: {error}")
            return control_plane.SKIPPED
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", action="store_true", help="each kube-apiserver in the cache")
    parser.add_argument("--kubeconfig", help="any other server")
    parser.add_argument("--name", default="other", help="with --kubeconfig: the server's name in differences.py")
    parser.add_argument("-k", dest="pattern", default="", help="only tests whose id holds this")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with the servers
    if arguments.kubeconfig:
        return 0 if run(arguments.name, arguments.kubeconfig, arguments.pattern) else 1
    if arguments.real:
        return run_real(arguments.pattern)
    with EmbeddedServer() as server:
        return 0 if run("embedded", server.kubeconfig, arguments.pattern) else 1


if __name__ == "__main__":
    sys.exit(main())
