"""Random operations for the differential test. All randomness comes from the given random.Random.

An operation is written for no server: "$RV", "$OLDRV" and "$UID" in its body stand for what the server at hand last
said about the object, and `mutate` (paths and values) is laid over the object as that server knows it.
"""
import dataclasses
import string

from fixtures import GROUP
from kube_api import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC

MANAGERS = ("alpha", "beta", "gamma")
FINALIZERS = ("x.dev/a", "x.dev/b")
WORDS = ("a", "b", "c", "d", "e")
ABSENT = "$ABSENT"


@dataclasses.dataclass
class Kind:
    api: str        # "/api/v1" or "/apis/group/version"
    version: str    # apiVersion
    kind: str
    plural: str
    names: tuple
    status: bool = False
    scale: bool = False
    custom: bool = False


@dataclasses.dataclass
class Operation:
    kind: Kind
    name: str
    method: str
    sub: str = ""
    body: object = None
    mutate: list = None      # [(path, value)]: body is the known object, changed so
    content_type: str = JSON
    query: dict = dataclasses.field(default_factory=dict)
    collection: bool = False

    @property
    def dry(self):
        """Whether this changes nothing. A deletion's options are in its body, if it has one, and nowhere else."""
        return "dryRun" in (self.body if self.method == "DELETE" and self.body else self.query)

    def text(self):
        what = f"{self.method} {self.kind.plural}/{self.name}" + (f"/{self.sub}" if self.sub else "")
        return f"{what} {self.query or ''} {self.content_type} mutate={self.mutate} body={self.body}"


def names(prefix, count):
    return tuple(f"{prefix}-{string.ascii_lowercase[index]}" for index in range(count))


THING = Kind(f"/apis/{GROUP}/v1", f"{GROUP}/v1", "Thing", "things", names("thing", 5), True, True, True)
PLAIN = Kind(f"/apis/{GROUP}/v1", f"{GROUP}/v1", "Plain", "plains", names("plain", 2), custom=True)
CONFIG_MAP = Kind("/api/v1", "v1", "ConfigMap", "configmaps", names("map", 3))
LEASE = Kind("/apis/coordination.k8s.io/v1", "coordination.k8s.io/v1", "Lease", "leases", names("lease", 2))
ALL = (THING, PLAIN, CONFIG_MAP, LEASE)
WEIGHTS = (10, 2, 3, 2)


class Generator:
    def __init__(self, random, kinds=ALL):
        self.random = random
        self.kinds = kinds
        self.weights = [WEIGHTS[ALL.index(kind)] for kind in kinds]

    def chance(self, share):
        return self.random.random() < share

    def pick(self, *values):
        return self.random.choice(values)

    def some(self, values, least=0):
        """A sample in random order."""
        return self.random.sample(list(values), self.random.randint(least, min(3, len(values))))

    # Values

    def thing_field(self):
        """(name, value) of one field of a Thing's spec; sometimes one that is refused."""
        name = self.pick("replicas", "mode", "count", "ratio", "flag", "port", "even", "atoms", "marks", "parts", "ports", "settings",
                         "fixed", "nested", "open", "maybe", "name", "marks", "parts", "ports", "settings")
        if self.chance(0.02):
            return self.pick("bogus", name), self.pick(2, "x", {"y": 1}, [1], True, -1)
        if self.chance(0.03):
            return name, None
        return name, self.thing_value(name)

    def thing_value(self, name):
        if name == "parts":
            return [self.part(word) for word in self.some(WORDS)]
        if name == "ports":
            return [self.port(number) for number in self.some((80, 81, 443))]
        if name == "marks":
            marks = self.some(WORDS)
            return marks + marks[:1] if self.chance(0.03) else marks
        if name in ("settings", "fixed"):
            return {word: self.pick("1", "2", "") for word in self.some(WORDS)}
        # Not 1e10 for ratio, and hardly a whole number twice as 7.0: a real server counts the same number written in another
        # way as a change (docs/local.md).
        # Not 5.0 for replicas: a real server refuses it for the field of the scale subresource (docs/local.md).
        simple = {
            "replicas": (1, 2, 3), "mode": ("fast", "slow"), "count": (0, 1, 7, -3, float(self.random.randint(8, 1 << 30)), 2 ** 40), "ratio": (0.5, 2, 1e10 + 0.5, 0.25),
            "flag": (True, False), "port": (80, "http", 0, ""), "even": (0, 2, 4, 2, 3), "atoms": ([], ["a"], ["a", "b"], ["b", "a", "a"]),
            "nested": ({}, {"a": "1"}, {"a": "2", "b": "3"}, {"b": "x"}), "maybe": (None, "x"), "name": ("n", "nn", ""),
            "open": ({}, {"a": 1}, {"a": {"b": [1, 2]}}, {"l": [{"x": None}]})}
        return self.pick(*simple[name])

    def part(self, name):
        found = {"name": name}
        if self.chance(0.5):
            found["value"] = self.pick(1, 2)
        if self.chance(0.3):
            found["note"] = self.pick("n", "none")
        return found

    def port(self, number):
        found = {"port": number}
        if self.chance(0.4):
            found["protocol"] = self.pick("TCP", "UDP")
        if self.chance(0.5):
            found["label"] = self.pick("x", "y")
        return found

    def spec(self, kind):
        """The content of an object besides metadata: {top-level field: value}."""
        if kind.custom:
            return {"spec": dict(self.thing_field() for _ in range(self.random.randint(0, 5)))}
        if kind is CONFIG_MAP:
            return {"data": {word: self.pick("1", "2", "") for word in self.some(WORDS)}}
        return {"spec": {key: value for key, value in (
                ("holderIdentity", self.pick("me", "you")), ("leaseDurationSeconds", self.pick(10, 15, 15, 0)),
                ("renewTime", self.pick("2024-05-01T10:00:00.000000Z", "2024-05-01T10:00:01.500000Z")),
                ("leaseTransitions", self.pick(0, 1))) if self.chance(0.6)}}

    def metadata(self):
        found = {}
        if self.chance(0.3):
            found["labels"] = {word: self.pick("1", "2", "") for word in self.some(WORDS)}
        if self.chance(0.2):
            found["annotations"] = {word: self.pick("1", "two words", "") for word in self.some(WORDS)}
        if self.chance(0.2):
            found["finalizers"] = self.some(FINALIZERS)
        return found

    def status(self):
        found = {}
        if self.chance(0.6):
            found["phase"] = self.pick("x", "y")
        if self.chance(0.4):
            found["replicas"] = self.pick(0, 1, 2)
        if self.chance(0.3):
            found["selector"] = self.pick("a=b", "")
        if self.chance(0.5):
            found["conditions"] = [{"type": word, "status": self.pick("True", "False")} for word in self.some(("A", "B", "C"))]
        return found

    # Operations

    def next(self):
        kind = self.random.choices(self.kinds, self.weights)[0]
        name = self.pick(*kind.names)
        choices = {self.create: 3, self.put: 4, self.merge: 4, self.json_patch: 4, self.apply: 7, self.delete: 1.5, self.finalizers: 2,
                   self.read: 1, self.listing: 0.3}
        if kind.status:
            choices.update({self.put_status: 2, self.patch_status: 2, self.apply_status: 2})
        if kind.scale:
            choices.update({self.put_scale: 1, self.patch_scale: 1, self.get_scale: 0.5})
        if not kind.custom:
            choices[self.strategic] = 3
        operation = self.random.choices(list(choices), list(choices.values()))[0](kind, name)
        if operation.method != "GET":
            if "fieldManager" not in operation.query and operation.method != "DELETE" and self.chance(0.8):
                operation.query["fieldManager"] = self.pick(*MANAGERS)
            if self.chance(0.04):
                operation.query["dryRun"] = "All"
            if kind.custom and operation.method != "DELETE" and self.chance(0.05):
                operation.query["fieldValidation"] = self.pick("Strict", "Ignore")
        return operation

    def object(self, kind, name, **metadata):
        return {"apiVersion": kind.version, "kind": kind.kind, "metadata": {"name": name, **self.metadata(), **metadata},
                **self.spec(kind)}

    def create(self, kind, name):
        body = self.object(kind, name)
        if kind.status and self.chance(0.2):
            body["status"] = self.status()
        return Operation(kind, name, "POST", body=body, collection=True)

    def changes(self, kind):
        """Paths and values to lay over a known object."""
        found = []
        for top, content in self.spec(kind).items():
            if self.chance(0.15):
                found.append(((top,), content))
            else:
                found += [((top, key), ABSENT if self.chance(0.2) else value) for key, value in content.items()]
        found += [(("metadata", key), ABSENT if self.chance(0.3) else value) for key, value in self.metadata().items()]
        return found

    def put(self, kind, name):
        mutate = self.changes(kind)
        if self.chance(0.05):
            mutate.append((("metadata", "resourceVersion"), self.pick("$OLDRV", ABSENT, "1")))
        if self.chance(0.02):
            mutate.append((("metadata", "uid"), self.pick("x", ABSENT)))
        if kind.status and self.chance(0.2):
            mutate.append((("status",), self.status()))
        return Operation(kind, name, "PUT", mutate=mutate)

    def merge(self, kind, name):
        body = {}
        for top, content in self.spec(kind).items():
            body[top] = {key: None if self.chance(0.2) else value for key, value in content.items()} if self.chance(0.97) else None
        metadata = {key: None if self.chance(0.2) else value for key, value in self.metadata().items()}
        if self.chance(0.05):
            metadata["resourceVersion"] = self.pick("$RV", "$OLDRV")
        if self.chance(0.03):
            metadata["uid"] = self.pick("$UID", "x")
        if metadata:
            body["metadata"] = metadata
        if kind.status and self.chance(0.1):
            body["status"] = self.status()
        return Operation(kind, name, "PATCH", body=body, content_type=MERGE)

    def strategic(self, kind, name):
        return dataclasses.replace(self.merge(kind, name), content_type=STRATEGIC)

    def pointer(self, kind):
        if not kind.custom:
            top = "data" if kind is CONFIG_MAP else "spec"
            return f"/{top}/{self.pick(*(WORDS if kind is CONFIG_MAP else ('holderIdentity', 'renewTime')))}"
        return "/spec/" + self.pick("count", "atoms", "atoms/0", "atoms/-", "marks/0", "marks/-", "parts/0", "parts/0/value", "parts/-",
                                    "settings/a", "settings", "nested/a", "open/a", "mode", "none/x", "fixed/a", "atoms/-1", "ports/1")

    def json_patch(self, kind, name):
        patch = []
        for _ in range(self.random.randint(1, 3)):
            op = self.pick("add", "add", "replace", "remove", "test", "copy", "move")
            path = self.pointer(kind)
            step = {"op": op, "path": path}
            if op in ("copy", "move"):
                step["from"] = self.pointer(kind)
            elif op != "remove":
                step["value"] = self.patch_value(kind, path)
            patch.append(step)
        if self.chance(0.1):
            patch.append({"op": "add", "path": "/metadata/labels", "value": {"l": self.pick("1", "2")}})
        if self.chance(0.02):
            patch = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
        return Operation(kind, name, "PATCH", body=patch, content_type=JSON_PATCH)

    def patch_value(self, kind, path):
        if not kind.custom:
            return self.pick("1", "2", "x")
        parts = path.split("/")
        name, inner = parts[2], len(parts) > 3
        if name == "none":
            return 1
        value = self.thing_value(name)
        if inner and isinstance(value, list):
            return value[0] if value else self.pick("a", "b") if name in ("atoms", "marks") else {"name": "z", "port": 1}
        if inner and isinstance(value, dict):
            return self.pick("1", "2")
        return value

    def apply(self, kind, name):
        body = self.object(kind, name)
        # An empty map of an apply stays in a real server's store until the next write (docs/local.md).
        body["metadata"] = {key: value for key, value in body["metadata"].items() if value}
        # One that states nothing inside spec takes the defaults along on a real server (docs/local.md).
        if kind.custom:
            body["spec"].setdefault("count", self.pick(1, 2))
            # Who applied null and states it no more takes away an empty list of others (docs/local.md).
            body["spec"] = {key: value for key, value in body["spec"].items() if value is not None or key == "maybe"}
        if self.chance(0.02):
            body["metadata"]["resourceVersion"] = self.pick("$RV", "$OLDRV")
        query = {"fieldManager": self.pick(*MANAGERS)}
        if self.chance(0.6):
            query["force"] = "true"
        return Operation(kind, name, "PATCH", body=body, content_type=APPLY, query=query)

    def apply_status(self, kind, name):
        status = {key: value for key, value in self.status().items() if value != []}
        body = {"apiVersion": kind.version, "kind": kind.kind, "metadata": {"name": name},
                "status": status or {"phase": "x"}}  # to state nothing, or nothing but an empty list: docs/local.md
        query = {"fieldManager": self.pick(*MANAGERS)}
        if self.chance(0.6):
            query["force"] = "true"
        return Operation(kind, name, "PATCH", "status", body=body, content_type=APPLY, query=query)

    def put_status(self, kind, name):
        mutate = [(("status",), self.status())] + (self.changes(kind) if self.chance(0.3) else [])
        return Operation(kind, name, "PUT", "status", mutate=mutate)

    def patch_status(self, kind, name):
        body = {"status": {key: None if self.chance(0.2) else value for key, value in self.status().items()}}
        if self.chance(0.2):
            body["spec"] = {"count": 99}
            body["metadata"] = {"labels": {"s": "1"}}
        return Operation(kind, name, "PATCH", "status", body=body, content_type=MERGE)

    def scaled(self):
        """Always another value: a real server stores a scale that changes nothing once more (docs/local.md)."""
        return self.random.randint(4, 1 << 30)

    def get_scale(self, kind, name):
        return Operation(kind, name, "GET", "scale")

    def put_scale(self, kind, name):
        body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": "$NS"},
                "spec": {"replicas": self.scaled()}}
        if self.chance(0.5):
            body["metadata"]["resourceVersion"] = self.pick("$RV", "$RV", "$OLDRV")
        return Operation(kind, name, "PUT", "scale", body=body)

    def patch_scale(self, kind, name):
        return Operation(kind, name, "PATCH", "scale", body={"spec": {"replicas": -1 if self.chance(0.1) else self.scaled()}}, content_type=MERGE)

    def delete(self, kind, name):
        body = None
        if self.chance(0.05):
            body = {"dryRun": ["All"]}
        elif self.chance(0.4):
            body = {"preconditions": self.pick({"uid": "$UID"}, {"uid": "x"}, {"resourceVersion": "$RV"}, {"resourceVersion": "$OLDRV"})}
        return Operation(kind, name, "DELETE", body=body)

    def finalizers(self, kind, name):
        return Operation(kind, name, "PATCH", body={"metadata": {"finalizers": self.some(FINALIZERS) or None}}, content_type=MERGE)

    def read(self, kind, name):
        return Operation(kind, name, "GET", self.pick("", "status") if kind.status else "")

    def listing(self, kind, name):
        query = {"labelSelector": self.pick("a", "!a", "a=1", "b in (1,2)", "a!=1", "c notin (1)")} if self.chance(0.7) else {}
        return Operation(kind, name, "GET", collection=True, query=query)
