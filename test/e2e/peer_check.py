#!/usr/bin/env python3
"""Backups of ours restored by etcd-backup-restore, and its backups by ours: by hand, as CI has no etcd-backup-restore.

    unshare -rnpf --mount-proc --kill-child sh -c 'ip link set lo up; exec test/e2e/peer_check.py ETCDBRCTL [TEST]...'

CAPSTAN names the program, CAPSTAN_ETCD_DIR the directory of etcd 3.5, CAPSTAN_E2E_SEED the writes. How to build etcdbrctl:
test/bench/steward/README.md. What came out is in docs/backup-format.md.
"""
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

from local_cluster import wait_for
from real_etcd import Etcd, encode, remove
from two_stewards import Etcdbrctl, OurSteward, PeerSteward, Store, backup, restore

POLICIES = ("gzip", "zlib", "none", "lzw")
SUFFIX = {"gzip": ".gz", "zlib": ".zlib", "none": "", "lzw": ".Z"}
SEED = int(os.environ.get("CAPSTAN_E2E_SEED", "1"))
OPERATIONS_MAX = 10_240  # of a transaction that etcd-backup-restore restores
DELTAS = 12  # etcd-backup-restore compacts while it restores, after the tenth
ETCDBRCTL = None


class Writes:
    """Random operations; `lease` says whether keys may get one."""

    def __init__(self, etcd, seed):
        self.etcd, self.chance, self.leases = etcd, random.Random(seed), {}

    def key(self):
        return encode(f"/registry/{self.chance.randrange(80)}")

    def value(self):
        return encode(self.chance.randbytes(self.chance.choice((0, 1, 50, 2000, 60000))))

    def put(self):
        self.etcd.call("kv/put", {"key": self.key(), "value": self.value()})

    def delete(self):
        self.etcd.call("kv/deleterange", {"key": self.key()})

    def range(self):
        self.etcd.call("kv/deleterange", {"key": encode("/registry/1"), "range_end": encode("/registry/2")})

    def txn(self):
        keys = sorted({self.key() for _ in range(self.chance.randrange(2, 20))})
        deletes = [{"request_delete_range": {"key": keys[0]}}]
        puts = [{"request_put": {"key": key, "value": self.value()}} for key in keys[1:]]
        self.etcd.call("kv/txn", {"success": deletes + puts})

    def lease(self):
        seconds = self.chance.choice((3600, 7200))
        lease = self.etcd.call("lease/grant", {"TTL": str(seconds)})["ID"]
        self.leases[lease] = str(seconds)
        for _ in range(2):
            self.etcd.call("kv/put", {"key": self.key(), "value": self.value(), "lease": lease})

    def run(self, count, lease):
        kinds = [self.put] * 4 + [self.delete, self.range, self.txn] + [self.lease] * (2 if lease else 0)
        for _ in range(count):
            self.chance.choice(kinds)()
        self.put()  # so that something has changed


def hash_of(etcd, revision):
    answer = etcd.call("maintenance/hashkv", {"revision": str(revision)})
    return int(answer.get("compact_revision", 0)), answer["hash"]


class PeerCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="capstan-peer-"))
        self.addCleanup(remove, self.dir)
        self.peer = Etcdbrctl(ETCDBRCTL, self.dir / "etcdbrctl")
        self.count = 0

    def new_etcd(self, name):
        self.count += 1
        etcd = Etcd(str(pathlib.Path(os.environ["CAPSTAN_ETCD_DIR"]) / "etcd"), self.dir / f"{name}-{self.count}", name="m1")
        self.addCleanup(etcd.stop)
        return etcd

    def new_store(self):
        store = Store()
        self.addCleanup(store.close)
        return store

    def start(self, side, etcd, store, policy):
        steward = OurSteward(etcd, store, policy) if side == "ours" else PeerSteward(self.peer, etcd, store, policy)
        self.addCleanup(steward.close)
        return steward.ready()

    def restored(self, side, store):
        etcd = self.new_etcd(f"by-{side}")
        if side == "ours":
            restore(store, etcd)
        else:
            self.peer.restore(store, etcd)
        return etcd.start().wait()

    def same(self, source, side, store, lost_leases=(), leases=()):
        """What `side` restores is what `source` holds; keys of `lost_leases` without their lease."""
        copy = self.restored(side, store)
        revision = source.revision()
        self.assertEqual(copy.revision(), revision)
        expected = [{k: v for k, v in kv.items() if k != "lease" or v not in lost_leases} for kv in source.keys()]
        self.assertEqual(copy.keys(), expected)
        if not lost_leases:
            compactions = [hash_of(etcd, revision)[0] for etcd in (source, copy)]
            for etcd, compacted in zip((source, copy), compactions):
                if compacted < max(compactions):
                    etcd.compact(max(compactions))
            self.assertEqual(hash_of(copy, revision), hash_of(source, revision))
        for lease, seconds in dict(leases).items():
            self.assertEqual(copy.call("lease/timetolive", {"ID": lease}).get("grantedTTL"), seconds)
        copy.call("kv/put", {"key": encode("after"), "value": ""})
        self.assertEqual(copy.revision(), revision + 1)
        copy.stop()
        copy.start().wait()  # once more, from its own log
        self.assertEqual(copy.revision(), revision + 1)
        copy.stop()

    def verified(self, store, source):
        backup("verify", store, "--all")
        report = json.loads(backup("verify", store, "-o", "json").output)
        self.assertEqual((report["revision"], report["warnings"]), (source.revision(), []))
        dump = json.loads(backup("dump", store).output)
        self.assertEqual(dump["revision"], source.revision())
        self.assertEqual([kv["key"] for kv in dump["kvs"]], [kv["key"] for kv in source.keys()])
        return report

    def history(self, side, policy):
        """A full with leases in it and DELTAS deltas without, by `side`; the compaction of some of it on the way."""
        source, store = self.new_etcd("source").start().wait(), self.new_store()
        writes = Writes(source, f"{SEED} {side} {policy}")
        writes.run(60, lease=True)
        source.compact(source.revision() - 20)
        steward = self.start(side, source, store, policy)
        for number in range(DELTAS):
            writes.run(15, lease=False)
            if number == 0:
                self.assertEqual(steward.full()["lastRevision"], source.revision())
                writes.run(5, lease=False)
            steward.deltas_up_to(source.revision())
        self.assertEqual([n for n in store.names() if SUFFIX[policy] and not n.endswith(SUFFIX[policy])], [])
        return source, store, writes, steward

    def same_latest(self, store, latest):
        """`capstan backup list` and what a steward takes for the latest."""
        listed = json.loads(backup("list", store, "-o", "json").output)
        names = [item["snapName"] for item in listed["snapshots"]]
        full, deltas = latest["fullSnapshot"], latest["deltaSnapshots"] or []
        self.assertEqual(listed["restorable"]["full"].rsplit("/", 1)[1], full["snapName"])
        self.assertEqual([d["snapName"] for d in deltas], names[names.index(full["snapName"]) + 1:])
        self.assertEqual((listed["restorable"]["deltas"], listed["restorable"]["revision"], listed["problem"]),
                         (len(deltas), (deltas or [full])[-1]["lastRevision"], ""))


class Policies:
    """The writer, and for each policy a test; all that is left of one is closed before the next."""

    def check(self, policy):
        writer = self.writer
        reader = "peer" if writer == "ours" else "ours"
        source, store, writes, steward = self.history(writer, policy)
        self.same_latest(store, steward.latest())
        self.verified(store, source)
        before = dict(writes.leases)
        self.same(source, reader, store, leases=before)
        writes.run(20, lease=True)
        steward.deltas_up_to(source.revision())
        self.assertEqual(self.verified(store, source)["leasesUnknown"] > 0, writer == "peer")
        later = {lease: seconds for lease, seconds in writes.leases.items() if lease not in before}
        self.assertTrue(later)
        # etcd-backup-restore drops the lease of what is in deltas; its deltas do not say how long one is.
        lost = {int(lease) for lease in later} if reader == "peer" else ()
        self.same(source, reader, store, lost_leases=lost, leases=before)
        self.same(source, "ours", store, leases=writes.leases if writer == "ours" else before)
        final = steward.full(final=True)
        self.assertTrue(final["isFinal"] and final["snapName"].endswith(SUFFIX[policy] + ".final"), final)
        self.same_latest(store, steward.latest())
        self.same(source, reader, store, leases=writes.leases)

    def test_gzip(self):
        self.check("gzip")

    def test_zlib(self):
        self.check("zlib")

    def test_none(self):
        self.check("none")

    def test_lzw(self):
        self.check("lzw")


class OursByThePeer(Policies, PeerCase):
    writer = "ours"


class ThePeersByOurs(Policies, PeerCase):
    writer = "peer"


class OneBackup(PeerCase):
    def other(self, source):
        """A copy of a store, for what changes it."""
        store = self.new_store()
        shutil.copytree(source.container, store.container, dirs_exist_ok=True)
        return store

    def only(self, store, name):
        for path in store.objects.iterdir():
            if path.name != name:
                path.unlink()

    def compacted(self, side, store):
        """A copy of the store that holds nothing but the full that `side` made of it."""
        copy = self.other(store)
        if side == "ours":
            backup("compact", copy)
        else:
            self.peer.compact(copy, self.new_etcd("compacting"))
        self.assertEqual(len(copy.names()), len(store.names()) + 1, copy.names())
        for name in store.names():
            (copy.objects / name).unlink()
        return copy

    def state(self, etcd):
        """Revision, keys, and the hash after writes that are the same everywhere."""
        state = [etcd.revision(), etcd.keys()]
        # Of the compacted revision itself etcd keeps the hash from before, so there is one more.
        for value in ("one", "two"):
            etcd.call("kv/put", {"key": encode(value), "value": encode("more")})
            if value == "one":
                etcd.compact(state[0] + 1)
        return [*state, hash_of(etcd, state[0] + 2)]

    def test_each_compacts_and_restores_what_the_other_wrote(self):
        for writer in ("ours", "peer"):
            source, store, _, steward = self.history(writer, "gzip")
            steward.close()
            expected = self.state(source)
            for compactor in ("ours", "peer"):
                full = self.compacted(compactor, store)
                for reader in ("ours", "peer"):
                    with self.subTest(writer=writer, compactor=compactor, reader=reader):
                        copy = self.restored(reader, full)
                        self.assertEqual(self.state(copy), expected)
                        copy.stop()

    def test_each_copies_what_the_other_wrote(self):
        source, store, _, steward = self.history("ours", "zlib")
        steward.full(final=True)
        target = Store(store.home / "copied")
        self.peer.copy(store, target)
        self.same(source, "ours", target)
        self.same(source, "peer", target)
        source, store, _, steward = self.history("peer", "zlib")
        steward.full(final=True)
        target = self.new_store()
        backup("copy", store, "--to-provider", "Local", "--to-container", str(target.container), "--to-prefix", "main")
        self.same(source, "ours", target)
        self.same(source, "peer", target)

    def test_a_revision_the_peer_cannot_restore_is_followed_by_a_full(self):
        source, store = self.new_etcd("source").start().wait(), self.new_store()
        steward = self.start("ours", source, store, "gzip")
        for first in range(0, OPERATIONS_MAX + 64, 64):
            puts = [{"request_put": {"key": encode(f"/many/{number:06d}"), "value": ""}} for number in range(first, first + 64)]
            source.call("kv/txn", {"success": puts})
        source.call("kv/deleterange", {"key": encode("/many/"), "range_end": encode("/many0")})
        revision = source.revision()
        steward.deltas_up_to(revision)
        wait_for("a full", lambda: steward.latest()["fullSnapshot"]["lastRevision"] == revision)
        for side in ("ours", "peer"):
            self.same(source, side, store)

    def test_they_take_turns_on_one_backup(self):
        source, store = self.new_etcd("source").start().wait(), self.new_store()
        writes = Writes(source, SEED)
        writes.run(30, lease=True)
        policies = iter(POLICIES * 2)
        for side in ("ours", "peer", "ours", "peer"):
            steward = self.start(side, source, store, next(policies))
            for _ in range(3):
                writes.run(10, lease=False)
                steward.deltas_up_to(source.revision())
            self.same_latest(store, steward.latest())
            steward.close()
            writes.run(10, lease=False)  # while nobody looks
        steward = self.start("ours", source, store, "gzip")
        steward.deltas_up_to(source.revision())
        self.assertEqual(len([name for name in store.names() if name.startswith("Full-")]), 1, store.names())
        self.verified(store, source)
        for side in ("ours", "peer"):
            self.same(source, side, store, leases=writes.leases)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    ETCDBRCTL = os.path.abspath(sys.argv.pop(1))
    print(f"CAPSTAN_E2E_SEED={SEED}", file=sys.stderr)
    unittest.main(verbosity=2)
