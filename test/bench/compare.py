#!/usr/bin/env python3
"""Measures controller runtimes on the widget workload (README.md beside this file) and prints medians as JSON and as a table.

    compare.py [--operator NAME]... [--runs 3] MEASURE...

Measures:
    sync:N        cache-only, N Widgets: start to synced and to quiet, CPU until quiet, peak and settled RSS
    churn:RATE    full, 10,000 converged Widgets: RATE status changes a second, written straight to etcd, for 30 s
    converge:N    full: N Widgets are created while the operator runs, until the last one is observed
    idle          full, 10,000 converged Widgets: CPU over 60 s, RSS

Operators: capstan; controller-runtime, controller-runtime-stripped (built with Go on first use); default: all that are there.
Every run has a control plane of its own. The operator's processes are ended by their id.
"""
import argparse
import base64
import http.client
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
import control_plane  # noqa: E402

WIDGETS = "/apis/bench.example.io/v1/widgets"
NAMESPACE = "default"
TICKS = os.sysconf("SC_CLK_TCK")
CONVERGED = 10_000
CHURN_SECONDS = 30
IDLE_SECONDS = 60
SENT_DIGITS = 1_000_000_000_000_000_000  # so that sentAtNs always has 19 digits


def log(text):
    print(f"# {text}", file=sys.stderr, flush=True)


# ---- operators ----------------------------------------------------------------------------------

def go_peer():
    """The path of the controller-runtime program, built into the cache of the test clusters."""
    program = control_plane.CACHE / "bench-controller-runtime"
    source = HERE / "peers" / "controller-runtime"
    if not program.exists() or program.stat().st_mtime < (source / "main.go").stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", str(program), "."], cwd=source, check=True,
                       env={**os.environ, "CGO_ENABLED": "0"})
    return program


OPERATORS = {
    "capstan": lambda: ([str(HERE / "widget-operator")], {}),
    "controller-runtime": lambda: ([str(go_peer())], {}),
    "controller-runtime-stripped": lambda: ([str(go_peer())], {"BENCH_STRIP": "1"}),
}


class Operator:
    def __init__(self, name, plane, mode, workers=1):
        command, extra = OPERATORS[name]()
        self.lines = []
        self.synced_at = None
        self.begin = time.monotonic()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=open(plane.root / "operator.log", "ab"), text=True,
            env={**os.environ, "KUBECONFIG": plane.operator_kubeconfig, "BENCH_MODE": mode, "BENCH_WORKERS": str(workers), **extra})
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if '"synced"' in line and self.synced_at is None:
                self.synced_at = time.monotonic() - self.begin
            self.lines.append(line)

    def cpu(self):
        """CPU seconds of the process so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, field):
        """MiB of a field of /proc/PID/status: VmRSS, VmHWM, RssAnon."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"the operator has ended: {self.process.poll()}")

    def await_quiet(self, limit=600):
        """Until it uses under 2 % of a core for 1.5 s; returns when that began, seconds after start."""
        end = time.monotonic() + limit
        mark, used = time.monotonic(), self.cpu()
        while time.monotonic() < end:
            time.sleep(0.1)
            now, cpu = time.monotonic(), self.cpu()
            if cpu - used > 0.02 * max(now - mark, 0.5):
                mark, used = now, cpu
            elif now - mark >= 1.5:
                return mark - self.begin
        raise TimeoutError(f"the operator is not quiet after {limit} s")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            log("the operator did not stop within 30 s")
        self.reader.join(5)
        for line in reversed(self.lines):
            if '"summary"' in line:
                return json.loads(line)
        return {}


# ---- the world ----------------------------------------------------------------------------------

class World(control_plane.ControlPlane):
    """A control plane with the CRD, a user whose requests are counted, and a way to write to etcd."""

    def start(self):
        super().start()
        self.pki.issue("operator", "/CN=bench-operator", "extendedKeyUsage=clientAuth")
        self.operator_kubeconfig = str(self.root / "operator.kubeconfig")
        pathlib.Path(self.operator_kubeconfig).write_text(json.dumps(self.kubeconfig_of({
            "client-certificate-data": self.pki.data("operator.crt"), "client-key-data": self.pki.data("operator.key")})))
        self.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "bench-operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bench-operator"}]})
        self.create("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", {
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "bench-operator"},
            "spec": {"matchingPrecedence": 100, "priorityLevelConfiguration": {"name": "exempt"}, "rules": [{
                "subjects": [{"kind": "User", "user": {"name": "bench-operator"}}],
                "resourceRules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "clusterScope": True,
                                   "namespaces": ["*"]}],
                "nonResourceRules": [{"nonResourceURLs": ["*"], "verbs": ["*"]}]}]}})
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                    json.loads((HERE / "widget" / "crd.json").read_text()))
        end = time.monotonic() + 60
        while self.request("GET", WIDGETS)[0] != 200 and time.monotonic() < end:
            time.sleep(0.1)

    def create(self, path, body):
        status, text = self.request("POST", path, body)
        if status not in (200, 201, 409):
            raise RuntimeError(f"POST {path}: {status} {text[:500]}")
        return json.loads(text)

    def etcd(self, call, body):
        connection = getattr(self, "gateway", None) or http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=60)
        self.gateway = connection
        connection.request("POST", "/v3/kv/" + call, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"etcd {call}: {answer.status} {text[:300]}")
        return json.loads(text)

    def read_key(self, key):
        return base64.b64decode(self.etcd("range", {"key": base64.b64encode(key.encode()).decode()})["kvs"][0]["value"])

    def put_all(self, pairs):
        for at in range(0, len(pairs), 100):
            self.etcd("txn", {"success": [{"requestPut": {
                "key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}}
                for key, value in pairs[at:at + 100]]})

    def requests(self):
        """Requests of the operator that the API server has dispatched."""
        text = self.request("GET", "/metrics")[1]
        return int(sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                       if line.startswith("apiserver_flowcontrol_dispatched_requests_total")
                       and 'flow_schema="bench-operator"' in line))


def name_of(index):
    return f"w-{index:06d}"


def uid_of(index):
    return f"00000000-0000-4000-8000-{index:012d}"


def widget_of(index):
    """About 2.7 KB of JSON, 4.9 KB with the managedFields that the API server adds."""
    return {
        "apiVersion": "bench.example.io/v1", "kind": "Widget",
        "metadata": {"name": name_of(index), "namespace": NAMESPACE,
                     "labels": {"app.kubernetes.io/name": "widget", "app.kubernetes.io/instance": name_of(index),
                                "team": f"team-{index % 20:02d}"},
                     "annotations": {"example.io/note": "an annotation of ordinary length, as tools like to leave them"}},
        "spec": {"size": index % 9 + 1, "image": "registry.example.io/widgets/server:1.4.2", "schedule": "0 */6 * * *",
                 "description": "A widget stands for a custom resource of usual size. " * 4,
                 "config": {f"option-{i:02d}": f"value of option {i} of this widget" for i in range(12)},
                 "template": {"command": ["/usr/local/bin/widget", "--config", "/etc/widget/config.yaml", "--verbose"],
                              "env": [{"name": f"WIDGET_VARIABLE_{i}", "value": f"some value {i}"} for i in range(6)],
                              "ports": [{"name": "http", "port": 8080, "protocol": "TCP"},
                                        {"name": "metrics", "port": 9090, "protocol": "TCP"}],
                              "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}}}}}


STATUS = {"phase": "Running", "message": "all members are ready", "sentAtNs": SENT_DIGITS,
          "conditions": [{"type": kind, "status": "True", "reason": "AsExpected", "message": "nothing to complain about",
                          "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in ("Ready", "Healthy", "BackupReady")],
          "members": [{"name": f"member-{i}", "id": f"8e9e05c52164694{i}", "role": "Member", "ready": True,
                       "lastSeen": "2026-01-01T00:00:00Z"} for i in range(3)]}


class Templates:
    """The stored bytes of one Widget (and its ConfigMap), from which any number can be written with equal lengths."""

    def __init__(self, world, with_config_map):
        self.world = world
        made = world.create(f"/apis/bench.example.io/v1/namespaces/{NAMESPACE}/widgets", widget_of(0))
        self.uid = made["metadata"]["uid"]
        path = f"/apis/bench.example.io/v1/namespaces/{NAMESPACE}/widgets/{name_of(0)}/status"
        status = dict(STATUS)
        if with_config_map:
            status["observedGeneration"] = 1
        code, text = world.request("PATCH", path, {"status": status}, "application/merge-patch+json")
        if code != 200:
            raise RuntimeError(f"status of the first Widget: {code} {text[:300]}")
        self.widget = world.read_key(self.key("bench.example.io/widgets", 0))
        self.config_map = None

    @staticmethod
    def key(resource, index):
        return f"/registry/{resource}/{NAMESPACE}/{name_of(index)}"

    def stored(self, template, index, sent=SENT_DIGITS):
        return template.replace(name_of(0).encode(), name_of(index).encode()).replace(
            self.uid.encode(), uid_of(index).encode() if index else self.uid.encode()).replace(
            str(SENT_DIGITS).encode(), str(sent).encode())

    def write_widgets(self, first, count):
        self.world.put_all([(self.key("bench.example.io/widgets", i), self.stored(self.widget, i))
                            for i in range(first, first + count)])

    def write_config_maps(self, first, count):
        """Needs the ConfigMap of Widget 0, which a run of the operator has made. Stored as protobuf: lengths must not change."""
        template = self.config_map or self.world.read_key(self.key("configmaps", 0))
        self.config_map = template
        self.world.put_all([(self.key("configmaps", i), self.stored(template, i)) for i in range(first, first + count)])


# ---- measures -----------------------------------------------------------------------------------

def measure_sync(world, operator_name, count):
    templates = Templates(world, with_config_map=False)
    templates.write_widgets(1, count - 1)
    time.sleep(3)
    operator = Operator(operator_name, world, "cache-only")
    quiet = operator.await_quiet()
    result = {"sync_s": operator.synced_at, "quiet_s": quiet, "cpu_s": operator.cpu()}
    time.sleep(15)
    result |= {"peak_mib": operator.memory("VmHWM"), "rss_mib": operator.memory("VmRSS"), "anon_mib": operator.memory("RssAnon")}
    summary = operator.stop()
    return result | {"reconciles": summary.get("reconciles")}


def converged(world, operator_name):
    """CONVERGED Widgets with their ConfigMaps; the operator runs and has nothing to do."""
    templates = Templates(world, with_config_map=True)
    first = Operator(operator_name, world, "full")
    end = time.monotonic() + 60
    while world.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name_of(0)}")[0] != 200:
        if time.monotonic() > end:
            raise TimeoutError("the operator made no ConfigMap for the first Widget")
        time.sleep(0.1)
    first.stop()
    templates.write_config_maps(1, CONVERGED - 1)
    templates.write_widgets(1, CONVERGED - 1)
    time.sleep(3)
    before = world.requests()
    operator = Operator(operator_name, world, "full", workers=4)
    operator.await_quiet()
    time.sleep(5)
    written = world.requests() - before
    if written > 100:
        log(f"{operator_name} sent {written} requests at converged objects")
    return templates, operator


class RawWatch(threading.Thread):
    """A raw watch of all Widgets that only hands each line to `see`."""

    def __init__(self, world, see):
        super().__init__(daemon=True)
        self.see = see
        self.connection = http.client.HTTPSConnection("127.0.0.1", world.port, context=world.context, timeout=120)
        version = json.loads(world.request("GET", WIDGETS + "?limit=1")[1])["metadata"]["resourceVersion"]
        self.connection.request("GET", f"{WIDGETS}?watch=1&resourceVersion={version}")
        self.answer = self.connection.getresponse()
        self.start()

    def run(self):
        try:
            for line in self.answer:
                self.see(line)
        except (OSError, ValueError, http.client.HTTPException):
            pass


def measure_churn(world, operator_name, rate):
    templates, operator = converged(world, operator_name)
    floor = []  # ms: the latency at a watch that only looks for sentAtNs, which nobody can beat

    def see(line):
        now = time.time_ns()
        at = line.find(b'"sentAtNs":')
        if at >= 0:
            floor.append((now - int(line[at + 11:at + 30])) / 1e6)
    RawWatch(world, see)
    cpu, begin, sent = operator.cpu(), time.monotonic(), 0
    while time.monotonic() - begin < CHURN_SECONDS:
        index = sent * 7919 % CONVERGED
        value = templates.stored(templates.widget, index, time.time_ns())
        world.put_all([(templates.key("bench.example.io/widgets", index), value)])
        sent += 1
        pause = begin + sent / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
    wall = time.monotonic() - begin
    time.sleep(1)
    used = operator.cpu() - cpu
    latency = operator.stop().get("latency_ms", {})
    floor_p50 = statistics.median(floor) if floor else None
    result = {"rate": sent / wall, "cpu_s_per_1000": used / sent * 1000, "events": sent, "seen": latency.get("count"),
              "p50_ms": latency.get("p50"), "p99_ms": latency.get("p99"), "floor_ms": floor_p50}
    if latency.get("p50") is not None and floor_p50 is not None:
        result["above_floor_ms"] = latency["p50"] - floor_p50
    return result


def measure_converge(world, operator_name, count):
    operator = Operator(operator_name, world, "full", workers=4)
    operator.await_quiet()
    time.sleep(2)
    observed = set()
    RawWatch(world, lambda line: b'"observedGeneration":1' in line and observed.add(line[line.find(b'"name":"w-') + 8:][:8]))
    requests, cpu, begin = world.requests(), operator.cpu(), time.monotonic()
    # Created straight in etcd in one burst, so that the API server's time is the operator's.
    template = json.dumps(widget_of(0) | {"metadata": widget_of(0)["metadata"] | {
        "uid": uid_of(0), "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}}, separators=(",", ":")).encode()
    world.put_all([(Templates.key("bench.example.io/widgets", i),
                    template.replace(name_of(0).encode(), name_of(i).encode()).replace(uid_of(0).encode(), uid_of(i).encode()))
                   for i in range(1, count + 1)])
    end = time.monotonic() + 300
    while len(observed) < count and time.monotonic() < end:
        time.sleep(0.05)
    result = {"wall_s": time.monotonic() - begin, "cpu_s": operator.cpu() - cpu, "requests": world.requests() - requests,
              "observed": len(observed)}
    return result | {"errors": operator.stop().get("errors")}


def measure_idle(world, operator_name, _):
    _, operator = converged(world, operator_name)
    time.sleep(10)
    cpu = operator.cpu()
    time.sleep(IDLE_SECONDS)
    result = {"cpu_pct": (operator.cpu() - cpu) / IDLE_SECONDS * 100, "rss_mib": operator.memory("VmRSS"),
              "anon_mib": operator.memory("RssAnon"), "peak_mib": operator.memory("VmHWM")}
    operator.stop()
    return result


MEASURES = {"sync": measure_sync, "churn": measure_churn, "converge": measure_converge, "idle": measure_idle}


def medians(rows):
    merged = {}
    for field in rows[0]:
        values = [row[field] for row in rows if isinstance(row.get(field), (int, float))]
        merged[field] = round(statistics.median(values), 3) if values else None
    return merged


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="+", metavar="MEASURE")
    parser.add_argument("--operator", action="append", choices=list(OPERATORS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--version", help="of Kubernetes; default: the oldest that is built")
    arguments = parser.parse_args()
    for measure in arguments.measures:
        if measure.split(":")[0] not in MEASURES:
            parser.error(f"unknown measure {measure}; there are {', '.join(MEASURES)}")
    for measure in arguments.measures:
        kind, _, amount = measure.partition(":")
        for operator in arguments.operator or OPERATORS:
            rows = []
            for run in range(arguments.runs):
                log(f"{measure} {operator} run {run + 1} of {arguments.runs}, load {os.getloadavg()[0]:.2f}")
                with World(arguments.version) as world:
                    rows.append(MEASURES[kind](world, operator, int(amount or 0)))
                log(json.dumps(rows[-1]))
            print(json.dumps({"measure": measure, "operator": operator, "runs": len(rows)} | medians(rows)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
