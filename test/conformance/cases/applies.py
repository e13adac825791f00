"""Server-side apply: owners, conflicts, list types, what is dropped, what is kept."""
import json

from fixtures import Case
from kube_api import APPLY


class Applies(Case):
    def apply(self, name, spec, manager="one", sub="", **query):
        body = self.body(name, spec) if not sub else {**self.body(name), "status": spec}
        return self.api.apply(self.thing(name, sub), body, manager, **query)

    def test_creates_and_owns_what_it_states(self):
        answer = self.ok(self.apply("fresh", {"count": 1, "nested": {"a": "x"}}), 201)
        self.assertEqual(answer["spec"], {"count": 1, "nested": {"a": "x", "b": "x"}, "replicas": 1, "mode": "fast"})
        self.assertEqual(self.managers(answer), {("one", "Apply", ""): {"f:spec": {"f:count": {}, "f:nested": {"f:a": {}}}}})

    def test_the_same_again_keeps_the_version(self):
        first = self.ok(self.apply("again", {"count": 1, "parts": [{"name": "a"}], "marks": ["x"]}), 201)
        second = self.ok(self.apply("again", {"count": 1, "parts": [{"name": "a"}], "marks": ["x"]}))
        self.assertEqual(second["metadata.resourceVersion"], first["metadata.resourceVersion"])
        self.assertEqual(second.body, first.body)

    def test_conflict_names_manager_and_field(self):
        self.ok(self.apply("clash", {"count": 1, "flag": True}), 201)
        answer = self.refused(self.apply("clash", {"count": 2}, "two"), 409, "Conflict",
                              causes=[("FieldManagerConflict", ".spec.count")])
        self.assertEqual(answer["message"], 'Apply failed with 1 conflict: conflict with "one": .spec.count')
        answer = self.refused(self.apply("clash", {"count": 2, "flag": False}, "two"), 409, "Conflict",
                              causes=[("FieldManagerConflict", ".spec.count"), ("FieldManagerConflict", ".spec.flag")])
        self.assertEqual(answer["message"], 'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.count\n- .spec.flag')

    def test_conflict_with_an_updater_and_with_several(self):
        self.ok(self.apply("clash3", {"count": 1}), 201)
        self.ok(self.api.patch(self.thing("clash3"), {"spec": {"flag": True}}, fieldManager="upd"))
        answer = self.refused(self.apply("clash3", {"count": 2, "flag": False}, "two"), 409, "Conflict")
        self.assertRegex(answer["message"], "^Apply failed with 2 conflicts: ")
        self.assertRegex(answer["message"], 'conflicts with "one":\n- .spec.count')
        self.assertRegex(answer["message"], 'conflicts with "upd" using conform.capstan.dev/v1:\n- .spec.flag')

    def test_force_takes_the_field(self):
        self.ok(self.apply("force", {"count": 1, "flag": True}), 201)
        answer = self.ok(self.apply("force", {"count": 2}, "two", force="true"))
        self.assertEqual(answer["spec.count"], 2)
        self.assertEqual(self.managers(answer), {("one", "Apply", ""): {"f:spec": {"f:flag": {}}},
                                                 ("two", "Apply", ""): {"f:spec": {"f:count": {}}}})

    def test_the_same_value_is_shared(self):
        self.ok(self.apply("share", {"count": 1}), 201)
        answer = self.ok(self.apply("share", {"count": 1}, "two"))
        self.assertEqual(set(self.managers(answer)), {("one", "Apply", ""), ("two", "Apply", "")})
        answer = self.ok(self.apply("share", {}, "one"))
        self.assertEqual(answer["spec.count"], 1)  # the other still owns it
        answer = self.ok(self.apply("share", {}, "two"))
        self.assertIsNone(answer["spec.count"])

    def test_what_is_not_stated_any_more_goes(self):
        self.ok(self.apply("drop", {"count": 1, "settings": {"a": "1", "b": "2"}, "marks": ["x", "y"],
                                    "parts": [{"name": "p"}, {"name": "q"}], "atoms": ["z"]}), 201)
        answer = self.ok(self.apply("drop", {"settings": {"a": "1"}, "marks": ["y"], "parts": [{"name": "q", "value": 2}]}))
        self.assertEqual(answer["spec"], {"mode": "fast", "replicas": 1, "settings": {"a": "1"}, "marks": ["y"],
                                          "parts": [{"name": "q", "note": "none", "value": 2}]})

    def test_sets_and_maps_merge_atoms_do_not(self):
        self.ok(self.apply("lists", {"marks": ["a", "b"], "parts": [{"name": "p", "value": 1}], "atoms": ["a"], "fixed": {"k": "1"}}), 201)
        answer = self.ok(self.apply("lists", {"marks": ["c", "b"], "parts": [{"name": "q"}, {"name": "p", "note": "n"}]}, "two",
                                    force="true"))
        self.assertEqual(sorted(answer["spec.marks"]), ["a", "b", "c"])
        self.assertEqual({part["name"]: part for part in answer["spec.parts"]},
                         {"p": {"name": "p", "value": 1, "note": "n"}, "q": {"name": "q", "note": "none"}})
        self.refused(self.apply("lists", {"atoms": ["b"]}, "two"), 409, "Conflict", causes=[("FieldManagerConflict", ".spec.atoms")])
        self.refused(self.apply("lists", {"fixed": {"j": "1"}}, "two"), 409, "Conflict", causes=[("FieldManagerConflict", ".spec.fixed")])

    def test_conflicts_inside_lists_name_the_item(self):
        self.ok(self.apply("items", {"parts": [{"name": "p", "value": 1}], "ports": [{"port": 80, "label": "a"}]}), 201)
        self.refused(self.apply("items", {"parts": [{"name": "p", "value": 2}], "ports": [{"port": 80, "label": "b"}]}, "two"), 409,
                     "Conflict", causes=[("FieldManagerConflict", '.spec.parts[name="p"].value'),
                                         ("FieldManagerConflict", '.spec.ports[port=80,protocol="TCP"].label')])

    def test_items_without_their_key_are_refused(self):
        answer = self.apply("nokey", {"parts": [{"value": 1}]})
        self.assertEqual(answer.code, 500, answer)
        self.assertIn("associative list with keys has an element that omits", answer["message"])
        answer = self.apply("twice", {"parts": [{"name": "a"}, {"name": "a"}]})
        self.assertEqual(answer.code, 500, answer)
        self.assertIn("duplicate entries for key", answer["message"])

    def test_unknown_fields_are_refused(self):
        answer = self.apply("unknown", {"bogus": 1})
        self.assertEqual(answer.code, 500, answer)
        self.assertIn(".spec.bogus: field not declared in schema", answer["message"])

    def test_a_wrong_type_is_refused(self):
        answer = self.apply("wrong", {"count": "x"})
        self.assertEqual(answer.code, 500, answer)

    def test_needs_a_manager(self):
        answer = self.api.request("PATCH", self.thing("nomgr"), self.body("nomgr", {}), content_type=APPLY)
        self.refused(answer, 422, "Invalid", causes=[("FieldValueRequired", "fieldManager")], kind="PatchOptions", group="meta.k8s.io")

    def test_needs_version_and_kind(self):
        for body in ({"metadata": {"name": "nokind"}}, {"kind": "Thing", "metadata": {"name": "nokind"}}):
            with self.subTest(body):
                self.assertEqual(self.api.apply(self.thing("nokind"), body, "one").code, 400)

    def test_may_not_state_managed_fields(self):
        self.ok(self.apply("mf", {}), 201)
        body = self.body("mf", {}, managedFields=[{"manager": "one", "operation": "Apply", "apiVersion": "conform.capstan.dev/v1",
                                                    "fieldsType": "FieldsV1", "fieldsV1": {}}])
        self.refused(self.api.apply(self.thing("mf"), body, "one"), 400, "BadRequest", message="metadata.managedFields must be nil")

    def test_conditions_on_version_and_uid(self):
        made = self.ok(self.apply("cond", {"count": 1}), 201)
        body = self.body("cond", {"count": 2}, resourceVersion="1")
        self.refused(self.api.apply(self.thing("cond"), body, "one"), 409, "Conflict")
        body["metadata"] = {"name": "cond", "uid": "other"}
        self.refused(self.api.apply(self.thing("cond"), body, "one"), 422, "Invalid", causes=[("FieldValueInvalid", "metadata.uid")])
        body["metadata"]["uid"] = made["metadata.uid"]
        answer = self.ok(self.api.apply(self.thing("cond"), body, "one"))
        self.assertEqual(answer["spec.count"], 2)
        self.refused(self.api.apply(self.thing("absent"), self.body("absent", {}, uid="x"), "one"), 409, "Conflict")

    def test_dry_run(self):
        made = self.ok(self.apply("dry", {"count": 1}), 201)
        self.assertEqual(self.ok(self.apply("dry", {"count": 2}, dryRun="All"))["spec.count"], 2)
        self.assertEqual(self.api.get(self.thing("dry")).body, made.body)
        self.ok(self.apply("drynew", {"count": 1}, dryRun="All"), 201)
        self.assertEqual(self.api.get(self.thing("drynew")).code, 404)
        # A version that was sent comes back, though nothing has it.
        stated = {**self.body("drynew", {"count": 1}), "metadata": {"name": "drynew", "resourceVersion": "7"}}
        answer = self.ok(self.api.apply(self.thing("drynew"), stated, "one", dryRun="All"), 201)
        self.assertEqual(answer["metadata.resourceVersion"], "7")

    def test_status_is_a_separate_entry(self):
        self.ok(self.apply("st", {"count": 1}), 201)
        answer = self.ok(self.apply("st", {"phase": "x", "conditions": [{"type": "Ready", "status": "True"}]}, sub="status"))
        self.assertEqual(self.managers(answer), {
            ("one", "Apply", ""): {"f:spec": {"f:count": {}}},
            ("one", "Apply", "status"): {"f:status": {"f:phase": {}, "f:conditions": {
                'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}}}}})
        answer = self.ok(self.apply("st", {"conditions": [{"type": "Done", "status": "False"}]}, "two", sub="status"))
        self.assertEqual([item["type"] for item in answer["status.conditions"]], ["Ready", "Done"])
        self.refused(self.apply("none", {"phase": "x"}, sub="status"), 404, "NotFound")

    def test_an_updater_loses_what_apply_forces(self):
        self.make("upd", {"count": 1, "flag": True})
        self.refused(self.apply("upd", {"count": 2}), 409, "Conflict")
        answer = self.ok(self.apply("upd", {"count": 2}, force="true"))
        fields = self.managers(answer)
        self.assertNotIn("f:count", fields[("conformance", "Update", "")]["f:spec"])
        self.assertEqual(fields[("one", "Apply", "")], {"f:spec": {"f:count": {}}})

    def test_an_update_takes_ownership_without_asking(self):
        self.ok(self.apply("taken", {"count": 1, "marks": ["a", "b"]}), 201)
        answer = self.ok(self.api.patch(self.thing("taken"), {"spec": {"count": 2, "marks": ["b", "c"]}}, fieldManager="upd"))
        self.assertEqual(self.managers(answer), {
            ("one", "Apply", ""): {"f:spec": {"f:marks": {'v:"b"': {}}}},
            ("upd", "Update", ""): {"f:spec": {"f:count": {}, "f:marks": {'v:"c"': {}}}}})

    def test_objects_nobody_tracked(self):
        self.make("untracked", {"count": 1})
        self.ok(self.api.patch(self.thing("untracked"), [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
                               "application/json-patch+json"))
        answer = self.refused(self.apply("untracked", {"count": 2}), 409, "Conflict")
        self.assertIn("before-first-apply", answer["message"])
        answer = self.ok(self.apply("untracked", {"count": 2}, force="true"))
        self.assertEqual(set(self.managers(answer)), {("before-first-apply", "Update", ""), ("one", "Apply", "")})

    def test_a_body_in_yaml(self):
        text = f"apiVersion: conform.capstan.dev/v1\nkind: Thing\nmetadata:\n  name: yaml\nspec:\n  count: 3\n  atoms:\n  - a\n"
        answer = self.ok(self.api.request("PATCH", self.thing("yaml"), text, content_type=APPLY, fieldManager="one"), 201)
        self.assertEqual((answer["spec.count"], answer["spec.atoms"]), (3, ["a"]))

    def test_finalizers_are_a_set(self):
        path = self.thing("fin")
        self.ok(self.api.apply(path, self.body("fin", {}, finalizers=["a.dev/x"]), "one"), 201)
        answer = self.ok(self.api.apply(path, self.body("fin", {}, finalizers=["b.dev/y"]), "two"))
        self.assertEqual(sorted(answer["metadata.finalizers"]), ["a.dev/x", "b.dev/y"])
        answer = self.ok(self.api.apply(path, self.body("fin", {}), "one"))
        self.assertEqual(answer["metadata.finalizers"], ["b.dev/y"])
        self.ok(self.api.apply(path, self.body("fin", {}), "two"))

    def test_builtin_lists(self):
        path = self.core("services", "svc")
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": {"clusterIP": "None", "ports": [
            {"name": "a", "port": 1}]}}
        self.ok(self.api.apply(path, body, "one"), 201)
        body["spec"]["ports"] = [{"name": "b", "port": 2}]
        answer = self.ok(self.api.apply(path, body, "two"))
        self.assertEqual(sorted(port["name"] for port in answer["spec.ports"]), ["a", "b"])
        self.assertIn('k:{"port":2,"protocol":"TCP"}', json.dumps(self.managers(answer)[("two", "Apply", "")], separators=(",", ":")).replace('\\"', '"'))
