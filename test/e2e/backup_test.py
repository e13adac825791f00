#!/usr/bin/env python3
"""Backups of `capstan up`: what its stewards store restores to what etcd held, whatever is killed meanwhile.

Each class runs with the newest etcd it finds of 3.4 and of 3.5 or later; CAPSTAN_BACKUP_ROUNDS rounds are random, from
CAPSTAN_E2E_SEED, which is printed.
"""
import base64
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error

from local_cluster import CAPSTAN, DRUID, b64, gateway, wait_for
from member_cases import Members
from real_etcd import Etcd, free_ports, remove

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "capstan"
ROUNDS = int(os.environ.get("CAPSTAN_BACKUP_ROUNDS", "6"))
SEED = int(os.environ.get("CAPSTAN_E2E_SEED", str(random.randrange(1 << 31))))
BUCKET = "bucket"
LEASE_SECONDS = 3600
MANIFEST = """apiVersion: druid.gardener.cloud/v1alpha1
kind: Etcd
metadata: {name: main, namespace: default}
spec:
  replicas: %d
  labels: {app: main}
  etcd: {}
  backup:
    deltaSnapshotPeriod: %s
    garbageCollectionPeriod: %s
    fullSnapshotSchedule: "%s"
    store: %s
"""
LOCAL = "{provider: Local, container: bucket, prefix: default/main}"
S3 = """{provider: S3, container: bucket, prefix: default/main, endpointOverride: "http://127.0.0.1:%d", secretRef: {name: keys}}
---
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: default}
data: {region: dXMtZWFzdC0x, accessKeyID: Y2Fwc3Rhbg==, secretAccessKey: Y2Fwc3Rhbi1zZWNyZXQ=}"""
VERSITYGW = CACHE / "versitygw-1.8.0/bin/versitygw"


def etcd_dirs():
    """minor version -> directory with etcd."""
    found = {}
    for path in [pathlib.Path(os.environ["CAPSTAN_ETCD_DIR"]) / "etcd", *sorted(CACHE.glob("etcd-*/bin/etcd"))]:
        if os.access(path, os.X_OK):
            said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
            found[".".join(said.split()[2].split(".")[:2])] = path.parent
    return found


ETCD = etcd_dirs()


class Backed:
    """A cluster with backups, and what its store holds."""

    def __init__(self, replicas, minor, schedule="0 0 * * *", store=LOCAL, period="2s", collection="10s"):
        self.minor = minor
        self.files = pathlib.Path(tempfile.mkdtemp(prefix="capstan-backup-"))
        (self.files / "etcd.yaml").write_text(MANIFEST % (replicas, period, collection, schedule, store))
        self.cluster = Members(self.files / "etcd.yaml", etcd_dir=ETCD[minor])
        self.store = self.cluster.dir / "host/etc/gardener/local-backupbuckets" / BUCKET
        self.restored_count = 0
        self.compactions = []

    def start(self):
        self.cluster.start()
        return self

    def close(self):
        self.cluster.close()
        remove(self.files)

    def names(self):
        return sorted(path.name for path in self.store.glob("default/main/v2/*"))

    def leader(self):
        return self.cluster.await_leader()

    def call(self, what, body):
        """On any member; on another one when it does not answer."""
        def answer():
            problem = None
            for endpoint in self.cluster.endpoints():
                try:
                    return gateway(endpoint, what, body, 10)
                except (OSError, ValueError, http.client.HTTPException) as error:
                    problem = error
            raise problem
        return wait_for(what, answer, 60)

    def revision(self):
        return int(self.call("kv/range", {"key": b64("x"), "count_only": True})["header"]["revision"])

    def reported(self):
        """The last revision that the EtcdMembers say is backed up."""
        ends = [0]
        for member in self.cluster.members():
            snapshots = member.get("status", {}).get("snapshots", {})
            ends += [snapshots[kind]["endRevision"] for kind in ("lastFull", "lastDelta") if kind in snapshots]
        return max(ends)

    def await_backed_up(self, revision, limit=120):
        try:
            wait_for(f"backups up to revision {revision}", lambda: self.reported() >= revision, limit)
        except AssertionError as error:
            raise AssertionError(f"{error}; reported {self.reported()}, stored {self.names()}\n"
                                 f"{json.dumps([m.get('status', {}).get('conditions') for m in self.cluster.members()])}\n"
                                 f"{self.steward_logs()}") from None

    def backup_ready(self):
        """Status and reason of the Etcd's condition."""
        conditions = self.cluster.etcd().get("status", {}).get("conditions", [])
        return next(((c["status"], c["reason"]) for c in conditions if c["type"] == "BackupReady"), None)

    def steward_logs(self, last=3000):
        """Of each the last bytes; None: all."""
        logs = sorted(path for path in self.cluster.dir.rglob("*.log") if "backup-restore" in str(path))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-(last or 0):]}" for path in logs)

    def stewards(self):
        """Member -> pid of its steward."""
        found = {}
        for pid in self.cluster.processes():
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--profile=steward" in command:
                found.update({entry.split(b"=", 1)[1].decode(): pid for entry in environment
                              if entry.startswith(b"CAPSTAN_MEMBER_NAME=")})
        return found

    def steward(self, member):
        """Its pid; one that was killed before is back in a moment."""
        return wait_for(f"the steward of {member}", lambda: self.stewards().get(member))

    def transfer(self, chance, leader=None):
        """To another member than `leader`, or than the one that leads."""
        def moved():
            members = {m["metadata"]["name"]: m["status"] for m in self.cluster.members()}
            old = leader or self.leader()["metadata"]["name"]
            target = str(int(members[chance.choice(sorted(set(members) - {old}))]["id"], 16))
            gateway(members[old]["endpoint"], "maintenance/transfer-leadership", {"targetID": target}, 20)
            return True
        wait_for("a transfer of leadership", moved, 60)

    def restored(self, revision=0):
        """A single etcd on what the store holds up to `revision`."""
        self.restored_count += 1
        etcd = Etcd(str(ETCD[self.minor] / "etcd"), self.files / f"restored-{self.restored_count}")
        done = subprocess.run([CAPSTAN, "backup", "restore", "--provider", "Local", "--container", str(self.store), "--prefix",
                               "default/main", "--data-dir", str(etcd.data), "--name", etcd.name, "--initial-cluster",
                               etcd.initial_cluster, "--initial-cluster-token", etcd.token,
                               *(["--to-revision", str(revision)] if revision else [])], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"restore: {done.stderr}\nstored: {self.names()}\n{self.steward_logs()}")
        return etcd.start().wait()

    def compact(self, revision):
        if revision not in self.compactions:
            self.call("kv/compaction", {"revision": str(revision), "physical": True})
            self.compactions.append(revision)

    def keys(self, revision):
        numbers = ("create_revision", "mod_revision", "version", "lease")
        kvs = self.call("kv/range", {"key": "AA==", "range_end": "AA==", "revision": str(revision)}).get("kvs", [])
        return [{k: int(v) if k in numbers else v for k, v in {"value": "", **kv}.items()} for kv in kvs]

    @staticmethod
    def compacted_like_this(etcd, revision):
        try:
            etcd.compact(revision)
            return True
        except urllib.error.HTTPError:
            return False  # the base is already

    def check(self, test):
        """What is stored restores to exactly what etcd holds."""
        revision = self.revision()
        self.await_backed_up(revision)
        expected = self.keys(revision)
        etcd = self.restored(revision)
        try:
            test.assertEqual(etcd.revision(), revision)
            test.assertEqual(etcd.keys(), expected)
            for lease in {kv["lease"] for kv in expected if kv.get("lease")}:
                known = etcd.call("lease/timetolive", {"ID": str(lease)})
                test.assertEqual(known.get("grantedTTL"), str(LEASE_SECONDS), known)
            if self.minor != "3.4":
                # etcd's hash covers what lies between the last two compactions, so not when the base is of after them.
                self.compact(revision)
                if [self.compacted_like_this(etcd, compacted) for compacted in self.compactions][-1]:
                    here = etcd.call("maintenance/hashkv", {"revision": str(revision)})["hash"]
                    there = self.call("maintenance/hashkv", {"revision": str(revision)})["hash"]
                    test.assertEqual(here, there, f"hash at revision {revision}")
        finally:
            etcd.stop()


class Writes:
    """Random operations, one kind after the other, on whoever leads."""

    def __init__(self, backed, chance):
        self.backed, self.chance = backed, chance
        self.leases = []

    def key(self):
        return b64(f"/registry/{self.chance.randrange(60)}")

    def value(self):
        return base64.b64encode(self.chance.randbytes(self.chance.choice((0, 1, 50, 2000, 60000)))).decode()

    def operation(self):
        kind = self.chance.choice(("put", "put", "put", "delete", "range", "txn", "lease"))
        if kind == "put":
            return "kv/put", {"key": self.key(), "value": self.value()}
        if kind == "delete":
            return "kv/deleterange", {"key": self.key()}
        if kind == "range":
            return "kv/deleterange", {"key": b64("/registry/1"), "range_end": b64("/registry/2")}
        if kind == "txn":
            keys = {self.key() for _ in range(self.chance.randrange(1, 20))}
            return "kv/txn", {"success": [{"request_put": {"key": key, "value": self.value()}} for key in sorted(keys)]}
        lease = self.backed.call("lease/grant", {"TTL": LEASE_SECONDS})["ID"]
        return "kv/put", {"key": self.key(), "value": self.value(), "lease": lease}

    def run(self, count):
        for _ in range(count):
            path, body = self.operation()
            self.backed.call(path, body)


class OneMember(unittest.TestCase):
    def test_full_and_deltas_restore_to_the_same(self):
        for minor in sorted(ETCD):
            with self.subTest(etcd=minor):
                self.one(minor)

    def one(self, minor):
        backed = Backed(1, minor)
        self.addCleanup(backed.close)
        backed.start()
        writes = Writes(backed, random.Random(SEED))
        for _ in range(3):
            writes.run(40)
            backed.check(self)
        names = backed.names()
        self.assertTrue(any(name.startswith("Full-") for name in names), names)
        self.assertTrue(any(name.startswith("Incr-") for name in names), names)
        snapshots = backed.cluster.members()[0]["status"]["snapshots"]
        self.assertIn(snapshots["lastDelta"]["name"], names)
        self.assertNotIn("configuration of backups cannot be read", backed.steward_logs(None))
        backed.close()

    def test_restarts_go_on_from_the_stored_chain(self):
        backed = Backed(1, sorted(ETCD)[-1])
        self.addCleanup(backed.close)
        backed.start()
        writes = Writes(backed, random.Random(SEED + 1))
        writes.run(20)
        backed.check(self)
        for _ in range(3):
            before = backed.steward("main-0")
            os.kill(before, signal.SIGKILL)
            writes.run(20)
            wait_for("a new steward", lambda: backed.stewards().get("main-0", before) != before, 60)
            backed.check(self)
        fulls = [name for name in backed.names() if name.startswith("Full-")]
        self.assertEqual(len(fulls), 1, backed.names())

    def test_a_second_etcd_on_the_prefix_neither_begins_with_its_data_nor_stores_there(self):
        backed = Backed(1, sorted(ETCD)[-1])
        self.addCleanup(backed.close)
        backed.start()
        writes = Writes(backed, random.Random(SEED + 2))
        writes.run(20)
        backed.check(self)
        store = {"provider": "Local", "container": BUCKET, "prefix": "default/main"}
        etcds = f"{DRUID}/namespaces/default/etcds"
        other = {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "metadata": {"name": "other", "namespace": "default"},
                 "spec": {"replicas": 1, "labels": {"app": "other"}, "etcd": {}, "backup": {"deltaSnapshotPeriod": "2s", "store": store}}}
        status, answer = backed.cluster.api().request("POST", etcds, other)
        self.assertEqual(status, 201, answer)

        def condition(kind, reason):
            said = backed.cluster.condition("other-0", kind)
            return said if said.get("reason") == reason else None

        def prefix(name):
            status, answer = backed.cluster.api().request("PATCH", f"{etcds}/other", {"spec": {"backup": {"store": {"prefix": name}}}},
                                                          "application/merge-patch+json")
            self.assertEqual(status, 200, answer)

        held = "StoreHeldByAnotherEtcd"
        said = wait_for("a start that is refused", lambda: condition("Initialized", held))
        self.assertIn("are those of Etcd default/main (uid ", said["message"])
        self.assertIn("set spec.backup.store.prefix of Etcd default/other", said["message"])
        prefix("default/other")
        wait_for("backups of its own", lambda: list(backed.store.glob("default/other/v2/Full-*")), 180)
        prefix("default/main")
        said = wait_for("backups that are refused", lambda: condition("SnapshotsTaken", held), 180)
        self.assertIn("are those of Etcd default/main (uid ", said["message"])
        before = len([name for name in backed.names() if name.startswith("Full-")])
        writes.run(20)
        backed.check(self)
        self.assertEqual(len([name for name in backed.names() if name.startswith("Full-")]), before, backed.names())
        prefix("default/other")
        wait_for("the end of the condition", lambda: not backed.cluster.condition("other-0", "SnapshotsTaken"), 180)

    def test_what_only_the_steward_holds_survives_the_data(self):
        backed = Backed(1, sorted(ETCD)[-1], period="30s", collection="1m")
        self.addCleanup(backed.close)
        backed.start()
        writes = Writes(backed, random.Random(SEED + 2))
        writes.run(20)
        backed.await_backed_up(backed.revision())
        writes.run(10)
        revision = backed.revision()
        expected = backed.keys(revision)
        time.sleep(1)
        backed.cluster.stop_etcd("main-0")
        self.assertLess(backed.reported(), revision)
        shutil.rmtree(backed.cluster.data("main-0") / "member")
        backed.cluster.kill_etcd("main-0")
        wait_for("the restoration", lambda: "RestorationSucceeded" in backed.cluster.reasons("main-0"), 120)
        self.assertEqual(backed.revision(), revision, backed.names())
        self.assertEqual(backed.keys(revision), expected)
        # What is written from here on is what a later restoration gives.
        for _ in range(2):
            writes.run(20)
            backed.check(self)


class Bucket:
    """An S3 server on a directory, which can be taken away for a while."""

    def __init__(self):
        self.files = pathlib.Path(tempfile.mkdtemp(prefix="capstan-s3-"))
        self.port = free_ports(1)[0]
        for folder in ("data/bucket", "iam"):
            (self.files / folder).mkdir(parents=True)
        self.start()

    def start(self):
        with open(self.files / "log", "ab") as log:
            self.process = subprocess.Popen(
                [VERSITYGW, "--access", "capstan", "--secret", "capstan-secret", "--port", f"127.0.0.1:{self.port}",
                 "--region", "us-east-1", "--iam-dir", self.files / "iam", "--quiet", "posix", self.files / "data"],
                stdout=log, stderr=log)

    def stop(self):
        self.process.terminate()
        self.process.wait(20)

    def close(self):
        self.stop()
        remove(self.files)


@unittest.skipUnless(VERSITYGW.exists(), "no versitygw in the cache: tools/build-versitygw builds one")
class S3Store(unittest.TestCase):
    def test_a_store_that_goes_away_loses_nothing(self):
        bucket = Bucket()
        self.addCleanup(bucket.close)
        backed = Backed(1, sorted(ETCD)[-1], store=S3 % bucket.port)
        self.addCleanup(backed.close)
        backed.store = bucket.files / "data/bucket"
        backed.start()
        writes = Writes(backed, random.Random(SEED))
        writes.run(40)
        backed.check(self)
        bucket.stop()
        writes.run(40)
        conditions = wait_for("the condition", lambda: [c for c in backed.cluster.members()[0]["status"].get("conditions", [])
                                                        if c["type"] == "SnapshotsTaken"], 90)
        self.assertEqual(conditions[0]["reason"], "SnapshotFailed")
        backed.compact(backed.revision())
        bucket.start()
        backed.await_backed_up(backed.revision(), 180)
        backed.check(self)
        wait_for("the end of the condition", lambda: not [c for c in backed.cluster.members()[0]["status"].get("conditions", [])
                                                          if c["type"] == "SnapshotsTaken"])
        backed.close()


class ThreeMembers(unittest.TestCase):
    def test_random_faults_lose_nothing(self):
        minors = sorted(ETCD)
        for minor in {minors[0], minors[-1]}:
            with self.subTest(etcd=minor, seed=SEED):
                self.rounds(minor)

    def rounds(self, minor):
        chance = random.Random(SEED)
        backed = Backed(3, minor, schedule="*/2 * * * *")
        self.addCleanup(backed.close)
        backed.start()
        writes = Writes(backed, chance)
        kinds = ["steward", "transfer", "etcd", "compaction", "paused"]
        for number in range(ROUNDS):
            if number % len(kinds) == 0:
                chance.shuffle(kinds)
            what = kinds[number % len(kinds)]
            print(f"etcd {minor} round {number}: {what}", file=sys.stderr, flush=True)
            writes.run(chance.randrange(1, 40))
            leader = backed.leader()["metadata"]["name"]
            if what == "steward":
                os.kill(backed.steward(chance.choice((leader, "main-0"))), signal.SIGKILL)
            elif what == "transfer":
                backed.transfer(chance)
            elif what == "etcd":
                os.kill(wait_for("its etcd", lambda m=leader: backed.cluster.etcd_pids().get(m)), signal.SIGKILL)
            elif what == "compaction":
                backed.compact(backed.revision())
            elif what == "paused":
                # It does not hear that it no longer leads, and goes on later with what it was about to store.
                paused = backed.steward(leader)
                os.kill(paused, signal.SIGSTOP)
                backed.transfer(chance, leader)
            writes.run(chance.randrange(1, 40))
            if what == "paused":
                time.sleep(3)
                os.kill(paused, signal.SIGCONT)
            time.sleep(chance.random() * 3)
            backed.check(self)
        backed.close()


if __name__ == "__main__":
    if not ETCD:
        print("no etcd: run tools/build-etcd, or set CAPSTAN_ETCD_DIR", file=sys.stderr)
        sys.exit(77)
    print(f"CAPSTAN_E2E_SEED={SEED}", file=sys.stderr)
    unittest.main(verbosity=2)
