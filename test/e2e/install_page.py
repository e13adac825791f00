"""The YAML of docs/install.md, for the tests of that page."""
import pathlib

import yaml

PAGE = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "install.md"
PLURALS = {"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ClusterRole": "clusterroles",
           "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings", "Deployment": "deployments",
           "PodDisruptionBudget": "poddisruptionbudgets", "ConfigMap": "configmaps", "Service": "services",
           "NetworkPolicy": "networkpolicies"}


def blocks(language):
    """The texts between ```LANGUAGE and ```."""
    found = []
    for part in PAGE.read_text().split(f"```{language}\n")[1:]:
        found.append(part.split("```", 1)[0])
    return found


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def configuration():
    """The text of operator.yaml."""
    return next(block for block in blocks("yaml") if "kind: OperatorConfig" in block)


def objects():
    """Every Kubernetes object of the page, in its order."""
    return [document for block in blocks("yaml") if block != configuration() for document in documents(block)]


def collection(document):
    """The path of an object's collection."""
    version, namespace = document["apiVersion"], document["metadata"].get("namespace")
    base = ("/apis/" if "/" in version else "/api/") + version
    return base + (f"/namespaces/{namespace}" if namespace else "") + "/" + PLURALS[document["kind"]]
