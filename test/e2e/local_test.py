#!/usr/bin/env python3
"""`capstan up` with real etcd processes: from a manifest to a healthy cluster, through faults, to a clean end."""
import os
import signal
import subprocess
import sys
import time
import unittest

from cluster_cases import SEED, CrashesMixin, ThreeMembersMixin
from local_cluster import CAPSTAN, DRUID, ETCD1, Cluster, wait_for

REST_SECONDS = int(os.environ.get("CAPSTAN_E2E_REST", "60"))
KINDS = ["/api/v1/pods", "/api/v1/services", "/api/v1/configmaps", "/api/v1/serviceaccounts", "/api/v1/persistentvolumeclaims",
         "/apis/apps/v1/statefulsets", "/apis/policy/v1/poddisruptionbudgets", "/apis/rbac.authorization.k8s.io/v1/roles",
         "/apis/rbac.authorization.k8s.io/v1/rolebindings", f"{DRUID}/etcds", f"{DRUID}/etcdmembers"]


def versions(api):
    """Every object that is not a lease or an event -> (resourceVersion, object)."""
    found = {}
    for path in KINDS:
        for item in api.items(path):
            meta = item["metadata"]
            found[f"{path}/{meta.get('namespace')}/{meta['name']}"] = meta["resourceVersion"]
    return found


def settled(cluster, quiet=4.0, limit=180.0):
    """The versions once every pod is ready and nothing has been written for `quiet` seconds: tests before this one may
    have left a member that is still coming back."""
    end = time.monotonic() + limit
    seen, since, writes = {}, time.monotonic(), {}
    while time.monotonic() < end:
        now = versions(cluster.api())
        waiting = [p["metadata"]["name"] for p in cluster.api().items("/api/v1/pods")
                   for c in p["status"].get("conditions", []) if c["type"] == "Ready" and c["status"] != "True"]
        changed = [key for key in set(seen) | set(now) if seen.get(key) != now.get(key)]
        if changed or waiting:
            for key in changed if seen else []:
                writes[key] = writes.get(key, 0) + 1
            seen, since = now, time.monotonic()
        elif time.monotonic() - since >= quiet:
            return now
        time.sleep(0.2)
    raise AssertionError(f"the cluster did not settle in {limit} s: pods not ready {waiting}, writes seen {writes}\n{cluster.tail()}")


class ThreeMembers(ThreeMembersMixin, unittest.TestCase):
    def test_status_tells_the_truth(self):
        def roles():
            return sorted(m.get("role", "") for m in self.cluster.etcd()["status"]["members"])
        wait_for("the roles", lambda: roles() == ["Leader", "Member", "Member"])  # told by leases, a moment after the members
        status = self.cluster.etcd()["status"]
        self.assertEqual(status["readyReplicas"], 3)
        self.assertEqual(len(status["members"]), 3)
        self.assertEqual(len(status["memberRefs"]), 3)
        self.assertEqual(status["observedGeneration"], self.cluster.etcd()["metadata"]["generation"])
        leases = self.cluster.api().items("/apis/coordination.k8s.io/v1/namespaces/default/leases")
        holders = [l["spec"]["holderIdentity"] for l in leases if l["spec"].get("holderIdentity", "").count(":") == 2]
        self.assertEqual(sorted(h.rsplit(":", 1)[1] for h in holders), ["Leader", "Member", "Member"])

    def test_a_lost_quorum_is_told_before_leases_grow_old(self):
        def ready():
            return next((c["status"], c["reason"]) for c in self.cluster.etcd()["status"]["conditions"] if c["type"] == "Ready")
        self.assertEqual(ready(), ("True", "Quorate"))
        for pid in list(self.cluster.etcd_pids().values())[:2]:
            os.kill(pid, signal.SIGKILL)
        wait_for("the loss in the condition", lambda: ready() == ("False", "QuorumLost"), 30)
        self.cluster.await_ready()

    def test_writes_nothing_at_rest(self):
        api = self.cluster.api()
        before = settled(self.cluster, quiet=8.0)  # sizes are written at most every 5 s
        start = time.monotonic()
        time.sleep(REST_SECONDS)
        after = versions(api)
        changed = [key for key in set(before) | set(after) if before.get(key) != after.get(key)]
        # A member confirms unchanged facts every 5 minutes; nothing else may be written.
        refreshed = [key for key in changed if "/etcdmembers/" in key]
        self.assertEqual([key for key in changed if key not in refreshed], [], f"seed {SEED}")
        self.assertLessEqual(len(refreshed), 3 * (1 + int((time.monotonic() - start) / 300)))

    def test_a_restarted_operator_changes_nothing(self):
        api = self.cluster.api()
        before = settled(self.cluster)
        pids = [p for p in self.cluster.processes() if self.is_operator(p)]
        self.assertEqual(len(pids), 1)
        os.kill(pids[0], signal.SIGKILL)
        wait_for("a new operator", lambda: [p for p in self.cluster.processes() if self.is_operator(p) and p != pids[0]])
        time.sleep(6)
        after = versions(api)
        changed = [key for key in set(before) | set(after) if before.get(key) != after.get(key) and "/etcdmembers/" not in key]
        self.assertEqual(changed, [])

    @staticmethod
    def is_operator(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return b"\0run\0--config\0" in file.read()
        except OSError:
            return False


class Crashes(CrashesMixin, unittest.TestCase):
    def test_a_stopped_cluster_starts_again_with_its_data(self):
        cluster = Cluster(ETCD1, "solo")
        self.addCleanup(cluster.close)
        cluster.start()
        cluster.put("kept", "yes")
        self.assertEqual(cluster.stop(), 0)
        self.assertEqual(cluster.processes(), [])
        cluster.start()
        self.assertEqual(cluster.read("kept", cluster.endpoints()[0]), "yes")
        reasons = [t["reason"] for t in cluster.members()[0]["status"]["transitions"]]
        self.assertIn("DetectedPreviousCleanExit", reasons)


class Deletion(unittest.TestCase):
    def test_deleting_the_etcd_removes_everything_but_the_claims(self):
        cluster = Cluster(ETCD1, "solo")
        self.addCleanup(cluster.close)
        cluster.start()
        done = subprocess.run([CAPSTAN, "delete", "--kubeconfig", str(cluster.dir / "kubeconfig"), "-f", str(ETCD1)],
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        api = cluster.api()
        gone = [p for p in KINDS if "persistentvolumeclaims" not in p and "serviceaccounts" not in p and "rolebindings" not in p]

        def left():
            return [f"{p}: {i['metadata']['name']}" for p in gone for i in api.items(p) if "solo" in i["metadata"]["name"]]
        wait_for("children to go", lambda: not left())
        wait_for("etcd to end", lambda: not cluster.etcd_pids())


if __name__ == "__main__":
    print(f"seed {SEED}", file=sys.stderr)
    unittest.main(verbosity=2)
