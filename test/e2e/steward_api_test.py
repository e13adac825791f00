#!/usr/bin/env python3
"""The steward's HTTP API beside real etcds: who may with which certificate or token, and defragmentation."""
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import sys
import threading
import unittest
import urllib.parse

from local_cluster import DRUID, ETCD3, Cluster, wait_for
from operator_process import HEAD, ApiServer, Directory, Operator
from real_etcd import Etcd
from steward_pki import Pki

ETCD_DIR = pathlib.Path(os.environ["CAPSTAN_ETCD_DIR"])
# Of the pod that the steward believes to be in; its ops port is fixed, and another run may be beside this one.
ADDRESS = f"127.78.{random.randrange(256)}.{random.randrange(1, 255)}"
ROTATION_SECONDS = 90  # certificates are read every 10 s
ALARM_SECONDS = 120  # alarms are read every 30 s


class UnixConnection(http.client.HTTPConnection):
    """To the socket at a path, however long the path."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        directory = os.open(self.path.parent, os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{directory}/{self.path.name}")
        finally:
            os.close(directory)


def ask(address, path, method="GET", token=None, context=None):
    """Status, headers and body; `address` is HOST:PORT or the path of a socket."""
    if isinstance(address, pathlib.Path):
        connection = UnixConnection(address)
    elif context:
        connection = http.client.HTTPSConnection(address, context=context, timeout=30)
    else:
        connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request(method, path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def context_of(ca, pair=None):
    context = ssl.create_default_context(cafile=str(ca))
    if pair:
        context.load_cert_chain(*map(str, pair))
    return context


class Steward(Operator):
    """`capstan run --profile steward` for member main-0, without launcher, beside an etcd that runs."""

    def __init__(self, directory, config, kubeconfig, tls_files):
        self.run_dir = directory.root / "run"
        self.run_dir.mkdir()
        pod_map = directory.write("pod-map.json", json.dumps({"podIP": ADDRESS, "paths": {}, "names": {"main-local": "127.0.0.1"}}))
        self.environment = {
            "POD_NAME": "main-0", "POD_NAMESPACE": "default", "POD_IP": ADDRESS, "CAPSTAN_POD_MAP": str(pod_map),
            "CAPSTAN_ETCD_NAME": "main", "CAPSTAN_MEMBER_NAME": "main-0", "CAPSTAN_CONFIGMAP_NAME": "main-config",
            "CAPSTAN_API_PORT": "0", "CAPSTAN_RUN_DIR": str(self.run_dir)}
        outer = self

        class WithProfile:
            root = directory.root

            @staticmethod
            def command(config_file, kubeconfig_file):
                return [*directory.command(config_file, kubeconfig_file), "--profile", "steward"]

            @staticmethod
            def environment():
                return {**directory.environment(), **outer.environment}

        super().__init__(WithProfile, directory.write("steward.yaml", HEAD + config.format(**tls_files)), kubeconfig)

    def address(self):
        return f"{ADDRESS}:{self.await_logged('serving plugin routes over TLS')[0]['port']}"

    @property
    def socket(self):
        return self.run_dir / "steward.sock"

    @property
    def token(self):
        return wait_for("the token", lambda: (self.run_dir / "token").read_text().strip())


CONFIG = """
listeners:
  api: {{tls: {{certificateFile: {cert}, keyFile: {key}, clientCaFile: {ca}, clientAuth: request}}}}
plugins: {{steward-bridge: {{config: {{apiTokenFile: {token}}}}}}}
"""


class OneMember(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = Directory()
        cls.addClassCleanup(cls.directory.close)
        root = cls.directory.root
        cls.pki, cls.other = Pki(root, "backup-ca", ADDRESS), Pki(root, "other-ca", ADDRESS)
        cls.client = cls.pki.issue("client")
        cls.files = {"cert": root / "tls.crt", "key": root / "tls.key", "ca": root / "client-ca.crt", "token": root / "cluster-token"}
        cls.install(cls.pki, "server")
        cls.files["token"].write_text("the-token-of-this-cluster\n")
        cls.etcd = Etcd(str(ETCD_DIR / "etcd"), root / "data", "main-0").start().wait()
        cls.addClassCleanup(cls.etcd.stop)
        cls.server = ApiServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()
        cls.create_objects()
        cls.steward = Steward(cls.directory, CONFIG, cls.server.kubeconfig, cls.files)
        cls.addClassCleanup(cls.steward.close)
        cls.api = cls.steward.address()
        wait_for("a healthy member", lambda: ask(cls.api, "/healthz", context=context_of(cls.pki.ca))[0] == 200, 60)

    @classmethod
    def install(cls, pki, name):
        """The server's pair and the clients' CA, as a Secret would be replaced."""
        cert, key = pki.issue(name)
        for source, target in ((cert, "cert"), (key, "key"), (pki.ca, "ca")):
            shutil.copy(source, f"{cls.files[target]}.new")
        for target in ("cert", "key", "ca"):
            os.replace(f"{cls.files[target]}.new", cls.files[target])

    @classmethod
    def create_objects(cls):
        endpoint = f"http://main-local:{cls.etcd.client_port}"
        steward = {"apiVersion": "config.capstan.dev/v1alpha1", "kind": "StewardConfiguration", "etcd": {"replicas": 1},
                   "endpoints": {"local": endpoint, "service": []}, "dataDir": str(cls.etcd.data), "backup": {},
                   "members": {"main-0": {"configHash": "h", "config": {"name": "main-0", "advertise-client-urls": endpoint}}}}
        for path, item in (
                ("/api/v1/namespaces/default/configmaps",
                 {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main-config"},
                  "data": {"steward.yaml": json.dumps(steward)}}),
                ("/apis/coordination.k8s.io/v1/namespaces/default/leases",
                 {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "main-0"}}),
                (f"{DRUID}/namespaces/default/etcdmembers",
                 {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "EtcdMember", "metadata": {"name": "main-0"}, "spec": {}})):
            status, body = cls.server.api().request("POST", path, item)
            assert status == 201, body

    def member(self):
        return self.server.api().get(f"{DRUID}/namespaces/default/etcdmembers/main-0").get("status", {})

    def refused(self, context):
        """A certificate that is refused shows in the handshake or, with TLS 1.3, at the first read."""
        with self.assertRaises((ssl.SSLError, ConnectionError, http.client.BadStatusLine)):
            ask(self.api, "/healthz", context=context)

    def test_1_without_a_certificate_one_may_only_read(self):
        context = context_of(self.pki.ca)
        self.assertEqual(ask(self.api, "/healthz", context=context)[0], 200)
        status, headers, body = ask(self.api, "/snapshot/latest", context=context)
        self.assertEqual((status, json.loads(body)["reason"]), (405, "NoStore"))
        self.assertEqual(headers["strict-transport-security"], "max-age=31536000")
        for path in ("/snapshot/full", "/snapshot/delta", "/defragment", "/initialization/start"):
            status, headers, body = ask(self.api, path, "POST", context=context)
            self.assertEqual((status, json.loads(body)["reason"]), (401, "NoCredentials"), path)
            self.assertIn("client certificate", json.loads(body)["message"])
        self.assertEqual(ask(self.api, "/defragment", "POST", "wrong", context)[0], 401)
        self.assertEqual(ask(self.api, "/nothing", context=context)[0], 404)

    def test_2_a_certificate_of_another_ca_or_an_ended_one_is_refused(self):
        self.refused(context_of(self.pki.ca, self.other.issue("stranger")))
        self.refused(context_of(self.pki.ca, self.pki.issue("ended", "200101000000Z", "200102000000Z")))
        with self.assertRaises(ssl.SSLCertVerificationError):
            ask(self.api, "/healthz", context=context_of(self.other.ca))

    def test_3_with_a_certificate_the_member_is_defragmented(self):
        for key in range(200):
            self.etcd.call("kv/put", {"key": "a2V5", "value": "QUFB" * 1000 + f"{key:04d}"})
        self.etcd.compact(self.etcd.revision())
        status, _, body = ask(self.api, "/defragment", "POST", context=context_of(self.pki.ca, self.client))
        self.assertEqual(status, 200, body)
        done = json.loads(body)
        self.assertEqual((done["status"], done["reason"]), ("Succeeded", "Requested"))
        self.assertLess(int(done["finalDBSize"]), int(done["initialDBSize"]))
        reported = wait_for("the report", lambda: self.member().get("lastDefragmentation", {}).get("status") == "Succeeded"
                            and self.member()["lastDefragmentation"])
        self.assertEqual(reported, done)
        lease = self.server.api().get("/apis/coordination.k8s.io/v1/namespaces/default/leases/main-0")
        self.assertNotIn("capstan.dev/defragmenting", lease["metadata"].get("annotations", {}))
        again = json.loads(ask(self.api, "/defragment", context=context_of(self.pki.ca))[2])
        self.assertEqual(again, done)

    def test_4_tokens_at_the_socket_of_the_launcher_and_over_tls(self):
        near = self.steward.socket
        self.assertEqual(os.stat(near).st_mode & 0o777, 0o600)
        self.assertEqual(ask(near, "/healthz")[0], 200)
        for token in (None, "", "wrong", self.steward.token[:-1]):
            self.assertEqual(ask(near, "/defragment", token=token)[0], 401, token)
        for token in (self.steward.token, "the-token-of-this-cluster"):
            self.assertEqual(ask(near, "/defragment", token=token)[0], 200)
            self.assertEqual(ask(self.api, "/snapshot/full", "POST", token, context_of(self.pki.ca))[0], 405)
        self.files["token"].write_text("another-token-of-this-cluster\n")
        self.assertEqual(ask(near, "/defragment", token="the-token-of-this-cluster")[0], 401)
        self.assertEqual(ask(near, "/defragment", token="another-token-of-this-cluster")[0], 200)
        self.assertEqual(os.stat(self.steward.run_dir / "token").st_mode & 0o777, 0o600)

    def test_5_metrics_and_alarms(self):
        def metric(name):
            text = ask(self.api, "/metrics", context=context_of(self.pki.ca))[2]
            return next((line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name)), None)
        self.assertIsNotNone(metric('etcdbr_defragmentation_duration_seconds_count{succeeded="false",endpoint=""}'))
        self.assertGreater(int(metric("etcdbr_network_received_bytes ")), 0)
        self.assertIsNone(metric("process_"), "the host's own are at its ops listener")
        member = self.etcd.call("maintenance/status")["header"]["member_id"]
        self.etcd.call("maintenance/alarm", {"action": "ACTIVATE", "memberID": member, "alarm": "NOSPACE"})
        raised = {"type": "SpaceAvailable", "status": "False", "reason": "NoSpaceAlarm"}

        def conditions():
            return [c for c in self.member().get("conditions", []) if raised.items() <= c.items()]
        wait_for("the condition", conditions, ALARM_SECONDS)
        self.assertEqual(metric('steward_etcd_alarm{alarm="NOSPACE"}'), "1")
        self.etcd.call("maintenance/alarm", {"action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"})
        wait_for("no condition", lambda: not conditions(), ALARM_SECONDS)
        self.assertEqual(metric('steward_etcd_alarm{alarm="NOSPACE"}'), "0")

    def test_6_certificates_rotate_while_it_runs(self):
        old, renewed = context_of(self.pki.ca, self.client), Pki(self.directory.root, "renewed-ca", ADDRESS)
        self.install(renewed, "server-2")
        new = context_of(renewed.ca, renewed.issue("client-2"))

        def served():
            try:
                return ask(self.api, "/healthz", context=new)[0] == 200
            except ssl.SSLError:
                return False
        wait_for("the renewed certificate", served, ROTATION_SECONDS)
        self.refused(old)
        self.assertEqual(ask(self.api, "/defragment", "POST", context=new)[0], 200)
        self.files["cert"].write_text("damaged")
        self.steward.await_logged("certificate not reloaded; the one in use stays", ROTATION_SECONDS)
        self.assertTrue(served(), "a pair that cannot be used leaves the old one in use")


class ThreeMembers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(ETCD3, "main")
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def stewards(self):
        """Member name -> (address of its API, its token)."""
        token = (self.cluster.dir / "steward-token").read_text().strip()
        return {m["metadata"]["name"]: (f"{urllib.parse.urlparse(m['status']['endpoint']).hostname}:8080", token)
                for m in self.cluster.members()}

    def records(self):
        return {m["metadata"]["name"]: m["status"].get("lastDefragmentation", {}) for m in self.cluster.members()}

    def test_1_each_in_its_turn_the_leading_one_last(self):
        stewards, leader = self.stewards(), self.cluster.await_leader()["metadata"]["name"]
        self.assertEqual(len(stewards), 3)
        for name in sorted(stewards, key=lambda n: n == leader):
            address, token = stewards[name]
            self.assertEqual(ask(address, "/defragment", "POST")[0], 401)
            others = {n: r for n, r in self.records().items() if n != name}
            status, _, body = ask(address, "/defragment", "POST", token)
            self.assertEqual(status, 200, body)
            wait_for("the record", lambda n=name: self.records()[n].get("status") == "Succeeded")
            self.assertEqual({n: r for n, r in self.records().items() if n != name}, others, "only the member asked")

    def test_2_never_two_at_once(self):
        stewards, answers = self.stewards(), []

        def request(address, token):
            answers.append(ask(address, "/defragment", "POST", token)[0])
        for _ in range(5):
            threads = [threading.Thread(target=request, args=stewards[name]) for name in stewards]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        self.assertEqual(len(answers), 15)
        self.assertLessEqual(set(answers), {200, 409})
        self.assertIn(200, answers)
        self.assertIn(409, answers)

    def test_3_not_while_a_member_is_down(self):
        stewards, pids = self.stewards(), self.cluster.etcd_pids()
        leader = self.cluster.await_leader()["metadata"]["name"]
        down = next(name for name in sorted(pids) if name != leader)
        os.kill(pids[down], signal.SIGSTOP)
        try:
            for name in sorted(stewards):
                if name != down:
                    status, _, body = ask(*stewards[name][:1], "/defragment", "POST", stewards[name][1])
                    self.assertEqual(status, 503, body)
                    self.assertIn(f'"{down}"', json.loads(body)["message"])
        finally:
            os.kill(pids[down], signal.SIGCONT)
        self.cluster.await_ready()
        address, token = stewards[leader]
        wait_for("its turn", lambda: ask(address, "/defragment", "POST", token)[0] == 200, 60)


class Backups(unittest.TestCase):
    """Requests for snapshots at any member reach the leading one's steward."""

    MANIFEST = """apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: default}
spec:
  replicas: 3
  labels: {app: main}
  etcd: {}
  backup: {deltaSnapshotPeriod: 1h, store: {provider: Local, container: backups, prefix: main}}
"""

    def test_a_snapshot_asked_of_any_member(self):
        directory = Directory()
        self.addCleanup(directory.close)
        cluster = Cluster(directory.write("etcd.yaml", self.MANIFEST), "main")
        self.addCleanup(cluster.close)
        cluster.start()
        token = (cluster.dir / "steward-token").read_text().strip()
        revisions = []
        for member in cluster.members():
            address = f"{urllib.parse.urlparse(member['status']['endpoint']).hostname}:8080"
            cluster.put("key", member["metadata"]["name"])

            def taken(path, at=address):
                status, _, body = ask(at, path, "POST", token)
                return status == 200 and body
            delta = json.loads(wait_for("a delta snapshot", lambda: taken("/snapshot/delta"), 60))
            full = json.loads(wait_for("a full snapshot", lambda: taken("/snapshot/full"), 60))
            self.assertTrue(delta is None or delta["kind"] == "Incr", delta)  # None: a full one has it already
            self.assertEqual(full["kind"], "Full")
            revisions.append(full["lastRevision"])
            latest = json.loads(ask(address, "/snapshot/latest", token=token)[2])
            self.assertEqual(latest["fullSnapshot"]["lastRevision"], full["lastRevision"])
        self.assertEqual(revisions, sorted(revisions))
        names = [path.name for path in cluster.dir.rglob("Full-*")]
        self.assertTrue(any(f"{revisions[-1]:08d}" in name for name in names), names)


if __name__ == "__main__":
    if not shutil.which("openssl"):
        print("skipped: there is no openssl", file=sys.stderr)
        sys.exit(77)
    socket.setdefaulttimeout(60)
    unittest.main(verbosity=2)
