#!/usr/bin/env python3
"""Admission webhooks of a plugin (examples/guard) under a real kube-apiserver: the objects of `capstan webhooks`, denial,
mutation, warnings, dry run, a rotated certificate under load, an operator that is gone.

Builds nothing; runs once for each Kubernetes in the cache, as real_api_test.py.
"""
import http.client
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / "cluster"), str(ROOT / "test" / "e2e")]
import control_plane  # noqa: E402
from local_cluster import CAPSTAN, wait_for  # noqa: E402
from operator_process import HEAD, Directory, Operator  # noqa: E402

GUARD = os.environ["CAPSTAN_GUARD"]
NAMESPACE = "guarded"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
OWNER = "guard.example.com/owner"
ROTATIONS = 3


def config_map(name, data=None, annotations=None):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations or {}}, "data": data or {}}


class Webhooks:
    """The tests; a class for each version is made below."""
    version = ""

    @classmethod
    def setUpClass(cls):
        cls.plane = control_plane.ControlPlane(cls.version)
        cls.plane.__enter__()
        cls.addClassCleanup(cls.plane.__exit__, None, None, None)
        cls.port = control_plane.free_ports(1)[0]
        cls.directory = Directory()
        cls.addClassCleanup(cls.directory.close)
        cls.certificates = cls.directory.root / "tls"
        cls.certificates.mkdir()
        cls.serial = 0
        cls.put_certificate()
        cls.operator = cls.start()
        cls.addClassCleanup(lambda: cls.operator.close())
        cls.ask("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": NAMESPACE, "labels": {"guarded": "yes"}}}, 201)
        printed = subprocess.run([CAPSTAN, "webhooks", "--url", f"https://127.0.0.1:{cls.port}", "--ca-file",
                                  cls.plane.pki.path("ca.crt"), GUARD], capture_output=True, text=True, check=True, timeout=60).stdout
        for kind in ("mutating", "validating"):
            item = cls.item(printed, kind)
            cls.ask("POST", f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations", item, 201)
        # The API server takes new configurations up by a watch.
        wait_for("the webhooks to be asked", lambda: cls.try_map("probe", {"a": "1"})[1].get(OWNER))

    @classmethod
    def item(cls, printed, kind):
        """One object of the printed List. The list is YAML; the API server reads that itself, item by item."""
        head, _, rest = printed.partition("items:\n")
        assert "kind: List" in head, printed
        items = ("\n" + rest).split("\n  - ")[1:]
        chosen = [text for text in items if f"kind: {kind.capitalize()}WebhookConfiguration" in text]
        assert len(chosen) == 1, printed
        return "    " + chosen[0]

    @classmethod
    def put_certificate(cls):
        """A fresh pair, swapped in as the kubelet does: a new directory, and one rename of the link to it."""
        cls.serial += 1
        cls.plane.pki.issue("webhook", f"/CN=webhook-{cls.serial}", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth")
        made = cls.certificates / f"..{cls.serial}"
        made.mkdir()
        for source, name in (("webhook.crt", "tls.crt"), ("webhook.key", "tls.key")):
            shutil.copy(cls.plane.pki.path(source), made / name)
            if not (cls.certificates / name).is_symlink():
                (cls.certificates / name).symlink_to(pathlib.Path("..data") / name)
        (cls.certificates / "..next").symlink_to(made.name)
        (cls.certificates / "..next").rename(cls.certificates / "..data")

    @classmethod
    def start(cls):
        tls = f"{{certificateFile: {cls.certificates}/tls.crt, keyFile: {cls.certificates}/tls.key}}"
        config = cls.directory.write("operator.yaml", HEAD +
                                     f"plugins: {{guard: {{path: {GUARD}, config: {{maxKeys: 2}}}}}}\n"
                                     "listeners:\n  ops: {address: 127.0.0.1, port: 0}\n"
                                     f"  webhook: {{address: 127.0.0.1, port: {cls.port}, tls: {tls}}}\n")
        operator = Operator(cls.directory, config, cls.plane.kubeconfig)
        operator.await_logged("serving webhooks")
        operator.await_logged("plugin started")
        return operator

    @classmethod
    def ask(cls, method, path, body=None, expected=None):
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        status, answer = cls.plane.request(method, path, text, "application/yaml")
        if expected is not None and status != expected:
            raise AssertionError(f"{method} {path}: {status} {answer[:800]}\n{cls.operator.text()[-3000:]}")
        return status, json.loads(answer) if answer.startswith("{") else answer

    @classmethod
    def try_map(cls, name, data=None, annotations=None, query=""):
        """Makes a ConfigMap and removes it again; status, annotations it got, message."""
        status, answer = cls.ask("POST", MAPS + query, config_map(name, data, annotations))
        if status == 201 and not query:
            cls.ask("DELETE", f"{MAPS}/{name}", None, 200)
        return status, answer.get("metadata", {}).get("annotations", {}), answer.get("message", "")

    def test_mutates(self):
        status, annotations, _ = self.try_map("mutated", {"a": "1"})
        self.assertEqual((status, annotations), (201, {OWNER: "admin"}))
        status, annotations, _ = self.try_map("mutated", {"a": "1"}, {OWNER: "somebody", "x": "y"})
        self.assertEqual((status, annotations), (201, {OWNER: "somebody", "x": "y"}))

    def test_denies(self):
        status, _, message = self.try_map("denied", {"a": "1", "b": "2", "c": "3"})
        self.assertEqual(status, 403)
        self.assertIn('admission webhook "limits.guard.example.com" denied the request: '
                      "it has 3 keys; at most 2 are allowed here", message)
        self.ask("POST", MAPS, config_map("grown", {"a": "1"}), 201)
        self.addCleanup(self.ask, "DELETE", f"{MAPS}/grown")
        status, _ = self.ask("PUT", f"{MAPS}/grown", config_map("grown", {"a": "1", "b": "2", "c": "3"}))
        self.assertEqual(status, 403)

    def test_reads_the_policy_live(self):
        self.ask("POST", MAPS, config_map("guard-policy", {"maxKeys": "3"}), 201)
        try:
            self.assertEqual(self.try_map("more", {"a": "1", "b": "2", "c": "3"})[0], 201)
        finally:
            self.ask("DELETE", f"{MAPS}/guard-policy", None, 200)
        self.assertEqual(self.try_map("more", {"a": "1", "b": "2", "c": "3"})[0], 403)

    def test_dry_run_is_judged_too(self):
        self.assertEqual(self.try_map("dry", {"a": "1"}, query="?dryRun=All")[:2], (201, {OWNER: "admin"}))
        self.assertEqual(self.try_map("dry", {"a": "1", "b": "2", "c": "3"}, query="?dryRun=All")[0], 403)

    def test_warns_the_user(self):
        connection = http.client.HTTPSConnection("127.0.0.1", self.plane.port, context=self.plane.context, timeout=20)
        self.addCleanup(connection.close)
        connection.request("POST", MAPS + "?dryRun=All", json.dumps(config_map("empty")), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        self.assertEqual((answer.status, answer.getheader("Warning")), (201, '299 - "it has no data"'))

    def test_says_when_nothing_listens(self):
        config = self.directory.write("deaf.yaml", HEAD + f"plugins: {{guard: {{path: {GUARD}}}}}\n")
        done = self.directory.run(config, self.plane.kubeconfig, "--validate-only")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("plugin guard.example.com has webhooks and nothing listens for them; remedy: listeners.webhook", done.stderr)

    def test_other_namespaces_are_left_alone(self):
        path = "/api/v1/namespaces/default/configmaps"
        _, made = self.ask("POST", path, config_map("free", {"a": "1", "b": "2", "c": "3"}), 201)
        self.assertNotIn("annotations", made["metadata"])
        self.ask("DELETE", f"{path}/free", None, 200)

    def serial_served(self):
        """Common name of the certificate that the listener shows now."""
        context = ssl.create_default_context(cafile=self.plane.pki.path("ca.crt"))
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as raw:
            with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
                return dict(pair for part in connection.getpeercert()["subject"] for pair in part)["commonName"]

    def test_rotates_the_certificate_under_load(self):
        over, failures, done = threading.Event(), [], [0, 0]

        def load(worker):
            while not over.is_set():
                try:
                    status, annotations, message = self.try_map(f"load-{worker}-{done[worker]}", {"a": "1"})
                    if status != 201 or annotations.get(OWNER) != "admin":
                        failures.append((status, message))
                except (OSError, AssertionError) as error:
                    failures.append(repr(error))
                done[worker] += 1
        threads = [threading.Thread(target=load, args=(worker,)) for worker in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(ROTATIONS):
                before = sum(done)
                self.put_certificate()
                wait_for("the new certificate", lambda: self.serial_served() == f"webhook-{self.serial}", 30)
                wait_for("requests to go on", lambda: sum(done) > before + 20)
            # A key that is not the certificate's: the pair in use stays.
            broken = self.certificates / "..broken"
            broken.mkdir()
            shutil.copy(self.certificates / "tls.crt", broken / "tls.crt")
            shutil.copy(self.plane.pki.path("admin.key"), broken / "tls.key")
            (self.certificates / "..next").symlink_to(broken.name)
            (self.certificates / "..next").rename(self.certificates / "..data")
            self.operator.await_logged("certificate not reloaded; the one in use stays", 30)
            self.assertEqual(self.serial_served(), f"webhook-{self.serial}")
        finally:
            over.set()
            for thread in threads:
                thread.join(60)
        print(f"{sum(done)} requests, {ROTATIONS} certificates", file=sys.stderr)
        self.assertEqual(failures, [])

    def test_zz_without_the_operator_the_failure_policy_decides(self):
        self.assertEqual(self.operator.stop(), 0, self.operator.text())
        status, _, message = self.try_map("gone", {"a": "1"})
        self.assertEqual(status, 500)
        self.assertIn("failed calling webhook", message)
        self.put_certificate()
        type(self).operator = self.start()
        wait_for("the webhooks to be back", lambda: self.try_map("back", {"a": "1"})[0] == 201)


if __name__ == "__main__":
    sys.exit(control_plane.run_cases("Webhooks", Webhooks))
