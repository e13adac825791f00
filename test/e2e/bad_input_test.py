#!/usr/bin/env python3
"""Wrong input to `capstan up`: the message names file, field and remedy, the exit code is not 0, nothing is left running."""
import http.server
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from backup_test import MANIFEST, S3
from local_cluster import CAPSTAN, ETCD1

GOOD = ETCD1.read_text()


class StrangersStore(http.server.BaseHTTPRequestHandler):
    """An S3 that does not know the key."""

    def do_GET(self):
        text = b"<Error><Code>InvalidAccessKeyId</Code><Message>The key is not known</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class BadInput(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="capstan-bad-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def up(self, text=GOOD, *arguments, env=None, directory=None, timeout=60):
        manifest = self.root / "bad.yaml"
        manifest.write_text(text)
        directory = directory or self.root / ".capstan"
        done = subprocess.run([CAPSTAN, "up", "--dir", str(directory), "-f", str(manifest), "--once", "--timeout", str(timeout), *arguments],
                              capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **(env or {})})
        self.assert_nothing_left()
        return done

    def assert_nothing_left(self):
        needle = str(self.root).encode()
        left = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if needle in (entry / "cmdline").read_bytes():
                        left.append((entry / "cmdline").read_bytes())
                except OSError:
                    pass
        self.assertEqual(left, [])

    def assert_refused(self, done, *parts, code=2):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_malformed_yaml(self):
        self.assert_refused(self.up("apiVersion: v1\nkind: [\n"), "bad.yaml:")

    def test_empty_file(self):
        self.assert_refused(self.up("", ), "bad.yaml")

    def test_no_kind(self):
        self.assert_refused(self.up("apiVersion: v1\nmetadata:\n  name: x\n"), "bad.yaml:1", "/kind: missing")

    def test_no_name(self):
        self.assert_refused(self.up(GOOD.replace("name: solo", "labels: {}", 1)), "bad.yaml:", "/metadata/name: missing")

    def test_duplicate_key(self):
        self.assert_refused(self.up(GOOD + "\nkind: Etcd\n"), "bad.yaml:", "kind")

    def test_unknown_kind(self):
        self.assert_refused(self.up(GOOD.replace("kind: Etcd", "kind: Etdc")), "bad.yaml", "Etdc")

    def test_negative_replicas(self):
        self.assert_refused(self.up(GOOD.replace("replicas: 1", "replicas: -1")), "bad.yaml", "/spec/replicas")

    def test_wrong_type(self):
        self.assert_refused(self.up(GOOD.replace("replicas: 1", "replicas: one")), "bad.yaml", "spec.replicas")

    def test_unknown_field(self):
        self.assert_refused(self.up(GOOD.replace("replicas: 1", "replicas: 1\n  replicsa: 3")), "bad.yaml", "replicsa")

    def test_a_member_that_waits_says_why(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StrangersStore)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        done = self.up(MANIFEST % (1, "1m", "2m", "0 0 * * *", S3 % server.server_address[1]), timeout=30)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        lines = [line for line in done.stdout.splitlines() if line.startswith("EtcdMember default/main-0: ")]
        self.assertTrue(any("Initialized: StoreUnreachable: " in line and "InvalidAccessKeyId" in line for line in lines), done.stdout)
        self.assertTrue(all(lines.count(line) <= 2 for line in lines), "each once, and at the end")

    def test_missing_file(self):
        done = subprocess.run([CAPSTAN, "up", "-f", str(self.root / "none.yaml")], capture_output=True, text=True, timeout=60, check=False)
        self.assert_refused(done, "none.yaml")

    def test_missing_etcd(self):
        done = self.up(env={"CAPSTAN_ETCD_DIR": str(self.root)})
        self.assert_refused(done, "CAPSTAN_ETCD_DIR", "etcd")

    def test_chosen_etcd_is_missing(self):
        self.assert_refused(self.up(GOOD, "--etcd-dir", str(self.root)), "--etcd-dir " + str(self.root), "etcd")

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = self.up(GOOD, "--port", str(port))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(port), done.stderr)

    def test_directory_that_cannot_be_made(self):
        (self.root / "file").write_text("x")
        done = self.up(directory=self.root / "file" / ".capstan")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(self.root / "file"), done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_full_disk(self):
        small = self.root / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("cannot mount a tmpfs here")
        self.addCleanup(subprocess.run, ["umount", str(small)], check=False)
        done = self.up(directory=small / ".capstan")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("No space left", done.stderr)

    def test_tls_without_a_client_pair_is_refused_with_a_reason(self):
        tls = GOOD.replace("  etcd: {}", "  etcd:\n    clientUrlTls:\n      tlsCASecretRef: {name: ca}\n"
                           "      serverTLSSecretRef: {name: s}", 1)
        done = self.up(tls)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("clientTLSSecretRef", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
