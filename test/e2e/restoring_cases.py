"""A single member without its data: restored from its backups, or refused; and a new cluster on the backups of an old one.

A mixin: a test class adds unittest.TestCase, and etcd_dir when it is not the default etcd.
"""
import json
import os
import pathlib
import shutil
import tempfile
import time

from local_cluster import ETCD1, asked, b64, wait_for
from member_cases import Members

STORE = "etc/gardener/local-backupbuckets/bucket"  # where the node keeps the hostPath of container "bucket"


def manifest_with_backups(directory, name, replicas):
    path = pathlib.Path(directory) / f"{name}.yaml"
    path.write_text(json.dumps({
        "apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "Etcd", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "labels": {"app": name}, "etcd": {}, "backup": {
            "deltaSnapshotPeriod": "1s", "store": {"provider": "Local", "container": "bucket", "prefix": "shop/main"}}}}))
    return path


class RestoringMixin:
    etcd_dir = None

    def setUp(self):
        self.scratch = tempfile.mkdtemp(prefix="capstan-restoring-")
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)

    def cluster_of(self, manifest, name):
        cluster = Members(manifest, name, etcd_dir=self.etcd_dir)
        self.addCleanup(cluster.close)
        return cluster

    def write(self, cluster, count):
        """Puts keys; the revision of the last one."""
        endpoint = cluster.endpoints()[0]
        for number in range(count):
            answer = asked(endpoint, "kv/put", {"key": b64(f"key-{number}"), "value": b64(str(number))})
        return int(answer["header"]["revision"])

    def assert_there(self, cluster, count, member):
        endpoint = cluster.member(member)["status"]["endpoint"]
        self.assertEqual([n for n in range(count) if cluster.read(f"key-{n}", endpoint) != str(n)], [])

    def await_backed_up(self, cluster, revision):
        def backed_up():
            for member in cluster.members():
                snapshots = member.get("status", {}).get("snapshots", {})
                for which in ("lastDelta", "lastFull"):
                    if snapshots.get(which, {}).get("endRevision", 0) >= revision:
                        return True
            return False
        try:
            wait_for(f"a backup up to revision {revision}", backed_up, 90)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{[m.get('status') for m in cluster.members()]}\n{cluster.tail()}") from None

    def backed_up_single(self):
        cluster = self.cluster_of(manifest_with_backups(self.scratch, "solo", 1), "solo")
        cluster.start()
        revision = self.write(cluster, 50)
        self.await_backed_up(cluster, revision)
        return cluster

    def assert_restored(self, cluster, reason):
        wait_for("the restoration", lambda: "RestorationSucceeded" in cluster.reasons("solo-0"), 120)
        cluster.await_started("solo-0")
        cluster.await_ready(120)
        self.assertIn(reason, cluster.reasons("solo-0"))
        last = cluster.member("solo-0")["status"]["lastRestoration"]
        self.assertEqual((last["type"], last["status"]), ("FromSnapshot", "Succeeded"))
        self.assert_there(cluster, 50, "solo-0")

    def test_deleted_pods_and_volumes_are_restored(self):
        cluster = self.backed_up_single()
        for path in ("persistentvolumeclaims/solo-solo-0", "pods/solo-0"):
            status, answer = cluster.api().request("DELETE", f"/api/v1/namespaces/default/{path}")
            self.assertIn(status, (200, 202), answer)
        self.assert_restored(cluster, "DataMissing")

    def test_a_damaged_database_is_restored_and_kept(self):
        cluster = self.backed_up_single()
        cluster.stop_etcd("solo-0")
        os.truncate(cluster.data("solo-0") / "member" / "snap" / "db", 8192)
        cluster.kill_etcd("solo-0")
        self.assert_restored(cluster, "DBCorruptionDetected")
        self.assertEqual(len(cluster.aside("solo-0")), 1)
        # and it goes on being backed up
        revision = self.write(cluster, 60)
        self.await_backed_up(cluster, revision)

    def test_a_new_cluster_of_three_on_old_backups_is_restored_by_its_first_member(self):
        old = self.backed_up_single()
        store = pathlib.Path(self.scratch) / "store"
        self.assertEqual(old.stop(), 0)
        shutil.copytree(old.dir / "host" / STORE, store)
        new = self.cluster_of(manifest_with_backups(self.scratch, "main", 3), "main")
        shutil.copytree(store, new.dir / "host" / STORE)
        os.chmod(new.dir, 0o700)
        # The backups are another Etcd's until somebody says that it is gone (docs/backup.md).
        owners = list((new.dir / "host" / STORE).rglob("capstan/owner"))
        self.assertEqual(len(owners), 1)
        owners[0].unlink()
        new.start()
        self.assertIn("BackupsFound", new.reasons("main-0"))
        self.assertEqual(new.member("main-0")["status"]["lastRestoration"]["type"], "FromSnapshot")
        for name in ("main-1", "main-2"):
            self.assertIn("PromotedAsVotingMember", new.reasons(name))
        self.assertEqual(len(new.cluster_id()), 1)
        for name in ("main-0", "main-1", "main-2"):
            self.assert_there(new, 50, name)

    def test_without_backups_nothing_is_made_up(self):
        cluster = self.cluster_of(ETCD1, "solo")
        cluster.start()
        self.write(cluster, 5)
        cluster.stop_etcd("solo-0")
        kept = cluster.volume("solo-0") / "kept"
        (cluster.data("solo-0") / "member").rename(kept)
        cluster.kill_etcd("solo-0")
        self.assertIn("remedy", cluster.await_reason("solo-0", "DataLost")["message"])
        time.sleep(3)
        self.assertEqual(cluster.etcd_pids(), {})
        shutil.rmtree(cluster.data("solo-0") / "member", ignore_errors=True)
        kept.rename(cluster.data("solo-0") / "member")
        cluster.await_started("solo-0")
        self.assert_there(cluster, 5, "solo-0")
