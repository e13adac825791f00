"""Create, update, patches: versions, validation, generation, no-op writes."""
from fixtures import Case
from kube_api import JSON_PATCH, MERGE, STRATEGIC


class Creates(Case):
    def test_what_the_server_fills_in(self):
        answer = self.make("filled", {})
        meta = answer["metadata"]
        self.assertEqual((meta["name"], meta["namespace"], meta["generation"]), ("filled", self.ns, 1))
        self.assertRegex(meta["uid"], "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
        self.assertRegex(meta["creationTimestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(answer["spec"], {"replicas": 1, "mode": "fast"})
        self.assertEqual(self.api.get(self.thing("filled")).body, answer.body)

    def test_server_fields_of_the_sender_are_ignored(self):
        answer = self.make("ignored", {}, uid="u", generation=7, creationTimestamp="2001-01-01T00:00:00Z", selfLink="x",
                           deletionTimestamp="2001-01-01T00:00:00Z")
        self.assertNotEqual(answer["metadata.uid"], "u")
        self.assertEqual(answer["metadata.generation"], 1)
        self.assertNotEqual(answer["metadata.creationTimestamp"], "2001-01-01T00:00:00Z")
        self.assertIsNone(answer["metadata.deletionTimestamp"])

    def test_generated_names(self):
        answer = self.ok(self.api.post(self.core("configmaps"), {"metadata": {"generateName": "gen-"}}), 201)
        self.assertRegex(answer["metadata.name"], "^gen-[a-z0-9]{5}$")
        self.assertEqual(answer["metadata.generateName"], "gen-")

    def test_without_a_name(self):
        self.refused(self.api.post(self.core("configmaps"), {"metadata": {}}), 422, "Invalid",
                     causes=[("FieldValueRequired", "metadata.name")], kind="ConfigMap",
                     message="name or generateName is required")

    def test_a_name_that_is_taken(self):
        self.config_map("taken")
        self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": "taken"}}), 409, "AlreadyExists",
                     message='configmaps "taken" already exists', kind="configmaps", name="taken")

    def test_names_that_are_invalid(self):
        for name in ("Upper", "a_b", "-a", "a..b"):
            with self.subTest(name):
                self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": name}}), 422, "Invalid",
                             causes=[("FieldValueInvalid", "metadata.name")])
        self.refused(self.api.post(self.core("services"), {"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 1}]}}),
                     422, "Invalid", causes=[("FieldValueInvalid", "metadata.name")])

    def test_a_version_at_creation_is_refused(self):
        answer = self.api.post(self.core("configmaps"), {"metadata": {"name": "v", "resourceVersion": "1"}})
        self.assertIn("resourceVersion should not be set on objects to be created", answer["message"])

    def test_labels_and_annotations_are_checked(self):
        for metadata, field in (({"labels": {"a b": "x"}}, "metadata.labels"), ({"labels": {"a": "x y"}}, "metadata.labels"),
                                ({"annotations": {"a b": "x"}}, "metadata.annotations"),
                                ({"labels": {"a": "x" * 64}}, "metadata.labels")):
            with self.subTest(metadata):
                self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": "m", **metadata}}), 422, "Invalid",
                             causes=[("FieldValueInvalid", field)])

    def test_a_namespace_that_does_not_exist(self):
        self.refused(self.api.post("/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "a"}}), 404, "NotFound",
                     message='namespaces "nowhere" not found')

    def test_a_namespace_that_differs_from_the_path(self):
        self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": "a", "namespace": "default"}}), 400, "BadRequest",
                     message="does not match the namespace sent on the request")

    def test_bodies_that_are_no_objects(self):
        for body in ("{", "[]", '"x"'):
            with self.subTest(body):
                self.refused(self.api.post(self.core("configmaps"), body), 400, "BadRequest")
        self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": "a"}}, content_type="text/plain"),
                     415, "UnsupportedMediaType")

    def test_another_kind_or_version(self):
        self.refused(self.api.post(self.core("configmaps"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
                     400, "BadRequest")
        self.refused(self.api.post(self.thing(), {"apiVersion": "conform.capstan.dev/v2", "kind": "Thing", "metadata": {"name": "a"}}),
                     400, "BadRequest")

    def test_a_dry_run_stores_nothing(self):
        answer = self.ok(self.api.post(self.thing(), self.body("dry", {}), dryRun="All"), 201)
        self.assertEqual(answer["spec.mode"], "fast")
        self.assertIsNone(answer["metadata.resourceVersion"])
        self.assertEqual(self.api.get(self.thing("dry")).code, 404)
        answer = self.api.post(self.thing(), self.body("dry", {}), dryRun="Some")
        self.refused(answer, 422, "Invalid", causes=[("FieldValueNotSupported", "dryRun")])

    def test_types_of_builtin_fields(self):
        answer = self.api.post(self.core("configmaps"), {"metadata": {"name": "typed"}, "data": {"a": 1}})
        self.assertEqual((answer.code, answer["reason"]), (400, "BadRequest"), answer)

    def test_keys_of_a_config_map(self):
        self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": "keys"}, "data": {"a b": "1"}}), 422, "Invalid",
                     causes=[("FieldValueInvalid", "data[a b]")])

    def test_the_size_of_annotations(self):
        self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": "big", "annotations": {"a": "x" * 300000}}}), 422,
                     "Invalid", causes=[("FieldValueTooLong", "metadata.annotations")])

    def test_a_body_that_is_too_large(self):
        self.refused(self.api.post(self.core("configmaps"), {"metadata": {"name": "big"}, "data": {"a": "x" * (4 << 20)}}), 413,
                     "RequestEntityTooLarge")


class Updates(Case):
    def test_compare_and_swap(self):
        old = self.make("cas", {"count": 1})
        new = dict(old.body, spec={"count": 2})
        self.ok(self.api.put(self.thing("cas"), new))
        self.refused(self.api.put(self.thing("cas"), new), 409, "Conflict", kind="things", name="cas",
                     message="the object has been modified; please apply your changes to the latest version and try again")

    def test_without_a_version(self):
        self.make("blind")
        answer = self.api.put(self.thing("blind"), self.body("blind", {}))
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "metadata.resourceVersion")],
                     message="must be specified for an update")
        self.config_map("blind", {"a": "1"})
        self.assertEqual(self.ok(self.api.put(self.core("configmaps", "blind"), {"metadata": {"name": "blind"}, "data": {"b": "2"}}))["data"],
                         {"b": "2"})
        lease = self.path("leases", "blind", group="coordination.k8s.io")
        self.ok(self.api.post(self.path("leases", group="coordination.k8s.io"), {"metadata": {"name": "blind"}, "spec": {}}), 201)
        self.refused(self.api.put(lease, {"metadata": {"name": "blind"}, "spec": {}}), 422, "Invalid",
                     causes=[("FieldValueInvalid", "metadata.resourceVersion")])

    def test_of_an_absent_object(self):
        self.refused(self.api.put(self.thing("absent"), self.body("absent", {}, resourceVersion="1")), 404, "NotFound")

    def test_another_name_or_uid(self):
        made = self.make("named")
        self.refused(self.api.put(self.thing("named"), self.body("other", {}, resourceVersion="1")), 400, "BadRequest",
                     message="does not match the name on the URL")
        self.refused(self.api.put(self.thing("named"), self.body("named", {}, uid="x", resourceVersion=made["metadata.resourceVersion"])),
                     409, "Conflict", message="Precondition failed: UID in precondition: x")

    def test_generation_counts_the_specification_only(self):
        made = self.make("gen", {"count": 1})
        path = self.thing("gen")
        self.assertEqual(self.api.patch(path, {"metadata": {"labels": {"a": "1"}}})["metadata.generation"], 1)
        self.assertEqual(self.api.patch(path, {"spec": {"count": 2}})["metadata.generation"], 2)
        self.assertEqual(self.api.patch(self.thing("gen", "status"), {"status": {"phase": "x"}})["metadata.generation"], 2)
        self.assertEqual(self.api.patch(path, {"spec": {"count": 2}})["metadata.generation"], 2)
        self.assertEqual(made["metadata.generation"], 1)
        self.assertIsNone(self.config_map("gen")["metadata.generation"])

    def test_generation_without_a_status_subresource_counts_everything(self):
        path = self.path("plains")
        self.ok(self.api.post(path, self.body("gen", {}, kind="Plain")), 201)
        self.assertEqual(self.api.patch(path + "/gen", {"status": {"phase": "x"}})["metadata.generation"], 2)
        self.assertEqual(self.api.patch(path + "/gen", {"metadata": {"labels": {"a": "1"}}})["metadata.generation"], 2)

    def test_writes_that_change_nothing_keep_the_version(self):
        made = self.make("noop", {"count": 1, "parts": [{"name": "a"}]})
        version = made["metadata.resourceVersion"]
        path = self.thing("noop")
        self.assertEqual(self.ok(self.api.put(path, made.body))["metadata.resourceVersion"], version)
        for patch, kind in (({"spec": {"count": 1}}, MERGE), ({}, MERGE), ([], JSON_PATCH),
                            ([{"op": "replace", "path": "/spec/count", "value": 1}], JSON_PATCH)):
            with self.subTest(patch):
                self.assertEqual(self.ok(self.api.patch(path, patch, kind))["metadata.resourceVersion"], version)

    def test_the_main_path_does_not_write_status(self):
        self.make("split")
        self.ok(self.api.patch(self.thing("split", "status"), {"status": {"phase": "kept"}}))
        answer = self.ok(self.api.patch(self.thing("split"), {"status": {"phase": "lost"}, "spec": {"count": 3}}))
        self.assertEqual((answer["status"], answer["spec.count"]), ({"phase": "kept"}, 3))


class Patches(Case):
    def test_merge_patch(self):
        self.make("merge", {"settings": {"a": "1", "b": "2"}, "atoms": ["x", "y"]})
        answer = self.ok(self.api.patch(self.thing("merge"), {"spec": {"settings": {"a": None, "c": "3"}, "atoms": ["z"]}}))
        self.assertEqual((answer["spec.settings"], answer["spec.atoms"]), ({"b": "2", "c": "3"}, ["z"]))

    def test_json_patch(self):
        self.make("jp", {"atoms": ["a", "b"], "settings": {"k/1": "x"}})
        path = self.thing("jp")
        answer = self.ok(self.api.patch(path, [
            {"op": "add", "path": "/spec/atoms/-", "value": "c"}, {"op": "add", "path": "/spec/atoms/0", "value": "z"},
            {"op": "remove", "path": "/spec/atoms/1"}, {"op": "replace", "path": "/spec/settings/k~11", "value": "y"},
            {"op": "copy", "from": "/spec/settings/k~11", "path": "/spec/settings/copy"},
            {"op": "test", "path": "/spec/mode", "value": "fast"},
            {"op": "move", "from": "/spec/settings/copy", "path": "/spec/settings/moved"}], JSON_PATCH))
        self.assertEqual((answer["spec.atoms"], answer["spec.settings"]), (["z", "b", "c"], {"k/1": "y", "moved": "y"}))

    def test_json_patches_that_do_not_apply(self):
        self.make("jpbad", {"atoms": ["a"]})
        for patch in ([{"op": "test", "path": "/spec/mode", "value": "slow"}], [{"op": "remove", "path": "/spec/none"}],
                      [{"op": "add", "path": "/spec/none/a", "value": 1}], [{"op": "remove", "path": "/spec/atoms/5"}],
                      [{"op": "move", "from": "/spec/none", "path": "/spec/x"}], [{"op": "replace", "path": "/spec/atoms/1", "value": "b"}]):
            with self.subTest(patch):
                self.refused(self.api.patch(self.thing("jpbad"), patch, JSON_PATCH), 422, "Invalid")
        for patch in ({"op": "test"}, "x"):
            with self.subTest(patch):
                self.refused(self.api.patch(self.thing("jpbad"), patch, JSON_PATCH), 400, "BadRequest")

    def test_what_the_json_patch_library_lets_pass(self):
        made = self.make("jplax", {"atoms": ["a", "b"]})
        for patch in ([{"op": "copy", "from": "/spec/none", "path": "/spec/name"}], [{"op": "test", "path": "/spec/none", "value": None}]):
            with self.subTest(patch):
                self.assertEqual(self.ok(self.api.patch(self.thing("jplax"), patch, JSON_PATCH))["spec"], made["spec"])
        answer = self.ok(self.api.patch(self.thing("jplax"), [{"op": "replace", "path": "/spec/count", "value": 5},
                                                              {"op": "remove", "path": "/spec/atoms/-1"}], JSON_PATCH))
        self.assertEqual((answer["spec.count"], answer["spec.atoms"]), (5, ["a"]))

    def test_strategic_merge_patch(self):
        path = self.core("services")
        self.ok(self.api.post(path, {"metadata": {"name": "sm"}, "spec": {"clusterIP": "None", "ports": [
            {"name": "a", "port": 1}, {"name": "b", "port": 2}]}}), 201)
        answer = self.ok(self.api.patch(path + "/sm", {"spec": {"ports": [{"port": 2, "name": "c"}, {"port": 3, "name": "d"},
                                                                         {"port": 1, "$patch": "delete"}]}}, STRATEGIC))
        self.assertEqual([(port["port"], port["name"]) for port in answer["spec.ports"]], [(2, "c"), (3, "d")])
        self.assertEqual(answer["spec.ports.1.protocol"], "TCP")

    def test_strategic_merge_patch_orders_lists(self):
        """What the patch names takes its order; a new item comes in front of what it does not name."""
        path = self.core("services")
        self.ok(self.api.post(path, {"metadata": {"name": "order", "finalizers": ["x.dev/a", "x.dev/b", "x.dev/d"]}, "spec": {
            "clusterIP": "None", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}}), 201)
        answer = self.ok(self.api.patch(path + "/order", {"metadata": {"finalizers": ["x.dev/d", "x.dev/c", "x.dev/a"]},
                                                          "spec": {"ports": [{"name": "c", "port": 3}]}}, STRATEGIC))
        self.assertEqual(answer["metadata.finalizers"], ["x.dev/b", "x.dev/d", "x.dev/c", "x.dev/a"])
        self.assertEqual([port["port"] for port in answer["spec.ports"]], [3, 1, 2])
        answer = self.ok(self.api.patch(path + "/order", {"metadata": {"finalizers": None}, "spec": {
            "$setElementOrder/ports": [{"port": 2}, {"port": 3}], "ports": [{"port": 3, "name": "d"}]}}, STRATEGIC))
        self.assertEqual([(port["port"], port["name"]) for port in answer["spec.ports"]], [(1, "a"), (2, "b"), (3, "d")])

    def test_strategic_merge_patch_of_a_custom_resource(self):
        self.make("nosm")
        self.refused(self.api.patch(self.thing("nosm"), {"spec": {}}, STRATEGIC), 415, "UnsupportedMediaType")

    def test_unknown_patch_type(self):
        self.make("nopt")
        self.refused(self.api.patch(self.thing("nopt"), {"spec": {}}, "application/json"), 415, "UnsupportedMediaType")

    def test_of_an_absent_object(self):
        self.refused(self.api.patch(self.thing("absent"), {"spec": {}}), 404, "NotFound")

    def test_conditional_patches(self):
        made = self.make("cond")
        version = made["metadata.resourceVersion"]
        self.ok(self.api.patch(self.thing("cond"), {"metadata": {"resourceVersion": version}, "spec": {"count": 1}}))
        self.refused(self.api.patch(self.thing("cond"), {"metadata": {"resourceVersion": version}, "spec": {"count": 2}}),
                     409, "Conflict")
        self.refused(self.api.patch(self.thing("cond"), {"metadata": {"uid": "x"}, "spec": {"count": 2}}), 422, "Invalid",
                     causes=[("FieldValueInvalid", "metadata.uid")])

    def test_what_a_patch_may_not_change(self):
        self.make("fixedname")
        answer = self.api.patch(self.thing("fixedname"), {"metadata": {"name": "other"}})
        self.refused(answer, 400, "BadRequest", message="does not match the name on the URL")
        answer = self.api.patch(self.thing("fixedname"), {"kind": "Other"})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "kind")])

    def test_force_is_for_apply(self):
        self.make("forced")
        self.refused(self.api.patch(self.thing("forced"), {"spec": {}}, force="true"), 422, "Invalid",
                     causes=[("FieldValueForbidden", "force")], kind="PatchOptions")

    def test_a_dry_run_stores_nothing(self):
        made = self.make("dry", {"count": 1})
        answer = self.ok(self.api.patch(self.thing("dry"), {"spec": {"count": 2}}, dryRun="All"))
        self.assertEqual((answer["spec.count"], answer["metadata.generation"]), (2, 2))
        self.assertEqual(self.api.get(self.thing("dry")).body, made.body)

    def test_nulls_in_a_merge_patch_of_a_nullable_field(self):
        self.make("nulls", {"maybe": "x"})
        self.assertEqual(self.ok(self.api.patch(self.thing("nulls"), {"spec": {"maybe": None}}))["spec"], {"replicas": 1, "mode": "fast"})


class Managers(Case):
    def test_each_manager_owns_what_it_changed(self):
        self.ok(self.api.post(self.thing(), self.body("shared", {"count": 1}), fieldManager="one"), 201)
        self.ok(self.api.patch(self.thing("shared"), {"spec": {"count": 2, "flag": True}}, fieldManager="two"))
        answer = self.ok(self.api.patch(self.thing("shared", "status"), {"status": {"phase": "x"}}, fieldManager="two"))
        self.assertEqual(self.managers(answer), {
            ("one", "Update", ""): {"f:spec": {".": {}, "f:mode": {}, "f:replicas": {}}},
            ("two", "Update", ""): {"f:spec": {"f:count": {}, "f:flag": {}}},
            ("two", "Update", "status"): {"f:status": {".": {}, "f:phase": {}}}})

    def test_the_default_manager_is_the_user_agent(self):
        self.assertEqual(set(self.managers(self.make("agent", {"count": 1}))), {("conformance", "Update", "")})

    def test_lists_maps_and_metadata(self):
        self.ok(self.api.post(self.thing(), self.body("shapes", {
            "atoms": ["a"], "marks": ["m"], "parts": [{"name": "p", "value": 1}], "ports": [{"port": 80}], "settings": {"k": "v"},
            "fixed": {"k": "v"}, "nested": {"a": "1"}, "open": {"x": {"y": 1}}}, labels={"l": "1"}, finalizers=["x.dev/f"]),
            fieldManager="one"), 201)
        answer = self.api.get(self.thing("shapes"))
        self.assertEqual(self.managers(answer)[("one", "Update", "")], {
            "f:metadata": {"f:finalizers": {".": {}, 'v:"x.dev/f"': {}}, "f:labels": {".": {}, "f:l": {}}},
            "f:spec": {".": {}, "f:atoms": {}, "f:fixed": {}, "f:marks": {".": {}, 'v:"m"': {}}, "f:mode": {},
                       "f:nested": {".": {}, "f:a": {}, "f:b": {}}, "f:open": {".": {}, "f:x": {".": {}, "f:y": {}}},
                       "f:parts": {".": {}, 'k:{"name":"p"}': {".": {}, "f:name": {}, "f:note": {}, "f:value": {}}},
                       "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:protocol": {}}},
                       "f:replicas": {}, "f:settings": {".": {}, "f:k": {}}}})
        self.ok(self.api.patch(self.thing("shapes"), {"metadata": {"finalizers": None}}))

    def test_managed_fields_can_be_cleared(self):
        self.make("cleared", {"count": 1})
        answer = self.ok(self.api.patch(self.thing("cleared"), [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
                                        JSON_PATCH))
        self.assertEqual(answer["metadata.managedFields"] or [], [])

    def test_too_long_a_manager(self):
        answer = self.api.post(self.thing(), self.body("long", {}), fieldManager="m" * 129)
        self.refused(answer, 422, "Invalid", causes=[("FieldValueTooLong", "fieldManager")])

    def test_old_update_managers_are_merged(self):
        self.make("ancient", {"count": 0})
        for index in range(12):
            answer = self.ok(self.api.patch(self.thing("ancient"), {"spec": {"settings": {f"k{index}": "1"}}}, fieldManager=f"m{index:02}"))
        names = [manager for manager, operation, _ in self.managers(answer) if operation == "Update"]
        self.assertEqual(len(names), 10)
        self.assertIn("ancient-changes", names)
