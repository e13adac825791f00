#!/usr/bin/env python3
"""examples/etcd-backup*.yaml with a real `capstan up`, and what docs/backup.md says of it: where a Local store lies, and the way back
of a whole cluster by hand, with `replicas: 0`."""
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

from backup_test import BUCKET, VERSITYGW, Bucket
from local_cluster import CAPSTAN, DRUID, ROOT, Cluster, asked, b64, wait_for

LIMIT_SECONDS = 120
LOCAL = ROOT / "examples/etcd-backup.yaml"
S3 = ROOT / "examples/etcd-backup-s3.yaml"
PAGE = ROOT / "docs/backup.md"


class ExampleCase(unittest.TestCase):
    def start(self, manifest):
        self.cluster = Cluster(manifest)
        self.addCleanup(self.cluster.close)
        self.cluster.start()
        return self.cluster

    def run_backup(self, command, *arguments, env=None):
        return subprocess.run([CAPSTAN, "backup", command, *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=LIMIT_SECONDS, env={**os.environ, **(env or {})})

    def await_stored(self, revision, *store, env=None):
        def stored():
            said = self.run_backup("list", *store, "-o", "json", env=env)
            return said.returncode == 0 and (json.loads(said.stdout)["restorable"] or {}).get("revision", 0) >= revision
        try:
            wait_for(f"backups up to {revision}", stored, LIMIT_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.run_backup('list', *store, env=env)}\n{self.cluster.tail()}") from None

    def put(self, key):
        answer = asked(self.cluster.endpoints()[0], "kv/put", {"key": b64(key), "value": b64(key)})
        return int(answer["header"]["revision"])


class LocalTest(ExampleCase):
    def scale(self, replicas):
        status, answer = self.cluster.api().request("PATCH", f"{DRUID}/namespaces/default/etcds/main",
                                                    {"spec": {"replicas": replicas}}, "application/merge-patch+json")
        self.assertEqual(status, 200, answer)

    def test_its_store_and_the_way_back(self):
        cluster = self.start(LOCAL)
        kept = self.put("kept")
        store = ["--provider", "Local", "--container", cluster.dir / "host/etc/gardener/local-backupbuckets/etcd-backups",
                 "--prefix", "default/main"]
        gone = self.put("gone")
        self.await_stored(gone, *store)
        self.check_page()
        peers = {member["name"]: member["peerURLs"][0]
                 for member in asked(cluster.endpoints()[0], "cluster/member/list", {})["members"]}
        initial = ",".join(f"{name}={url}" for name, url in sorted(peers.items()))
        self.scale(0)
        wait_for("the end of the pods", lambda: not cluster.api().items("/api/v1/namespaces/default/pods"), 120)
        self.assertEqual(cluster.etcd_pids(), {})
        for name in peers:
            found = list(cluster.dir.glob(f"volumes/default_main-{name}_*/new.etcd"))
            self.assertEqual(len(found), 1, "the path of docs/backup.md")
            said = self.run_backup("restore", *store, "--data-dir", found[0], "--force", "--to-revision", kept, "--name", name,
                                   "--initial-cluster", initial)
            self.assertEqual(said.returncode, 0, said.stderr)
        self.scale(3)
        wait_for("three pods", lambda: len(cluster.api().items("/api/v1/namespaces/default/pods")) == 3)
        cluster.await_ready()
        for endpoint in cluster.endpoints():
            self.assertEqual(cluster.read("kept", endpoint), "kept")
            self.assertIsNone(cluster.read("gone", endpoint))

    def check_page(self):
        blocks = re.findall(r"<!-- tested with capstan up -->\n```sh\n(.*?)```", PAGE.read_text(), re.S)
        self.assertEqual(len(blocks), 1)
        said = subprocess.run(["bash", "-euc", blocks[0]], cwd=self.cluster.root, capture_output=True, text=True, check=False,
                              timeout=LIMIT_SECONDS, env={**os.environ, "PATH": f"{pathlib.Path(CAPSTAN).parent}:{os.environ['PATH']}"})
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertIn("state:    whole", said.stdout)


@unittest.skipUnless(VERSITYGW.exists(), "no versitygw in the cache: tools/build-versitygw builds one")
class S3Test(ExampleCase):
    def test_its_bucket(self):
        bucket = Bucket()
        self.addCleanup(bucket.close)
        text = S3.read_text()
        endpoint = f"http://127.0.0.1:{bucket.port}"
        for placeholder, value in (("ACCESS-KEY-ID", "capstan"), ("SECRET-ACCESS-KEY", "capstan-secret"), ("eu-central-1", "us-east-1"),
                                   ("my-bucket", BUCKET), ("https://s3.example.com", endpoint)):
            self.assertEqual(text.count(placeholder), 1, placeholder)
            text = text.replace(placeholder, value)
        manifest = bucket.files / "etcd-backup-s3.yaml"
        manifest.write_text(text)
        self.start(manifest)
        keys = {"AWS_ACCESS_KEY_ID": "capstan", "AWS_SECRET_ACCESS_KEY": "capstan-secret", "AWS_REGION": "us-east-1"}
        self.await_stored(self.put("kept"), "--provider", "S3", "--container", BUCKET, "--prefix", "default/main", "--endpoint",
                          endpoint, env=keys)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1)
