"""Our steward and etcd-backup-restore's beside an etcd, with one store's layout: what comparisons of the two share.

etcd-backup-restore's HTTP server listens on all addresses, ours on the ports of a pod: run what uses them in a network of its
own, `unshare -rnpf --mount-proc --kill-child sh -c 'ip link set lo up; exec …'`.
"""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from local_cluster import CAPSTAN, DRUID, wait_for
from operator_process import ApiServer, Directory
from real_etcd import free_ports, remove
from steward_api_test import Steward

BUCKET, PREFIX, MEMBER = "bucket", "main", "main-0"
LIMIT = int(os.environ.get("CAPSTAN_PEER_LIMIT", "900"))  # of one request
KNOBS = {"schedule": "0 0 * * *", "deltaSnapshotPeriod": "1h", "garbageCollectionPeriod": "0s"}


class Store:
    """A directory that both see as their container: ours by its path, theirs below HOME."""

    def __init__(self, home=None):
        self.home = pathlib.Path(home or tempfile.mkdtemp(prefix="capstan-peer-store-"))
        self.container = self.home / BUCKET
        self.objects = self.container / PREFIX / "v2"
        self.objects.mkdir(parents=True, exist_ok=True)

    def names(self):
        return sorted(path.name for path in self.objects.iterdir()) if self.objects.exists() else []

    def size(self):
        return sum(path.stat().st_size for path in self.objects.iterdir())

    def options(self):
        return ["--provider", "Local", "--container", str(self.container), "--prefix", PREFIX]

    def close(self):
        remove(self.home)


class Measured:
    """What /proc says of a process that runs."""

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, field="VmRSS"):
        """MiB; VmHWM is the largest since forget_peak."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        raise OSError(f"process {self.pid} has ended")

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")


class Ran(Measured):
    """A program that has ended: what it said, how long it took, its CPU seconds and its largest resident set in MiB."""

    def __init__(self, command, environment=None):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            begin, self.peak_mib = time.monotonic(), 0.0
            process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                       env=environment)
            self.pid = process.pid
            while True:
                ended, status, usage = os.wait4(self.pid, os.WNOHANG)
                if ended:
                    break
                self.look()
                time.sleep(0.02)
            self.seconds = time.monotonic() - begin
            self.code = process.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            self.output, self.errors = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        self.cpu_seconds = usage.ru_utime + usage.ru_stime

    def look(self):
        """Its ru_maxrss would begin with what this process has."""
        try:
            self.peak_mib = self.memory("VmHWM")
        except OSError:
            pass  # it has just ended

    def succeeded(self, what):
        if self.code != 0:
            raise AssertionError(f"{what} ended with {self.code}:\n{self.errors[-4000:]}\n{self.output[-2000:]}")
        return self


def ask(url, token=None, limit=LIMIT):
    """The JSON of an answer of 200; else OSError with what was said."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=limit) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise OSError(f"{url}: {error.code} {error.read().decode(errors='replace')[:300]}") from None


class Snapshots:
    """The HTTP API of both."""

    token = None

    def ready(self, limit=120):
        """Until it takes snapshots on request; one that finds no full has taken one by then."""
        wait_for(f"{self.side}'s first full", lambda: self.latest()["fullSnapshot"], limit)
        return self

    def full(self, final=False):
        return self.take(f"full{'?final=true' if final else ''}")

    def delta(self):
        return self.take("delta")

    def deltas_up_to(self, revision):
        """etcd-backup-restore stores what its watch has heard by now, which may lack the last write."""
        def stored():
            self.delta()
            latest = self.latest()
            return ([latest["fullSnapshot"]] + (latest["deltaSnapshots"] or []))[-1]["lastRevision"] == revision
        wait_for(f"{self.side}'s delta up to {revision}", stored, LIMIT)

    def take(self, what):
        """The record, or None: nothing has changed."""
        url = f"{self.address}/snapshot/{what}"
        return wait_for(f"{self.side}'s {what} snapshot", lambda: [ask(url, self.token)], LIMIT)[0]

    def latest(self):
        return ask(f"{self.address}/snapshot/latest", self.token)


class OurSteward(Snapshots, Measured):
    """`capstan run --profile steward` beside `etcd`, and the API server it needs."""

    side = "capstan"

    def __init__(self, etcd, store, compression, **knobs):
        self.directory, self.server = Directory(), ApiServer()
        self.server.start()
        endpoint = f"http://main-local:{etcd.client_port}"  # 127.0.0.1 would be the pod
        backup = {"snapstoreConfig": {"provider": "Local", "container": str(store.container), "prefix": PREFIX},
                  "snapshotterConfig": {**KNOBS, **knobs},
                  "compressionConfig": {"enabled": compression != "none",
                                        **({} if compression == "none" else {"policy": compression})}}
        steward = {"apiVersion": "config.capstan.dev/v1alpha1", "kind": "StewardConfiguration", "etcd": {"replicas": 1},
                   "endpoints": {"local": endpoint, "service": []}, "dataDir": str(etcd.data), "backup": backup,
                   "members": {MEMBER: {"configHash": "h", "config": {"name": MEMBER, "advertise-client-urls": endpoint}}}}
        self.create("/api/v1/namespaces/default/configmaps",
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "main-config"},
                     "data": {"steward.yaml": json.dumps(steward)}})
        self.create("/apis/coordination.k8s.io/v1/namespaces/default/leases",
                    {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": MEMBER}})
        self.create(f"{DRUID}/namespaces/default/etcdmembers",
                    {"apiVersion": "druid.gardener.cloud/v1alpha1", "kind": "EtcdMember", "metadata": {"name": MEMBER},
                     "spec": {}})
        self.steward = Steward(self.directory, "", self.server.kubeconfig, {})
        self.pid = self.steward.process.pid
        self.address = f"http://{self.steward.address()}"
        self.token = self.steward.token

    def create(self, path, item):
        status, body = self.server.api().request("POST", path, item)
        assert status == 201, body

    def log(self):
        return self.steward.text()

    def close(self):
        if self.steward.process.poll() is None:
            self.steward.stop()
        self.server.close()
        self.directory.close()


class Etcdbrctl:
    """The program of etcd-backup-restore, in directories of its own."""

    def __init__(self, program, files):
        self.program, self.files, self.runs = program, pathlib.Path(files), 0
        self.files.mkdir(parents=True)

    def environment(self, store, **more):
        return {"HOME": str(store.home), "PATH": os.environ["PATH"], **more}

    def store_options(self, store):
        self.runs += 1
        temporary = self.files / f"temporary-{self.runs}"
        temporary.mkdir(parents=True)
        return ["--storage-provider=Local", f"--store-container={BUCKET}", f"--store-prefix={PREFIX}",
                f"--snapstore-temp-directory={temporary}"]

    def restoring(self, command, store, data, etcd, *options):
        """`restore` or `compact`."""
        return Ran([self.program, command, *self.store_options(store), f"--data-dir={data}", f"--name={etcd.name}",
                    f"--initial-cluster={etcd.initial_cluster}", f"--initial-cluster-token={etcd.token}",
                    f"--initial-advertise-peer-urls=http://127.0.0.1:{etcd.peer_port}",
                    f"--restoration-temp-snapshots-dir={self.files}/restoring-{self.runs}", *options],
                   self.environment(store)).succeeded(f"etcdbrctl {command}")

    def restore(self, store, etcd):
        return self.restoring("restore", store, etcd.data, etcd)

    def compact(self, store, etcd):
        return self.restoring("compact", store, self.files / "compacting", etcd)

    def copy(self, source, target):
        """Below one HOME, so the target's container is a directory of the source's."""
        return Ran([self.program, "copy", *self.store_options(source), "--source-storage-provider=Local",
                    f"--source-store-container={BUCKET}", f"--source-store-prefix={PREFIX}"]
                   + [f"--store-container={target.container.relative_to(source.home)}"],
                   self.environment(source)).succeeded("etcdbrctl copy")


class PeerSteward(Snapshots, Measured):
    """`etcdbrctl server` beside `etcd`."""

    side = "etcd-backup-restore"

    def __init__(self, etcdbrctl, etcd, store, compression, **knobs):
        knobs = {**KNOBS, **knobs}
        port = free_ports(1)[0]
        self.address = f"http://127.0.0.1:{port}"
        self.log_file = etcdbrctl.files / f"server-{port}.log"
        peers = [f"http://127.0.0.1:{etcd.peer_port}"]
        configuration = etcdbrctl.files / f"server-{port}.yaml"
        configuration.write_text(json.dumps({
            "name": etcd.name, "initial-cluster": etcd.initial_cluster, "initial-advertise-peer-urls": {etcd.name: peers},
            "advertise-client-urls": {etcd.name: [f"http://127.0.0.1:{etcd.client_port}"]}}))
        compressing = ["--compress-snapshots=false"] if compression == "none" else [f"--compression-policy={compression}"]
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen(
                [etcdbrctl.program, "server", *etcdbrctl.store_options(store), *compressing,
                 f"--endpoints=http://127.0.0.1:{etcd.client_port}", f"--server-port={port}",
                 f"--schedule={knobs['schedule']}", f"--delta-snapshot-period={knobs['deltaSnapshotPeriod']}",
                 f"--garbage-collection-period={knobs['garbageCollectionPeriod']}", "--defragmentation-schedule=0 0 1 1 *",
                 *([f"--delta-snapshot-memory-limit={knobs['deltaSnapshotMemoryLimit']}"]
                   if "deltaSnapshotMemoryLimit" in knobs else []), f"--data-dir={etcdbrctl.files}/server-{port}.data"],
                stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env=etcdbrctl.environment(store, ETCD_CONF=str(configuration), POD_NAME=etcd.name, POD_NAMESPACE="default"))
        self.pid = self.process.pid

    def log(self):
        return self.log_file.read_text(errors="replace")

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)


def backup(command, store, *options):
    """`capstan backup`; JSON where the command has it."""
    return Ran([CAPSTAN, "backup", command, *store.options(), *options]).succeeded(f"capstan backup {command}")


def restore(store, etcd):
    return backup("restore", store, "--data-dir", etcd.data, "--name", etcd.name, "--initial-cluster", etcd.initial_cluster,
                  "--initial-cluster-token", etcd.token)
