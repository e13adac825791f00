"""Delete: finalizers, preconditions, propagation, collections, garbage collection, namespaces."""
from fixtures import Case
from kube_api import JSON_PATCH, eventually


class Deletions(Case):
    def gone(self, path, limit=30):
        eventually(f"{path} to go", lambda: self.api.get(path).code == 404, limit)

    def owned(self, name, owner, block=None, plural="configmaps"):
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata.name"],
                     "uid": owner["metadata.uid"]}
        if block is not None:
            reference["blockOwnerDeletion"] = block
        return self.config_map(name, ownerReferences=[reference])

    def test_a_plain_delete(self):
        made = self.config_map("plain")
        answer = self.ok(self.api.delete(self.core("configmaps", "plain")))
        self.assertEqual((answer["kind"], answer["status"]), ("Status", "Success"))
        self.assertEqual(answer["details"], {"name": "plain", "kind": "configmaps", "uid": made["metadata.uid"]})
        self.refused(self.api.delete(self.core("configmaps", "plain")), 404, "NotFound")

    def test_preconditions(self):
        made = self.config_map("pre")
        path = self.core("configmaps", "pre")
        self.refused(self.api.delete(path, {"preconditions": {"uid": "x"}}), 409, "Conflict", message="the UID in the precondition (x) does not match the UID in record")
        self.refused(self.api.delete(path, {"preconditions": {"resourceVersion": "1"}}), 409, "Conflict",
                     message="the ResourceVersion in the precondition (1) does not match")
        self.ok(self.api.delete(path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {
            "uid": made["metadata.uid"], "resourceVersion": made["metadata.resourceVersion"]}}))

    def test_dry_run(self):
        self.config_map("dry")
        self.ok(self.api.delete(self.core("configmaps", "dry"), dryRun="All"))
        self.ok(self.api.delete(self.core("configmaps", "dry"), {"dryRun": ["All"]}))
        self.ok(self.api.get(self.core("configmaps", "dry")))

    def test_options_in_the_query_count_only_without_a_body(self):
        self.config_map("query")
        path = self.core("configmaps", "query")
        self.refused(self.api.delete(path, propagationPolicy="Odd"), 422, "Invalid", causes=[("FieldValueNotSupported", "propagationPolicy")])
        self.ok(self.api.delete(path, {"propagationPolicy": "Background"}, dryRun="All"))
        self.refused(self.api.get(path), 404, "NotFound")

    def test_options_that_are_invalid(self):
        self.config_map("opts")
        path = self.core("configmaps", "opts")
        answer = self.refused(self.api.delete(path, {"propagationPolicy": "Odd"}), 422, "Invalid", kind="DeleteOptions",
                              group="meta.k8s.io")
        self.assertEqual(answer.causes, [("FieldValueNotSupported", "propagationPolicy")])
        answer = self.api.delete(path, {"propagationPolicy": "Orphan", "orphanDependents": True})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "propagationPolicy")])

    def test_finalizers_hold_it(self):
        self.make("held", {"count": 1}, finalizers=["x.dev/one", "x.dev/two"])
        path = self.thing("held")
        answer = self.ok(self.api.delete(path))
        self.assertEqual(answer["kind"], "Thing")
        self.assertEqual((answer["metadata.generation"], answer["metadata.deletionGracePeriodSeconds"]), (2, 0))
        self.assertIsNotNone(answer["metadata.deletionTimestamp"])
        again = self.ok(self.api.delete(path))
        self.assertEqual(again["metadata.resourceVersion"], answer["metadata.resourceVersion"])
        self.refused(self.api.patch(path, {"metadata": {"finalizers": ["x.dev/one", "x.dev/two", "x.dev/new"]}}), 422, "Invalid",
                     causes=[("FieldValueForbidden", "metadata.finalizers")], message="no new finalizers can be added")
        one = self.ok(self.api.patch(path, [{"op": "test", "path": "/metadata/finalizers/0", "value": "x.dev/one"},
                                            {"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH))
        self.assertEqual(one["metadata.finalizers"], ["x.dev/two"])
        self.ok(self.api.patch(path, {"spec": {"count": 2}}))  # it can still be written
        answer = self.ok(self.api.patch(path, {"metadata": {"finalizers": None}}))
        self.assertEqual(answer["metadata.name"], "held")
        self.assertEqual(self.api.get(path).code, 404)

    def test_finalizers_must_be_qualified(self):
        answer = self.api.post(self.core("configmaps"), {"metadata": {"name": "unq", "finalizers": ["a b"]}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "metadata.finalizers"),
                                                        ("FieldValueInvalid", "metadata.finalizers[0]")])
        answer = self.api.post(self.thing(), self.body("unq3", {}, finalizers=["a b"]))
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "metadata.finalizers")])
        self.ok(self.api.post(self.thing(), self.body("unq4", {}, finalizers=["short"])), 201)
        self.ok(self.api.patch(self.thing("unq4"), {"metadata": {"finalizers": None}}))
        answer = self.api.post(self.core("configmaps"), {"metadata": {"name": "unq2", "finalizers": ["short"]}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "metadata.finalizers[0]")])

    def test_owner_references_are_checked(self):
        """Kubernetes 1.37 also says which reference, and that the field is required."""
        good = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}
        for field in ("uid", "kind", "name"):
            with self.subTest(field):
                answer = self.api.post(self.core("configmaps"), {"metadata": {"name": "own", "ownerReferences": [{**good, field: ""}]}})
                self.refused(answer, 422, "Invalid")
                self.assertIn(answer.causes, ([("FieldValueInvalid", f"metadata.ownerReferences.{field}")],
                                              [("FieldValueRequired", f"metadata.ownerReferences[0].{field}")]), answer)
        two = [{"apiVersion": "v1", "kind": "A", "name": name, "uid": name, "controller": True} for name in ("a", "b")]
        answer = self.api.post(self.core("configmaps"), {"metadata": {"name": "own", "ownerReferences": two}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "metadata.ownerReferences")])

    def test_collections(self):
        for index in range(3):
            self.config_map(f"coll{index}", labels={"coll": str(index % 2)})
        answer = self.ok(self.api.delete(self.core("configmaps"), labelSelector="coll=0"))
        self.assertEqual((answer["kind"], [item["metadata"]["name"] for item in answer["items"]]), ("ConfigMapList", ["coll0", "coll2"]))
        names = [item["metadata"]["name"] for item in self.api.get(self.core("configmaps"), labelSelector="coll")["items"]]
        self.assertEqual(names, ["coll1"])

    def test_background(self):
        owner = self.make("bg")
        self.owned("bg-child", owner)
        self.ok(self.api.delete(self.thing("bg"), {"propagationPolicy": "Background"}))
        self.assertEqual(self.api.get(self.thing("bg")).code, 404)
        self.gone(self.core("configmaps", "bg-child"))

    def test_a_dependent_of_two_owners_stays_with_the_other(self):
        first, second = self.make("two-a"), self.make("two-b")
        references = [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata.name"],
                       "uid": owner["metadata.uid"]} for owner in (first, second)]
        self.config_map("two-child", ownerReferences=references)
        self.ok(self.api.delete(self.thing("two-a")))
        path = self.core("configmaps", "two-child")
        eventually("the reference to go", lambda: len(self.api.get(path)["metadata.ownerReferences"]) == 1)
        self.assertEqual(self.api.get(path)["metadata.ownerReferences.0.name"], "two-b")

    def test_a_dependent_whose_owner_never_was(self):
        self.config_map("lost", ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "never",
                                                  "uid": "00000000-0000-4000-8000-000000000000"}])
        self.gone(self.core("configmaps", "lost"))

    def test_orphans(self):
        owner = self.make("orph")
        self.owned("orph-child", owner)
        answer = self.ok(self.api.delete(self.thing("orph"), {"propagationPolicy": "Orphan"}))
        self.assertEqual(answer["metadata.finalizers"], ["orphan"])
        self.gone(self.thing("orph"))
        self.assertIsNone(self.ok(self.api.get(self.core("configmaps", "orph-child")))["metadata.ownerReferences"])

    def test_foreground(self):
        owner = self.make("fore")
        child = self.owned("fore-child", owner, True)
        self.ok(self.api.patch(self.core("configmaps", "fore-child"), {"metadata": {"finalizers": ["x.dev/hold"]}}))
        answer = self.ok(self.api.delete(self.thing("fore"), {"propagationPolicy": "Foreground"}))
        self.assertEqual(answer["metadata.finalizers"], ["foregroundDeletion"])
        path = self.core("configmaps", "fore-child")
        eventually("the dependent to be deleted", lambda: self.api.get(path)["metadata.deletionTimestamp"])
        self.ok(self.api.get(self.thing("fore")))  # waits for it
        self.ok(self.api.patch(path, {"metadata": {"finalizers": None}}))
        self.gone(path)
        self.gone(self.thing("fore"))
        self.assertIsNotNone(child)

    def test_foreground_does_not_wait_for_what_does_not_block(self):
        owner = self.make("free")
        self.owned("free-child", owner)
        path = self.core("configmaps", "free-child")
        self.ok(self.api.patch(path, {"metadata": {"finalizers": ["x.dev/hold"]}}))
        self.ok(self.api.delete(self.thing("free"), {"propagationPolicy": "Foreground"}))
        self.gone(self.thing("free"))
        self.ok(self.api.patch(path, {"metadata": {"finalizers": None}}))
        self.gone(path)

    def test_foreground_without_dependents(self):
        self.make("alone")
        self.ok(self.api.delete(self.thing("alone"), {"propagationPolicy": "Foreground"}))
        self.gone(self.thing("alone"))

    def test_foreground_of_an_object_that_owns_itself(self):
        made = self.make("self")
        self.ok(self.api.patch(self.thing("self"), {"metadata": {"ownerReferences": [{
            "apiVersion": made["apiVersion"], "kind": "Thing", "name": "self", "uid": made["metadata.uid"]}]}}))
        self.ok(self.api.delete(self.thing("self"), {"propagationPolicy": "Foreground"}))
        self.gone(self.thing("self"))

    def test_a_namespace_takes_everything_along(self):
        name = f"{self.ns}-inner"
        self.ok(self.api.post("/api/v1/namespaces", {"metadata": {"name": name}}), 201)
        self.ok(self.api.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "in", "finalizers": ["x.dev/f"]}}), 201)
        answer = self.ok(self.api.delete(f"/api/v1/namespaces/{name}"))
        self.assertEqual((answer["kind"], answer["status.phase"]), ("Namespace", "Terminating"))
        answer = self.api.post(f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "late"}})
        self.refused(answer, 403, "Forbidden", causes=[("NamespaceTerminating", "metadata.namespace")])
        path = f"/api/v1/namespaces/{name}/configmaps/in"
        eventually("the content to be deleted", lambda: self.api.get(path)["metadata.deletionTimestamp"], 30)
        self.ok(self.api.patch(path, {"metadata": {"finalizers": None}}))
        self.gone(f"/api/v1/namespaces/{name}", 60)
