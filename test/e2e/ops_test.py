#!/usr/bin/env python3
"""The ops listener of a real `capstan run`: every metric of the list, the debug page, who may read them."""
import json
import subprocess
import sys
import unittest

import metrics_names
from local_cluster import CAPSTAN, wait_for
from operator_process import HEAD, LISTENERS, ApiServer, Directory, Operator

PLUGINS = "plugins: {etcd: {featureGates: {EtcdMember: true}}, custodian: {}}\n"
OPEN_METRICS = {"Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.4"}


class Ops(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def start(self, config):
        directory = Directory()
        self.addCleanup(directory.close)
        operator = Operator(directory, directory.write("operator.yaml", HEAD + config + PLUGINS), self.server.kubeconfig)
        self.addCleanup(operator.close)
        wait_for("running plugins", lambda: operator.ask("/readyz")[0] == 200, 60)
        return operator

    def test_every_metric_of_the_list_and_no_other(self):
        operator = self.start(LISTENERS)
        status, text = operator.ask("/metrics")
        self.assertEqual(status, 200)
        self.assertEqual(metrics_names.differences(text), [])
        self.assertEqual(operator.stop(), 0, operator.text())

    def test_open_metrics_is_what_a_scraper_asks_for(self):
        operator = self.start(LISTENERS)
        text = operator.ask("/metrics", OPEN_METRICS)[1]
        self.assertTrue(text.endswith("# EOF\n"), text[-200:])
        self.assertIn("# TYPE controller_runtime_reconcile counter\n", text)
        self.assertIn("controller_runtime_reconcile_total{", text)
        families, findings = metrics_names.parsed(text.replace("# TYPE controller_runtime_reconcile counter",
                                                               "# TYPE controller_runtime_reconcile_total counter"))
        self.assertIn("controller_runtime_reconcile_total", families)
        self.assertFalse([finding for finding in findings if finding.startswith("no sample")], findings)

    def test_the_debug_page_and_its_command(self):
        operator = self.start(LISTENERS)
        page = json.loads(operator.ask("/debug?format=json")[1])
        self.assertTrue(page["ready"])
        self.assertEqual({plugin["plugin"] for plugin in page["plugins"]}, {"etcd.capstan.dev", "custodian.capstan.dev"})
        self.assertTrue(all(cache["state"] == "live" for cache in page["caches"]), page["caches"])
        done = subprocess.run([CAPSTAN, "debug", "--address", f"127.0.0.1:{operator.port}"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("etcd/etcd", done.stdout)
        port = operator.port
        operator.stop()
        done = subprocess.run([CAPSTAN, "debug", "--address", f"127.0.0.1:{port}"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("remedy: name the address of the ops listener", done.stderr)

    def test_with_authentication_only_probes_are_open(self):
        operator = self.start("listeners: {ops: {address: 127.0.0.1, port: 0, authentication: kubernetes}}\n")
        self.assertEqual(operator.ask("/healthz")[0], 200)
        self.assertEqual(operator.ask("/readyz")[0], 200)
        for path in ("/metrics", "/debug"):
            self.assertEqual(operator.ask(path)[0], 401, path)


if __name__ == "__main__":
    print("a real capstan run", file=sys.stderr)
    unittest.main(verbosity=2)
