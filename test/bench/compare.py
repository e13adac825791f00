#!/usr/bin/env python3
"""Measures controller runtimes on the widget workload (README.md beside this file) and prints medians as JSON, a line each.

    compare.py [--operator NAME]... [--runs 3] MEASURE...

Measures:
    sync:N        cache-only, N Widgets: start to synced and to quiet, CPU until quiet, peak and settled RSS
    churn:RATE    full, 10,000 converged Widgets: RATE status changes a second, written straight to etcd, for 30 s
    converge:N    full: N Widgets are created while the operator runs, until the last one is observed
    idle          full, 10,000 converged Widgets: CPU over 60 s, RSS

Operators: capstan, capstan-projected (its cache keeps what the plugin looks at); controller-runtime, controller-runtime-stripped (built with Go on first use); kube-rs, kube-rs-stripped
(built with cargo on first use). Default: all. "stripped" drops managedFields, which Capstan always does.
The operators take turns on one control plane per measure, so that what disturbs a run disturbs all; a converging run has one
of its own. The operator's processes are ended by their id.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from widget_world import NAMESPACE, RawWatch, Templates, World, control_plane, name_of, uid_of, widget_of  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
CONVERGED = 10_000
CHURN_SECONDS = 30
IDLE_SECONDS = int(os.environ.get("CAPSTAN_BENCH_IDLE", "60"))


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


def rust_peer():
    """The path of the kube-rs program, built beside the Go one."""
    program = control_plane.CACHE / "bench-kube-rs"
    source = HERE / "peers" / "kube-rs"
    if not program.exists() or program.stat().st_mtime < (source / "src" / "main.rs").stat().st_mtime:
        target = control_plane.CACHE / "bench-kube-rs-build"
        subprocess.run(["cargo", "build", "--release", "--locked", "-j1", "--target-dir", str(target)], cwd=source, check=True)
        shutil.copy(target / "release" / "bench-kube-rs", program)
    return program


OPERATORS = {
    "capstan": lambda: ([str(HERE / "widget-operator")], {}),
    "capstan-projected": lambda: ([str(HERE / "widget-operator")], {"BENCH_PROJECTED": "1"}),
    "kube-rs": lambda: ([str(rust_peer())], {}),
    "kube-rs-stripped": lambda: ([str(rust_peer())], {"BENCH_STRIP": "1"}),
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
        while self.synced_at is None and time.monotonic() < end:  # a loaded machine starts nobody at once
            if self.process.poll() is not None:
                raise RuntimeError(f"the operator has ended: {self.process.returncode}")
            time.sleep(0.05)
        if self.synced_at is None:
            raise TimeoutError(f"the operator did not say synced within {limit} s")
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


# ---- measures -----------------------------------------------------------------------------------

class Converged:
    """CONVERGED Widgets with their ConfigMaps: an operator that starts has nothing to do."""

    def __init__(self, world):
        self.templates = Templates(world, with_config_map=True)
        first = Operator("capstan", world, "full")  # what it makes of one Widget is what every side would make
        end = time.monotonic() + 60
        while world.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name_of(0)}")[0] != 200:
            if time.monotonic() > end:
                raise TimeoutError("the operator made no ConfigMap for the first Widget")
            time.sleep(0.1)
        first.stop()
        self.templates.write_config_maps(1, CONVERGED - 1)
        self.templates.write_widgets(1, CONVERGED - 1)
        world.await_watch_cache()

    @staticmethod
    def start(world, operator_name):
        before = world.requests()
        operator = Operator(operator_name, world, "full", workers=4)
        operator.await_quiet()
        time.sleep(5)
        written = world.requests() - before
        if written > 100:
            log(f"{operator_name} sent {written} requests at converged objects")
        return operator


class Sync:
    def __init__(self, world, count):
        if count > 0:
            Templates(world, with_config_map=False).write_widgets(1, count - 1)
            world.await_watch_cache()

    def measure(self, world, operator_name):
        before = world.api_cpu()
        operator = Operator(operator_name, world, "cache-only")
        quiet = operator.await_quiet()
        result = {"sync_s": operator.synced_at, "quiet_s": quiet, "cpu_s": operator.cpu(), "api_cpu_s": world.api_cpu() - before}
        time.sleep(10)
        result |= {"peak_mib": operator.memory("VmHWM"), "rss_mib": operator.memory("VmRSS"), "anon_mib": operator.memory("RssAnon")}
        summary = operator.stop()
        return result | {"reconciles": summary.get("reconciles")}


class Churn(Converged):
    def __init__(self, world, rate):
        super().__init__(world)
        self.rate = rate

    def measure(self, world, operator_name):
        operator = self.start(world, operator_name)
        floor = []  # ms: the latency at a watch that only looks for sentAtNs, which nobody can beat

        def see(line):
            now = time.time_ns()
            at = line.find(b'"sentAtNs":')
            if at >= 0:
                floor.append((now - int(line[at + 11:at + 30])) / 1e6)
        raw = RawWatch(world, see)
        cpu, begin, sent = operator.cpu(), time.monotonic(), 0
        while time.monotonic() - begin < CHURN_SECONDS:
            index = sent * 7919 % CONVERGED
            value = self.templates.stored(self.templates.widget, index, time.time_ns())
            world.put_all([(self.templates.key("bench.example.io/widgets", index), value)])
            sent += 1
            pause = begin + sent / self.rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
        wall = time.monotonic() - begin
        time.sleep(1)
        used = operator.cpu() - cpu
        raw.close()
        latency = operator.stop().get("latency_ms", {})
        floor_p50 = statistics.median(floor) if floor else None
        result = {"rate": sent / wall, "cpu_s_per_1000": used / sent * 1000, "events": sent, "seen": latency.get("count"),
                  "p50_ms": latency.get("p50"), "p99_ms": latency.get("p99"), "floor_ms": floor_p50}
        if latency.get("p50") is not None and floor_p50 is not None:
            result["above_floor_ms"] = latency["p50"] - floor_p50
        return result


class Converge:
    """Wants a control plane of its own for each run: its Widgets must be new."""

    def __init__(self, world, count):
        self.count = count

    def measure(self, world, operator_name):
        operator = Operator(operator_name, world, "full", workers=4)
        operator.await_quiet()
        time.sleep(2)
        observed = set()
        raw = RawWatch(world, lambda line: b'"observedGeneration":1' in line
                       and observed.add(line[line.find(b'"name":"w-') + 8:][:8]))
        requests, cpu, begin = world.requests(), operator.cpu(), time.monotonic()
        # Created straight in etcd in one burst, so that the API server's time is the operator's.
        template = json.dumps(widget_of(0) | {"metadata": widget_of(0)["metadata"] | {
            "uid": uid_of(0), "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}}, separators=(",", ":")).encode()
        # One by one: an API server's watch shows one object of a revision.
        for i in range(1, self.count + 1):
            world.put_all([(Templates.key("bench.example.io/widgets", i), template.replace(
                name_of(0).encode(), name_of(i).encode()).replace(uid_of(0).encode(), uid_of(i).encode()))])
        end = time.monotonic() + 120
        while len(observed) < self.count and time.monotonic() < end:
            time.sleep(0.05)
        result = {"wall_s": time.monotonic() - begin, "cpu_s": operator.cpu() - cpu, "requests": world.requests() - requests,
                  "observed": len(observed)}
        raw.close()
        return result | {"errors": operator.stop().get("errors")}


class Idle(Converged):
    def __init__(self, world, _):
        super().__init__(world)

    def measure(self, world, operator_name):
        operator = self.start(world, operator_name)
        time.sleep(10)
        cpu = operator.cpu()
        time.sleep(IDLE_SECONDS)
        result = {"cpu_pct": (operator.cpu() - cpu) / IDLE_SECONDS * 100, "rss_mib": operator.memory("VmRSS"),
                  "anon_mib": operator.memory("RssAnon"), "peak_mib": operator.memory("VmHWM")}
        operator.stop()
        return result


MEASURES = {"sync": Sync, "churn": Churn, "converge": Converge, "idle": Idle}


def medians(rows):
    merged = {}
    for field in rows[0]:
        values = [row[field] for row in rows if isinstance(row.get(field), (int, float))]
        merged[field] = round(statistics.median(values), 3) if values else None
    return merged


def run_all(version, kind, amount, turns, rows):
    """One control plane, on which the operators take turns."""
    with World(version) as world:
        measure = MEASURES[kind](world, amount)
        for operator in turns:
            row = measure.measure(world, operator)
            rows[operator].append(row)
            log(f"{kind}:{amount} {operator} run {len(rows[operator])}, load {os.getloadavg()[0]:.2f}: {json.dumps(row)}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # so that the control plane is ended too
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measures", nargs="+", metavar="MEASURE")
    parser.add_argument("--operator", action="append", choices=list(OPERATORS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--version", help="of Kubernetes; default: the oldest that is built")
    arguments = parser.parse_args()
    for measure in arguments.measures:
        if measure.split(":")[0] not in MEASURES:
            parser.error(f"unknown measure {measure}; there are {', '.join(MEASURES)}")
    operators = arguments.operator or list(OPERATORS)
    for measure in arguments.measures:
        kind, _, amount = measure.partition(":")
        rows = {operator: [] for operator in operators}
        turns = operators * arguments.runs
        for plane in [[turn] for turn in turns] if kind == "converge" else [turns]:
            run_all(arguments.version, kind, int(amount or 0), plane, rows)
        for operator in operators:
            print(json.dumps({"measure": measure, "operator": operator, "runs": len(rows[operator])} | medians(rows[operator])),
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
