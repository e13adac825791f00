#!/usr/bin/env python3
"""The chart without a cluster: what it renders, that its configuration is good and its rights are those that `capstan rbac` prints."""
import difflib
import json
import os
import pathlib
import subprocess
import sys
import unittest

import yaml

import chart_values
from chart_values import CHART, FULL, HELM, NO_HELM, configuration, objects, one, render
from local_cluster import CAPSTAN, ROOT
from operator_process import Directory

BUILD = pathlib.Path(CAPSTAN).parent
PLUGINS = BUILD / "plugins"
GOLDEN = ROOT / "test/data/chart"
CASES = {"default": {}, "full": FULL}


class FromThePlugins(unittest.TestCase):
    def test_the_rules_are_those_of_the_manifests(self):
        done = subprocess.run([sys.executable, ROOT / "tools/gen-chart", "--build", BUILD, "--check"], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_its_version_is_that_of_the_program(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = subprocess.run([CAPSTAN, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout.split()[-1]
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))

    def test_each_value_is_in_the_schema_and_the_other_way_round(self):
        values = yaml.safe_load((CHART / "values.yaml").read_text())
        schema = json.loads((CHART / "values.schema.json").read_text())

        def compare(value, of, path):
            self.assertEqual(set(value), set(of["properties"]) - {"global"}, path)
            for key, inner in value.items():
                if "properties" in of["properties"][key]:
                    compare(inner, of["properties"][key], path + [key])
        compare(values, schema, [])

    def test_the_dashboard_asks_for_metrics_that_are_there(self):
        known = {line.split("|")[0].strip() for line in (ROOT / "test/data/metrics-names.txt").read_text().splitlines()
                 if "|" in line and not line.split("|")[4].strip().startswith("no:")}
        text = (CHART / "files/dashboard.json").read_text()
        asked = set()
        for panel in json.loads(text)["panels"]:
            for target in panel["targets"]:
                asked.update(word for word in target["expr"].replace("(", " ").replace("{", " ").split()
                             if word.startswith(("capstan_", "controller_", "workqueue_", "rest_", "process_", "leader_")))
        self.assertEqual({name.removesuffix("_bucket") for name in asked} - known, set())
        self.assertGreater(len(asked), 12)


@unittest.skipUnless(HELM, NO_HELM)
class Rendered(unittest.TestCase):
    def setUp(self):
        self.directory = Directory()
        self.addCleanup(self.directory.close)

    def test_it_passes_helms_own_look(self):
        done = chart_values.helm("lint", "--strict", CHART)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_renders_as_before(self):
        for name, values in CASES.items():
            file, made = GOLDEN / f"{name}.yaml", render(values)
            if os.environ.get("CAPSTAN_WRITE_GOLDEN"):
                GOLDEN.mkdir(exist_ok=True)
                file.write_text(made)
            difference = "".join(difflib.unified_diff(file.read_text().splitlines(True), made.splitlines(True), "golden", "made"))
            self.assertEqual(difference, "", "CAPSTAN_WRITE_GOLDEN=1 writes it anew")

    def check(self, text):
        path = self.directory.write("operator.yaml", text)
        return subprocess.run([CAPSTAN, "config", "check", path, "--plugin-dir", PLUGINS], capture_output=True, text=True, timeout=60,
                              check=False)

    def test_its_configuration_is_good(self):
        done = self.check(configuration(objects()))
        self.assertEqual((done.returncode, done.stdout), (0, f"{self.directory.root}/operator.yaml: good, 2 plugins\n"), done.stderr)
        config = yaml.safe_load(configuration(objects(FULL)))
        self.assertEqual(config["pluginDirs"], ["/usr/local/lib/capstan/plugins", "/plugins/mine"])
        self.assertEqual(config["plugins"]["etcd"], {"featureGates": {"EtcdMember": True}, "config": {"images": {
            "capstan": "registry.example.com/capstan@sha256:" + "0" * 64}}})
        self.assertEqual(config["plugins"]["mine"], {"config": {"greeting": "hello"}})
        self.assertEqual((config["logging"]["level"], config["namespaces"]), ("debug", ["shop"]))
        self.assertEqual(config["listeners"]["ops"]["tls"], {"certificateFile": "/tls/tls.crt", "keyFile": "/tls/tls.key"})

    def test_its_rights_are_those_that_are_needed_and_no_more(self):
        for values, plugins in (({}, ("etcd", "custodian")), ({"plugins": {"custodian": {"enabled": False}}}, ("etcd",)),
                                ({"plugins": {"etcd": {"enabled": False}},
                                  "ops": {"authentication": "kubernetes", "tlsSecret": "x"}}, ("custodian",))):
            made = objects(values)
            path = self.directory.write("operator.yaml", configuration(made))
            printed = subprocess.run([CAPSTAN, "rbac", *(PLUGINS / f"{name}.so" for name in plugins), "--config", path],
                                     capture_output=True, text=True, check=True, timeout=60).stdout
            for role in yaml.safe_load_all(printed):
                name = role["metadata"]["name"]
                self.assertEqual(rules(one(made, role["kind"], name)), rules(role), (values, name))

    def test_a_value_that_cannot_be_is_refused_by_name(self):
        for values, said in (({"replica": 3}, "replica"), ({"plugins": {"etcd": {"enable": True}}}, "enable"),
                             ({"ops": {"port": 80}}, "port"), ({"image": {"digest": "latest"}}, "digest"),
                             ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed")):
            with self.assertRaises(ValueError) as caught:
                render(values)
            self.assertIn(said, str(caught.exception))

    def test_pods_are_restricted_and_probed_where_they_listen(self):
        for values in CASES.values():
            made = objects(values)
            pod = one(made, "Deployment")["spec"]["template"]["spec"]
            container = pod["containers"][0]
            self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                                            "capabilities": {"drop": ["ALL"]}})
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            listening = yaml.safe_load(configuration(made))["listeners"]["ops"]
            self.assertEqual(container["ports"], [{"name": "ops", "containerPort": listening["port"]}])
            for probe in ("livenessProbe", "readinessProbe"):
                self.assertEqual(container[probe]["httpGet"]["scheme"], "HTTPS" if "tls" in listening else "HTTP")
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            self.assertEqual(mounted, {volume["name"] for volume in pod["volumes"]})

    def test_a_changed_configuration_starts_new_pods(self):
        def checksum(values):
            return one(objects(values), "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        self.assertEqual(checksum({}), checksum({"replicas": 3}))
        self.assertNotEqual(checksum({}), checksum({"config": {"gracefulStop": "20s"}}))

    def test_two_releases_are_apart(self):
        names = [{(d["kind"], d["metadata"]["name"]) for d in objects(release=release)} for release in ("one", "two")]
        self.assertEqual(names[0] & names[1], set())


def rules(role):
    """As a set of (groups, resources, names, verb), so that order and grouping do not matter."""
    return {(group, resource, name, verb) for rule in role["rules"] for group in rule["apiGroups"] for resource in rule["resources"]
            for name in rule.get("resourceNames", ["*"]) for verb in rule["verbs"]}


if __name__ == "__main__":
    unittest.main(verbosity=2)
