#!/usr/bin/env python3
"""Trouble without end: an operator on a real API server that is cut off, killed, stopped, compacted and forbidden in turn.

    soak.py --minutes 30

Not part of a suite. 500 Widgets are created, changed and deleted all the while (test/bench/widget makes a ConfigMap for each).
After each fault everything must be as the specs say within a minute; while it lasts the operator may open at most one connection
and send at most one request a second and watch; at the end its memory must not have grown by more than 5 % over that of the
first sixth of the time. Prints one line per fault; exit code 1 says what was wrong, 77 that there is no Kubernetes in the cache.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "test" / "bench"), str(ROOT / "test" / "integration")]
from tcp_proxy import Proxy  # noqa: E402
from widget_world import NAMESPACE, WIDGETS, World, name_of, widget_of  # noqa: E402

PATH = f"/apis/bench.example.io/v1/namespaces/{NAMESPACE}/widgets"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
WATCHES = 2  # kinds that the operator watches
FAULT_SECONDS = 12
FAULTS = "cut_off,killed,stopped,compacted,forbidden"
WRITES_PER_SECOND = 20


class Changes(threading.Thread):
    """Random writes by an admin. `problem`: why they ended."""

    def __init__(self, world, count, rng):
        super().__init__(daemon=True)
        self.world, self.count, self.rng = world, count, rng
        self.pause, self.end = threading.Event(), threading.Event()
        self.written = 0

    def run(self):
        while not self.end.wait(1 / WRITES_PER_SECOND):
            if self.pause.is_set():
                continue
            index = self.rng.randrange(self.count)
            try:
                if self.rng.random() < 0.1:
                    status, _ = self.world.request("DELETE", f"{PATH}/{name_of(index)}")
                else:
                    status, _ = self.world.request("PATCH", f"{PATH}/{name_of(index)}", {"spec": {"size": self.rng.randrange(1, 10)}},
                                                   "application/merge-patch+json")
                if status == 404:
                    self.world.request("POST", PATH, widget_of(index))
                self.written += 1
            except OSError:
                pass  # the API server is down


class Soak:
    def __init__(self, world, count, rng):
        self.world = world
        self.proxy = Proxy(world.port)
        config = json.loads(pathlib.Path(world.operator_kubeconfig).read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.proxy.port}"
        path = world.root / "soak.kubeconfig"
        path.write_text(json.dumps(config))
        for index in range(count):
            world.create(PATH, widget_of(index))
        self.operator = subprocess.Popen([str(ROOT / "test" / "bench" / "widget-operator")], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL, stderr=open(world.root / "operator.log", "ab"),
                                         env={**os.environ, "KUBECONFIG": str(path), "BENCH_WORKERS": "4"})
        self.changes = Changes(world, count, rng)

    def rss(self):
        for line in pathlib.Path(f"/proc/{self.operator.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError(f"the operator has ended with {self.operator.poll()}: see operator.log")

    def differences(self):
        widgets = json.loads(self.world.request("GET", WIDGETS)[1])["items"]
        maps = {item["metadata"]["name"]: item for item in json.loads(self.world.request("GET", MAPS)[1])["items"]}
        wrong = []
        for widget in widgets:
            name = widget["metadata"]["name"]
            data = maps.get(name, {}).get("data", {})
            owners = [owner["uid"] for owner in maps.get(name, {}).get("metadata", {}).get("ownerReferences", [])]
            if data.get("size") != str(widget["spec"]["size"]) or owners != [widget["metadata"]["uid"]] \
                    or widget.get("status", {}).get("observedGeneration") != widget["metadata"]["generation"]:
                wrong.append(name)
        return wrong

    def await_equal(self, limit=90):
        """Seconds until everything was as wanted, with no writes of ours meanwhile."""
        self.changes.pause.set()
        begin = time.monotonic()
        while True:
            try:
                wrong = self.differences()
            except (OSError, ValueError, KeyError) as error:
                wrong = [str(error)]
            if not wrong:
                self.changes.pause.clear()
                return time.monotonic() - begin
            if self.operator.poll() is not None:
                raise AssertionError(f"the operator has ended with {self.operator.returncode}")
            if time.monotonic() - begin > limit:
                raise AssertionError(f"after {limit} s still wrong: {wrong[:5]} and {max(len(wrong) - 5, 0)} more")
            time.sleep(0.5)

    # ---- faults: each returns what the operator did meanwhile, as (what, count) ------------------

    def watched(self):
        """Connections that the operator opened during the fault."""
        before = self.proxy.accepted
        time.sleep(FAULT_SECONDS)
        return self.proxy.accepted - before

    def cut_off(self):
        self.proxy.cut()
        opened = self.watched()
        self.proxy.heal()
        return opened

    def killed(self):
        self.world.end("apiserver", signal.SIGKILL)
        opened = self.watched()
        self.world.start_apiserver()
        return opened

    def stopped(self):
        process = self.world.processes["apiserver"]
        process.send_signal(signal.SIGSTOP)
        try:
            return self.watched()
        finally:
            process.send_signal(signal.SIGCONT)

    def compacted(self):
        """The history goes while the operator is away: its watches cannot be resumed."""
        self.proxy.cut()
        opened = self.watched()
        revision = json.loads(self.world.request("GET", f"{WIDGETS}?limit=1")[1])["metadata"]["resourceVersion"]
        self.world.etcd("compaction", {"revision": revision, "physical": True})
        self.world.end("apiserver", signal.SIGKILL)  # whose memory holds the history too
        self.world.start_apiserver()
        self.proxy.heal()
        return opened

    def forbidden(self):
        binding = json.loads(self.world.request("GET", f"{BINDING}/bench-operator")[1])
        self.world.request("DELETE", f"{BINDING}/bench-operator")
        self.world.end("apiserver", signal.SIGKILL)  # ends the watches, which nobody asks again for their rights
        self.world.start_apiserver()
        before = self.world.requests()
        time.sleep(FAULT_SECONDS)
        sent = self.world.requests() - before
        for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            binding["metadata"].pop(field, None)
        self.world.create(BINDING, binding)
        return sent

    def run(self, minutes, faults):
        begin = time.monotonic()
        self.await_equal()
        self.changes.start()
        faults = [getattr(self, name) for name in faults]
        samples, done = [], 0
        while time.monotonic() - begin < minutes * 60:
            fault = faults[done % len(faults)]
            count = fault()
            healed = self.await_equal()
            time.sleep(3)  # writes go on
            samples.append((time.monotonic() - begin, self.rss()))
            done += 1
            print(f"{samples[-1][0]:6.0f} s  {fault.__name__:10} {count:3} asked in {FAULT_SECONDS} s, right again after {healed:4.1f} s, "
                  f"{samples[-1][1]:.1f} MiB, {self.changes.written} writes", flush=True)
            if count > WATCHES * FAULT_SECONDS:
                raise AssertionError(f"{fault.__name__}: {count} connections or requests in {FAULT_SECONDS} s for {WATCHES} watches")
        self.changes.end.set()
        self.changes.join(30)
        first = [rss for at, rss in samples if at <= minutes * 10] or [samples[0][1]]
        last = [rss for at, rss in samples if at >= minutes * 50] or [samples[-1][1]]
        growth = statistics.median(last) / statistics.median(first) - 1
        print(f"{done} faults, {self.changes.written} writes; VmRSS {statistics.median(first):.1f} MiB at first, "
              f"{statistics.median(last):.1f} MiB at last ({growth:+.1%})")
        self.operator.send_signal(signal.SIGTERM)
        if self.operator.wait(30) != 0:
            raise AssertionError(f"the operator ended with {self.operator.returncode}")
        if growth > 0.05:
            raise AssertionError("its memory grew by more than 5 %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--widgets", type=int, default=500)
    parser.add_argument("--faults", default=FAULTS, help=f"joined by commas, in their order; default: {FAULTS}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", help="of Kubernetes; default: the oldest that is built")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    try:
        world = World(arguments.version)
    except FileNotFoundError as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        return 77
    with world:
        soak = Soak(world, arguments.widgets, random.Random(arguments.seed))
        try:
            soak.run(arguments.minutes, arguments.faults.split(","))
        except AssertionError as problem:
            print(f"FAILED: {problem}\n{(world.root / 'operator.log').read_text()[-2000:]}")
            return 1
        finally:
            soak.changes.end.set()
            soak.operator.kill()
            soak.operator.wait()
            soak.proxy.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
