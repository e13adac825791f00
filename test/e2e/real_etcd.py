"""One etcd process on loopback, and the calls of its JSON gateway that tests of backups need."""
import base64
import json
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

START_SECONDS = 90


def encode(data):
    return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()


def free_ports(count):
    """Ports that nobody listens on, and that no outgoing connection is given until they are used."""
    end = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    sockets = []
    while len(sockets) < count:
        each = socket.socket()
        try:
            each.bind(("127.0.0.1", random.randrange(10000, end) if end > 12000 else 0))
            sockets.append(each)
        except OSError:
            each.close()
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Etcd:
    """`program` on `data`; a member called `name` of `initial_cluster` (alone when not given)."""

    def __init__(self, program, data, name="m1", ports=None, initial_cluster=None, token="token", arguments=()):
        self.client_port, self.peer_port = ports or free_ports(2)
        self.name, self.data, self.program, self.token = name, pathlib.Path(data), program, token
        self.initial_cluster = initial_cluster or f"{name}=http://127.0.0.1:{self.peer_port}"
        self.arguments = arguments
        self.authorization = None
        self.process = None

    def start(self):
        client, peer = f"http://127.0.0.1:{self.client_port}", f"http://127.0.0.1:{self.peer_port}"
        with open(f"{self.data}.log", "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--name", self.name, "--data-dir", str(self.data), "--listen-client-urls", client,
                 "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                 "--initial-cluster", self.initial_cluster, "--initial-cluster-token", self.token, *self.arguments],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        return self

    def wait(self):
        """Until it is healthy, which says that there is a leader."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.client_port}/health", timeout=5):
                    return self
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"etcd did not start:\n{self.log()[-3000:]}")
            time.sleep(0.1)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)

    def log(self):
        return pathlib.Path(f"{self.data}.log").read_text(errors="replace")

    def call(self, path, body=None):
        headers = {"Content-Type": "application/json"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        request = urllib.request.Request(f"http://127.0.0.1:{self.client_port}/v3/{path}",
                                         json.dumps(body or {}).encode(), headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def log_in(self, name, password):
        self.authorization = None
        self.authorization = self.call("auth/authenticate", {"name": name, "password": password})["token"]

    def revision(self):
        return int(self.call("kv/range", {"key": encode("x"), "count_only": True})["header"]["revision"])

    def keys(self):
        """As expected.json of a backup has them."""
        numbers = ("create_revision", "mod_revision", "version", "lease")
        kvs = self.call("kv/range", {"key": "AA==", "range_end": "AA=="}).get("kvs", [])
        return [{k: int(v) if k in numbers else v for k, v in {"value": "", **kv}.items()} for kv in kvs]

    def compact(self, revision):
        self.call("kv/compaction", {"revision": str(revision), "physical": True})

    def events(self, start, end):
        """All events from revision `start` up to `end`, from one watch."""
        connection = socket.create_connection(("127.0.0.1", self.client_port), timeout=20)
        body = json.dumps({"create_request": {"key": "AA==", "range_end": "AA==", "start_revision": str(start)}}).encode()
        connection.sendall(b"POST /v3/watch HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(body), body))
        found = []
        with connection, connection.makefile("rb") as lines:
            while lines.readline().strip():
                pass
            while not found or int(found[-1]["kv"]["mod_revision"]) < end:
                line = lines.readline()
                if line.strip().startswith(b"{"):
                    found += json.loads(line)["result"].get("events", [])
        return found

    def hash_kv(self, etcdctl, revision):
        """The hash of all revisions up to this one; equal for equal histories compacted alike."""
        answer = subprocess.run([etcdctl, "--endpoints", f"http://127.0.0.1:{self.client_port}", "endpoint", "hashkv",
                                 "--rev", str(revision), "-w", "json"],
                                check=True, capture_output=True, text=True, env={"ETCDCTL_API": "3"})
        return json.loads(answer.stdout)[0]["HashKV"]["hash"]


def remove(directory):
    shutil.rmtree(directory, ignore_errors=True)
