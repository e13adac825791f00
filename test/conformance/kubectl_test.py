#!/usr/bin/env python3
"""kubectl as people use it, against the embedded API server: what it prints and what is stored afterwards.

For each kubectl that tools/build-kube has left in the cache; 77 (skipped) says that there is none. Builds nothing.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / "cluster"), str(ROOT / "test" / "conformance")]
import control_plane  # noqa: E402
from embedded_server import EmbeddedServer  # noqa: E402

SKIPPED = 77
CRDS = ROOT / "chart" / "crds"
ETCD = """apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: default, labels: {app: main}}
spec:
  replicas: 1
  labels: {app: main}
  selector: {matchLabels: {app: main}}
  etcd: {}
  backup: {}
  sharedConfig: {}
"""
CONFIG = """apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {a: one, b: two}
"""


def programs():
    """(version, path) of every kubectl in the cache."""
    found = sorted(control_plane.CACHE.glob("kube-*/bin/kubectl"))
    return [(path.parent.parent.name.removeprefix("kube-"), path) for path in found]


class Kubectl:
    """The tests; a class for each version is made below, with one server."""
    program = ""

    @classmethod
    def setUpClass(cls):
        cls.server = EmbeddedServer()
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.directory = tempfile.TemporaryDirectory(prefix="capstan-kubectl-")
        cls.addClassCleanup(cls.directory.cleanup)
        for crd in sorted(CRDS.glob("*.yaml")):
            cls.run_kubectl("apply", "-f", str(crd))

    @classmethod
    def run_kubectl(cls, *arguments, text="", wanted=0, env=None):
        """stdout, which is checked for the exit code first."""
        done = subprocess.run([str(cls.program), "--cache-dir", cls.directory.name + "/cache", *arguments], input=text, text=True,
                              capture_output=True, timeout=60, check=False,
                              env={**os.environ, "KUBECONFIG": cls.server.kubeconfig, "HOME": cls.directory.name,
                                   "TMPDIR": cls.directory.name, **(env or {})})
        if done.returncode != wanted:
            raise AssertionError(f"kubectl {' '.join(arguments)}: exit {done.returncode}, not {wanted}\n{done.stdout}\n{done.stderr}")
        return done.stdout if wanted == 0 else done.stdout + done.stderr

    def get(self, *what):
        return json.loads(self.run_kubectl("get", *what, "-o", "json"))

    def tearDown(self):
        self.run_kubectl("delete", "etcds,configmaps,statefulsets,pods", "--all", "--wait=false", "--force")

    def test_apply_shows_what_it_did_and_keeps_what_others_own(self):
        self.assertIn("created", self.run_kubectl("apply", "-f", "-", text=CONFIG))
        self.assertIn("unchanged", self.run_kubectl("apply", "-f", "-", text=CONFIG))
        self.run_kubectl("annotate", "configmap", "settings", "note=kept")
        self.assertIn("configured", self.run_kubectl("apply", "-f", "-", text=CONFIG.replace(", b: two", "")))
        stored = self.get("configmap", "settings")
        self.assertEqual(stored["data"], {"a": "one"})
        self.assertEqual(stored["metadata"]["annotations"]["note"], "kept")

    def test_server_side_apply_tells_of_conflicts(self):
        self.run_kubectl("apply", "--server-side", "--field-manager=first", "-f", "-", text=CONFIG)
        other = CONFIG.replace("one", "other")
        refused = self.run_kubectl("apply", "--server-side", "--field-manager=second", "-f", "-", text=other, wanted=1)
        self.assertIn('conflict with "first"', refused)
        self.assertIn(".data.a", refused)
        self.run_kubectl("apply", "--server-side", "--field-manager=second", "--force-conflicts", "-f", "-", text=other)
        self.assertEqual(self.get("configmap", "settings")["data"]["a"], "other")

    def test_diff_shows_what_apply_would_do(self):
        self.run_kubectl("apply", "-f", "-", text=ETCD)
        self.assertEqual(self.run_kubectl("diff", "-f", "-", text=ETCD), "")
        shown = self.run_kubectl("diff", "-f", "-", text=ETCD.replace("replicas: 1", "replicas: 3"), wanted=1)
        self.assertRegex(shown, r"(?m)^-\s+replicas: 1$")
        self.assertRegex(shown, r"(?m)^\+\s+replicas: 3$")
        shown = self.run_kubectl("diff", "--server-side", "--force-conflicts", "-f", "-",
                                 text=ETCD.replace("replicas: 1", "replicas: 3"), wanted=1)
        self.assertRegex(shown, r"(?m)^\+\s+replicas: 3$")
        self.assertEqual(self.get("etcd", "main")["spec"]["replicas"], 1)

    def edit(self, script, *arguments, wanted=0):
        """kubectl edit with sed as the editor."""
        editor = pathlib.Path(self.directory.name) / "editor"
        editor.write_text(f"#!/bin/sh\nexec sed -i '{script}' \"$1\"\n")
        editor.chmod(0o755)
        return self.run_kubectl("edit", *arguments, env={"EDITOR": str(editor), "KUBE_EDITOR": str(editor)}, wanted=wanted)

    def test_edit(self):
        self.run_kubectl("apply", "-f", "-", text=CONFIG)
        self.assertIn("edited", self.edit("s/a: one/a: edited/", "configmap", "settings"))
        self.assertEqual(self.get("configmap", "settings")["data"]["a"], "edited")
        self.run_kubectl("apply", "-f", "-", text=ETCD)
        self.assertIn("edited", self.edit("s/replicas: 1/replicas: 3/", "etcd", "main"))
        self.assertEqual(self.get("etcd", "main")["spec"]["replicas"], 3)
        refused = self.edit("s/replicas: 3/replicas: three/", "etcd", "main", wanted=1)
        self.assertIn("is invalid", refused)  # why stands in the file that the editor is shown again
        self.assertEqual(self.get("etcd", "main")["spec"]["replicas"], 3)

    def test_explain_shows_the_fields_of_a_custom_resource(self):
        shown = self.run_kubectl("explain", "etcd.spec")
        self.assertIn("replicas", shown)
        self.assertIn("<integer>", shown)
        self.assertIn("-required-", shown)
        shown = self.run_kubectl("explain", "etcds.spec.backup.store")
        self.assertRegex(shown, r"(?m)^  container\s+<string>")
        self.assertIn("status", self.run_kubectl("explain", "etcdmembers"))
        self.assertRegex(self.run_kubectl("explain", "statefulset"), r"KIND:\s+StatefulSet")  # fields of custom resources only
        self.assertIn("field \"none\" does not exist", self.run_kubectl("explain", "etcd.spec.none", wanted=1))

    def test_columns_are_those_of_the_kind(self):
        self.run_kubectl("apply", "-f", "-", text=ETCD)
        head, row = self.run_kubectl("get", "etcds").splitlines()
        columns = next(crd for crd in self.get("crd")["items"] if crd["spec"]["names"]["plural"] == "etcds")
        for column in columns["spec"]["versions"][0]["additionalPrinterColumns"]:
            if column.get("priority", 0) == 0:
                self.assertIn(column["name"].upper(), head)
        self.assertTrue(row.startswith("main "))
        self.assertIn("etcd.druid.gardener.cloud/main", self.run_kubectl("get", "etcds", "-o", "name"))
        self.assertIn("default", self.run_kubectl("get", "etcds", "-A"))

    def test_scale_label_patch_and_describe(self):
        self.run_kubectl("apply", "-f", "-", text=ETCD)
        self.assertIn("scaled", self.run_kubectl("scale", "etcd", "main", "--replicas=3"))
        self.run_kubectl("label", "etcd", "main", "team=blue")
        self.run_kubectl("patch", "etcd", "main", "--type=json", "-p", '[{"op": "add", "path": "/metadata/labels/x", "value": "y"}]')
        self.run_kubectl("patch", "etcd", "main", "--type=merge", "-p", '{"metadata": {"labels": {"z": "z"}}}')
        self.assertEqual(self.get("etcd", "main", )["metadata"]["labels"], {"app": "main", "team": "blue", "x": "y", "z": "z"})
        self.assertIn("main", self.run_kubectl("get", "etcd", "-l", "team=blue"))
        shown = self.run_kubectl("describe", "etcd", "main")
        self.assertRegex(shown, r"Replicas:\s+3")

    def test_delete_waits_for_what_belongs_to_it(self):
        self.run_kubectl("apply", "-f", "-", text=CONFIG)
        owner = self.get("configmap", "settings")["metadata"]["uid"]
        child = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": owner, "blockOwnerDeletion": True}]}})
        for cascade, left in (("foreground", False), ("background", False), ("orphan", True)):
            self.run_kubectl("apply", "-f", "-", text=CONFIG)
            owner = self.get("configmap", "settings")["metadata"]["uid"]
            self.run_kubectl("create", "-f", "-", text=re.sub(r'"uid": "[^"]*"', f'"uid": "{owner}"', child))
            self.run_kubectl("delete", "configmap", "settings", f"--cascade={cascade}")
            if left:
                self.assertNotIn("ownerReferences", self.get("configmap", "child")["metadata"])
                self.run_kubectl("delete", "configmap", "child")
            else:
                self.run_kubectl("wait", "--for=delete", "configmap/child", "--timeout=30s")
        self.assertIn("NotFound", self.run_kubectl("get", "configmap", "settings", wanted=1))

    def test_wait_follows_a_condition(self):
        self.run_kubectl("apply", "-f", "-", text=ETCD)
        patch = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "T", "message": "m",
                                            "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}]}}
        waiting = subprocess.Popen([str(self.program), "wait", "--for=condition=Ready", "etcd/main", "--timeout=30s"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, "KUBECONFIG": self.server.kubeconfig, "HOME": self.directory.name})
        self.addCleanup(waiting.kill)
        self.run_kubectl("patch", "etcd", "main", "--subresource=status", "--type=merge", "-p", json.dumps(patch))
        self.assertIn("condition met", waiting.communicate(timeout=40)[0])
        self.assertEqual(waiting.returncode, 0)

    def test_unknown_fields_and_kinds_are_named(self):
        refused = self.run_kubectl("apply", "-f", "-", text=ETCD.replace("replicas: 1", "replicas: 1\n  replica: 2"), wanted=1)
        self.assertIn("spec.replica", refused)
        self.assertIn("the server doesn't have a resource type", self.run_kubectl("get", "nonsense", wanted=1))
        self.assertIn("druid.gardener.cloud/v1alpha1", self.run_kubectl("api-versions"))
        self.assertIn("etcdmembers", self.run_kubectl("api-resources"))


def main():
    found = programs()
    if not found:
        print("SKIPPED: no kubectl in the cache; tools/build-kube 1.34.4 builds one", file=sys.stderr)
        return SKIPPED
    suite = unittest.TestSuite()
    print("run: " + ", ".join(f"kubectl {version}" for version, _ in found))
    for version, program in found:
        name = "Kubectl_" + version.replace(".", "_")
        case = type(name, (Kubectl, unittest.TestCase), {"program": program})
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
