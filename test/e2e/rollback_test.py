#!/usr/bin/env python3
"""A cluster of `capstan up` that is set back by hand goes on under the same prefix; what it writes from then on is what every
command reads, and what comes back when its volume is lost."""
import base64
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

from backup_test import ETCD, Backed
from local_cluster import CAPSTAN, wait_for
from real_etcd import Etcd

LIMIT_SECONDS = 240


def b64(text):
    return base64.b64encode(text.encode()).decode()


class RolledBack(unittest.TestCase):
    def setUp(self):
        self.backed = Backed(1, sorted(ETCD)[-1])
        self.addCleanup(self.backed.close)
        self.backed.start()
        self.await_restorable(self.backed.revision(), 1)
        wait_for("BackupReady", lambda: self.backed.backup_ready() == ("True", "BackupSucceeded"), 30)

    def put(self, prefix, count):
        """The revision of the last one."""
        answers = [self.backed.call("kv/put", {"key": b64(f"{prefix}-{i}"), "value": b64(prefix)}) for i in range(count)]
        return int(answers[-1]["header"]["revision"])

    def run_backup(self, command, *arguments):
        return subprocess.run([CAPSTAN, "backup", command, "--provider", "Local", "--container", str(self.backed.store), "--prefix",
                               "default/main", *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_SECONDS)

    def good(self, command, *arguments):
        said = self.run_backup(command, *arguments, *([] if command == "dump" else ["-o", "json"]))
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def keys(self, *arguments):
        """Prefix -> how many keys begin with it, of what would be restored."""
        found = {}
        for kv in self.good("dump", *arguments)["kvs"]:
            prefix = base64.b64decode(kv["key"]).decode().split("-")[0]
            found[prefix] = found.get(prefix, 0) + 1
        return found

    def await_restorable(self, revision, histories):
        def stored():
            said = self.run_backup("list", "-o", "json")
            listed = json.loads(said.stdout) if said.returncode == 0 else {"restorable": None}
            return (listed["restorable"] or {}).get("revision") == revision and len(listed["histories"]) == histories
        try:
            wait_for(f"backups up to {revision} in {histories} histories", stored, LIMIT_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.run_backup('list').stdout}\n{self.backed.steward_logs()}") from None

    def member_config(self):
        """What the member's etcd was started with, and where its data is."""
        pid = self.backed.cluster.etcd_pids()["main-0"]
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        path = next(part for part in command if part.startswith(b"--config-file=")).decode().split("=", 1)[1]
        config = json.loads(pathlib.Path(path).read_text())
        return config, pathlib.Path(config["data-dir"])

    def set_back(self, revision, writes_before_the_steward=0):
        """Stops everything, restores to `revision` where the data was, starts again."""
        config, data = self.member_config()
        self.assertEqual(self.backed.cluster.stop(), 0)
        wait_for("the end of etcd", lambda: not self.backed.cluster.etcd_pids(), 60)
        said = self.run_backup("restore", "--data-dir", data, "--force", "--to-revision", revision, "--name", config["name"],
                               "--initial-cluster", config["initial-cluster"], "--initial-cluster-token",
                               config["initial-cluster-token"])
        self.assertEqual(said.returncode, 0, said.stderr)
        if writes_before_the_steward:
            etcd = Etcd(str(ETCD[self.backed.minor] / "etcd"), data, name=config["name"],
                        initial_cluster=config["initial-cluster"], token=config["initial-cluster-token"]).start().wait()
            for i in range(writes_before_the_steward):
                etcd.call("kv/put", {"key": b64(f"early-{i}"), "value": b64("early")})
            etcd.stop()
        self.backed.cluster.start()

    def lose_the_volume(self):
        for path in ("persistentvolumeclaims/main-main-0", "pods/main-0"):
            status, answer = self.backed.cluster.api().request("DELETE", f"/api/v1/namespaces/default/{path}")
            self.assertIn(status, (200, 202), answer)
        wait_for("the restoration", lambda: "RestorationSucceeded" in [
            t["reason"] for t in self.backed.cluster.members()[0].get("status", {}).get("transitions", [])], LIMIT_SECONDS)
        self.backed.cluster.await_ready(LIMIT_SECONDS)

    def assert_comes_back(self, expected, end):
        self.lose_the_volume()
        found = {}
        for kv in self.backed.keys(self.backed.revision()):
            prefix = base64.b64decode(kv["key"]).decode().split("-")[0]
            found[prefix] = found.get(prefix, 0) + 1
        self.assertEqual(found, expected)
        self.assertEqual(self.backed.revision(), end)

    def test_the_new_history_comes_back(self):
        kept = self.put("kept", 10)
        self.await_restorable(kept, 1)
        for _ in range(4):  # a delta each, and its fence
            gone = self.put("gone", 5)
            self.await_restorable(gone, 1)
        self.set_back(kept)
        self.await_restorable(kept, 2)
        for _ in range(2):  # from the same revisions on
            new = self.put("new", 5)
            self.await_restorable(new, 2)
        self.assertLess(new, gone, "the old history has the higher revisions")
        self.assertNotIn("is claimed by", self.backed.steward_logs(None), "fences of the old history hold nobody back")
        self.assertEqual(self.keys(), {"kept": 10, "new": 5})
        self.assertEqual(self.keys("--history", "first"), {"kept": 10, "gone": 5})
        self.assertEqual(self.good("verify")["revision"], new)
        refused = self.run_backup("verify", "--to-revision", kept)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--history", refused.stderr)
        copy = self.backed.files / "copy"
        self.good("copy", "--to-container", copy, "--to-prefix", "default/main")
        self.good("compact")
        self.assertEqual(self.keys(), {"kept": 10, "new": 5})
        self.assert_comes_back({"kept": 10, "new": 5}, new)
        # By hand and from the copy it is the same.
        data = self.backed.files / "data"
        self.backed.store = copy
        self.assertEqual(self.good("restore", "--data-dir", data)["revision"], new)
        self.assertEqual(self.keys(), {"kept": 10, "new": 5})
        shutil.rmtree(data)

    def test_a_rollback_that_was_overtaken_comes_back(self):
        kept = self.put("kept", 10)
        gone = self.put("gone", 5)
        self.await_restorable(gone, 1)
        self.set_back(kept, writes_before_the_steward=30)
        new = self.put("new", 3)
        self.assertGreater(new, gone, "by revisions alone nothing has happened")
        self.await_restorable(new, 2)
        self.assertEqual(self.keys(), {"kept": 10, "early": 30, "new": 3})
        self.assert_comes_back({"kept": 10, "early": 30, "new": 3}, new)


if __name__ == "__main__":
    if not ETCD:
        print("no etcd: run tools/build-etcd, or set CAPSTAN_ETCD_DIR", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
