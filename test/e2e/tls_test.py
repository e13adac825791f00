#!/usr/bin/env python3
"""An Etcd with TLS for clients and peers: it forms, heals, and takes renewed pairs without a restart. Versions as in member_test."""
import base64
import http.client
import json
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

from local_cluster import b64, wait_for
from member_cases import Members
from member_test import wanted
from versions_test import cached

ADDRESSES = ["127.0.0.1"] + [f"127.77.0.{n}" for n in range(1, 256)]
NAMES = ["localhost", "main-local", "main-client", "main-client.default.svc", "*.main-peer.default.svc"]


class Authority:
    """Certificates by the openssl command, in a directory."""

    def __init__(self, directory, name):
        self.directory, self.name = pathlib.Path(directory), name
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                 "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")

    def run(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.directory, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"openssl {arguments[0]}: {done.stderr}")

    def issue(self, name, usage):
        """(certificate, key) as PEM."""
        alternatives = ",".join([f"DNS:{n}" for n in NAMES] + [f"IP:{a}" for a in ADDRESSES])
        (self.directory / f"{name}.ext").write_text(f"subjectAltName={alternatives}\nextendedKeyUsage={usage}\n")
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", f"{name}.key", "-out", f"{name}.csr")
        self.run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.crt", "-CAkey", f"{self.name}.key", "-CAcreateserial",
                 "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.crt")
        return (self.directory / f"{name}.crt").read_text(), (self.directory / f"{name}.key").read_text()

    def certificate(self):
        return (self.directory / f"{self.name}.crt").read_text()


def secret(name, data):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
            "data": {key: b64(text) for key, text in data.items()}}


def pair(name, issued):
    return secret(name, {"tls.crt": issued[0], "tls.key": issued[1]})


class TlsMixin:
    etcd_dir = None
    # 3.4's gateway can only use the server's pair to call its own member
    server_usage = "serverAuth,clientAuth"

    @classmethod
    def setUpClass(cls):
        cls.pki = tempfile.mkdtemp(prefix="capstan-tls-")
        cls.addClassCleanup(shutil.rmtree, cls.pki, ignore_errors=True)
        cls.client_ca, cls.peer_ca = Authority(cls.pki, "client-ca"), Authority(cls.pki, "peer-ca")
        etcd = {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "metadata": {"name": "main", "namespace": "default"},
                "spec": {"replicas": 3, "labels": {"app": "main"}, "backup": {}, "etcd": {
                    "clientUrlTls": {"tlsCASecretRef": {"name": "client-ca", "dataKey": "bundle.crt"},
                                     "serverTLSSecretRef": {"name": "client-server"}, "clientTLSSecretRef": {"name": "client-pair"}},
                    "peerUrlTls": {"tlsCASecretRef": {"name": "peer-ca"}, "serverTLSSecretRef": {"name": "peer-server"}}}}}
        objects = [secret("client-ca", {"bundle.crt": cls.client_ca.certificate()}),
                   pair("client-server", cls.client_ca.issue("server", cls.server_usage)),
                   pair("client-pair", cls.client_ca.issue("pair", "clientAuth")),
                   secret("peer-ca", {"ca.crt": cls.peer_ca.certificate()}),
                   pair("peer-server", cls.peer_ca.issue("peer", "serverAuth,clientAuth")), etcd]
        manifest = pathlib.Path(cls.pki) / "etcd.yaml"
        manifest.write_text("\n---\n".join(json.dumps(o) for o in objects))
        cls.cluster = Members(manifest, etcd_dir=cls.etcd_dir)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def context(self, with_pair=True):
        context = ssl.create_default_context(cadata=self.client_ca.certificate())
        context.check_hostname = False
        if with_pair:
            context.load_cert_chain(f"{self.pki}/pair.crt", f"{self.pki}/pair.key")
        return context

    def call(self, endpoint, path, body, with_pair=True):
        connection = http.client.HTTPSConnection(urllib.parse.urlparse(endpoint).netloc, context=self.context(with_pair), timeout=5)
        try:
            connection.request("POST", "/v3/" + path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())
            if answer.status != 200:
                raise ValueError(f"{path}: {answer.status} {value}")
            return value
        finally:
            connection.close()

    def served_serial(self, endpoint):
        host, port = urllib.parse.urlparse(endpoint).netloc.split(":")
        context = self.context()
        with socket.create_connection((host, int(port)), timeout=5) as plain, context.wrap_socket(plain) as tls:
            return tls.getpeercert()["serialNumber"]

    def test_it_serves_clients_with_a_pair_only(self):
        endpoint = self.cluster.endpoints()[0]
        self.assertTrue(endpoint.startswith("https://"))
        wait_for("a write", lambda: self.call(endpoint, "kv/put", {"key": b64("a"), "value": b64("b")}))
        kvs = wait_for("a read", lambda: self.call(endpoint, "kv/range", {"key": b64("a")}))["kvs"]
        self.assertEqual(base64.b64decode(kvs[0]["value"]), b"b")
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.call(endpoint, "kv/range", {"key": b64("a")}, with_pair=False)
        for member in self.cluster.members():
            self.assertIs(member["status"]["peerTLSEnabled"], True)

    def test_a_renewed_pair_is_served_without_a_restart(self):
        cluster = self.cluster
        endpoint, pids = cluster.endpoints()[0], cluster.etcd_pids()
        before = self.served_serial(endpoint)
        status, answer = cluster.api().request(
            "PATCH", "/api/v1/namespaces/default/secrets/client-server",
            {"data": pair("x", self.client_ca.issue("server", self.server_usage))["data"]}, "application/merge-patch+json")
        self.assertEqual(status, 200, answer)
        wait_for("the new certificate", lambda: self.served_serial(endpoint) != before)
        self.assertEqual(cluster.etcd_pids(), pids)
        cluster.await_ready()

    def test_a_lost_member_comes_back_over_tls(self):
        cluster = self.cluster
        leader = cluster.await_leader()["metadata"]["name"]
        victim = sorted(n for n in cluster.etcd_pids() if n != leader)[0]
        old = cluster.member(victim)["status"]["id"]
        cluster.stop_etcd(victim)
        shutil.rmtree(cluster.data(victim) / "member")
        cluster.kill_etcd(victim)
        wait_for("a new id", lambda: cluster.member(victim)["status"]["id"] != old, 120)
        cluster.await_started(victim)
        cluster.await_ready()

    def test_a_missing_key_is_named(self):
        cluster = self.cluster
        leader = cluster.await_leader()["metadata"]["name"]
        victim = sorted(n for n in cluster.etcd_pids() if n != leader)[-1]
        path = "/api/v1/namespaces/default/secrets/peer-ca"
        saved = cluster.api().get(path)["data"]
        cluster.api().request("PATCH", path, {"data": {"ca.crt": None}}, "application/merge-patch+json")
        try:
            cluster.kill_etcd(victim)
            said = cluster.await_reason(victim, "CertificatesUnreadable")
            self.assertIn('Secret peer-ca has no "ca.crt"', said["message"])
        finally:
            cluster.api().request("PATCH", path, {"data": saved}, "application/merge-patch+json")
        cluster.await_started(victim)
        cluster.await_ready()


def main():
    if shutil.which("openssl") is None:
        print("openssl is not installed", file=sys.stderr)
        return 77
    suite = unittest.TestSuite()
    versions = {"3.4": None, **cached()}
    for version, directory in versions.items():
        if wanted(version):
            print(f"run: etcd {version}", file=sys.stderr)
            usage = "serverAuth,clientAuth" if version.startswith("3.4") else "serverAuth"
            case = type(f"Tls_{version.replace('.', '_')}", (TlsMixin, unittest.TestCase), {"etcd_dir": directory, "server_usage": usage})
            suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    return 0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
