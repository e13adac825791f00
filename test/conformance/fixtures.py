"""What the conformance cases and the differential test stand on: a test kind, a namespace, a base class."""
import random
import unittest

from kube_api import Api, eventually

GROUP = "conform.capstan.dev"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}

SPEC = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer", "default": 1, "minimum": 0},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
        "name": {"type": "string", "maxLength": 20, "pattern": "^[a-z0-9-]*$"},
        "count": WHOLE,
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "port": {"x-kubernetes-int-or-string": True},
        "even": {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "must be even"}]},
        "atoms": TEXTS,
        "marks": {**TEXTS, "x-kubernetes-list-type": "set"},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "items": {"type": "object", "required": ["name"],
                            "properties": {"name": TEXT, "value": WHOLE, "note": {**TEXT, "default": "none"}}}},
        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                  "items": {"type": "object", "required": ["port"],
                            "properties": {"port": WHOLE, "protocol": {**TEXT, "default": "TCP"}, "label": TEXT}}},
        "settings": {"type": "object", "additionalProperties": TEXT},
        "fixed": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
        "nested": {"type": "object", "properties": {"a": TEXT, "b": {**TEXT, "default": "x"}}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {**TEXT, "nullable": True},
    },
}
STATUS = {
    "type": "object",
    "properties": {
        "phase": TEXT, "replicas": WHOLE, "selector": TEXT,
        "conditions": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                       "items": {"type": "object", "required": ["type"],
                                 "properties": {"type": TEXT, "status": TEXT, "message": TEXT}}},
    },
}


def definition(kind="Thing", plural="things", subresources=True, spec=SPEC, scope="Namespaced", required=()):
    """A CRD. With `subresources`: status and scale."""
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": STATUS},
                                       **({"required": list(required)} if required else {})}},
        "additionalPrinterColumns": [{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}],
        "selectableFields": [{"jsonPath": ".spec.mode"}] if "mode" in spec["properties"] else [],
    }
    if not version["selectableFields"]:
        del version["selectableFields"]
    if subresources:
        version["subresources"] = {"status": {}, "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector"}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": scope, "versions": [version],
                     "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}}}


def install(api):
    """The test kinds: Thing, and Plain without subresources. Waits until both are served."""
    for crd, plural in ((definition(), "things"), (definition("Plain", "plains", False), "plains")):
        answer = api.post(CRDS, crd)
        if answer.code not in (201, 409):
            raise AssertionError(f"CRD {plural}: {answer}")
    for plural in ("things", "plains"):
        eventually(f"{plural} to be served", lambda plural=plural: api.get(f"/apis/{GROUP}/v1/{plural}").code == 200)
        # Writes are served a moment later than reads, and apply once the schema is published.
        probe = f"/apis/{GROUP}/v1/namespaces/default/{plural}/probe"
        kind = plural[:-1].capitalize()
        eventually(f"{plural} to take an apply", lambda probe=probe, kind=kind: api.apply(
            probe, {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": "probe"},
                    "spec": {"marks": ["a"]}}, "probe").code in (200, 201))
        api.delete(probe)


class Case(unittest.TestCase):
    """A namespace for each class and shorthand for requests. `kubeconfig` is set by the runner before anything runs."""
    kubeconfig = None
    api: Api
    ns = ""

    @classmethod
    def setUpClass(cls):
        cls.api = Api(cls.kubeconfig)
        cls.addClassCleanup(cls.api.close)
        cls.ns = f"{cls.__name__.lower()}-{random.randrange(16 ** 5):05x}"
        answer = cls.api.post("/api/v1/namespaces", {"metadata": {"name": cls.ns}})
        assert answer.code == 201, answer

    def core(self, plural, name=""):
        return f"/api/v1/namespaces/{self.ns}/{plural}" + (f"/{name}" if name else "")

    def path(self, plural, name="", sub="", group=GROUP, version="v1"):
        tail = (f"/{name}" if name else "") + (f"/{sub}" if sub else "")
        return f"/apis/{group}/{version}/namespaces/{self.ns}/{plural}{tail}"

    def thing(self, name="", sub=""):
        return self.path("things", name, sub)

    @staticmethod
    def body(name, spec=None, kind="Thing", **metadata):
        found = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, **metadata}}
        if spec is not None:
            found["spec"] = spec
        return found

    def make(self, name, spec=None, **metadata):
        return self.ok(self.api.post(self.thing(), self.body(name, spec or {}, **metadata)), 201)

    def config_map(self, name, data=None, **metadata):
        return self.ok(self.api.post(self.core("configmaps"), {"metadata": {"name": name, **metadata}, "data": data or {}}), 201)

    def ok(self, answer, code=200):
        self.assertEqual(answer.code, code, answer)
        return answer

    def refused(self, answer, code, reason, **details):
        """A Status of the right shape; `details`: message (a part of it), causes, kind, name, group."""
        self.assertEqual((answer.code, answer["reason"]), (code, reason), answer)
        self.assertEqual((answer["kind"], answer["apiVersion"], answer["status"], answer["code"]),
                         ("Status", "v1", "Failure", code), answer)
        for key, value in details.items():
            if key == "message":
                self.assertIn(value, answer["message"])
            elif key == "causes":
                found = {cause for cause in answer.causes if not self.doubled(*cause)}
                self.assertEqual(found, set(value), answer)
            else:
                self.assertEqual(answer["details"].get(key), value, answer)
        return answer

    @staticmethod
    def doubled(reason, field):
        """A cause that says once more what another has said: a real server adds them with CEL rules and scale."""
        return reason == "FieldValueInvalid" and (field or "").startswith(("<nil>", "."))

    def managers(self, answer):
        """{(manager, operation, subresource): fieldsV1} of an object."""
        return {(entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
                for entry in answer["metadata.managedFields"] or []}
