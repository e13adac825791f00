#!/usr/bin/env python3
"""The same random operations on the embedded API server and a real kube-apiserver; every answer must be the same.

    differential_test.py                 CAPSTAN_DIFF_OPS (5,000) operations, seed CAPSTAN_DIFF_SEED (random, printed)
    differential_test.py --kubeconfigs EMBEDDED REAL     on servers that run already

Compared after each operation: status code, reason and the object, without what must differ (uids, versions and times;
whether a version changed is compared). 77: there is no real server in the cache.
"""
import argparse
import base64
import copy
import http.client
import json
import os
import pathlib
import random
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cluster")]
import control_plane  # noqa: E402
import diff_ops  # noqa: E402
import fixtures  # noqa: E402
from embedded_server import EmbeddedServer  # noqa: E402
from kube_api import Api  # noqa: E402

EPISODE = 1000         # operations in one namespace, so that a failure can be replayed
SHRINK_SECONDS = 60


class Side:
    """One server: a connection and what it last said about each object."""

    def __init__(self, name, kubeconfig):
        self.name = name
        self.api = Api(kubeconfig)
        fixtures.install(self.api)
        self.start("")

    def start(self, namespace):
        self.ns, self.known, self.old = namespace, {}, {}
        if namespace:
            answer = self.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
            assert answer.code == 201, answer

    def fill(self, value, key):
        """`value` with its placeholders replaced for this server."""
        meta = self.known.get(key, {}).get("metadata", {})
        if isinstance(value, dict):
            return {k: self.fill(v, key) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(item, key) for item in value]
        if isinstance(value, str) and value.startswith("$"):
            return {"$NS": self.ns, "$RV": meta.get("resourceVersion", "1"), "$UID": meta.get("uid", "none"),
                    "$OLDRV": self.old.get(key, "1")}[value]
        return value

    def body(self, operation, key):
        if operation.mutate is None:
            return self.fill(operation.body, key)
        kind = operation.kind
        found = copy.deepcopy(self.known.get(key) or {"apiVersion": kind.version, "kind": kind.kind, "metadata": {
            "name": operation.name, "resourceVersion": "1"}})
        for path, value in operation.mutate:
            at = found
            for part in path[:-1]:
                if not isinstance(at.get(part), dict):
                    at[part] = {}
                at = at[part]
            if value == diff_ops.ABSENT:
                at.pop(path[-1], None)
            else:
                at[path[-1]] = self.fill(value, key)
        return found

    def send(self, operation):
        key = (operation.kind.plural, operation.name)
        path = f"{operation.kind.api}/namespaces/{self.ns}/{operation.kind.plural}"
        if not operation.collection:
            path += f"/{operation.name}" + (f"/{operation.sub}" if operation.sub else "")
        has_body = operation.body is not None or operation.mutate is not None
        answer = self.api.request(operation.method, path, self.body(operation, key) if has_body else None,
                                  content_type=operation.content_type, **operation.query)
        before = self.known.get(key)
        seen = normal(answer.body, before) if answer.code < 300 else None
        self.learn(operation, key, answer)
        return {"code": answer.code, "reason": answer["reason"] if answer.code >= 300 else None, "object": seen}, answer

    def learn(self, operation, key, answer):
        if operation.dry:
            return
        if answer.code == 404 and not operation.sub and not operation.collection:
            self.known.pop(key, None)
        if answer.code >= 300 or (operation.collection and operation.method == "GET"):
            return
        meta = answer["metadata"] or {}
        if answer["kind"] == "Status" or (operation.method != "GET" and meta.get("deletionTimestamp") and not meta.get("finalizers")):
            if operation.sub != "scale":
                self.known.pop(key, None)
            return
        if answer["kind"] == operation.kind.kind:
            version = self.known.get(key, answer.body)["metadata"]["resourceVersion"]
            if version != meta.get("resourceVersion"):
                self.old[key] = version
            self.known[key] = answer.body
        elif key in self.known:  # a Scale: the object behind it changed
            self.known[key]["metadata"]["resourceVersion"] = meta["resourceVersion"]


def normal(body, before):
    """`body` with everything replaced that differs between servers by nature."""
    if not isinstance(body, dict):
        return body
    found = copy.deepcopy(body)
    if "items" in found:
        found["items"] = [normal(item, None) for item in found["items"]]
        found["metadata"] = {}
        return found
    if found.get("kind") == "Status":
        found.get("details", {}).pop("uid", None)
        return found
    meta = found.get("metadata", {})
    old = (before or {}).get("metadata", {})
    for field in ("uid", "resourceVersion"):
        if field in meta:
            meta[field] = "kept" if meta[field] == old.get(field) else "new"
    for field in ("creationTimestamp", "deletionTimestamp"):
        if meta.get(field):
            meta[field] = "time"
    if meta.get("deletionTimestamp") and not meta.get("finalizers"):
        # Gone with this write, so never stored: a real server shows a map as null that an apply has emptied (docs/local.md).
        for field in ("labels", "annotations", "finalizers"):
            if field in meta and meta[field] is None:
                del meta[field]
    entries = meta.get("managedFields", [])
    for entry in entries:
        if "time" in entry:
            entry["time"] = "time"
    entries.sort(key=lambda entry: json.dumps([entry.get(key) for key in ("manager", "operation", "subresource", "apiVersion")]))
    return found


def differ(one, other):
    """A text when two outcomes differ. JSON text tells 5 from 5.0."""
    return None if json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True) else "differ"


def hollow(before):
    """Whether a manager owns a part of labels, annotations or finalizers of an object that has none of them."""
    meta = (before or {}).get("metadata", {})
    owned = {field for entry in meta.get("managedFields", []) for field in entry["fieldsV1"].get("f:metadata", {})}
    return any(f"f:{field}" in owned and field not in meta for field in ("labels", "annotations", "finalizers"))


def states_more(operation):
    """Whether a write of status also states parts that it does not write."""
    if operation.sub != "status":
        return False
    if operation.mutate is not None:
        return any(path[0] != "status" for path, _ in operation.mutate)
    return isinstance(operation.body, dict) and ("spec" in operation.body or set(operation.body.get("metadata", {})) - {"name"})


def explained(before, scaled, operation, one, other):
    """A version that a real server makes and nobody can see why (docs/local.md). The objects have to be equal all the same.
    An apply that empties a map another manager owns a part of leaves a null in its store, and a scale leaves out defaults:
    the next write, even one that changes nothing, sets that right. A status write that states more moves the time of its
    manager's entry."""
    if not (hollow(before) or scaled or states_more(operation)):
        return False
    if one["code"] != other["code"] or not (isinstance(one["object"], dict) and isinstance(other["object"], dict)):
        return False
    versions = [side["object"].get("metadata", {}).get("resourceVersion") for side in (one, other)]
    if versions != ["kept", "new"]:
        return False
    same = copy.deepcopy(one)
    same["object"]["metadata"]["resourceVersion"] = "new"
    return not differ(same, other)


def stored(plane, operation, namespace):
    """What the real server's etcd holds of the object, as JSON text; "" for builtin kinds."""
    group = operation.kind.version.rpartition("/")[0]
    key = f"/registry/{group}/{operation.kind.plural}/{namespace}/{operation.name}"
    connection = http.client.HTTPConnection("127.0.0.1", plane.etcd_port, timeout=10)
    try:
        connection.request("POST", "/v3/kv/range", json.dumps({"key": base64.b64encode(key.encode()).decode()}))
        kvs = json.loads(connection.getresponse().read()).get("kvs", [])
    finally:
        connection.close()
    return base64.b64decode(kvs[0]["value"]).decode(errors="replace") if kvs else ""


class Pair:
    def __init__(self, embedded, real, plane=None):
        self.sides = (Side("embedded", embedded), Side("real", real))
        self.plane = plane
        self.episodes = 0
        self.explained = 0

    def start(self):
        self.episodes += 1
        self.scaled = set()  # objects whose last write was a scale
        for side in self.sides:
            side.start(f"diff-{os.getpid()}-{self.episodes}")

    def run(self, operation):
        """None, or what both servers said where they differ."""
        key = (operation.kind.plural, operation.name)
        before = self.sides[0].known.get(key)
        scaled = key in self.scaled
        if operation.sub == "scale" and operation.method != "GET":
            self.scaled.add(key)
        elif operation.method != "GET":
            self.scaled.discard(key)
        (one, said_one), (other, said_other) = (side.send(operation) for side in self.sides)
        if not differ(one, other):
            return None
        if explained(before, scaled, operation, one, other):
            self.explained += 1
            return None
        return said_one, said_other, one, other

    def replay(self, operations):
        """(index, what was said) of the first difference in a fresh namespace, or None."""
        self.start()
        for index, operation in enumerate(operations):
            found = self.run(operation)
            if found:
                return index, found
        return None


def shrink(pair, operations):
    """Fewer operations that still end in a difference."""
    last = operations[-1]
    best = [operation for operation in operations if (operation.kind, operation.name) == (last.kind, last.name)]
    found = pair.replay(best)
    if not found:
        return operations, None
    best = best[:found[0] + 1]
    end = time.monotonic() + SHRINK_SECONDS
    chunk = max(1, len(best) // 2)
    while chunk and time.monotonic() < end:
        at = 0
        while at < len(best) - 1 and time.monotonic() < end:
            candidate = best[:at] + best[min(at + chunk, len(best) - 1):]
            again = pair.replay(candidate)
            if again:
                best, found = candidate[:again[0] + 1], again
            else:
                at += chunk
        chunk //= 2
    return best, found[1]


def tell_stored(pair, operations):
    """What the real server has in its store before and after the last operation: answers do not always show it."""
    if pair.plane and not pair.replay(operations[:-1]):
        print("stored by the real server before the last one:", stored(pair.plane, operations[-1], pair.sides[1].ns))
        pair.run(operations[-1])
        print("stored by the real server after it:           ", stored(pair.plane, operations[-1], pair.sides[1].ns))


def tell(seed, number, operations, found):
    embedded, real, one, other = found
    print(f"DIFFERENCE: seed {seed}, operation {number}; shrunk to {len(operations)} operations:")
    for operation in operations:
        print("   ", operation.text())
    print(f"embedded: {embedded}\nreal:     {real}")
    if one["object"] and other["object"]:
        print(f"compared as\n  {json.dumps(one, sort_keys=True)}\n  {json.dumps(other, sort_keys=True)}")
    sys.stdout.flush()


def explore(pair, seed, count, stop_after, kinds):
    """Number of differences."""
    generator, differences = diff_ops.Generator(random.Random(seed), kinds), 0
    episode, start = [], time.monotonic()
    pair.start()
    for number in range(1, count + 1):
        if len(episode) == EPISODE:
            pair.start()
            episode = []
        operation = generator.next()
        episode.append(operation)
        found = pair.run(operation)
        if found:
            differences += 1
            shrunk, again = shrink(pair, episode)
            tell(seed, number, shrunk, again or found)
            tell_stored(pair, shrunk)
            if differences >= stop_after:
                break
            pair.start()
            episode = []
    print(f"seed {seed}: {number} operations, {differences} differences, {pair.explained} explained, {time.monotonic() - start:.0f} s", flush=True)
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfigs", nargs=2, metavar=("EMBEDDED", "REAL"))
    parser.add_argument("--version", help="version of Kubernetes; default: the oldest in the cache")
    parser.add_argument("--kinds", default="", help="plurals, joined by commas; default: all")
    parser.add_argument("--seed", type=int, help="unless CAPSTAN_DIFF_SEED says another; default: random")
    parser.add_argument("--stop-after", type=int, default=1, help="differences")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # with the servers
    seed = int(os.environ.get("CAPSTAN_DIFF_SEED") or arguments.seed or random.SystemRandom().randrange(1 << 32))
    count = int(os.environ.get("CAPSTAN_DIFF_OPS") or 5000)
    kinds = [kind for kind in diff_ops.ALL if not arguments.kinds or kind.plural in arguments.kinds.split(",")]
    print(f"seed {seed}, {count} operations", flush=True)
    if arguments.kubeconfigs:
        return 1 if explore(Pair(*arguments.kubeconfigs), seed, count, arguments.stop_after, kinds) else 0
    try:
        plane = control_plane.ControlPlane(arguments.version)
    except FileNotFoundError as error:
        print(f"SKIPPED: {error}")
        return control_plane.SKIPPED
    with plane, EmbeddedServer() as embedded:
        return 1 if explore(Pair(embedded.kubeconfig, plane.kubeconfig, plane), seed, count, arguments.stop_after, kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
