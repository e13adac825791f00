"""What members must go through on their own: lost, damaged, swapped, read-only volumes; growing from one to three to five
with kills at every step; two of three broken at once.

Mixins: a test class adds unittest.TestCase, and etcd_dir when it is not the default etcd.
"""
import http.client
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from cluster_cases import SEED
from local_cluster import DRUID, ETCD1, Cluster, b64, gateway, wait_for

MARK = "druid.gardener.cloud/create-as-learner"
HEAL_SECONDS = 180


class Members(Cluster):
    """A cluster with access to volumes, member list and processes of its members."""

    def volume(self, member):
        """The directory behind /var/etcd/data."""
        found = list((self.dir / "volumes").glob(f"default_{self.name}-{member}_*"))
        if len(found) != 1:
            raise ValueError(f"volumes of {member}: {found}")
        return found[0]

    def data(self, member):
        return self.volume(member) / "new.etcd"

    def aside(self, member):
        return sorted(p.name for p in self.volume(member).glob("member.damaged-*"))

    def member(self, name):
        return self.api().get(f"{DRUID}/namespaces/default/etcdmembers/{name}")

    def reasons(self, name):
        return [t["reason"] for t in self.member(name).get("status", {}).get("transitions", [])]

    def condition(self, name, kind="Initialized"):
        return self.condition_of(self.member(name), kind)

    @staticmethod
    def condition_of(member, kind="Initialized"):
        for condition in member.get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                return condition
        return {}

    def listed(self):
        """name -> entry of the member list, as the first member that answers has it."""
        problem = None
        for member in self.members():
            endpoint = member.get("status", {}).get("endpoint")
            try:
                if endpoint:
                    answer = gateway(endpoint, "cluster/member/list", {"linearizable": True}, timeout=3)
                    return {m.get("name") or m["ID"]: m for m in answer["members"]}
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = error
        raise ValueError(f"nobody answers: {problem}")

    def cluster_id(self):
        return {m["status"]["clusterID"] for m in self.members() if m.get("status", {}).get("clusterID")}

    def scale(self, replicas):
        status, answer = self.api().request("PATCH", f"{DRUID}/namespaces/default/etcds/{self.name}",
                                            {"spec": {"replicas": replicas}}, "application/merge-patch+json")
        if status != 200:
            raise AssertionError(f"scale: {status} {answer}")

    def pids(self, member, program):
        """Processes of one member: program "etcd", "capstan-launcher" or "capstan" (its steward)."""
        found = []
        for pid in self.processes():
            try:
                command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"POD_NAME={member}".encode() in environ and command[0].rsplit(b"/", 1)[-1] == program.encode():
                found.append(pid)
        return found

    def kill_etcd(self, *names):
        pids = self.etcd_pids()
        for name in names:
            os.kill(pids[name], signal.SIGKILL)

    def stop_etcd(self, *names):
        """Stopped, not ended: what is done to its files now, it does not see."""
        pids = self.etcd_pids()
        for name in names:
            os.kill(pids[name], signal.SIGSTOP)

    def await_started(self, name, limit=HEAL_SECONDS):
        def started():
            member = self.member(name)  # once: two answers may be of two moments, and what is true of both at no moment
            return self.state(member)[0] == "Started" and not self.condition_of(member)
        try:
            wait_for(f"{name} to be Started", started, limit)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.member(name).get('status')}\n{self.tail()}") from None

    def await_reason(self, name, *reasons, limit=90):
        try:
            def said():
                condition = self.condition(name)
                return condition.get("reason") in reasons and condition
            return wait_for(f"{name} to say {reasons}", said, limit)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.member(name).get('status')}\n{self.tail()}") from None


class Load:
    """Writes until stopped; knows what was acknowledged, and the most learners ever listed at once."""

    def __init__(self, cluster, prefix):
        self.cluster, self.prefix = cluster, prefix
        self.acknowledged, self.learners = [], 0
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.write), threading.Thread(target=self.watch)]

    def __enter__(self):
        self.endpoints = self.cluster.endpoints()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(30)

    def write(self):
        number = 0
        while not self.stop.wait(0.02):
            try:
                gateway(self.endpoints[number % len(self.endpoints)], "kv/put",
                        {"key": b64(f"{self.prefix}-{number}"), "value": b64(str(number))})
                self.acknowledged.append(number)
            except (OSError, http.client.HTTPException, ValueError):
                pass
            number += 1

    def watch(self):
        while not self.stop.wait(0.1):
            try:
                listed = gateway(self.endpoints[0], "cluster/member/list", {}, timeout=2)["members"]
                self.learners = max(self.learners, sum(1 for m in listed if m.get("isLearner")))
            except (OSError, http.client.HTTPException, ValueError):
                pass

    def await_writes(self):
        """Enough to miss some of them, however slow the machine."""
        wait_for("more acknowledged writes", lambda: len(self.acknowledged) > 10)

    def missing(self, endpoint):
        return [n for n in self.acknowledged if self.cluster.read(f"{self.prefix}-{n}", endpoint) != str(n)]


class HealingMixin:
    """One cluster of three for all tests of the class; each leaves it healthy."""

    etcd_dir = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Members(etcd_dir=cls.etcd_dir)
        cls.addClassCleanup(cls.cluster.close)
        cls.cluster.start()

    def setUp(self):
        self.cluster.await_ready()
        leader = self.cluster.await_leader()["metadata"]["name"]
        self.followers = sorted(n for n in self.cluster.etcd_pids() if n != leader)
        self.leader = leader

    def assert_healed(self, load, victim, old_id=None):
        cluster = self.cluster
        cluster.await_started(victim)
        cluster.await_ready()
        listed = cluster.listed()
        self.assertEqual(set(listed), {"main-0", "main-1", "main-2"})
        self.assertFalse([m for m in listed.values() if m.get("isLearner")])
        self.assertEqual(len(cluster.cluster_id()), 1)
        if old_id:
            self.assertNotEqual(cluster.member(victim)["status"]["id"], old_id)
            self.assertEqual(cluster.member(victim)["status"]["lastRestoration"]["type"], "FromLeader")
        self.assertEqual(load.missing(cluster.member(victim)["status"]["endpoint"]), [])

    def heal(self, name, damage, aside):
        cluster, victim = self.cluster, self.followers[0]
        old = cluster.member(victim)["status"]["id"]
        with Load(cluster, name) as load:
            cluster.stop_etcd(victim)
            damage(cluster.data(victim) / "member")
            cluster.kill_etcd(victim)
            wait_for("a vote again", lambda: "PromotedAsVotingMember" in cluster.reasons(victim)
                     and cluster.member(victim)["status"]["id"] != old, HEAL_SECONDS)
            load.await_writes()
        self.assert_healed(load, victim, old)
        wait_for("only the newest damaged data", lambda: len(cluster.aside(victim)) <= 1, 60)
        self.assertEqual(len(cluster.aside(victim)), aside)
        return cluster.reasons(victim)

    def test_a_lost_directory_comes_back_from_the_cluster(self):
        reasons = self.heal("lost", shutil.rmtree, aside=len(self.cluster.aside(self.followers[0])))
        self.assertIn("MemberRemoved", reasons)

    def test_a_truncated_database_is_found_and_replaced(self):
        def truncate(member):
            os.truncate(member / "snap" / "db", 8192)
        self.assertIn("DBCorruptionDetected", self.heal("truncated", truncate, aside=1))

    def test_a_damaged_log_is_found_and_replaced(self):
        def scribble(member):
            log = sorted((member / "wal").glob("*.wal"))[-1]
            with open(log, "r+b") as file:
                file.seek(200)
                file.write(b"\x55" * 200)
        self.assertIn("DBCorruptionDetected", self.heal("scribbled", scribble, aside=1))

    def test_a_damaged_page_is_found_after_an_unclean_end(self):
        def scribble(member):
            with open(member / "snap" / "db", "r+b") as file:
                size = file.seek(0, os.SEEK_END)
                for page in range(2, size // 4096):
                    file.seek(page * 4096 + 8)
                    file.write(b"\x55" * 8)
        self.assertIn("DBCorruptionDetected", self.heal("pages", scribble, aside=1))

    def swap(self, one, other):
        spare = self.cluster.volume(one) / "swapped"
        (self.cluster.data(one) / "member").rename(spare)
        (self.cluster.data(other) / "member").rename(self.cluster.data(one) / "member")
        spare.rename(self.cluster.data(other) / "member")

    def test_swapped_directories_are_refused_until_swapped_back(self):
        cluster, (one, other) = self.cluster, self.followers
        ids = {n: cluster.member(n)["status"]["id"] for n in self.followers}
        with Load(cluster, "swapped") as load:
            load.await_writes()
        kept = {n: cluster.aside(n) for n in self.followers}
        cluster.stop_etcd(one, other)
        self.swap(one, other)
        cluster.kill_etcd(one, other)
        for name in self.followers:
            self.assertIn("own volume", cluster.await_reason(name, "VolumeMismatch")["message"])
            mismatches = cluster.member(name)["status"]["volumeMismatches"]
            self.assertEqual(len(mismatches), 1)
            self.assertNotIn("fixedAt", mismatches[0])
            self.assertEqual(cluster.aside(name), kept[name])
        self.assertEqual(set(cluster.etcd_pids()), {self.leader})
        self.swap(one, other)
        for name in self.followers:
            self.assert_healed(load, name)
            self.assertEqual(cluster.member(name)["status"]["id"], ids[name])
            self.assertIn("fixedAt", cluster.member(name)["status"]["volumeMismatches"][0])

    def test_two_broken_at_once_wait_and_say_so(self):
        cluster = self.cluster
        before = cluster.listed()
        with Load(cluster, "two") as load:
            load.await_writes()
        cluster.stop_etcd(*self.followers)
        for name in self.followers:
            (cluster.data(name) / "member").rename(cluster.volume(name) / "kept")
        cluster.kill_etcd(*self.followers)
        for name in self.followers:
            # 3.4 answers the list from memory, later versions only with a quorum
            said = cluster.await_reason(name, "NoQuorumWithoutMember", "WaitingForCluster")
            self.assertIn("waiting for", said["message"])
        time.sleep(5)
        self.assertEqual(set(cluster.etcd_pids()), {self.leader})
        back, lost = self.followers
        shutil.rmtree(cluster.data(back) / "member", ignore_errors=True)
        (cluster.volume(back) / "kept").rename(cluster.data(back) / "member")
        self.assert_healed(load, back)
        self.assert_healed(load, lost, before[lost]["ID"] and format(int(before[lost]["ID"]), "x"))
        shutil.rmtree(cluster.volume(lost) / "kept")

    def test_a_read_only_volume_is_named_and_heals_when_it_is_writable(self):
        cluster, victim = self.cluster, self.followers[0]
        volume = str(cluster.volume(victim))
        done = subprocess.run(["mount", "--bind", volume, volume], capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest("this machine lets nobody mount: " + done.stderr.decode().strip())
        mounted = True
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", volume], check=True)
            cluster.kill_etcd(victim)
            self.assertIn("writable", cluster.await_reason(victim, "DataVolumeReadOnly")["message"])
            self.assertIn("DataVolumeReadOnly", cluster.reasons(victim))
            subprocess.run(["umount", volume], check=True)
            mounted = False
            cluster.await_started(victim)
        finally:
            if mounted:
                subprocess.run(["umount", "-l", volume], check=False)


class ScalingMixin:
    etcd_dir = None

    def setUp(self):
        self.cluster = Members(ETCD1, "solo", etcd_dir=self.etcd_dir)
        self.addCleanup(self.cluster.close)
        self.cluster.start()

    def await_size(self, replicas, limit=240):
        cluster = self.cluster

        def grown():
            listed = cluster.listed()
            return len(listed) == replicas and not [m for m in listed.values() if m.get("isLearner")] and all(
                cluster.state(m)[0] == "Started" and MARK not in m["metadata"].get("annotations", {})
                for m in cluster.members()) and len(cluster.members()) == replicas
        try:
            wait_for(f"{replicas} voting members", grown, limit)
        except AssertionError as error:
            states = {m["metadata"]["name"]: m.get("status") for m in cluster.members()}
            raise AssertionError(f"{error}\nseed {SEED}\n{states}\n{cluster.tail()}") from None

    def kill_one_of_each(self, names, rng, until):
        """SIGKILL for each kind of process of each new member, at a random moment after it is there."""
        left = [(name, program) for name in names for program in ("etcd", "capstan", "capstan-launcher")]
        killed = 0
        while left and time.monotonic() < until:
            for name, program in list(left):
                for pid in self.cluster.pids(name, program):
                    time.sleep(rng.uniform(0, 0.3))
                    try:
                        os.kill(pid, signal.SIGKILL)
                        killed += 1
                    except OSError:
                        pass
                    left.remove((name, program))
                    break
            time.sleep(0.05)
        return killed

    def grow(self, replicas, rng, kill):
        cluster = self.cluster
        first = len(cluster.members())
        cluster.scale(replicas)
        if kill:
            killed = self.kill_one_of_each([f"solo-{i}" for i in range(first, replicas)], rng, time.monotonic() + 90)
            self.assertGreaterEqual(killed, 3, f"seed {SEED}")
        self.await_size(replicas)
        cluster.await_ready(120)

    def scale_up(self, kill):
        cluster, rng = self.cluster, random.Random(SEED)
        identity = cluster.cluster_id()
        pids = cluster.etcd_pids()
        with Load(cluster, "grown") as load:
            self.grow(3, rng, kill)
            self.grow(5, rng, kill)
        self.assertEqual(cluster.etcd_pids()["solo-0"], pids["solo-0"], "the first member was restarted")
        self.assertEqual(cluster.cluster_id(), identity)
        self.assertLessEqual(load.learners, 1, f"seed {SEED}")
        self.assertGreater(len(load.acknowledged), 10)
        for endpoint in cluster.endpoints():
            self.assertEqual(load.missing(endpoint), [], f"seed {SEED}")
        for name in () if kill else (f"solo-{i}" for i in range(1, 5)):  # a killed one may have missed that moment
            self.assertIn("PromotedAsVotingMember", cluster.reasons(name))
        print(f"1 to 5, kills {kill}, {len(load.acknowledged)} acknowledged writes", file=sys.stderr)

    def test_one_to_three_to_five(self):
        self.scale_up(kill=False)

    def test_one_to_three_to_five_with_kills_at_every_step(self):
        self.scale_up(kill=True)


def started_at(pid):
    """Wall clock second at which a process began."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    boot = next(int(line.split()[1]) for line in pathlib.Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


class StartingMixin:
    etcd_dir = None

    def test_a_fresh_cluster_waits_for_no_probe_of_itself(self):
        cluster = Members(etcd_dir=self.etcd_dir)
        self.addCleanup(cluster.close)
        cluster.start(wait=False)

        def started():
            members = cluster.members()
            return len(members) == 3 and all(cluster.state(m)[0] == "Started" for m in members)
        wait_for("three started members", started)
        now = time.time()
        begun = [started_at(pid) for i in range(3) for pid in cluster.pids(f"main-{i}", "capstan-launcher")]
        self.assertEqual(len(begun), 3)
        print(f"launchers to Started: {now - min(begun):.1f} s since the first, {now - max(begun):.1f} s since the last", file=sys.stderr)
        self.assertLess(now - min(begun), 30)  # goal: 3 s on a quiet machine
        for name in ("main-0", "main-1", "main-2"):
            self.assertEqual(cluster.reasons(name)[0], "NewClusterCreated")
