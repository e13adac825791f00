#!/usr/bin/env python3
"""Real etcds start from what the restore engine wrote, and hold what an etcd holds that received the same writes.

Needs etcd 3.5 with its etcdctl; 3.4 and 3.6 run when they are there, and so does bbolt. What is missing is said, not failed.
"""
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

from real_etcd import Etcd, encode, free_ports

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "capstan"
DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "backups"
CAPSTAN = os.environ["CAPSTAN"]
SEED = int(os.environ.get("CAPSTAN_SEED", "1"))
SKIPPED = 77


def programs():
    """minor version -> path of etcd."""
    found = {}
    given = pathlib.Path(os.environ.get("CAPSTAN_ETCD_DIR", ".capstan/etcd/bin")) / "etcd"
    for path in [given, *sorted(CACHE.glob("etcd-*/bin/etcd"))]:
        if os.access(path, os.X_OK):
            said = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
            found[".".join(said.split()[2].split(".")[:2])] = str(path)
    return found


ETCD = programs()
ETCDCTL = str(pathlib.Path(ETCD.get("3.5", "")).parent / "etcdctl")
BBOLT = os.environ.get("CAPSTAN_BBOLT", str(CACHE / "bbolt/bin/bbolt"))


def bbolt_check(test, database):
    if os.access(BBOLT, os.X_OK):
        said = subprocess.run([BBOLT, "check", str(database)], capture_output=True, text=True)
        test.assertEqual(said.stdout.strip(), "OK", said.stderr)


class RestoreCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="capstan-restore-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def backup(self, command, store, *arguments):
        done = subprocess.run([CAPSTAN, "backup", command, "--provider", "Local", "--container", str(store), "-o", "json",
                               *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def restore(self, store, data, name, cluster, token):
        self.backup("restore", store, "--data-dir", data, "--name", name, "--initial-cluster", cluster,
                    "--initial-cluster-token", token)

    def etcd(self, minor, directory, **options):
        etcd = Etcd(ETCD[minor], self.dir / directory, **options)
        self.addCleanup(etcd.stop)
        return etcd

    def restored(self, store, minor, directory="data"):
        """An etcd on the restored directory, running."""
        etcd = self.etcd(minor, directory)
        self.restore(store, etcd.data, etcd.name, etcd.initial_cluster, etcd.token)
        bbolt_check(self, etcd.data / "member/snap/db")
        etcd.start().wait()
        return etcd


class EveryBackupTest(RestoreCase):
    """Sets of test/data/backups under each etcd that can read them."""

    def check(self, name, minor):
        expected = json.loads((DATA / name / "expected.json").read_text())
        etcd = self.restored(DATA / name, minor, f"{name}-{minor}")
        if name == "auth-enabled":
            etcd.log_in("root", "rootpw")
        self.assertEqual(etcd.keys(), [{"value": "", **kv} for kv in expected["kvs"]])
        self.assertEqual(etcd.revision(), expected["revision"])
        etcd.call("kv/put", {"key": encode("/app/after"), "value": encode("restore")})
        self.assertEqual(etcd.revision(), expected["revision"] + 1)
        etcd.stop()
        etcd.start().wait()  # once more, from its own log
        if name == "auth-enabled":
            etcd.log_in("root", "rootpw")
        self.assertEqual(etcd.revision(), expected["revision"] + 1)
        etcd.stop()

    def test_all_under_each_version(self):
        for minor in sorted(ETCD):
            for name in sorted(path.name for path in DATA.iterdir()):
                if name != "etcd-3.6" or minor == "3.6":
                    with self.subTest(set=name, etcd=minor):
                        self.check(name, minor)

    def test_users_and_rights_are_those_of_the_backup(self):
        etcd = self.restored(DATA / "auth-enabled", "3.5")
        with self.assertRaises(OSError):
            etcd.keys()
        etcd.log_in("alice", "alicepw")
        answer = etcd.call("kv/range", {"key": encode("/app/"), "range_end": encode("/app0")})
        self.assertGreater(int(answer["count"]), 0)
        with self.assertRaises(OSError):
            etcd.call("kv/put", {"key": encode("/app/x"), "value": ""})


class ThreeMembersTest(RestoreCase):
    def test_one_backup_becomes_a_cluster(self):
        for minor in sorted(ETCD):
            with self.subTest(etcd=minor):
                names, ports = ["m1", "m2", "m3"], free_ports(6)
                cluster = ",".join(f"{n}=http://127.0.0.1:{ports[3 + i]}" for i, n in enumerate(names))
                members = [self.etcd(minor, f"{minor}-{n}", name=n, ports=(ports[i], ports[3 + i]), initial_cluster=cluster)
                           for i, n in enumerate(names)]
                for member in members:
                    self.restore(DATA / "txn-three-keys", member.data, member.name, cluster, member.token)
                for member in members:
                    member.start()
                for member in members:
                    member.wait()
                members[0].call("kv/put", {"key": encode("new"), "value": encode("1")})
                expected = members[0].keys()
                self.assertEqual([m.keys() for m in members[1:]], [expected, expected])
                self.assertEqual(len(members[0].call("cluster/member/list")["members"]), 3)
                for member in members:
                    member.stop()


class SameAsEtcdctlTest(RestoreCase):
    """Base alone: log and buckets are those `etcdctl snapshot restore` of 3.5 leaves."""

    def buckets(self, database):
        def bbolt(*arguments):
            return subprocess.run([BBOLT, *map(str, arguments)], check=True, capture_output=True, text=True).stdout

        return {bucket: {key: bbolt("get", "--parse-format", "hex", "--format", "hex", database, bucket, key).strip()
                         for key in bbolt("keys", "--format", "hex", database, bucket).split()}
                for bucket in bbolt("buckets", database).split()}

    def test_log_and_buckets(self):
        full = DATA / "final-then-deltas/v2/Full-00000000-00000030-1796006134.final"
        store, cluster = self.dir / "store/v2", "m1=http://127.0.0.1:2380,m2=http://127.0.0.1:2381"
        store.mkdir(parents=True)
        shutil.copy(full, store)
        self.restore(store.parent, self.dir / "ours", "m1", cluster, "token")
        subprocess.run([ETCDCTL, "snapshot", "restore", str(full), "--data-dir", str(self.dir / "theirs"), "--name", "m1",
                        "--initial-cluster", cluster, "--initial-cluster-token", "token",
                        "--initial-advertise-peer-urls", "http://127.0.0.1:2380"],
                       check=True, capture_output=True, env={"ETCDCTL_API": "3"})
        log = "member/wal/0000000000000000-0000000000000000.wal"
        ours, theirs = (self.dir / "ours" / log).read_bytes(), (self.dir / "theirs" / log).read_bytes()
        self.assertEqual(ours, theirs[:len(ours)])
        self.assertEqual(theirs[len(ours):].strip(b"\0"), b"")
        if not os.access(BBOLT, os.X_OK):
            self.skipTest(f"no {BBOLT}: the log is compared, the buckets are not")
        ours, theirs = (self.buckets(self.dir / side / "member/snap/db") for side in ("ours", "theirs"))
        ours["meta"].pop(b"confState".hex(), None)  # theirs keeps the old cluster's until etcd starts
        theirs["meta"].pop(b"confState".hex(), None)
        self.assertEqual(ours, theirs)


class SameHistoryTest(RestoreCase):
    """Random writes to an etcd; a full and deltas of it; the restored etcd has the same hash."""

    def write(self, etcd, rng, count):
        key = lambda: encode(f"key-{rng.randrange(40)}")  # noqa: E731
        value = lambda: encode(rng.randbytes(rng.choice([0, 10, 1000, 9000])))  # noqa: E731
        for _ in range(count):
            kind = rng.random()
            if kind < 0.55:
                etcd.call("kv/put", {"key": key(), "value": value()})
            elif kind < 0.7:
                etcd.call("kv/deleterange", {"key": key()})
            elif kind < 0.75:
                etcd.call("kv/deleterange", {"key": encode("key-2"), "range_end": encode("key-3")})
            elif kind < 0.9:
                keys = rng.sample(range(100, 130), 3)
                etcd.call("kv/txn", {"success": [
                    {"request_put": {"key": encode(f"txn-{keys[0]}"), "value": value()}},
                    {"request_delete_range": {"key": encode(f"txn-{keys[1]}")}},
                    {"request_put": {"key": encode(f"txn-{keys[2]}"), "value": value()}}]})
            else:
                lease = etcd.call("lease/grant", {"TTL": "3600"})["ID"]
                etcd.call("kv/put", {"key": key(), "value": value(), "lease": lease})
                if rng.random() < 0.5:
                    etcd.call("lease/revoke", {"ID": lease})

    def save_full(self, etcd, store, revision):
        path = store / f"Full-00000000-{revision:08d}-1"
        subprocess.run([ETCDCTL, "--endpoints", f"http://127.0.0.1:{etcd.client_port}", "snapshot", "save", str(path)],
                       check=True, capture_output=True, env={"ETCDCTL_API": "3"})

    def save_delta(self, store, events):
        numbers = ("create_revision", "mod_revision", "version", "lease")
        out = []
        for event in events:
            kv = {k: int(v) if k in numbers else v for k, v in event["kv"].items()}
            kind = {"type": 1} if event.get("type") == "DELETE" else {}
            out.append({"etcdEvent": {**kind, "kv": kv}, "time": "2026-11-30T00:00:00Z"})
        payload = json.dumps(out, separators=(",", ":")).encode()
        first, last = (out[i]["etcdEvent"]["kv"]["mod_revision"] for i in (0, -1))
        (store / f"Incr-{first:08d}-{last:08d}-1").write_bytes(payload + hashlib.sha256(payload).digest())

    def round(self, seed, minor):
        rng = random.Random(seed)
        source = self.etcd(minor, f"source-{minor}-{seed}").start()
        source.wait()
        self.write(source, rng, 150)
        if rng.random() < 0.5:
            source.compact(source.revision() - 20)
        store = self.dir / f"store-{minor}-{seed}/v2"
        store.mkdir(parents=True)
        base = source.revision()
        self.write(source, rng, rng.choice([0, 30]))
        self.save_full(source, store, base)
        for _ in range(3):
            self.write(source, rng, 80)
        end = source.revision()
        events = source.events(base + 1, end)
        while events:
            last = int(events[min(len(events), 100) - 1]["kv"]["mod_revision"])
            self.save_delta(store, [e for e in events if int(e["kv"]["mod_revision"]) <= last])
            events = [e for e in events if int(e["kv"]["mod_revision"]) > last]
        copy = self.restored(store.parent, minor, f"copy-{minor}-{seed}")
        self.assertEqual(copy.revision(), end)
        if minor != "3.4":
            self.assertEqual(copy.hash_kv(ETCDCTL, end), source.hash_kv(ETCDCTL, end))
        for etcd in (source, copy):
            etcd.compact(end - 10)
        if minor != "3.4":
            self.assertEqual(copy.hash_kv(ETCDCTL, end), source.hash_kv(ETCDCTL, end))
        self.assertEqual(copy.keys(), source.keys())
        compacted = self.compacted(store.parent, minor, seed)
        source.compact(end)
        for etcd in (source, compacted):  # of the compacted revision itself etcd keeps the hash from before
            etcd.call("kv/put", {"key": encode("one"), "value": encode("more")})
        self.assertEqual(compacted.keys(), source.keys())
        if minor != "3.4":
            self.assertEqual(compacted.hash_kv(ETCDCTL, end + 1), source.hash_kv(ETCDCTL, end + 1))
        copy.call("maintenance/defragment")
        for etcd in (source, copy, compacted):
            etcd.stop()
        bbolt_check(self, copy.data / "member/snap/db")

    def compacted(self, store, minor, seed):
        small = self.dir / f"small-{minor}-{seed}"
        shutil.copytree(store, small)
        report = self.backup("compact", small)
        for path in (small / "v2").iterdir():
            if path != small / report["object"]:
                path.unlink()
        return self.restored(small, minor, f"compacted-{minor}-{seed}")

    def test_hash_is_equal(self):
        for minor in sorted(ETCD):
            for seed in range(SEED, SEED + 2):
                with self.subTest(etcd=minor, seed=seed):
                    self.round(seed, minor)


class LargeTreeTest(RestoreCase):
    """etcd deletes from a tree of several levels that it did not make itself."""

    def test_compaction_and_defragmentation(self):
        source = self.etcd("3.5", "source").start()
        source.wait()
        for i in range(0, 30000, 100):
            source.call("kv/txn", {"success": [
                {"request_put": {"key": encode(f"k{i + j:06d}"), "value": encode("x" * 120)}} for j in range(100)]})
        store = self.dir / "store/v2"
        store.mkdir(parents=True)
        SameHistoryTest.save_full(self, source, store, source.revision())
        source.stop()
        etcd = self.restored(store.parent, "3.5")
        for i in range(0, 30, 3):
            etcd.call("kv/deleterange", {"key": encode(f"k{i:03d}"), "range_end": encode(f"k{i + 2:03d}")})
        etcd.compact(etcd.revision())
        left = etcd.keys()
        self.assertEqual(len(left), 10000)
        etcd.call("maintenance/defragment")
        etcd.stop()
        bbolt_check(self, etcd.data / "member/snap/db")
        etcd.start().wait()
        self.assertEqual(etcd.keys(), left)


def main():
    for minor in ("3.4", "3.5", "3.6"):
        if minor not in ETCD:
            print(f"not run: etcd {minor}: none here; tools/build-etcd or tools/fetch-etcd brings it", file=sys.stderr)
    if "3.5" not in ETCD or not os.access(ETCDCTL, os.X_OK):
        print(f"skipped: etcd 3.5 with {ETCDCTL} is needed to compare with", file=sys.stderr)
        return SKIPPED
    if not os.access(BBOLT, os.X_OK):
        print(f"not run: bbolt check: no {BBOLT}", file=sys.stderr)
    print(f"seed {SEED}", file=sys.stderr)
    return 0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
