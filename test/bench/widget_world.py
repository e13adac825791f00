"""The world of the widget workload: a control plane with Widgets, written straight to etcd where the API server would be slow."""
import base64
import http.client
import json
import os
import pathlib
import socket
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cluster"))
import control_plane  # noqa: E402

WIDGETS = "/apis/bench.example.io/v1/widgets"
NAMESPACE = "default"
SENT_DIGITS = 1_000_000_000_000_000_000  # so that sentAtNs always has 19 digits

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
            self.revision = self.etcd("txn", {"success": [{"requestPut": {
                "key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}}
                for key, value in pairs[at:at + 100]]})["header"]["revision"]

    def await_watch_cache(self, limit=120):
        """Until the API server's cache of Widgets has what was written to etcd; nobody should pay for that."""
        end = time.monotonic() + limit
        path = f"{WIDGETS}?limit=1&resourceVersion={getattr(self, 'revision', 1)}&resourceVersionMatch=NotOlderThan"
        while self.request("GET", path)[0] != 200:
            if time.monotonic() > end:
                raise TimeoutError(f"the API server's cache did not catch up within {limit} s")
        time.sleep(1)

    def api_cpu(self):
        """CPU seconds of the API server so far."""
        fields = pathlib.Path(f"/proc/{self.processes['apiserver'].pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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


class RawWatch(threading.Thread):
    """A raw watch of all Widgets that only hands each line to `see`; goes on where a server ends it for being slow."""

    def __init__(self, world, see):
        super().__init__(daemon=True)
        self.see = see
        self.world = world
        self.closing = False
        self.version = json.loads(world.request("GET", WIDGETS + "?limit=1")[1])["metadata"]["resourceVersion"]
        self.open()
        self.start()

    def open(self):
        self.connection = http.client.HTTPSConnection("127.0.0.1", self.world.port, context=self.world.context, timeout=120)
        self.connection.request("GET", f"{WIDGETS}?watch=1&resourceVersion={self.version}")
        self.answer = self.connection.getresponse()

    def close(self):
        self.closing = True
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.join(5)

    def run(self):
        while not self.closing:
            line = b""
            try:
                for line in self.answer:
                    self.see(line)
            except (OSError, ValueError, http.client.HTTPException):
                pass
            at = line.find(b'"resourceVersion":"') + 19
            if self.closing or at < 19:
                return
            self.version = line[at:line.index(b'"', at)].decode()
            print(f"# the raw watch was ended and goes on from {self.version}", file=sys.stderr, flush=True)
            self.open()
