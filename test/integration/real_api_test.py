#!/usr/bin/env python3
"""The operator on a real kube-apiserver and etcd, with the rights that `capstan rbac` prints and no others.

Builds nothing. Runs once for each Kubernetes that tools/build-kube has left in the cache. There is no node: pods never run.
"""
import http.client
import json
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / "cluster"), str(ROOT / "test" / "e2e")]
import control_plane  # noqa: E402
import metrics_names  # noqa: E402
from local_cluster import CAPSTAN, wait_for  # noqa: E402
from operator_process import HEAD, LISTENERS, Directory, Operator  # noqa: E402

PLUGINS = [str(pathlib.Path(CAPSTAN).parent / "plugins" / f"{name}.so") for name in ("etcd", "custodian")]
ETCDS = "/apis/druid.gardener.cloud/v1alpha1/namespaces/default/etcds"
PLUGINS_ENABLED = "plugins: {etcd: {featureGates: {EtcdMember: true}}, custodian: {}}\n"
ETCD = {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "metadata": {"name": "main", "namespace": "default"},
        "spec": {"replicas": 3, "labels": {"app": "main"}, "selector": {"matchLabels": {"app": "main"}}, "etcd": {}, "backup": {},
                 "sharedConfig": {}}}


class RealApi:
    """The tests; a class for each version is made below."""
    version = ""

    @classmethod
    def setUpClass(cls):
        cls.plane = control_plane.ControlPlane(cls.version, controllers=True)
        cls.plane.__enter__()
        cls.addClassCleanup(cls.plane.__exit__, None, None, None)
        cls.plane.pki.issue("operator", "/CN=capstan-operator", "extendedKeyUsage=clientAuth")
        role = subprocess.run([CAPSTAN, "rbac", *PLUGINS], capture_output=True, text=True, check=True, timeout=60).stdout
        cls.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        cls.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json.dumps({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "capstan"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "capstan"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "capstan-operator"}]}))
        for crd in sorted((ROOT / "chart" / "crds").glob("*.yaml")):
            cls.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.read_text())
        wait_for("the CRDs", lambda: cls.plane.request("GET", ETCDS)[0] == 200)

    @classmethod
    def post(cls, path, text):
        status, answer = cls.plane.request("POST", path, text, "application/yaml")
        if status not in (200, 201):
            raise AssertionError(f"POST {path}: {status} {answer[:600]}")

    def get(self, path):
        status, text = self.plane.request("GET", path)
        if status != 200:
            raise ValueError(f"GET {path}: {status}")
        return json.loads(text)

    def start(self, listeners=LISTENERS):
        """`capstan run` as the user capstan-operator."""
        directory = Directory()
        self.addCleanup(directory.close)
        kubeconfig = directory.write("kubeconfig", json.dumps(self.plane.kubeconfig_of({
            "client-certificate-data": self.plane.pki.data("operator.crt"),
            "client-key-data": self.plane.pki.data("operator.key")})))
        operator = Operator(directory, directory.write("operator.yaml", HEAD + listeners + PLUGINS_ENABLED), kubeconfig)
        self.addCleanup(operator.close)
        return operator

    def start_with_files(self):
        """The same with CA, certificate and key in files that can change; gives their directory too."""
        directory = Directory()
        self.addCleanup(directory.close)
        for name, source in (("ca.crt", "ca.crt"), ("tls.crt", "operator.crt"), ("tls.key", "operator.key")):
            directory.write(name, (self.plane.pki.directory / source).read_text())
        config = self.plane.kubeconfig_of({"client-certificate": "tls.crt", "client-key": "tls.key"})
        config["clusters"][0]["cluster"] = {"server": self.plane.server, "certificate-authority": "ca.crt"}
        operator = Operator(directory, directory.write("operator.yaml", HEAD + LISTENERS + PLUGINS_ENABLED),
                            directory.write("kubeconfig", json.dumps(config)))
        self.addCleanup(operator.close)
        return operator, directory.root

    def heals(self, service, limit=120):
        path = "/api/v1/namespaces/default/services/" + service
        self.plane.request("DELETE", path)
        wait_for(f"the Service {service} to be made again", lambda: self.plane.request("GET", path)[0] == 200, limit)

    def children(self):
        """kind/name -> resourceVersion of everything that belongs to the Etcd."""
        paths = ["/api/v1/namespaces/default/" + plural for plural in ("configmaps", "services", "serviceaccounts")]
        paths += ["/apis/apps/v1/namespaces/default/statefulsets", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
                  "/apis/coordination.k8s.io/v1/namespaces/default/leases",
                  "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
                  "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
                  "/apis/druid.gardener.cloud/v1alpha1/namespaces/default/etcdmembers"]
        found = {}
        for path in paths:
            for item in self.get(path)["items"]:
                if any(owner["kind"] == "Etcd" for owner in item["metadata"].get("ownerReferences", [])):
                    found[path.rsplit("/", 1)[1] + "/" + item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
        return found

    def first_authority_again(self):
        """And a new kube-controller-manager: the old one knows no other authority, and its garbage collector may stay stuck for minutes."""
        self.plane.pki.issue("apiserver", "/CN=kube-apiserver", f"subjectAltName={control_plane.NAMES}")
        self.plane.end("kcm", signal.SIGKILL)
        self.plane.end("apiserver", signal.SIGKILL)
        self.plane.start_apiserver()
        self.plane.start_controllers()

    def controllers_are_done(self):
        sets = self.get("/apis/apps/v1/namespaces/default/statefulsets")["items"]
        budgets = self.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets")["items"]
        return all(item.get("status", {}).get("observedGeneration") == item["metadata"]["generation"] for item in sets + budgets) \
            and all(item["status"].get("currentReplicas") == item["spec"]["replicas"] for item in sets)

    def create(self):
        self.post(ETCDS, json.dumps(ETCD))
        self.addCleanup(self.remove)
        return wait_for("the spec to be carried out",
                        lambda: self.get(ETCDS + "/main")["status"]["lastOperation"]["state"] == "Succeeded" and self.children())

    def remove(self):
        if self.plane.request("GET", ETCDS + "/main")[0] != 404:
            self.start()
            self.plane.request("DELETE", ETCDS + "/main")
            wait_for("the Etcd to be gone", lambda: self.plane.request("GET", ETCDS + "/main")[0] == 404)
        # A StatefulSet of the next test does not become current while a pod of this one has its name.
        wait_for("its pods to be gone", lambda: not self.get("/api/v1/namespaces/default/pods")["items"], 120)

    def test_an_etcd_gets_its_children_and_loses_them(self):
        operator = self.start()
        children = self.create()
        for child in ("statefulsets/main", "services/main-client", "services/main-peer", "configmaps/main-config",
                      "serviceaccounts/main", "poddisruptionbudgets/main", "etcdmembers/main-0", "etcdmembers/main-2",
                      "leases/main-1"):
            self.assertIn(child, children)
        self.assertNotIn("forbidden", operator.text())
        self.plane.request("DELETE", ETCDS + "/main")
        wait_for("the Etcd to be gone", lambda: self.plane.request("GET", ETCDS + "/main")[0] == 404)
        wait_for("its children to be gone", lambda: not self.children())
        self.assertEqual(operator.stop(), 0, operator.text())

    def test_metrics_are_those_of_the_list(self):
        operator = self.start()
        self.create()
        self.assertEqual(metrics_names.differences(operator.ask("/metrics")[1]), [])
        self.assertEqual(operator.stop(), 0, operator.text())

    def bind(self, role, subject):
        self.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", json.dumps({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}, "subjects": [subject]}))

    def token_of(self, name):
        """A new ServiceAccount and a token of it."""
        path = "/api/v1/namespaces/default/serviceaccounts"
        self.post(path, json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}))
        status, text = self.plane.request("POST", f"{path}/{name}/token", json.dumps({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}), "application/json")
        self.assertIn(status, (200, 201), text)
        return json.loads(text)["status"]["token"]

    def test_the_api_server_says_who_may_read_metrics(self):
        listeners = "listeners: {ops: {address: 127.0.0.1, port: 0, authentication: kubernetes}}\n"
        operator = self.start(listeners)
        wait_for("the operator to run", lambda: operator.ask("/readyz")[0] == 200)

        def ask(token):
            return operator.ask("/metrics", {"Authorization": "Bearer " + token})
        scraper, other = self.token_of("scraper"), self.token_of("other")
        self.assertEqual(ask(scraper)[0], 500, "the operator may not ask yet")
        self.assertIn("cannot be reviewed", operator.text())
        config = operator.log.parent / "operator.yaml"
        role = subprocess.run([CAPSTAN, "rbac", "--name", "capstan-ops", "--config", str(config), *PLUGINS], capture_output=True,
                              text=True, check=True, timeout=60).stdout
        self.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        self.bind("capstan-ops", {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "capstan-operator"})
        self.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", json.dumps({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "scraper"},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}))
        self.bind("scraper", {"kind": "ServiceAccount", "name": "scraper", "namespace": "default"})
        self.assertIn("workqueue_adds_total", wait_for("a yes", lambda: ask(scraper)[0] == 200 and ask(scraper)[1]))
        status, text = ask(other)
        self.assertEqual(status, 403, text)
        self.assertIn("system:serviceaccount:default:other", text)
        self.assertEqual(ask("no-token-of-yours")[0], 401)
        self.assertEqual(operator.ask("/debug", {"Authorization": "Bearer " + scraper})[0], 403)
        self.assertEqual(operator.ask("/healthz")[0], 200)
        self.assertNotIn(scraper[:40], operator.text())
        self.assertEqual(operator.stop(), 0, operator.text())

    def test_at_rest_and_after_a_restart_nothing_is_written(self):
        operator = self.start()
        self.create()
        # kube-controller-manager writes status of the StatefulSet and the PodDisruptionBudget.
        stable = {"now": self.children(), "since": time.monotonic()}

        def settled():
            time.sleep(0.5)
            now = self.children()
            if now != stable["now"] or not self.controllers_are_done():
                stable.update(now=now, since=time.monotonic())
            return time.monotonic() - stable["since"] > 6
        wait_for("the world to settle", settled, 120)
        etcd = self.get(ETCDS + "/main")
        self.assertEqual(operator.stop(), 0, operator.text())
        again = self.start()
        wait_for("the operator to run", lambda: "plugin started" in again.text())
        time.sleep(3)
        self.assertEqual(self.children(), stable["now"])
        self.assertEqual(self.get(ETCDS + "/main")["metadata"]["resourceVersion"], etcd["metadata"]["resourceVersion"])

    def test_a_restarted_api_server_is_found_again(self):
        operator = self.start()
        self.create()
        self.plane.end("apiserver", signal.SIGKILL)
        time.sleep(1)
        self.plane.start_apiserver()
        self.plane.request("DELETE", "/api/v1/namespaces/default/services/main-client")
        wait_for("the Service to be made again",
                 lambda: self.plane.request("GET", "/api/v1/namespaces/default/services/main-client")[0] == 200, 90)
        self.assertIsNone(operator.process.poll(), operator.text())

    def test_a_taken_right_degrades_and_heals(self):
        operator = self.start()
        self.create()
        self.assertIsNone(operator.process.poll())
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"
        binding = self.get(path + "capstan")
        self.plane.request("DELETE", path + "capstan")
        self.plane.request("DELETE", "/api/v1/namespaces/default/services/main-peer")
        wait_for("the refusal to be said", lambda: "forbidden" in operator.text() or "Forbidden" in operator.text())
        for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            binding["metadata"].pop(field, None)
        self.post(path.rstrip("/"), json.dumps(binding))
        wait_for("the Service to be made again",
                 lambda: self.plane.request("GET", "/api/v1/namespaces/default/services/main-peer")[0] == 200, 90)


    def test_another_authority_and_another_certificate_need_no_restart(self):
        operator, root = self.start_with_files()
        self.create()
        pki = self.plane.pki
        pki.make_ca("ca-2", "/CN=test-ca-2")
        pki.issue("apiserver", "/CN=kube-apiserver", f"subjectAltName={control_plane.NAMES}", ca="ca-2")
        self.addCleanup(self.first_authority_again)
        self.plane.context.load_verify_locations(cafile=pki.path("ca-2.crt"))
        self.plane.end("apiserver", signal.SIGKILL)
        self.plane.start_apiserver()
        wait_for("the refusal to be said", lambda: "certificate verify failed" in operator.text())
        self.assertIn('signed by \\"test-ca-2\\"', operator.text())
        for name, source in (("ca.crt", "ca-2.crt"), ("tls.crt", "operator.crt"), ("tls.key", "operator.key")):
            if name == "tls.crt":
                pki.issue("operator", "/CN=capstan-operator", "extendedKeyUsage=clientAuth")
            (root / "new").write_text((pki.directory / source).read_text())
            (root / "new").rename(root / name)
        self.heals("main-client")
        wait_for("both changes", lambda: '"detail":"client certificate"' in operator.text() and '"detail":"CA"' in operator.text(), 90)
        self.heals("main-peer")
        self.assertIsNone(operator.process.poll(), operator.text())

    def test_a_compacted_etcd_costs_a_list_and_nothing_else(self):
        operator = self.start()
        self.create()
        self.plane.end("apiserver", signal.SIGKILL)
        etcd = http.client.HTTPConnection("127.0.0.1", self.plane.etcd_port, timeout=30)
        for path, body in (("/v3/kv/put", {"key": "eA==", "value": "eA=="}), ("/v3/kv/range", {"key": "eA=="})):
            etcd.request("POST", path, json.dumps(body))
            revision = json.loads(etcd.getresponse().read())["header"]["revision"]
        etcd.request("POST", "/v3/kv/compaction", json.dumps({"revision": revision, "physical": True}))
        self.assertEqual(etcd.getresponse().status, 200)
        etcd.close()
        self.plane.start_apiserver()
        self.heals("main-client")
        self.assertIsNone(operator.process.poll(), operator.text())

    def test_a_kind_that_goes_and_comes_back_is_watched_again(self):
        operator = self.start()
        self.create()
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/etcdmembers.druid.gardener.cloud"
        text = next(path for path in (ROOT / "chart" / "crds").glob("*.yaml")
                    if "name: etcdmembers.druid.gardener.cloud" in path.read_text()).read_text()
        self.plane.request("DELETE", crd)
        wait_for("the CRD to be gone", lambda: self.plane.request("GET", crd)[0] == 404)
        wait_for("it to be said", lambda: operator.readyz()[0] != 200, 90)
        self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text)
        wait_for("it to be well again", lambda: operator.readyz()[0] == 200, 90)
        wait_for("the members to be there again", lambda: "etcdmembers/main-0" in self.children(), 90)


if __name__ == "__main__":
    sys.exit(control_plane.run_cases("RealApi", RealApi))
