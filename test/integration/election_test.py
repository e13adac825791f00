#!/usr/bin/env python3
"""Two operators with leader election on a real kube-apiserver: cut off, killed, stopped, ended in order.

Each is a user of its own behind a proxy of its own, with the rights `capstan rbac --config` prints. The API server's audit log is
the judge: which of them wrote what, and when the request arrived. Builds nothing. Arguments: parts of test names, default all.
"""
import datetime
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / folder) for folder in ("cluster", "e2e", "integration")]
import control_plane  # noqa: E402
from local_cluster import CAPSTAN, wait_for  # noqa: E402
from operator_process import HEAD, LISTENERS, Directory, Operator  # noqa: E402
from tcp_proxy import Proxy  # noqa: E402

PLUGINS = [str(pathlib.Path(CAPSTAN).parent / "plugins" / f"{name}.so") for name in ("etcd", "custodian")]
ETCDS = "/apis/druid.gardener.cloud/v1alpha1/namespaces/default/etcds"
SERVICE = "/api/v1/namespaces/default/services/main-client"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ETCD = {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "metadata": {"name": "main", "namespace": "default"},
        "spec": {"replicas": 1, "labels": {"app": "main"}, "selector": {"matchLabels": {"app": "main"}}, "etcd": {}, "backup": {},
                 "sharedConfig": {}}}
AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
    {"level": "Metadata", "users": ["operator-a", "operator-b"], "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
    {"level": "None"}]}
LEASE, RENEW, RETRY = 6, 4, 1  # seconds; the defaults are 15, 10 and 2
SLACK = 3.0  # over the promised second: the machine has other things to do
CONFIG = (HEAD + LISTENERS + "plugins: {etcd: {featureGates: {EtcdMember: true}}, custodian: {}}\n"
          f"leaderElection: {{enabled: true, leaseDuration: {LEASE}s, renewDeadline: {RENEW}s, retryPeriod: {RETRY}s}}\n")


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Poke:
    """Gives the leader work all the time: deletes a Service that it makes again."""

    def __init__(self, plane):
        self.plane = plane
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def loop(self):
        while not self.over.wait(0.1):
            try:
                self.plane.request("DELETE", SERVICE)
            except OSError:
                pass

    def close(self):
        self.over.set()
        self.thread.join(30)


class ElectionCase:
    """The tests; a class for each version is made below."""
    version = ""

    @classmethod
    def setUpClass(cls):
        cls.files = pathlib.Path(tempfile.mkdtemp(prefix="capstan-audit-"))
        cls.addClassCleanup(shutil.rmtree, cls.files, True)
        (cls.files / "policy.json").write_text(json.dumps(AUDIT))
        cls.audit = cls.files / "audit.log"
        cls.plane = control_plane.ControlPlane(cls.version, flags=[
            f"--audit-policy-file={cls.files / 'policy.json'}", f"--audit-log-path={cls.audit}"])
        cls.plane.__enter__()
        cls.addClassCleanup(cls.plane.__exit__, None, None, None)
        for crd in sorted((ROOT / "chart" / "crds").glob("*.yaml")):
            cls.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd.read_text())
        (cls.files / "operator.yaml").write_text(CONFIG)
        printed = subprocess.run([CAPSTAN, "rbac", *PLUGINS, "--config", str(cls.files / "operator.yaml")], capture_output=True,
                                 text=True, check=True, timeout=60).stdout
        cluster_role, role = printed.split("---\n")
        cls.post(RBAC + "/clusterroles", cluster_role)
        cls.post(RBAC + "/namespaces/default/roles", role)
        subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"operator-{name}"} for name in "ab"]
        cls.bind("ClusterRoleBinding", RBAC + "/clusterrolebindings", "capstan", "ClusterRole", "capstan", subjects)
        cls.bind("RoleBinding", RBAC + "/namespaces/default/rolebindings", "capstan-leader-election", "Role",
                 "capstan-leader-election", subjects)
        for name in ("operator-a", "operator-b", "operator-c"):
            cls.plane.pki.issue(name, f"/CN={name}", "extendedKeyUsage=clientAuth")
        wait_for("the CRDs", lambda: cls.plane.request("GET", ETCDS)[0] == 200)
        cls.post(ETCDS, json.dumps(ETCD))

    @classmethod
    def bind(cls, kind, path, name, role_kind, role, subjects):
        cls.post(path, json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
                                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
                                   "subjects": subjects}))

    @classmethod
    def post(cls, path, text):
        status, answer = cls.plane.request("POST", path, text, "application/yaml")
        if status not in (200, 201):
            raise AssertionError(f"POST {path}: {status} {answer[:600]}")

    def setUp(self):
        self.plane.request("DELETE", LEASES + "/capstan")
        self.poke = Poke(self.plane)
        self.addCleanup(self.poke.close)

    def start(self, name):
        """`capstan run` as the user operator-NAME behind a proxy."""
        directory = Directory()
        self.addCleanup(directory.close)
        proxy = Proxy(self.plane.port)
        self.addCleanup(proxy.close)
        config = self.plane.kubeconfig_of({"client-certificate-data": self.plane.pki.data(f"operator-{name}.crt"),
                                           "client-key-data": self.plane.pki.data(f"operator-{name}.key")})
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
        operator = Operator(directory, directory.write("operator.yaml", CONFIG), directory.write("kubeconfig", json.dumps(config)))
        operator.proxy, operator.user = proxy, f"operator-{name}"
        self.addCleanup(operator.close)
        return operator

    def pair(self):
        """Two of them: the first leads and works, the second is ready to."""
        first = self.start("a")
        first.await_logged("became leader")
        second = self.start("b")
        second.await_logged("standing by: another process holds the lease")
        wait_for("the standby to be ready", lambda: second.readyz()[0] == 200)
        self.assertIn("[+]leader-election ok (standby; the leader is ", second.readyz()[1])
        self.assertIn("[+]leader-election ok (leader)", first.readyz()[1])
        since = time.time()
        wait_for("the leader to work", lambda: len(self.writes(first.user, since)) > 5)
        self.assertEqual(self.writes(second.user), [])
        return first, second

    def run(self, result=None):
        self.began = time.time()
        return super().run(result)

    def requests(self, user, since=0.0):
        """(arrival, verb, what) of what the server saw, refused or not."""
        found = []
        for line in self.audit.read_text().splitlines() if self.audit.exists() else []:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # half written
            arrived = seconds(event["requestReceivedTimestamp"])
            if event["user"]["username"] == user and arrived >= max(since, self.began):
                target = event.get("objectRef", {})
                found.append((arrived, event["verb"], f"{target.get('resource')}/{target.get('name')}"))
        return sorted(found)

    def writes(self, user, since=0.0):
        return [r for r in self.requests(user, since) if r[2] != "leases/capstan"]

    def holder(self):
        status, text = self.plane.request("GET", LEASES + "/capstan")
        return json.loads(text)["spec"].get("holderIdentity", "") if status == 200 else ""

    def takes_over(self, first, second, since, limit):
        """Waits until `second` works; the seconds from `since` to its first write. Judges the audit log."""
        second.await_logged("became leader", limit)
        wait_for("the new leader to work", lambda: len(self.writes(second.user)) > 3, 30)
        took = [r for r in self.requests(second.user) if r[2] == "leases/capstan"][0][0]
        before, after = self.writes(first.user), self.writes(second.user)
        self.assertLess(before[-1][0], took, f"{before[-1]} of the old leader came after the lease was taken")
        self.assertLess(before[-1][0], after[0][0])
        self.assertLess(took, after[0][0], "the new leader wrote before it led")
        return after[0][0] - since

    def say(self, what, value, promised):
        print(f"measured: {what}: {value:.2f} s (promised {promised} s)", file=sys.stderr)
        self.assertLess(value, promised + SLACK)

    def test_a_leader_that_is_cut_off_ends_with_5_before_the_other_leads(self):
        first, second = self.pair()
        cut = time.time()
        first.proxy.cut()
        self.assertEqual(first.process.wait(60), 5, first.text())
        ended = time.time()
        self.say("take-over from a leader that is cut off", self.takes_over(first, second, cut, 60), LEASE + 1)
        taken = [r for r in self.requests(second.user) if r[2] == "leases/capstan"][0][0]
        self.assertLess(ended, taken + 0.2, "it had ended when the other took the lease")
        self.assertRegex(first.text(), r"capstan run: leadership lost: lease default/capstan: it was not renewed for [\d.]+ s.*"
                                       r"remedy: start it again, it then stands by")
        first.proxy.heal()
        again = self.start("a")
        again.await_logged("standing by: another process holds the lease")

    def test_a_killed_leader_is_replaced_within_the_lease_time(self):
        first, second = self.pair()
        killed = time.time()
        first.process.kill()
        first.process.wait(10)
        self.say("take-over from a killed leader", self.takes_over(first, second, killed, 60), LEASE + 1)

    def test_an_ended_leader_hands_over_at_once(self):
        first, second = self.pair()
        asked = time.time()
        self.assertEqual(first.stop(), 0, first.text())
        self.assertIn("lease released", first.text())
        self.say("take-over from a leader that ends in order", self.takes_over(first, second, asked, 60), 3)

    def test_a_leader_that_slept_wakes_up_and_writes_nothing(self):
        first, second = self.pair()
        slept = time.time()
        first.process.send_signal(signal.SIGSTOP)
        self.takes_over(first, second, slept, 60)
        woken = time.time()
        first.process.send_signal(signal.SIGCONT)
        self.assertEqual(first.process.wait(30), 5, first.text())
        self.assertEqual(self.writes(first.user, woken - 0.5), [])
        self.assertIn("leadership lost", first.text())

    def test_a_standby_that_ends_takes_nothing_with_it(self):
        first, second = self.pair()
        holder = self.holder()
        self.assertEqual(second.stop(), 0, second.text())
        self.assertEqual(self.holder(), holder)
        self.assertEqual(self.writes(second.user), [])
        self.assertIsNone(first.process.poll())

    def test_a_missing_right_is_named(self):
        operator = self.start("c")
        wait_for("the right to be named", lambda: "[-]leader-election failed: forbidden: get leases.coordination.k8s.io "
                                                  "default/capstan" in operator.readyz()[1])
        self.assertIn("get leases.coordination.k8s.io default/capstan", operator.text())
        self.assertEqual(operator.stop(), 0, operator.text())


if __name__ == "__main__":
    sys.exit(control_plane.run_cases("Election", ElectionCase))
