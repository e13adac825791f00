#!/usr/bin/env python3
"""`capstan backup` with the real program: every command over the backups of test/data, good and malformed; stores that are
slow, full, unreadable or not there; interruptions; the commands of docs/backup.md as they stand there."""
import hashlib
import http.server
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from real_etcd import free_ports

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "plugins/steward-bridge/store"))
import real_s3_test as gateway  # noqa: E402: after its folder is known
DATA = ROOT / "test/data"
CAPSTAN = os.environ["CAPSTAN"]
# Ignored where the tests were started in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
LIMIT_SECONDS = 120
GOOD = sorted(path.name for path in (DATA / "backups").iterdir())
MALFORMED = sorted(path.name for path in (DATA / "backups-malformed").iterdir())


def tree(path):
    """What is below a directory: name -> digest."""
    return {str(each.relative_to(path)): hashlib.sha256(each.read_bytes()).hexdigest()
            for each in sorted(path.rglob("*")) if each.is_file()}


class BackupCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="capstan-backup-cli-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.tmp = self.dir / "tmp"
        self.tmp.mkdir()
        self.env = {**os.environ, "TMPDIR": str(self.tmp)}

    def take(self, name, below="backups"):
        shutil.copytree(DATA / below / name, self.dir / "store" / name)
        return self.dir / "store" / name

    def run_backup(self, command, *arguments, **options):
        said = subprocess.run([CAPSTAN, "backup", command, *map(str, arguments)], capture_output=True, text=True,
                              timeout=LIMIT_SECONDS, **{"env": self.env, **options})
        self.assertEqual(list(self.tmp.iterdir()), [], "something was left in the work directory")
        return said

    def on(self, command, container, *arguments, **options):
        """A command on a directory, without prefix."""
        return self.run_backup(command, "--provider", "Local", "--container", container, *arguments, **options)

    def good(self, command, container, *arguments):
        said = self.on(command, container, "-o", "json", *arguments)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)


class EverySetTest(BackupCase):
    def test_good_ones(self):
        for name in GOOD:
            with self.subTest(set=name):
                self.check_good(name)

    def check_good(self, name):
        store = self.take(name)
        before = tree(store)
        expected = json.loads((store / "expected.json").read_text())
        listed = self.good("list", store)
        self.assertEqual(listed["problem"], "")
        self.assertEqual(len(listed["snapshots"]), sum(1 for key in before if "Full-" in key or "Incr-" in key))
        verified = self.good("verify", store)
        self.assertEqual(verified["revision"], expected["revision"])
        self.assertEqual(json.loads(self.on("dump", store).stdout), expected)
        every = self.good("explain", store)["objects"]
        self.assertEqual(sorted(each["key"] for each in every), sorted(before))
        data = self.dir / "data"
        restored = self.good("restore", store, "--data-dir", data)
        self.assertEqual(restored["revision"], expected["revision"])
        self.assertEqual(sorted(path.name for path in (data / "member").iterdir()), ["snap", "wal"])
        again = self.on("restore", store, "--data-dir", data)
        self.assertEqual(again.returncode, 2)
        self.assertIn("is not empty", again.stderr)
        shutil.rmtree(data)
        copied = self.good("copy", store, "--to-container", self.dir / "copy", "--to-prefix", "main")
        self.assertEqual({each["state"] for each in copied["objects"]}, {"copied"})
        self.assertEqual(tree(store), before, "nothing of it has changed a byte")
        compacted = self.good("compact", store)
        self.assertTrue((store / compacted["object"]).is_file())
        self.assertEqual(json.loads(self.on("dump", store).stdout), expected)
        self.assertEqual(json.loads(self.on("dump", self.dir / "copy", "--prefix", "main").stdout), expected)
        shutil.rmtree(self.dir / "copy")
        shutil.rmtree(store)

    def test_malformed_ones(self):
        for name in MALFORMED:
            with self.subTest(set=name):
                self.check_malformed(name)

    def check_malformed(self, name):
        store = self.take(name, "backups-malformed")
        before = tree(store)
        whole = (store / "expected.json").exists()
        code = 0 if whole else 6
        self.assertIn(self.on("list", store).returncode, (0, code))
        verified = self.on("verify", store)
        self.assertEqual(verified.returncode, code, verified.stderr)
        data = self.dir / "data"
        restored = self.on("restore", store, "--data-dir", data)
        self.assertEqual(restored.returncode, code, restored.stderr)
        dumped = self.on("dump", store, "--file", self.dir / "keys")
        self.assertEqual(dumped.returncode, code)
        self.assertEqual(self.on("compact", store).returncode, code)
        copied = self.on("copy", store, "--to-container", self.dir / "copy")
        # What no restore needs may be damaged as well; that deltas of two clusters are mixed only a whole chain tells.
        self.assertIn(copied.returncode, (0, 6) if whole else (0,) if name == "foreign-delta" else (6,), copied.stderr)
        if (self.dir / "copy").exists():
            self.assertIn(self.on("verify", self.dir / "copy").returncode, (code, 0))
            shutil.rmtree(self.dir / "copy")
        if whole:
            expected = json.loads((store / "expected.json").read_text())
            self.assertEqual(json.loads((self.dir / "keys").read_text()), expected)
            shutil.rmtree(data)
            (self.dir / "keys").unlink()
        else:
            self.assertEqual(tree(store), before)
            for said in (verified, restored):
                self.assertRegex(said.stderr, r"Full-|Incr-|no snapshot|no full")
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["store", "tmp"], "nothing half done is left")
        shutil.rmtree(store)

    def test_what_is_whole_can_be_had(self):
        store = self.take("newest-delta-truncated", "backups-malformed")
        refused = self.on("restore", store, "--data-dir", self.dir / "data")
        revision = re.search(r"--to-revision (\d+)", refused.stderr).group(1)
        restored = self.good("restore", store, "--data-dir", self.dir / "data", "--to-revision", revision)
        self.assertEqual(restored["revision"], int(revision))

    def test_to_a_time(self):
        store = self.take("several-fulls")
        self.assertEqual(self.good("verify", store, "--to-time", "2099-01-01T00:00:00Z")["revision"],
                         self.good("verify", store)["revision"])
        early = self.on("verify", store, "--to-time", "2020-01-01T00:00:00Z")
        self.assertEqual(early.returncode, 6)
        self.assertIn("no snapshot was made by 2020-01-01T00:00:00Z", early.stderr)

    def test_no_arguments_and_help(self):
        self.assertEqual(self.run_backup("--help").returncode, 0)
        for command in ("list", "explain", "verify", "restore", "compact", "copy", "dump", "check"):
            said = self.run_backup(command, "--help")
            self.assertEqual((said.returncode, said.stderr), (0, ""))
            self.assertIn(f"  capstan backup {command}", said.stdout)
            self.assertEqual(self.run_backup(command).returncode, 2)


class BrokenPlacesTest(BackupCase):
    def test_not_there(self):
        said = self.on("list", self.dir / "nowhere")
        self.assertEqual(said.returncode, 2)
        self.assertIn(str(self.dir / "nowhere"), said.stderr)
        self.take("zlib")
        said = self.on("verify", self.dir / "store", "--prefix", "zlb")
        self.assertEqual(said.returncode, 6)
        self.assertIn("did you mean --prefix zlib?", said.stderr)
        said = self.on("restore", self.dir / "store/zlib", "--data-dir", self.dir / "no/where")
        self.assertEqual(said.returncode, 2)
        self.assertIn("make it first", said.stderr)

    @unittest.skipIf(os.geteuid() != 0, "needs root to become somebody else")
    def test_unreadable_directory(self):
        store = self.take("zlib")
        nobody = 65534
        # The temporary directories of the test and the cache of plugins are the other user's.
        cache = self.dir / "cache"
        cache.mkdir()
        for path in (self.dir, self.tmp, cache):
            os.chown(path, nobody, nobody)
        options = {"user": nobody, "group": nobody, "env": {**self.env, "XDG_CACHE_HOME": str(cache)}}
        probe = subprocess.run([CAPSTAN, "version"], capture_output=True, check=False, user=nobody, group=nobody)
        if probe.returncode != 0:
            self.skipTest("the program cannot be run by another user here")
        (store / "v2").chmod(0)
        said = self.on("verify", store, **options)
        self.assertEqual(said.returncode, 4, said.stderr)
        self.assertIn("permission denied", said.stderr)
        (store / "v2").chmod(0o700)
        os.chown(store / "v2", nobody, nobody)
        newest = sorted((store / "v2").iterdir())[-1]
        newest.chmod(0)
        said = self.on("verify", store, **options)
        self.assertEqual(said.returncode, 4, said.stderr)
        self.assertIn(newest.name, said.stderr)

    def test_disk_that_takes_no_more(self):
        store = self.take("range-delete-12000")
        before = tree(self.dir)
        self.on("list", store)  # the program's own copy of the plugin is there now

        def small_files(limit=100_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        for arguments in (("restore", store, "--data-dir", self.dir / "data"), ("verify", store), ("compact", store),
                          ("dump", store, "--file", self.dir / "keys")):
            # SIGXFSZ stays ignored, as Python has it: writing fails then.
            said = self.on(*arguments, preexec_fn=small_files, restore_signals=False)
            self.assertEqual(said.returncode, 1, said.stderr)
            self.assertIn("File too large", said.stderr)
            self.assertEqual(tree(self.dir), before)
        # The full is smaller, the delta after it is not.
        said = self.on("copy", store, "--to-container", self.dir / "copy", preexec_fn=lambda: small_files(60_000), restore_signals=False)
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertEqual(tree(self.dir / "copy").items() - tree(store).items(), set(), "what is there is whole")
        self.assertEqual(self.good("verify", self.dir / "copy")["revision"], 102)

    @unittest.skipIf(os.geteuid() != 0, "needs root to mount")
    def test_full_file_system(self):
        store = self.take("range-delete-12000")
        small = self.dir / "small"
        small.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", small], capture_output=True, check=False).returncode:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", small], check=False)
        said = self.on("restore", store, "--data-dir", small / "data")
        self.assertEqual(said.returncode, 1, said.stderr)
        self.assertIn("No space left on device", said.stderr)
        self.assertEqual(list(small.iterdir()), [])
        said = self.on("copy", store, "--to-container", small / "copy")
        self.assertEqual(said.returncode, 4, said.stderr)
        self.assertIn("the disk of the backup store is full", said.stderr)

    def test_output(self):
        store = self.take("zlib")
        with open("/dev/full", "w", encoding="utf-8") as full:
            said = subprocess.run([CAPSTAN, "backup", "dump", "--provider", "Local", "--container", store], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, env=self.env)
        self.assertEqual(said.returncode, 1)
        self.assertIn("No space left on device", said.stderr)
        self.assertEqual(list(self.tmp.iterdir()), [])


class SmallStore(http.server.BaseHTTPRequestHandler):
    """S3 of the directory `server.store`, as far as the tests below need it."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body=b"", length=None, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def file(self):
        return self.server.store / self.path.partition("?")[0].split("/", 2)[2]

    def do_GET(self):
        store = self.server.store
        query = self.path.partition("?")[2]
        if "versioning" in query:
            return self.answer(b"<VersioningConfiguration/>")
        if "list-type=2" in query:
            items = "".join(f"<Contents><Key>{key}</Key><Size>{(store / key).stat().st_size}</Size><ETag>1</ETag>"
                            "<LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>" for key in tree(store))
            return self.answer(f"<ListBucketResult><IsTruncated>false</IsTruncated>{items}</ListBucketResult>".encode())
        self.send_object(self.file().read_bytes())

    def do_HEAD(self):
        found = self.file().is_file()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(self.file().stat().st_size if found else 0))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 30 Nov 2026 00:00:00 GMT")
        self.end_headers()

    def send_object(self, content):
        self.answer(content)


class SlowStore(SmallStore):
    """Sends a part of an object and then nothing more, until the test ends."""

    def send_object(self, content):
        self.answer(content[:len(content) // 2], len(content))
        self.server.stuck.set()
        self.server.over.wait(LIMIT_SECONDS)


class LyingStore(SmallStore):
    """Keeps other bytes than it was given."""

    def do_PUT(self):
        content = bytearray(self.rfile.read(int(self.headers["Content-Length"])))
        content[len(content) // 2] ^= 1
        self.file().parent.mkdir(parents=True, exist_ok=True)
        self.file().write_bytes(content)
        self.answer()

    def do_DELETE(self):
        self.file().unlink()
        self.answer(status=204)


class StoreServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # clients that are interrupted leave


class OtherStoreCase(BackupCase):
    def serve(self, handler, store):
        self.server = StoreServer(("127.0.0.1", 0), handler)
        self.server.store, self.server.stuck, self.server.over = store, threading.Event(), threading.Event()
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.addCleanup(self.server.over.set)
        self.env.update(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1")
        for name in ("AWS_APPLICATION_CREDENTIALS", "AWS_APPLICATION_CREDENTIALS_JSON"):
            self.env.pop(name, None)

    def options(self, before=""):
        return [f"--{before}provider", "S3", f"--{before}container", "bucket", f"--{before}path-style", f"--{before}endpoint",
                f"http://127.0.0.1:{self.server.server_port}"]


class LieTest(OtherStoreCase):
    def test_what_is_written_is_read_back(self):
        store = self.take("zlib")
        (self.dir / "other").mkdir()
        self.serve(LyingStore, self.dir / "other")
        said = self.on("copy", store, *self.options("to-"))
        self.assertEqual(said.returncode, 6, said.stderr)
        self.assertIn("does not read back as it was written, so it was removed", said.stderr)
        self.assertEqual(tree(self.dir / "other"), {})
        shutil.copytree(store / "v2", self.dir / "other/v2", dirs_exist_ok=True)
        before = tree(self.dir / "other")
        said = self.run_backup("compact", *self.options())
        self.assertEqual(said.returncode, 6, said.stderr)
        self.assertIn("other bytes than were written, so the new object was removed", said.stderr)
        self.assertEqual(tree(self.dir / "other"), before)


class InterruptionTest(OtherStoreCase):
    def setUp(self):
        super().setUp()
        self.store = self.take("zlib")
        self.serve(SlowStore, self.store)

    def interrupt(self, number, command, *arguments):
        self.server.stuck.clear()
        started = subprocess.Popen([CAPSTAN, "backup", command, *self.options(), *map(str, arguments)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.env)
        try:
            self.assertTrue(self.server.stuck.wait(LIMIT_SECONDS))
            started.send_signal(number)
            out, err = started.communicate(timeout=LIMIT_SECONDS)
        finally:
            started.kill()
        self.assertEqual(started.returncode, 128 + number, out + err)
        self.assertIn("interrupted", err)
        self.assertEqual(list(self.tmp.iterdir()), [])

    def test_nothing_is_left(self):
        before = tree(self.store)
        for number in (signal.SIGINT, signal.SIGTERM):
            self.interrupt(number, "verify")
            self.interrupt(number, "restore", "--data-dir", self.dir / "data")
            self.interrupt(number, "compact")
            self.interrupt(number, "dump", "--file", self.dir / "keys")
            self.interrupt(number, "copy", "--to-provider", "Local", "--to-container", self.dir / "copy")
        self.assertEqual(tree(self.store), before)
        self.assertEqual(sorted(path.name for path in self.dir.iterdir()), ["copy", "store", "tmp"])
        self.assertEqual(tree(self.dir / "copy"), {})


class BucketTest(BackupCase):
    """A bucket of versitygw, with TLS."""

    @classmethod
    def setUpClass(cls):
        program = gateway.CACHE / f"versitygw-{gateway.VERSION}/bin/versitygw"
        if not os.access(program, os.X_OK):
            raise unittest.SkipTest(f"no {program}; tools/build-versitygw brings it")
        cls.program = program
        cls.root, cls.port = cls.serve("capstan", "capstan-secret")

    @classmethod
    def serve(cls, access, secret):
        """A gateway with these keys: its directory and port."""
        root = pathlib.Path(tempfile.mkdtemp(prefix="capstan-backup-s3-"))
        cls.addClassCleanup(shutil.rmtree, root, ignore_errors=True)
        gateway.make_certificate(root)
        for part in ("data/bucket", "versions", "iam"):
            (root / part).mkdir(parents=True)
        port = gateway.free_port()
        with open(root / "log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [cls.program, "--access", access, "--secret", secret, "--port", f"127.0.0.1:{port}", "--region", "us-east-1",
                 "--cert", root / "cert.pem", "--key", root / "key.pem", "--iam-dir", root / "iam", "--quiet",
                 "posix", "--versioning-dir", root / "versions", root / "data"], stdout=log, stderr=log)
        cls.addClassCleanup(server.wait, 10)
        cls.addClassCleanup(server.terminate)
        gateway.wait_for(server, port, root)
        return root, port

    def setUp(self):
        super().setUp()
        self.env["AWS_APPLICATION_CREDENTIALS"] = self.keys("secret", "capstan", "capstan-secret\n")
        for name in ("AWS_APPLICATION_CREDENTIALS_JSON", "SOURCE_AWS_APPLICATION_CREDENTIALS", "SOURCE_AWS_APPLICATION_CREDENTIALS_JSON"):
            self.env.pop(name, None)

    def keys(self, name, access, secret):
        directory = self.dir / name
        directory.mkdir()
        for field, value in (("region", "us-east-1"), ("accessKeyID", access), ("secretAccessKey", secret)):
            (directory / field).write_text(value)
        return str(directory)

    def options(self, before="", bucket="bucket", prefix="main", gate=None):
        root, port = gate or (self.root, self.port)
        return [f"--{before}provider", "S3", f"--{before}container", bucket, f"--{before}prefix", prefix, f"--{before}endpoint",
                f"https://127.0.0.1:{port}", f"--{before}ca-file", root / "cert.pem", f"--{before}path-style"]

    def in_bucket(self, command, *arguments, **where):
        return self.run_backup(command, *self.options(**where), *arguments)

    def test_every_command(self):
        store = self.take("mixed-compression")
        expected = json.loads((store / "expected.json").read_text())
        checked = self.in_bucket("check")
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        for state in ("copied", "there already"):
            copied = self.good("copy", store, *self.options("to-"))
            self.assertEqual({each["state"] for each in copied["objects"]}, {state})
        self.assertEqual(self.in_bucket("verify").returncode, 0)
        self.assertEqual(json.loads(self.in_bucket("dump").stdout), expected)
        restored = self.in_bucket("restore", "--data-dir", self.dir / "data")
        self.assertEqual(restored.returncode, 0, restored.stderr)
        compacted = self.in_bucket("compact", "-o", "json")
        self.assertEqual(compacted.returncode, 0, compacted.stderr)
        listed = json.loads(self.in_bucket("list", "-o", "json").stdout)
        self.assertEqual(listed["restorable"]["full"], json.loads(compacted.stdout)["object"])
        self.assertIn(listed["restorable"]["full"], self.in_bucket("explain").stdout)
        back = self.in_bucket("copy", "--to-provider", "Local", "--to-container", self.dir / "back", "-o", "json")
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertEqual(json.loads(self.on("dump", self.dir / "back").stdout), expected)
        # The source's own variables, when they are set; the plain ones are the target's.
        self.env["SOURCE_AWS_APPLICATION_CREDENTIALS"] = self.env["AWS_APPLICATION_CREDENTIALS"]
        self.env["AWS_APPLICATION_CREDENTIALS"] = str(self.dir / "none")
        again = self.in_bucket("copy", "--to-provider", "Local", "--to-container", self.dir / "back")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(self.in_bucket("list").returncode, 2)
        self.env["AWS_APPLICATION_CREDENTIALS"] = self.env.pop("SOURCE_AWS_APPLICATION_CREDENTIALS")
        near = self.in_bucket("verify", prefix="mian")
        self.assertEqual(near.returncode, 6)
        self.assertIn("did you mean --prefix main?", near.stderr)

    def test_from_bucket_to_bucket(self):
        store = self.take("zlib")
        self.good("copy", store, *self.options("to-", prefix="original"))
        # Container and prefix alone: the same place.
        said = self.in_bucket("copy", "--to-container", "bucket", "--to-prefix", "clone", prefix="original")
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(self.in_bucket("verify", prefix="clone").returncode, 0)
        # The same names at another endpoint are another place, with keys of its own.
        other = self.serve("other", "other-secret")
        refused = self.in_bucket("copy", *self.options("to-", prefix="original", gate=other), prefix="original")
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn(f"127.0.0.1:{other[1]}", refused.stderr)
        self.env["SOURCE_AWS_APPLICATION_CREDENTIALS"] = self.env["AWS_APPLICATION_CREDENTIALS"]
        self.env["AWS_APPLICATION_CREDENTIALS"] = self.keys("other", "other", "other-secret")
        for state in ("copied", "there already"):
            said = self.in_bucket("copy", *self.options("to-", prefix="original", gate=other), "-o", "json", prefix="original")
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertEqual({each["state"] for each in json.loads(said.stdout)["objects"]}, {state})
        verified = self.run_backup("verify", *self.options(prefix="original", gate=other))
        self.assertEqual(verified.returncode, 0, verified.stderr)
        self.assertIn("there is no snapshot", self.run_backup("list", *self.options(prefix="clone", gate=other)).stderr)

    def test_what_is_wrong(self):
        self.assertEqual(self.in_bucket("list", bucket="no-such-bucket").returncode, 2)
        untrusted = [each for each in self.options() if each not in ("--ca-file", self.root / "cert.pem")]
        (self.dir / "secret/region").write_text("us-east-1\n")
        said = self.run_backup("list", *untrusted)
        self.assertEqual(said.returncode, 4, said.stderr)
        self.assertIn("certificate", said.stderr)
        (self.dir / "secret/secretAccessKey").write_text("wrong")
        said = self.in_bucket("list")
        self.assertEqual(said.returncode, 4, said.stderr)
        (self.dir / "secret/secretAccessKey").unlink()
        said = self.in_bucket("list")
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertIn("secretAccessKey", said.stderr)


class PageTest(BackupCase):
    """docs/backup.md: what stands there works."""

    def test_commands(self):
        blocks = re.findall(r"<!-- (tested|tested with etcd) -->\n```sh\n(.*?)```", (ROOT / "docs/backup.md").read_text(), re.S)
        self.assertGreaterEqual(len(blocks), 6)
        etcd = pathlib.Path(os.environ.get("CAPSTAN_ETCD_DIR", ROOT / ".capstan/etcd/bin"))
        has_etcd = os.access(etcd / "etcd", os.X_OK) and os.access(etcd / "etcdctl", os.X_OK)
        if not has_etcd:
            print(f"not run: the steps of docs/backup.md with an etcd: none in {etcd}; tools/fetch-etcd brings it", file=sys.stderr)
        script = "set -eu\n" + "\n".join(text for kind, text in blocks if kind == "tested" or has_etcd)
        for port, free in zip(("23800", "23790"), free_ports(2)):
            script = script.replace(port, str(free))
        env = {**self.env, "PATH": f"{pathlib.Path(CAPSTAN).parent}:{etcd}:{os.environ['PATH']}", "CAPSTAN_SOURCE": str(ROOT)}
        said = subprocess.run(["bash", "-c", script], cwd=self.dir, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertIn("state:    whole", said.stdout)
        self.assertIn("written and read back", said.stdout)
        if has_etcd:
            expected = json.loads((DATA / "backups/sixty-deltas/expected.json").read_text())
            self.assertIn(f'"Count" : {expected["count"]}', said.stdout)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1)
