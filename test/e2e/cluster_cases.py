"""What every version of etcd must go through: one cluster, a killed member, a killed leader, a killed capstan.

Mixins: a test class adds unittest.TestCase, and etcd_dir when it is not the default etcd.
"""
import http.client
import os
import random
import signal
import sys
import threading
import time

from local_cluster import Cluster, asked, b64, gateway, wait_for

# 30 as the acceptance asks; CI takes fewer.
KILLS = int(os.environ.get("CAPSTAN_E2E_KILLS", "6"))
SEED = int(os.environ.get("CAPSTAN_E2E_SEED", str(random.randrange(1 << 31))))


class ThreeMembersMixin:
    """One cluster for all tests of the class; each leaves it healthy."""

    etcd_dir = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(etcd_dir=cls.etcd_dir)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def setUp(self):
        self.cluster.await_ready()

    def test_forms_one_cluster(self):
        ids = set()
        for endpoint in self.cluster.endpoints():
            ids.add(asked(endpoint, "cluster/member/list", {})["header"]["cluster_id"])
        self.assertEqual(len(ids), 1)
        members = self.cluster.members()
        self.assertEqual({m["status"]["clusterID"] for m in members}, {format(int(ids.pop()), "x")})
        self.assertEqual(len({m["status"]["id"] for m in members}), 3)
        self.cluster.await_leader()
        self.cluster.put("forms", "one")
        for endpoint in self.cluster.endpoints():
            self.assertEqual(self.cluster.read("forms", endpoint), "one")

    def kill_member(self, name):
        """SIGKILL, and what the new process says of itself: the state of the old one stands until then."""
        def transitions():
            member = next(m for m in self.cluster.members() if m["metadata"]["name"] == name)
            return [(t["state"], t.get("subState"), t["transitionTime"], t["reason"]) for t in member["status"]["transitions"]]
        pid = self.cluster.etcd_pids()[name]
        before = transitions()
        os.kill(pid, signal.SIGKILL)
        wait_for("a new etcd process", lambda: self.cluster.etcd_pids().get(name, pid) != pid, 120)

        def went_through_validation():
            states = [t[:2] for t in transitions() if t not in before]
            return ("Initializing", "DBValidationFull") in states and states[-1][0] == "Started"
        wait_for("its transitions", went_through_validation, 120)

    def test_a_killed_follower_comes_back(self):
        leader = self.cluster.await_leader()["metadata"]["name"]
        follower = next(n for n in self.cluster.etcd_pids() if n != leader)
        self.cluster.put("before", "follower")
        self.kill_member(follower)
        self.cluster.await_ready()
        for endpoint in self.cluster.endpoints():
            self.assertEqual(self.cluster.read("before", endpoint), "follower")

    def test_a_killed_leader_is_replaced(self):
        self.kill_member(self.cluster.await_leader()["metadata"]["name"])
        self.cluster.await_leader(120)
        wait_for("exactly one leader in the leases", lambda: [
            l["spec"].get("holderIdentity", "").rsplit(":", 1)[-1]
            for l in self.cluster.api().items("/apis/coordination.k8s.io/v1/namespaces/default/leases")
        ].count("Leader") == 1, 60)
        self.cluster.await_ready()


class CrashesMixin:
    etcd_dir = None
    kills = KILLS

    def test_kill_nine_of_capstan_loses_nothing(self):
        rng = random.Random(SEED)
        cluster = Cluster(etcd_dir=self.etcd_dir)
        self.addCleanup(cluster.close)
        cluster.start()
        identity = asked(cluster.endpoints()[0], "cluster/member/list", {})["header"]["cluster_id"]
        endpoints, pids = cluster.endpoints(), cluster.etcd_pids()
        acknowledged, stop = [], threading.Event()

        def write():
            number = 0
            while not stop.is_set():
                try:
                    gateway(endpoints[number % len(endpoints)], "kv/put", {"key": b64(f"key-{number}"), "value": b64(str(number))})
                    acknowledged.append(number)
                except (OSError, http.client.HTTPException, ValueError):
                    pass
                number += 1
                stop.wait(0.02)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(self.kills):
                time.sleep(rng.uniform(0.05, 2.0))
                cluster.kill()
                cluster.start(wait=False)
            cluster.await_ready(120)
            wait_for("more writes", lambda: len(acknowledged) > 10)
        finally:
            stop.set()
            writer.join(30)
        self.assertEqual(cluster.etcd_pids(), pids, f"etcd was restarted; seed {SEED}")
        for endpoint in cluster.endpoints():
            self.assertEqual(asked(endpoint, "cluster/member/list", {})["header"]["cluster_id"], identity)
        missing = [n for n in acknowledged if cluster.read(f"key-{n}", endpoints[n % len(endpoints)]) != str(n)]
        self.assertEqual(missing, [], f"seed {SEED}")
        print(f"{self.kills} kills, {len(acknowledged)} acknowledged writes", file=sys.stderr)
