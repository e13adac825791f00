#!/usr/bin/env python3
"""Measures our steward and etcd-backup-restore's on one etcd and the same data; prints a table and JSON.

    compare_peer.py ETCDBRCTL [--base-mib 1024] [--events 100000] [--restore-events 500000] [MEASURE]...

Measures, all by default and in this order: full, idle, delta, restore, compact; README.md beside this file says what each is.
"""
import argparse
import gzip
import json
import os
import pathlib
import shutil
import statistics
import sys
import tempfile
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
os.environ.setdefault("CAPSTAN", str(ROOT / "build" / "capstan"))
os.environ.setdefault("CAPSTAN_ETCD_DIR", str(pathlib.Path.home() / ".cache/capstan/etcd-3.5.33/bin"))
os.environ.setdefault("CAPSTAN_TEST_PLUGINS", str(ROOT / "build" / "plugins"))
sys.path[:0] = [str(HERE), str(ROOT / "test" / "e2e")]
from steward_load import Load, write_deltas  # noqa: E402

from real_etcd import Etcd, remove  # noqa: E402
from two_stewards import Etcdbrctl, OurSteward, PeerSteward, Store, backup, restore  # noqa: E402

SIDES = ("etcd-backup-restore", "capstan")
MEASURES = ("full", "idle", "delta", "restore", "compact")
ETCD_ARGUMENTS = ("--quota-backend-bytes=8589934592", "--unsafe-no-fsync", "--log-level=error")
DELTA_LIMIT = 104_857_600  # what etcd-druid sets
ZLIB_LEVEL, ZLIB_GZIP, PIECE = 6, 31, 1 << 20
IDLE_SECONDS = int(os.environ.get("CAPSTAN_BENCH_IDLE", "60"))


def log(text):
    print(f"# {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="capstan-bench-", dir=arguments.work))
        self.peer = Etcdbrctl(os.path.abspath(arguments.etcdbrctl), self.dir / "etcdbrctl")
        self.stores = {side: Store(self.dir / side) for side in SIDES}
        self.rows = []
        self.running = []

    def new_etcd(self, name):
        etcd = Etcd(os.environ["CAPSTAN_ETCD_DIR"] + "/etcd", self.dir / name, arguments=ETCD_ARGUMENTS)
        self.running.append(etcd.stop)
        return etcd

    def start(self, side):
        knobs = {"deltaSnapshotMemoryLimit": DELTA_LIMIT}
        steward = (OurSteward(self.etcd, self.stores[side], "gzip", **knobs) if side == "capstan"
                   else PeerSteward(self.peer, self.etcd, self.stores[side], "gzip", **knobs))
        self.running.append(steward.close)
        return steward.ready(600)

    def row(self, what, unit, values, goal=""):
        """values: side -> number, or a list of which the median counts."""
        values = {side: statistics.median(v) if isinstance(v, list) else v for side, v in values.items()}
        self.rows.append({"what": what, "unit": unit, "goal": goal, **values})
        log(f"{what}: {', '.join(f'{side} {value:.2f}' for side, value in values.items())} {unit}")

    def run(self):
        begin = time.monotonic()
        self.etcd = self.new_etcd("source").start().wait()
        self.load = Load(self.etcd.client_port, self.arguments.seed)
        self.load.base(self.arguments.base_mib << 20)
        size = int(self.etcd.call("maintenance/status")["dbSize"])
        log(f"{size / 2**20:.0f} MiB of database after {time.monotonic() - begin:.0f} s")
        for measure in MEASURES:
            if measure in self.arguments.measures:
                began = time.monotonic()
                getattr(self, measure)()
                log(f"{measure} took {time.monotonic() - began:.0f} s")

    # ---- measures ----

    def full(self):
        found = {side: {"seconds": [], "cpu": [], "peak": []} for side in SIDES}
        for side in SIDES:
            self.first_full(side)
            steward = self.start(side)
            for _ in range(self.arguments.runs):
                steward.forget_peak()
                cpu, begin = steward.cpu(), time.monotonic()
                steward.full()
                found[side]["seconds"].append(time.monotonic() - begin)
                found[side]["cpu"].append(steward.cpu() - cpu)
                found[side]["peak"].append(steward.memory("VmHWM"))
            steward.close()
        raw = self.raw_database()
        mib = raw.stat().st_size / 2**20
        of_file = statistics.median(self.compressed(raw) for _ in range(self.arguments.runs))
        raw.unlink()
        what = f"full of {mib:.0f} MiB"
        self.row(f"{what}, gzip: wall", "s", {side: found[side]["seconds"] for side in SIDES})
        self.row(f"{what}: CPU", "s", {side: found[side]["cpu"] for side in SIDES})
        self.row(f"{what}: largest VmRSS", "MiB", {side: found[side]["peak"] for side in SIDES}, "48")
        self.row(f"{what}: of the throughput of zlib level {ZLIB_LEVEL} on the file", "",
                 {side: [of_file / s for s in found[side]["seconds"]] for side in SIDES}, "0.8")

    def newest_full(self):
        store = self.stores["capstan"]
        return store.objects / max(name for name in store.names() if name.startswith("Full-"))

    def raw_database(self):
        raw = self.dir / "raw"
        with gzip.open(self.newest_full()) as source, open(raw, "wb") as target:
            shutil.copyfileobj(source, target, PIECE)
        return raw

    def compressed(self, raw):
        """Seconds that zlib needs for the file."""
        begin = time.monotonic()
        packer = zlib.compressobj(ZLIB_LEVEL, zlib.DEFLATED, ZLIB_GZIP)
        with open(raw, "rb") as source, open(self.dir / "packed", "wb") as target:
            while piece := source.read(PIECE):
                target.write(packer.compress(piece))
            target.write(packer.flush())
        return time.monotonic() - begin

    def both(self):
        for side in SIDES:
            self.first_full(side)
        stewards = {side: self.start(side) for side in SIDES}
        for steward in stewards.values():
            steward.delta()  # what was written since; from here on they have nothing to do
        return stewards

    def first_full(self, side):
        if not any(name.startswith("Full-") for name in self.stores[side].names()):
            steward = self.start(side)
            steward.full()  # behind the one of the start, which etcd-backup-restore lists before it is whole
            steward.close()

    def idle(self):
        stewards = self.both()
        time.sleep(10)
        cpu = {side: steward.cpu() for side, steward in stewards.items()}
        time.sleep(IDLE_SECONDS)
        self.row("at rest: VmRSS", "MiB", {side: steward.memory() for side, steward in stewards.items()}, "14")
        self.row(f"at rest: CPU of {IDLE_SECONDS} s", "s",
                 {side: steward.cpu() - cpu[side] for side, steward in stewards.items()})
        for steward in stewards.values():
            steward.close()

    def delta(self):
        """Both watch the same writes."""
        stewards = self.both()
        for steward in stewards.values():
            steward.forget_peak()
        cpu = {side: steward.cpu() for side, steward in stewards.items()}
        before = {side: set(self.stores[side].names()) for side in SIDES}
        self.load.events(self.arguments.events)
        for steward in stewards.values():
            steward.deltas_up_to(self.etcd.revision())
        what = f"deltas of {self.arguments.events:,} events"
        self.row(f"{what}: CPU", "s", {side: s.cpu() - cpu[side] for side, s in stewards.items()}, "1/4")
        self.row(f"{what}: largest VmRSS", "MiB", {side: s.memory("VmHWM") for side, s in stewards.items()})
        self.row(f"{what}: objects", "", {side: len(set(self.stores[side].names()) - before[side]) for side in SIDES})
        for steward in stewards.values():
            steward.close()

    def history(self):
        """A store with a full and made-up deltas behind it."""
        store = Store(self.dir / "history")
        if not store.names():
            self.first_full("capstan")
            full = self.newest_full()
            shutil.copy(full, store.objects)
            write_deltas(store.objects, int(full.name.split("-")[2]), self.arguments.restore_events, self.arguments.seed)
            log(f"{len(store.names())} objects of {store.size() / 2**20:.0f} MiB to restore")
        return store

    def ran(self, what, found, goals):
        for unit, field, goal in (("s", "seconds", goals[0]), ("s", "cpu_seconds", ""), ("MiB", "peak_mib", goals[1])):
            name = {"seconds": "wall", "cpu_seconds": "CPU", "peak_mib": "largest resident set"}[field]
            self.row(f"{what}: {name}", unit, {side: getattr(run, field) for side, run in found.items()}, goal)

    def restore(self):
        store = self.history()
        etcds = {side: self.new_etcd(f"restored-{side}") for side in SIDES}
        found = {side: restore(store, etcd) if side == "capstan" else self.peer.restore(store, etcd)
                 for side, etcd in etcds.items()}
        self.ran(f"restore of it and {self.arguments.restore_events:,} events", found, ("1/10", ""))
        self.equal(etcds)
        for etcd in etcds.values():
            remove(etcd.data)

    def equal(self, etcds):
        """Both sides restored the same."""
        hashes = {}
        for side, etcd in etcds.items():
            etcd.start().wait()
            revision = etcd.revision()
            etcd.compact(revision)
            etcd.call("kv/put", {"key": "YWZ0ZXI=", "value": "YQ=="})  # of a compacted revision etcd keeps the hash from before
            hashes[side] = (revision, etcd.call("maintenance/hashkv", {"revision": str(revision + 1)})["hash"])
            etcd.stop()
        log(f"revision and hash: {hashes}")
        assert len(set(hashes.values())) == 1, hashes

    def compact(self):
        found, sizes = {}, {}
        for side in SIDES:
            store = Store(self.dir / f"compacted-{side}")
            for path in self.history().objects.iterdir():
                os.link(path, store.objects / path.name)
            etcd = self.new_etcd(f"compacting-{side}")
            work = self.dir / "compacting"
            work.mkdir()
            found[side] = (backup("compact", store, "--work-dir", str(work)) if side == "capstan"
                           else self.peer.compact(store, etcd))
            assert len(store.names()) == len(self.history().names()) + 1, store.names()
            remove(work)
            sizes[side] = (store.objects / max(n for n in store.names() if n.startswith("Full-"))).stat().st_size / 2**20
            backup("verify", store)
            store.close()
        self.ran("compact of the same", found, ("1/10", "1/10"))
        self.row("the new full", "MiB", sizes)

    def close(self):
        for stop in self.running:
            stop()
        remove(self.dir)


def table(rows):
    print("| what | etcd-backup-restore | Capstan | ratio | goal |\n|---|---|---|---|---|")
    for row in rows:
        values = [row.get(side) for side in SIDES]
        ratio = f"{values[1] / values[0]:.2f}" if all(values) else ""
        said = [f"{value:.3g} {row['unit']}".strip() if value is not None else "" for value in values]
        print(f"| {row['what']} | {said[0]} | {said[1]} | {ratio} | {row['goal']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("etcdbrctl")
    parser.add_argument("measures", nargs="*", default=MEASURES, metavar="MEASURE")
    parser.add_argument("--base-mib", type=int, default=1024)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--restore-events", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3, help="of the full snapshot; the median counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", help="where the data goes: about eight times the base")
    arguments = parser.parse_intermixed_args()
    if unknown := set(arguments.measures) - set(MEASURES):
        parser.error(f"no such measure: {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    bench = Bench(arguments)
    try:
        bench.run()
    finally:
        bench.close()
        table(bench.rows)
    print(json.dumps({"arguments": vars(arguments), "rows": bench.rows}))


if __name__ == "__main__":
    main()
