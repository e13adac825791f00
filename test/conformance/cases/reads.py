"""GET and LIST: pages, versions, selectors, tables, errors."""
from fixtures import Case


class Lists(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for index in range(5):
            answer = cls.api.post(f"/api/v1/namespaces/{cls.ns}/configmaps", {
                "metadata": {"name": f"m{index}", "labels": {"n": str(index), "odd": str(index % 2)}}, "data": {"i": str(index)}})
            assert answer.code == 201, answer

    def list(self, **query):
        return self.api.get(self.core("configmaps"), labelSelector=query.pop("labelSelector", "n"), **query)

    def names(self, answer):
        self.ok(answer)
        return [item["metadata"]["name"] for item in answer["items"]]

    def test_a_list_has_kind_version_and_items_in_order(self):
        answer = self.list()
        self.assertEqual((answer["kind"], answer["apiVersion"]), ("ConfigMapList", "v1"))
        self.assertEqual(self.names(answer), ["m0", "m1", "m2", "m3", "m4"])
        self.assertTrue(answer["metadata.resourceVersion"].isdigit())
        self.assertNotIn("kind", answer["items.0"])  # builtin kinds: items carry no type

    def test_items_of_custom_resources_carry_their_type(self):
        self.make("typed")
        item = self.api.get(self.thing())["items.0"]
        self.assertEqual((item["kind"], item["apiVersion"]), ("Thing", "conform.capstan.dev/v1"))

    def test_pages_are_of_one_snapshot(self):
        first = self.api.get(self.core("configmaps"), limit=2, fieldSelector="metadata.namespace=" + self.ns)
        self.assertEqual(len(first["items"]), 2)
        self.config_map("m9")
        names = [item["metadata"]["name"] for item in first["items"]]
        page, token = first, first["metadata.continue"]
        while token:
            page = self.ok(self.api.get(self.core("configmaps"), limit=2, **{"continue": token},
                                        fieldSelector="metadata.namespace=" + self.ns))
            self.assertEqual(page["metadata.resourceVersion"], first["metadata.resourceVersion"])
            names += [item["metadata"]["name"] for item in page["items"]]
            token = page["metadata.continue"]
        self.ok(self.api.delete(self.core("configmaps", "m9")))
        self.assertNotIn("m9", names)
        self.assertEqual([name for name in names if name.startswith("m")], ["m0", "m1", "m2", "m3", "m4"])

    def test_the_number_of_remaining_items_is_told_without_selectors(self):
        total = len(self.api.get(self.core("configmaps"))["items"])
        self.assertEqual(self.api.get(self.core("configmaps"), limit=2)["metadata.remainingItemCount"], total - 2)
        self.assertIsNone(self.list(limit=2)["metadata.remainingItemCount"])
        self.assertIsNone(self.api.get(self.core("configmaps"), limit=500)["metadata.continue"])

    def test_a_malformed_token_is_refused(self):
        self.refused(self.list(limit=2, **{"continue": "nonsense"}), 400, "BadRequest", message="continue key is not valid")

    def test_a_version_with_a_token_is_refused(self):
        token = self.list(limit=2)["metadata.continue"]
        self.refused(self.list(limit=2, resourceVersion="5", **{"continue": token}), 400, "BadRequest",
                     message="specifying resource version is not allowed when using continue")

    def test_rules_of_the_version_match(self):
        token = self.list(limit=2)["metadata.continue"]
        field = "resourceVersionMatch"
        for query, cause in (
                ({"resourceVersionMatch": "Exact"}, ("FieldValueForbidden", field)),
                ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, ("FieldValueForbidden", field)),
                ({"resourceVersionMatch": "Nearly", "resourceVersion": "1"}, ("FieldValueNotSupported", field)),
                ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "0", "continue": token}, ("FieldValueForbidden", field)),
                ({"sendInitialEvents": "true"}, ("FieldValueForbidden", "sendInitialEvents"))):
            with self.subTest(query):
                self.refused(self.list(limit=2, **query), 422, "Invalid", causes=[cause], kind="ListOptions", group="meta.k8s.io")

    def test_not_older_than_and_exact(self):
        old = self.config_map("exact", {"v": "1"})
        self.ok(self.api.patch(self.core("configmaps", "exact"), {"data": {"v": "2"}}))
        version = old["metadata.resourceVersion"]

        def value(answer):
            return [item["data"]["v"] for item in self.ok(answer)["items"] if item["metadata"]["name"] == "exact"]
        path = self.core("configmaps")
        self.assertEqual(value(self.api.get(path, resourceVersion=version, resourceVersionMatch="NotOlderThan")), ["2"])
        self.assertEqual(value(self.api.get(path, resourceVersion=version, resourceVersionMatch="Exact")), ["1"])
        self.assertEqual(value(self.api.get(path, resourceVersion=version)), ["2"])
        self.assertEqual(value(self.api.get(path, resourceVersion=version, limit=500)), ["1"])  # the legacy trap: exact
        self.ok(self.api.delete(self.core("configmaps", "exact")))

    def test_a_version_from_the_future_times_out(self):
        answer = self.list(resourceVersion="999999999999")
        self.refused(answer, 504, "Timeout", message="Too large resource version", causes=[("ResourceVersionTooLarge", None)])
        self.assertEqual(answer["details.retryAfterSeconds"], 1)
        self.assertEqual(answer.headers["Retry-After"], "1")

    def test_a_forgotten_version_answers_410(self):
        self.refused(self.list(resourceVersion="1", resourceVersionMatch="Exact"), 410, "Expired")
        self.refused(self.list(resourceVersion="1", limit=1), 410, "Expired")

    def test_a_version_that_is_no_number_is_refused(self):
        self.refused(self.list(resourceVersion="abc"), 400, "BadRequest", message='Invalid value: "abc"')

    def test_label_selectors(self):
        for selector, names in (("n=1", "m1"), ("n==1", "m1"), ("n!=1,n", "m0 m2 m3 m4"), ("n in (1,3)", "m1 m3"),
                                ("n notin (1,3),n", "m0 m2 m4"), ("n,odd=1", "m1 m3"), ("n>2", "m3 m4"), ("n<1", "m0"),
                                ("n,!odd", ""), ("!n", None)):
            with self.subTest(selector):
                found = [name for name in self.names(self.list(labelSelector=selector)) if name.startswith("m")]
                self.assertEqual(" ".join(found), names or "")

    def test_malformed_label_selectors(self):
        for selector in ("n in (", "=x", "a b", "n>x", "-bad/=x", "n in 1"):
            with self.subTest(selector):
                self.refused(self.list(labelSelector=selector), 400, "BadRequest")

    def test_field_selectors(self):
        self.assertEqual(self.names(self.list(fieldSelector="metadata.name=m1")), ["m1"])
        self.assertEqual(self.names(self.list(fieldSelector="metadata.name!=m1")), ["m0", "m2", "m3", "m4"])
        self.assertEqual(self.names(self.list(fieldSelector="metadata.name=m1,metadata.namespace=" + self.ns)), ["m1"])
        self.refused(self.list(fieldSelector="data.i=1"), 400, "BadRequest", message="data.i")
        self.refused(self.list(fieldSelector="nothing"), 400, "BadRequest")

    def test_selectable_fields_of_a_custom_resource(self):
        self.make("fast", {"mode": "fast"}, labels={"sel": "1"})
        self.make("slow", {"mode": "slow"}, labels={"sel": "1"})
        self.assertEqual(self.names(self.api.get(self.thing(), fieldSelector="spec.mode=slow", labelSelector="sel")), ["slow"])
        self.refused(self.api.get(self.thing(), fieldSelector="spec.name=x"), 400, "BadRequest")

    def test_a_list_over_all_namespaces(self):
        answer = self.api.get("/api/v1/configmaps", labelSelector="n", fieldSelector=f"metadata.namespace={self.ns}")
        self.assertEqual(self.names(answer), ["m0", "m1", "m2", "m3", "m4"])

    def test_a_limit_that_is_no_number_is_refused(self):
        self.refused(self.list(limit="x"), 400, "BadRequest")


class Gets(Case):
    def test_one_object(self):
        self.config_map("one", {"a": "b"})
        answer = self.ok(self.api.get(self.core("configmaps", "one")))
        self.assertEqual((answer["kind"], answer["apiVersion"], answer["data"]), ("ConfigMap", "v1", {"a": "b"}))
        self.assertEqual(answer.headers["Content-Type"], "application/json")

    def test_an_absent_object(self):
        self.refused(self.api.get(self.core("configmaps", "none")), 404, "NotFound", message='configmaps "none" not found',
                     kind="configmaps", name="none")
        self.refused(self.api.get(self.thing("none")), 404, "NotFound", group="conform.capstan.dev", kind="things",
                     message='things.conform.capstan.dev "none" not found')

    def test_an_absent_resource(self):
        for path in ("/api/v1/namespaces/default/nothings", "/apis/nowhere.dev/v1/things",
                     "/apis/conform.capstan.dev/v2/things", "/api/v1/namespaces/default/configmaps/a/nothing"):
            with self.subTest(path):
                answer = self.api.get(path)
                self.assertEqual(answer.code, 404)
                if isinstance(answer.body, dict):
                    self.refused(answer, 404, "NotFound", message="the server could not find the requested resource")

    def test_a_version_from_the_future_on_one_object_times_out(self):
        self.config_map("future")
        self.refused(self.api.get(self.core("configmaps", "future"), resourceVersion="999999999999"), 504, "Timeout")

    def test_metadata_only(self):
        self.config_map("meta", {"a": "b"}, labels={"m": "1"})
        as_one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        answer = self.ok(self.api.get(self.core("configmaps", "meta"), accept=as_one))
        self.assertEqual((answer["kind"], answer["apiVersion"], answer["data"]), ("PartialObjectMetadata", "meta.k8s.io/v1", None))
        self.assertEqual(answer["metadata.labels"], {"m": "1"})
        as_list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        answer = self.ok(self.api.get(self.core("configmaps"), accept=as_list, labelSelector="m"))
        self.assertEqual((answer["kind"], answer["apiVersion"]), ("PartialObjectMetadataList", "meta.k8s.io/v1"))
        self.assertEqual((answer["items.0.kind"], sorted(answer["items.0"])),
                         ("PartialObjectMetadata", ["apiVersion", "kind", "metadata"]))

    def test_a_table(self):
        self.make("row", {"mode": "slow"})
        accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
        answer = self.ok(self.api.get(self.thing(), accept=accept))
        self.assertEqual((answer["kind"], answer["apiVersion"]), ("Table", "meta.k8s.io/v1"))
        self.assertEqual([column["name"] for column in answer["columnDefinitions"]], ["Name", "Mode"])
        self.assertEqual(answer["rows.0.cells"], ["row", "slow"])
        self.assertEqual(answer["rows.0.object.kind"], "PartialObjectMetadata")
        self.assertEqual(self.ok(self.api.get(self.thing("row"), accept=accept))["rows.0.cells"], ["row", "slow"])
        answer = self.ok(self.api.get(self.thing(), accept=accept, includeObject="Object"))
        self.assertEqual(answer["rows.0.object.kind"], "Thing")

    def test_tables_of_builtin_kinds(self):
        self.config_map("tabled", {"a": "b"})
        accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
        answer = self.ok(self.api.get(self.core("configmaps", "tabled"), accept=accept))
        self.assertEqual([column["name"] for column in answer["columnDefinitions"]], ["Name", "Data", "Age"])
        self.assertEqual(answer["rows.0.cells"][:2], ["tabled", 1])

    def test_representations_that_do_not_exist(self):
        for accept in ("text/html", "application/json;as=Chair;g=meta.k8s.io;v=v1"):
            with self.subTest(accept):
                self.refused(self.api.get(self.core("configmaps"), accept=accept), 406, "NotAcceptable")
        self.ok(self.api.get(self.core("configmaps"), accept="application/xml, application/json"))
        self.ok(self.api.get(self.core("configmaps"), accept="*/*"))
