"""Drives a real `capstan up` for the end-to-end tests: starts it, talks to its API server and to its etcd members.

Only the standard library. Every process is ended by its id; every wait has a limit.
"""
import base64
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.parse

CAPSTAN = os.environ["CAPSTAN"]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ETCD3 = ROOT / "examples" / "etcd-3.yaml"
ETCD1 = ROOT / "examples" / "etcd-1.yaml"
DRUID = "/apis/druid.gardener.cloud/v1alpha1"


def wait_for(what, condition, limit=120.0):
    """The first true value of condition(); fails by name after `limit` seconds."""
    end = time.monotonic() + limit
    problem = None
    while time.monotonic() < end:
        try:
            value = condition()
            if value:
                return value
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            problem = error
        time.sleep(0.1)
    raise AssertionError(f"waited {limit} s for {what}" + (f": {problem}" if problem else ""))


class Api:
    """The embedded API server, with the client certificate of a kubeconfig."""

    def __init__(self, kubeconfig):
        config = json.loads(pathlib.Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.host = urllib.parse.urlparse(cluster["server"]).netloc
        self.context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.TemporaryDirectory() as directory:
            pem = pathlib.Path(directory) / "client.pem"
            pem.write_bytes(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
            self.context.load_cert_chain(pem)

    def request(self, method, path, body=None, content_type="application/json"):
        connection = http.client.HTTPSConnection(self.host, context=self.context, timeout=20)
        try:
            headers = {"Content-Type": content_type} if body is not None else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith("{") else text
        finally:
            connection.close()

    def get(self, path):
        status, value = self.request("GET", path)
        if status != 200:
            raise ValueError(f"GET {path}: {status} {value}")
        return value

    def items(self, path):
        return self.get(path)["items"]


def gateway(endpoint, call, body, timeout=5):
    """One call to an etcd member's JSON gateway."""
    address = urllib.parse.urlparse(endpoint).netloc
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        connection.request("POST", "/v3/" + call, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        value = json.loads(answer.read())
        if answer.status != 200:
            raise ValueError(f"{call}: {answer.status} {value}")
        return value
    finally:
        connection.close()


def asked(endpoint, call, body, limit=60):
    """gateway() for what must come to be answered: tried again while etcd is slow or without a leader, as a busy machine makes
    it. A member that refuses connections is an error at once: who says that it is ready has to listen."""
    end = time.monotonic() + limit
    while True:
        try:
            return gateway(endpoint, call, body)
        except ConnectionRefusedError:
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            if time.monotonic() > end:
                raise AssertionError(f"{endpoint} {call}: no answer in {limit} s: {error}") from error
        time.sleep(0.2)


def b64(text):
    return base64.b64encode(text.encode()).decode()


class Cluster:
    """One `.capstan` directory and the `capstan up` that runs on it."""

    def __init__(self, manifest=ETCD3, name="main", etcd_dir=None):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="capstan-e2e-"))
        self.dir = self.root / ".capstan"
        self.manifest = manifest
        self.name = name
        self.etcd_dir = etcd_dir  # None: what CAPSTAN_ETCD_DIR says
        self.process = None
        self.log = open(self.root / "up.log", "ab")

    def await_said(self, text, after, limit=180):
        """`capstan up` prints `text` beyond offset `after` of its output."""
        def said():
            if self.process.poll() is not None:
                raise AssertionError(f"capstan up ended with {self.process.returncode}:\n{self.tail()}")
            return text in self.output()[after:]
        try:
            wait_for(repr(text), said, limit)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    def start(self, *arguments, wait=True):
        before = len(self.output())
        etcd = ["--etcd-dir", str(self.etcd_dir)] if self.etcd_dir else []
        self.process = subprocess.Popen([CAPSTAN, "up", "--dir", str(self.dir), "-f", str(self.manifest), *etcd, *arguments],
                                        stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if wait:
            self.await_said("\nready\n", before)
            self.await_ready()

    def api(self):
        return Api(self.dir / "kubeconfig")

    def output(self):
        return (self.root / "up.log").read_text(errors="replace")

    def tail(self):
        parts = [self.output()[-4000:]]
        log = self.dir / "operator.log"
        if log.exists():
            parts.append("--- operator.log\n" + log.read_text(errors="replace")[-4000:])
        return "\n".join(parts)

    def await_ready(self, limit=180):
        def ready():
            if self.process.poll() is not None:
                raise AssertionError(f"capstan up ended with {self.process.returncode}:\n{self.tail()}")
            etcd = self.etcd()
            conditions = {c["type"]: c["status"] for c in etcd.get("status", {}).get("conditions", [])}
            return conditions.get("Ready") == "True" and conditions.get("AllMembersReady") == "True" and all(
                self.state(m)[0] == "Started" for m in self.members())
        try:
            return wait_for("a ready cluster", ready, limit)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    def etcd(self):
        return self.api().get(f"{DRUID}/namespaces/default/etcds/{self.name}")

    def members(self):
        return self.api().items(f"{DRUID}/namespaces/default/etcdmembers")

    @staticmethod
    def state(member):
        transitions = member.get("status", {}).get("transitions", [])
        return (transitions[-1]["state"], transitions[-1].get("subState")) if transitions else (None, None)

    def endpoints(self):
        return [m["status"]["endpoint"] for m in self.members()]

    def await_leader(self, limit=60):
        """The only member that says it leads: a ready cluster may have two or none for a moment."""
        return wait_for("one leader", self.leader, limit)

    def leader(self):
        found = [m for m in self.members() if self.state(m) == ("Started", "Leader")]
        return found[0] if len(found) == 1 else None

    def etcd_pids(self):
        """Member name -> pid of its etcd process, of this cluster only."""
        pids = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command and command[0].endswith(b"etcd") and any(str(self.root).encode() in part for part in command):
                config = next(part for part in command if part.startswith(b"--config-file="))
                name = json.loads(pathlib.Path(config.decode().split("=", 1)[1]).read_text())["name"]
                pids[name] = int(entry.name)
        return pids

    def processes(self):
        """Pids of everything that runs with this directory in its command line or environment."""
        found = []
        needle = str(self.root).encode()
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if needle in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    pass
        return found

    def put(self, key, value, endpoint=None):
        asked(endpoint or self.endpoints()[0], "kv/put", {"key": b64(key), "value": b64(value)})

    def read(self, key, endpoint):
        kvs = asked(endpoint, "kv/range", {"key": b64(key)}).get("kvs", [])
        return base64.b64decode(kvs[0]["value"]).decode() if kvs else None

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def stop(self):
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(90)

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        if self.dir.exists():
            subprocess.run([CAPSTAN, "down", "--dir", str(self.dir)], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, timeout=90, check=False)
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        self.log.close()
        shutil.rmtree(self.root, ignore_errors=True)
