#!/usr/bin/env python3
"""An Etcd with TLS for clients, peers and the sidecar's API: who may, renewed and wrong certificates, TLS taken away."""
import base64
import http.client
import json
import pathlib
import shutil
import socket
import ssl
import sys
import tempfile
import unittest
import urllib.parse

from local_cluster import DRUID, wait_for
from member_cases import Members
from steward_api_test import ask
from tls_test import Authority, pair, secret

SECRETS = "/api/v1/namespaces/default/secrets"
RENEWAL_SECONDS = 180  # read from the API every 30 s, by the listener every 10 s, told after 20 s
MERGE = "application/merge-patch+json"


def tls_block(name, key="ca.crt"):
    return {"tlsCASecretRef": {"name": f"{name}-ca", "dataKey": key}, "serverTLSSecretRef": {"name": f"{name}-server"},
            "clientTLSSecretRef": {"name": f"{name}-client"}}


class ApiOverTls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pki = tempfile.mkdtemp(prefix="capstan-steward-tls-")
        cls.addClassCleanup(shutil.rmtree, cls.pki, ignore_errors=True)
        cls.authorities = {name: Authority(cls.pki, name) for name in ("client-ca", "peer-ca", "backup-ca", "other-ca")}
        cls.backup = cls.authorities["backup-ca"]
        both = "serverAuth,clientAuth"
        objects = [secret("peer-ca", {"ca.crt": cls.authorities["peer-ca"].certificate()}),
                   pair("peer-server", cls.authorities["peer-ca"].issue("peer-server", both))]
        for kind, key in (("client", "bundle.crt"), ("backup", "ca.crt")):
            authority = cls.authorities[f"{kind}-ca"]
            objects += [secret(f"{kind}-ca", {key: authority.certificate()}),
                        pair(f"{kind}-server", authority.issue(f"{kind}-server", both)),
                        pair(f"{kind}-client", authority.issue(f"{kind}-client", "clientAuth"))]
        etcd = {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "metadata": {"name": "main", "namespace": "default"},
                "spec": {"replicas": 3, "labels": {"app": "main"},
                         "backup": {"tls": tls_block("backup"), "deltaSnapshotPeriod": "1h",
                                    "store": {"provider": "Local", "container": "backups", "prefix": "main"}},
                         "etcd": {"clientUrlTls": tls_block("client", "bundle.crt"),
                                  "peerUrlTls": {"tlsCASecretRef": {"name": "peer-ca"}, "serverTLSSecretRef": {"name": "peer-server"}}}}}
        manifest = pathlib.Path(cls.pki) / "etcd.yaml"
        manifest.write_text("\n---\n".join(json.dumps(o) for o in [*objects, etcd]))
        cls.cluster = Members(manifest)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()
        for address in cls.apis():
            wait_for("TLS", lambda at=address: ask(at, "/healthz", context=cls.context())[0] == 200, RENEWAL_SECONDS)

    @classmethod
    def context(cls, client=None, authority=None):
        """Of a caller that believes in the backup CA and shows the pair `client` has issued, if any."""
        context = ssl.create_default_context(cadata=(authority or cls.backup).certificate())
        context.check_hostname = False  # addresses of this machine
        if client:
            context.load_cert_chain(f"{cls.pki}/{client}.crt", f"{cls.pki}/{client}.key")
        return context

    @classmethod
    def apis(cls):
        return [f"{urllib.parse.urlparse(m['status']['endpoint']).hostname}:8080" for m in cls.cluster.members()]

    def put_secret(self, item):
        status, said = self.cluster.api().request("PATCH", f"{SECRETS}/{item['metadata']['name']}", {"data": item["data"]}, MERGE)
        self.assertEqual(status, 200, said)

    def change_spec(self, change):
        status, said = self.cluster.api().request("PATCH", f"{DRUID}/namespaces/default/etcds/main", {"spec": change}, MERGE)
        self.assertEqual(status, 200, said)

    def conditions(self):
        """Of each member: (reason, message) while ApiServed is False."""
        found = [[c for c in m["status"].get("conditions", []) if c["type"] == "ApiServed"] for m in self.cluster.members()]
        return [(c["reason"], c["message"]) for one in found for c in one if c["status"] == "False"]

    def pids(self):
        return sorted(self.cluster.processes())

    def test_1_what_changes_needs_a_client_certificate(self):
        self.assertEqual(self.conditions(), [])
        self.backup.issue("person", "clientAuth")
        self.authorities["other-ca"].issue("stranger", "clientAuth")
        for address in self.apis():
            status, _, body = ask(address, "/config", context=self.context())
            self.assertEqual(status, 200, body)
            for path in ("/snapshot/full", "/snapshot/delta", "/initialization/start"):
                status, _, body = ask(address, path, "POST", context=self.context())
                self.assertEqual((status, json.loads(body)["reason"]), (401, "NoCredentials"), path)
            with self.assertRaises((ssl.SSLError, ConnectionError, http.client.BadStatusLine)):
                ask(address, "/healthz", context=self.context("stranger"))
            with self.assertRaises((ConnectionError, http.client.HTTPException)):
                ask(address, "/healthz")  # without TLS
            launcher = address.replace(":8080", ":9095")
            self.assertEqual(ask(launcher, "/readyz")[0], 200)
            for path in ("/stop", "/restart"):
                self.assertEqual(ask(launcher, path, "POST")[0], 401)
                self.assertEqual(ask(launcher, path, "POST", "wrong" * 8)[0], 401)
        names = [s["metadata"]["name"] for s in self.cluster.api().items(SECRETS)]
        self.assertNotIn("main-api-token", names)

    def test_2_a_snapshot_asked_of_any_member_reaches_the_leading_one(self):
        for address in self.apis():
            def taken(at=address):
                status, _, body = ask(at, "/snapshot/full", "POST", context=self.context("person"))
                return status == 200 and json.loads(body)
            self.assertEqual(wait_for("a full snapshot", taken, 60)["kind"], "Full")

    def test_3_a_renewed_pair_is_served_without_a_restart(self):
        before = self.pids()
        address = self.apis()[0]
        self.put_secret(pair("backup-server", self.backup.issue("backup-server-2", "serverAuth,clientAuth")))
        wanted = ssl.PEM_cert_to_DER_cert(pathlib.Path(f"{self.pki}/backup-server-2.crt").read_text())

        def served():
            host, port = address.split(":")
            with socket.create_connection((host, int(port)), timeout=5) as plain, self.context().wrap_socket(plain) as tls:
                return tls.getpeercert(True) == wanted
        wait_for("the renewed pair", served, RENEWAL_SECONDS)
        self.assertEqual(self.pids(), before)
        self.assertEqual(self.conditions(), [])

    def test_4_a_wrong_ca_is_said_and_stops_no_member(self):
        self.put_secret(secret("backup-ca", {"ca.crt": self.authorities["other-ca"].certificate()}))
        told = wait_for("the reason", lambda: len(self.conditions()) == 3 and self.conditions(), RENEWAL_SECONDS)
        for reason, message in told:
            self.assertEqual(reason, "CertificatesRefused")
            self.assertIn('signed by "backup-ca", which is not among the trusted CAs', message)
            self.assertIn("must be issued by the CA of Secret backup-ca", message)
            self.assertNotIn("\n", message)
        victim = sorted(self.cluster.etcd_pids())[0]
        self.cluster.kill_etcd(victim)
        self.cluster.await_ready()
        self.put_secret(secret("backup-ca", {"ca.crt": self.backup.certificate()}))
        wait_for("no reason", lambda: not self.conditions(), RENEWAL_SECONDS)

    def test_5_without_tls_there_is_a_token_and_no_restart(self):
        before = self.pids()
        self.change_spec({"backup": {"tls": None}})
        token = wait_for("the token", lambda: next((s["data"]["token"] for s in self.cluster.api().items(SECRETS)
                                                    if s["metadata"]["name"] == "main-api-token"), None))
        address = self.apis()[0]

        def answered(token, path="/snapshot/delta"):
            try:
                return ask(address, path, "POST", token)[0]
            except (ConnectionError, http.client.HTTPException):
                return None
        plain = base64.b64decode(token).decode()
        wait_for("plain HTTP with the token", lambda: answered(plain) == 200, RENEWAL_SECONDS)
        self.assertEqual(answered("wrong" + plain), 401)
        self.assertEqual(answered((self.cluster.dir / "steward-token").read_text().strip()), 200)
        self.assertEqual(self.pids(), before)

    def test_6_the_steward_may_restart_etcd(self):
        def hashes():
            return [m["status"].get("configHash") for m in self.cluster.members()]
        old, pids = hashes(), self.cluster.etcd_pids()
        self.change_spec({"etcd": {"snapshotCount": 5000}})
        wait_for("the new configuration", lambda: not set(hashes()) & set(old), 120)
        self.cluster.await_ready()
        self.assertFalse(set(pids.values()) & set(self.cluster.etcd_pids().values()))


if __name__ == "__main__":
    if not shutil.which("openssl"):
        print("skipped: there is no openssl", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
