#!/usr/bin/env python3
"""docs/install.md and the chart on a real kube-apiserver: every object they show, strictly validated, in its order, and an operator
with the rights its ServiceAccount then has.

Builds nothing. Arguments: parts of test names, default all.
"""
import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / folder) for folder in ("cluster", "e2e", "integration")]
import chart_values  # noqa: E402
import control_plane  # noqa: E402
import install_page  # noqa: E402
from local_cluster import CAPSTAN, wait_for  # noqa: E402
from operator_process import Directory, Operator  # noqa: E402

PLUGINS = pathlib.Path(CAPSTAN).parent / "plugins"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class InstallCase:
    """The tests; a class for each version is made below."""
    version = ""

    @classmethod
    def setUpClass(cls):
        cls.plane = control_plane.ControlPlane(cls.version)
        cls.plane.__enter__()
        cls.addClassCleanup(cls.plane.__exit__, None, None, None)

    def apply(self, path, name, text):
        status, answer = self.plane.request("PATCH", f"{path}/{name}?fieldManager=page&fieldValidation=Strict&force=true", text,
                                            "application/apply-patch+yaml")
        self.assertIn(status, (200, 201), f"{name}: {answer[:800]}")

    def apply_all(self, documents):
        for crd in sorted((ROOT / "chart" / "crds").glob("*.yaml")):
            self.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.stem.split("_")[1] + ".druid.gardener.cloud",
                       crd.read_text())
        for document in documents:
            self.apply(install_page.collection(document), document["metadata"]["name"], json.dumps(document))

    def leads(self, account, text):
        """An operator with this configuration and the token of the ServiceAccount becomes leader, and nothing is forbidden to it.
        Ports and files are of this machine."""
        directory = Directory()
        self.addCleanup(directory.close)
        text = text.replace("address: 0.0.0.0", "address: 127.0.0.1").replace("port: 8080", "port: 0").replace(
            "/usr/local/lib/capstan/plugins", str(PLUGINS))
        status, answer = self.plane.request("POST", f"/api/v1/namespaces/capstan-system/serviceaccounts/{account}/token", json.dumps({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}))
        self.assertEqual(status, 201, answer)
        directory.write("token", json.loads(answer)["status"]["token"])
        kubeconfig = directory.write("kubeconfig", json.dumps(self.plane.kubeconfig_of({"tokenFile": "token"})))
        operator = Operator(directory, directory.write("operator.yaml", text), kubeconfig)
        self.addCleanup(operator.close)
        wait_for("readiness as a leader", lambda: operator.readyz()[0] == 200 and "leader-election ok (leader)" in operator.readyz()[1],
                 90)
        self.assertEqual(operator.stop(), 0, operator.text())
        self.assertNotIn("forbidden", operator.text())

    def test_every_object_of_the_page_is_valid_and_the_rights_suffice(self):
        directory = Directory()
        self.addCleanup(directory.close)
        config = directory.write("operator.yaml", install_page.configuration())
        printed = subprocess.run([CAPSTAN, "rbac", *[str(PLUGINS / f"{name}.so") for name in ("etcd", "custodian")], "--config",
                                  str(config)], capture_output=True, text=True, check=True, timeout=60).stdout
        self.apply_all([*install_page.objects(), *install_page.documents(printed)])
        deployment = next(d for d in install_page.objects() if d["kind"] == "Deployment")
        self.assertEqual(deployment["spec"]["template"]["spec"]["serviceAccountName"], "capstan")
        self.leads("capstan", install_page.configuration())

    @unittest.skipUnless(chart_values.HELM, chart_values.NO_HELM)
    def test_every_object_of_the_chart_is_valid_and_the_rights_suffice(self):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chart_values.NAMESPACE}}
        full = [d for d in chart_values.objects(chart_values.FULL, "full") if d["kind"] != "ServiceMonitor"]  # its CRD is another's
        self.apply_all([namespace, *full])
        made = chart_values.objects(release="charted")
        self.apply_all(made)
        account = chart_values.one(made, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
        self.leads(account, chart_values.configuration(made))


if __name__ == "__main__":
    sys.exit(control_plane.run_cases("Install", InstallCase))
