#!/usr/bin/env python3
"""Jobs of the node of a real `capstan up`: success, failure, time to live, and a node that is killed meanwhile."""
import shutil
import subprocess
import sys
import unittest

from local_cluster import CAPSTAN, ROOT, wait_for
from operator_process import ApiServer

JOBS = "/apis/batch/v1/namespaces/default/jobs"


def job(name, container, volumes=(), **spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {**spec, "template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                                                   "containers": [{"name": "main", **container}], "volumes": list(volumes)}}}}


def capstan(*arguments):
    return {"image": "capstan", "command": ["/usr/local/bin/capstan"], "args": list(arguments)}


ETCD = {"image": "etcd", "command": ["/usr/local/bin/etcd"],
        "args": ["--data-dir=data", "--listen-client-urls=http://$(POD_IP):2379", "--advertise-client-urls=http://$(POD_IP):2379",
                 "--listen-peer-urls=http://$(POD_IP):2380"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}


class Jobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start()

    def create(self, *arguments, **spec):
        status, body = self.server.api().request("POST", JOBS, job(*arguments, **spec))
        self.assertEqual(status, 201, body)

    def status(self, name):
        return self.server.api().get(f"{JOBS}/{name}").get("status", {})

    def conditions(self, name):
        return [(c["type"], c["reason"]) for c in self.status(name).get("conditions", []) if c["status"] == "True"]

    def pods(self, name):
        return self.server.api().items(f"/api/v1/namespaces/default/pods?labelSelector=job-name%3D{name}")

    def test_completions_one_after_the_other(self):
        self.create("twice", capstan("--version"), completions=2)
        wait_for("the end", lambda: len(self.conditions("twice")) == 2)
        self.assertEqual(self.conditions("twice"), [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")])
        status = self.status("twice")
        self.assertEqual((status["succeeded"], status["ready"], status["terminating"], status.get("active")), (2, 0, 0, None))
        pods = self.pods("twice")
        self.assertEqual([p["metadata"]["ownerReferences"][0]["kind"] for p in pods], ["Job", "Job"])

    def test_a_failure_is_tried_again_up_to_the_limit(self):
        self.create("bad", capstan("no-such-command"), backoffLimit=1)
        wait_for("the end", lambda: len(self.conditions("bad")) == 2)
        self.assertEqual(self.conditions("bad")[-1], ("Failed", "BackoffLimitExceeded"))
        self.assertEqual(self.status("bad")["failed"], 2)
        self.assertEqual(len(self.pods("bad")), 2)

    def test_it_and_its_pods_go_after_their_time(self):
        self.create("brief", capstan("--version"), ttlSecondsAfterFinished=1)
        wait_for("its end", lambda: self.server.api().request("GET", f"{JOBS}/brief")[0] == 404)
        wait_for("its pods to go", lambda: not self.pods("brief"))

    def test_backups_are_compacted_by_a_job(self):
        store = self.server.dir / "host" / "backups"
        shutil.copytree(ROOT / "test" / "data" / "backups" / "sixty-deltas", store / "main")
        place = ["--provider", "Local", "--prefix", "main", "--container"]
        fulls = set((store / "main" / "v2").glob("Full-*"))
        self.create("compact", {**capstan("backup", "compact", *place, "/backups", "--work-dir", "/work"),
                                "volumeMounts": [{"name": "backups", "mountPath": "/backups"}, {"name": "work", "mountPath": "/work"}]},
                    volumes=[{"name": "backups", "hostPath": {"path": "/backups"}}, {"name": "work", "emptyDir": {}}], backoffLimit=0)
        wait_for("the end", lambda: len(self.conditions("compact")) == 2)
        self.assertEqual(self.conditions("compact")[-1], ("Complete", "CompletionsReached"))
        self.assertEqual(len(set((store / "main" / "v2").glob("Full-*")) - fulls), 1)
        done = subprocess.run([CAPSTAN, "backup", "verify", *place, str(store)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_killed_node_finds_the_pod_again(self):
        self.create("long", ETCD, activeDeadlineSeconds=600)
        running = wait_for("a running pod", lambda: [p for p in self.pods("long") if p["status"].get("phase") == "Running"])
        before = running[0]["metadata"]["uid"]
        self.server.kill()
        self.server.start()
        wait_for("the job", lambda: self.status("long").get("active") == 1)
        after = self.pods("long")
        self.assertEqual([p["metadata"]["uid"] for p in after], [before])
        self.assertEqual(after[0]["status"]["containerStatuses"][0]["restartCount"], 0)
        status, body = self.server.api().request("PATCH", f"{JOBS}/long", {"spec": {"activeDeadlineSeconds": 1}},
                                                 "application/merge-patch+json")
        self.assertEqual(status, 200, body)
        wait_for("the end", lambda: ("Failed", "DeadlineExceeded") in self.conditions("long"))
        self.assertEqual(self.conditions("long")[0], ("FailureTarget", "DeadlineExceeded"))
        self.assertEqual(self.pods("long"), [])


if __name__ == "__main__":
    print("jobs of a real capstan up", file=sys.stderr)
    unittest.main(verbosity=2)
