#!/usr/bin/env python3
"""`capstan render`: the same bytes each time, objects that a server takes under strict validation, and every way to get it wrong."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import yaml

from local_cluster import CAPSTAN, ETCD1, ETCD3, ROOT, Api
from operator_process import ApiServer

GATE = ("--feature-gates", "etcd.EtcdMember=true")
LIMIT_SECONDS = 60
PLURALS = {"Endpoints": "endpoints", "NetworkPolicy": "networkpolicies"}
KINDS_OF_THREE = ["PodDisruptionBudget", "ServiceAccount", "ConfigMap", "Role", "RoleBinding", "Lease", "Lease", "Lease", "Service",
                  "Service", "EtcdMember", "EtcdMember", "EtcdMember", "StatefulSet"]


def render(*arguments, **options):
    return subprocess.run([CAPSTAN, "render", *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_SECONDS,
                          check=False, **options)


def objects_of(text):
    return [document for document in yaml.safe_load_all(text) if document]


def collection(document):
    base = ("/apis/" if "/" in document["apiVersion"] else "/api/") + document["apiVersion"]
    plural = PLURALS.get(document["kind"], document["kind"].lower() + "s")
    return f"{base}/namespaces/{document['metadata']['namespace']}/{plural}"


class RenderCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="capstan-render-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def write(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return path

    def good(self, *arguments, **options):
        done = render(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, code, *parts, arguments, **options):
        done = render(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        return done.stderr


class Output(RenderCase):
    def test_the_same_bytes_each_time_and_nothing_of_a_server(self):
        for example in (ETCD1, ETCD3):
            once = self.good("-f", example, *GATE)
            self.assertEqual(once, self.good("-f", example, *GATE))
            for field in ("uid:", "resourceVersion:", "creationTimestamp:", "managedFields:", "generation:", "ownerReferences:",
                          "status:"):
                self.assertNotIn(field, once)

    def test_every_child_of_three_members_in_the_order_of_their_kinds(self):
        done = render("-f", ETCD3, *GATE)
        children = objects_of(done.stdout)
        self.assertEqual([child["kind"] for child in children], KINDS_OF_THREE)
        self.assertEqual({child["metadata"]["namespace"] for child in children}, {"default"})
        self.assertEqual(children[-1]["spec"]["replicas"], 3)
        self.assertIn("awaited: Etcd default/main: Ready: No member has reported yet", done.stderr)

    def test_secrets_that_a_plugin_makes_are_left_out(self):
        done = render("-f", ETCD1, *GATE)
        self.assertNotIn("kind: Secret", done.stdout)
        self.assertIn("left out: Secret default/solo-api-token:", done.stderr)
        made = [o for o in objects_of(self.good("-f", ETCD1, *GATE, "--secrets")) if o["kind"] == "Secret"]
        self.assertEqual([(o["metadata"]["name"], list(o["data"])) for o in made], [("solo-api-token", ["token"])])

    def test_json_is_one_list_of_the_same(self):
        listed = json.loads(self.good("-f", ETCD1, *GATE, "-o", "json"))
        self.assertEqual(listed["kind"], "List")
        self.assertEqual(listed["items"], objects_of(self.good("-f", ETCD1, *GATE)))

    def test_all_status_and_owners(self):
        listed = json.loads(self.good("-f", ETCD1, *GATE, "-o", "json", "--all", "--status", "--owners"))["items"]
        etcd = next(item for item in listed if item["kind"] == "Etcd")
        self.assertEqual(etcd["status"]["observedGeneration"], 1)
        owner = listed[-1]["metadata"]["ownerReferences"][0]
        self.assertEqual((owner["kind"], owner["name"], owner["uid"]), ("Etcd", "solo", "00000000-0000-0000-0000-000000000000"))

    def test_a_gate_that_is_off_is_a_refusal(self):
        self.refused(1, "refused: Etcd default/solo: SpecSupported:", "EtcdMember", arguments=("-f", ETCD1))

    def test_another_plugin_from_a_directory(self):
        plugins = self.dir / "plugins"
        plugins.mkdir(mode=0o700)
        shutil.copy(pathlib.Path(os.environ["CAPSTAN_TEST_PLUGINS"]) / "greeter.so", plugins)
        given = self.write("a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {greet: 'yes'}}\n")
        made = objects_of(self.good("-f", given, "--plugin-dir", plugins, "--plugin", "greeter", "-n", "somewhere"))
        self.assertEqual([(m["kind"], m["metadata"]["name"], m["metadata"]["namespace"]) for m in made],
                         [("Service", "a-client", "somewhere")])

    def test_nothing_is_written(self):
        cache = self.dir / "cache"
        here = self.dir / "here"
        here.mkdir()
        self.good("-f", ETCD1, *GATE, cwd=here, env={**os.environ, "XDG_CACHE_HOME": str(cache), "HOME": str(here)})
        self.assertEqual(list(here.iterdir()), [], "but for copies of the plugins")


class Input(RenderCase):
    def test_standard_input_lists_and_json(self):
        plain = self.good("-f", ETCD1, *GATE)
        self.assertEqual(self.good("-f", "-", *GATE, input=ETCD1.read_text()), plain)
        etcd = objects_of(ETCD1.read_text())[0]
        read = {**etcd, "metadata": {**etcd["metadata"], "uid": "u", "resourceVersion": "7", "managedFields": [],
                                     "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "y"}]}}
        listed = self.write("list.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [read]}))
        self.assertEqual(self.good("-f", listed, *GATE), plain, "as read from a server")

    def test_several_files_and_what_an_object_refers_to(self):
        secret = self.write("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: else}\n")
        both = objects_of(self.good("-f", ETCD1, ETCD3, secret, *GATE))
        self.assertEqual([o["metadata"]["name"] for o in both if o["kind"] == "StatefulSet"], ["main", "solo"])
        self.assertNotIn("Secret", [o["kind"] for o in both])
        self.assertIn("name: s\n", self.good("-f", ETCD1, secret, *GATE, "--all"), "a given one is no secret")

    def test_a_configuration(self):
        config = self.write("operator.yaml", "apiVersion: config.capstan.dev/v1alpha1\nkind: OperatorConfig\n"
                            "plugins: {etcd: {featureGates: {EtcdMember: true}}, custodian: {}}\n"
                            "kubeconfig: /nowhere\n")
        plain = self.good("-f", ETCD1, *GATE)
        self.assertEqual(self.good("-f", ETCD1, "--config", config), plain, "nobody is asked, so nobody needs a kubeconfig")
        self.refused(1, "SpecSupported", arguments=("-f", ETCD1, "--config", config, "--feature-gates", "etcd.EtcdMember=false"))

    def test_facts_may_be_given(self):
        etcd = objects_of(ETCD1.read_text())[0]
        member = {"apiVersion": etcd["apiVersion"], "kind": "EtcdMember", "metadata": {"name": "solo-0", "namespace": "default"},
                  "status": {"clusterID": "1a2b"}}
        text = yaml.safe_dump_all([etcd, member])
        made = json.loads(self.good("-f", "-", *GATE, "-o", "json", "--all", "--status", input=text))["items"]
        found = next(item for item in made if item["kind"] == "EtcdMember")
        self.assertEqual(found["status"]["clusterID"], "1a2b")
        self.assertEqual(found["metadata"]["labels"]["gardener.cloud/owned-by"], "solo", "the plugin takes it up")

    def test_kinds_may_be_given_behind_their_objects(self):
        text = ("apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t, namespace: elsewhere}\nspec: {a: 1}\n---\n"
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\n"
                "spec:\n  group: example.com\n  names: {kind: Thing, plural: things}\n  scope: Namespaced\n  versions:\n"
                "  - name: v1\n    served: true\n    storage: true\n    schema: {openAPIV3Schema: {type: object, properties: "
                "{spec: {type: object, properties: {a: {type: integer}}}}}}\n")
        done = render("-f", "-", *GATE, input=text)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertIn("awaited: Thing elsewhere/t: to be taken up by its controller", done.stderr)
        self.assertIn("the plugins make no objects of this", done.stderr)
        given = objects_of(self.good("-f", "-", *GATE, "--all", input=text))
        self.assertEqual([o["kind"] for o in given], ["CustomResourceDefinition", "Thing"])

    def test_bad_input(self):
        head = "apiVersion: druid.gardener.cloud/v1alpha1\nkind: Etcd\nmetadata: {name: x}\nspec:\n  replicas: 1\n  backup: {}\n"
        for text, *parts in (
                (head + "  labels: {a: b}\n  etdc: {}\n  etcd: {}\n", "bad.yaml:8:", "spec.etdc: field not declared"),
                (head + "  labels: {a: b}\n  etcd:\n    quota: 5Zi\n", "bad.yaml:9:", "spec.etcd.quota: Invalid value"),
                ("kind: Foo\napiVersion: foo/v1\nmetadata: {name: x}\n", "kind Foo of foo/v1 is not known", "CustomResourceDefinition"),
                ("kind: Foo\nmetadata: {name: x}\n", "bad.yaml:1: /apiVersion: missing"),
                ("a: [\n", "bad.yaml:"),
                ("", "holds no object")):
            with self.subTest(text):
                self.refused(2, *parts, arguments=("-f", self.write("bad.yaml", text), *GATE))
        self.refused(2, "/nowhere.yaml: No such file", arguments=("-f", "/nowhere.yaml", *GATE))
        self.refused(2, "standard input: holds no object", arguments=("-f", "-"), input="")

    def test_bad_gates_and_plugins(self):
        self.refused(2, "unknown feature gate EtcdMembr", arguments=("-f", ETCD1, "--feature-gates", "etcd.EtcdMembr=true"))
        self.refused(2, "plugin foo does not run here", "custodian, etcd", arguments=("-f", ETCD1, "--feature-gates", "foo.Bar=true"))
        self.refused(2, "write PLUGIN.GATE=true", arguments=("-f", ETCD1, "--feature-gates", "EtcdMember"))
        self.refused(3, 'plugin "nosuch": no nosuch.so in', arguments=("-f", ETCD1, "--plugin", "nosuch"))
        broken = self.dir / "plugins"
        broken.mkdir(mode=0o700)
        (broken / "etcd.so").write_text("no plugin")
        self.refused(3, "etcd.so", arguments=("-f", ETCD1, "--plugin-dir", broken, "--plugin", "etcd"))


class Applied(RenderCase):
    @classmethod
    def setUpClass(cls):
        cls.server = ApiServer()
        cls.addClassCleanup(cls.server.close)
        cls.server.start("--api-only")
        cls.api = Api(cls.server.kubeconfig)

    def test_a_server_takes_all_of_it_and_changes_nothing(self):
        for example in (ETCD1, ETCD3):
            for document in objects_of(self.good("-f", example, *GATE)):
                path = f"{collection(document)}/{document['metadata']['name']}?fieldManager=gitops&fieldValidation=Strict"
                status, stored = self.api.request("PATCH", path, document, "application/apply-patch+yaml")
                self.assertEqual(status, 201, stored)
                again, same = self.api.request("PATCH", path, document, "application/apply-patch+yaml")
                self.assertEqual((again, same["metadata"]["resourceVersion"]), (200, stored["metadata"]["resourceVersion"]))
                self.assertEqual({k: v for k, v in stored.items() if k not in ("metadata", "status")},
                                 {k: v for k, v in document.items() if k != "metadata"} | self.decorated(stored))

    @staticmethod
    def decorated(stored):
        """What a server adds to claims inside a StatefulSet."""
        claims = stored.get("spec", {}).get("volumeClaimTemplates") if isinstance(stored.get("spec"), dict) else None
        return {"spec": stored["spec"]} if claims else {}


class Help(unittest.TestCase):
    def test_examples_and_the_pages(self):
        said = subprocess.run([CAPSTAN, "render", "--help"], capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True).stdout
        self.assertIn("capstan render -f examples/etcd-3.yaml", said)
        for page in ("docs/local.md", "docs/operations.md", "README.md"):
            self.assertTrue("capstan render" in (ROOT / page).read_text(), page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
