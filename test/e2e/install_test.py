#!/usr/bin/env python3
"""docs/install.md without a real cluster: its configuration, its commands, and what the embedded API server knows of its objects."""
import pathlib
import subprocess
import unittest

import install_page
from local_cluster import CAPSTAN, ROOT, Api
from operator_process import ApiServer, Directory

PLUGINS = pathlib.Path(CAPSTAN).parent / "plugins"
NOT_LOCAL = {"Deployment"}  # nothing here would run it


class InstallPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.api = Api(cls.server.kubeconfig)

    def setUp(self):
        self.directory = Directory()
        self.addCleanup(self.directory.close)
        self.config = self.directory.write("operator.yaml", install_page.configuration())

    def test_its_configuration_is_good(self):
        done = subprocess.run([CAPSTAN, "config", "check", str(self.config), "--plugin-dir", str(PLUGINS)], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, f"{self.config}: good, 2 plugins\n"), done.stderr)
        self.assertNotIn("gate", done.stderr, "nothing of importance is off")

    def test_its_objects_are_applied_strictly_and_fit_together(self):
        printed = subprocess.run([CAPSTAN, "rbac", *[str(PLUGINS / f"{name}.so") for name in ("etcd", "custodian")], "--config",
                                  str(self.config)], capture_output=True, text=True, check=True, timeout=60).stdout
        objects = [*install_page.objects(), *install_page.documents(printed)]
        for document in objects:
            if document["kind"] not in NOT_LOCAL:
                path = f"{install_page.collection(document)}/{document['metadata']['name']}?fieldManager=page&fieldValidation=Strict"
                status, answer = self.api.request("PATCH", path, document, "application/apply-patch+yaml")
                self.assertIn(status, (200, 201), answer)
        names = {(document["kind"], document["metadata"]["name"]) for document in objects}
        for binding in objects:
            if binding["kind"].endswith("Binding"):
                self.assertIn((binding["roleRef"]["kind"], binding["roleRef"]["name"]), names)
        deployment = next(document for document in objects if document["kind"] == "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        container = pod["containers"][0]
        self.assertGreaterEqual(deployment["spec"]["replicas"], 2)
        self.assertIn(("ServiceAccount", pod["serviceAccountName"]), names)
        self.assertIn(f"port: {container['ports'][0]['containerPort']}", install_page.configuration())
        self.assertEqual({probe: container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")},
                         {"livenessProbe": "/livez", "readinessProbe": "/readyz"})
        self.assertIn(container["image"], install_page.configuration(), "one image for the operator and the pods")

    def test_its_files_exist(self):
        page = install_page.PAGE.read_text()
        for name in ("chart/crds/druid.gardener.cloud_etcds.yaml", "chart/crds/druid.gardener.cloud_etcdmembers.yaml",
                     "examples/etcd-1.yaml", "tools/build-image"):
            self.assertIn(name, page)
            self.assertTrue((ROOT / name).exists(), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
