"""The chart as helm renders it, for its tests. helm is what tools/build-helm has left in the cache."""
import json
import os
import pathlib
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "chart"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "capstan"
HELM = next(iter(sorted(CACHE.glob("helm-*/bin/helm"), reverse=True)), None)
NO_HELM = "no helm in the cache: tools/build-helm 3.19.2 builds one"
NAMESPACE = "capstan-system"

# Everything on, with a plugin of somebody else.
FULL = {
    "image": {"repository": "registry.example.com/capstan", "digest": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "replicas": 3,
    "plugins": {"etcd": {"enabled": True, "featureGates": {"EtcdMember": True}},
                "mine": {"enabled": True, "image": "registry.example.com/mine:1", "config": {"greeting": "hello"},
                         "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]}},
    "config": {"logging": {"level": "debug"}, "namespaces": ["shop"]},
    "leaderElection": {"leaseName": "druid-leader-election"},
    "ops": {"port": 8443, "authentication": "kubernetes", "tlsSecret": "ops-tls"},
    "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboard": {"enabled": True},
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
    "podLabels": {"team": "storage"}, "podAnnotations": {"example.com/a": "b"},
    "priorityClassName": "system-cluster-critical", "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "control-plane", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}]}}},
}


def helm(*arguments):
    with tempfile.TemporaryDirectory() as home:  # nothing of the user's own helm
        environment = {**os.environ, "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home}
        return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, env=environment)


def render(values=None, release="capstan"):
    """The text of all objects."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(values or {}, file)
        file.flush()
        done = helm("template", release, CHART, "--namespace", NAMESPACE, "--kube-version", "1.34.0", "--values", file.name)
    if done.returncode != 0:
        raise ValueError(done.stderr)
    return done.stdout


def objects(values=None, release="capstan"):
    return [document for document in yaml.safe_load_all(render(values, release)) if document]


def one(documents, kind, name=None):
    found = [document for document in documents if document["kind"] == kind and name in (None, document["metadata"]["name"])]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} objects {kind} {name or ''}")
    return found[0]


def configuration(documents):
    """The text of operator.yaml."""
    return one([d for d in documents if "operator.yaml" in d.get("data", {})], "ConfigMap")["data"]["operator.yaml"]
