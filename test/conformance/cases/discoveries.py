"""Discovery in both forms, OpenAPI, version and health."""
from fixtures import GROUP, Case

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "services": "Service", "pods": "Pod", "events": "Event",
         "serviceaccounts": "ServiceAccount", "persistentvolumeclaims": "PersistentVolumeClaim", "namespaces": "Namespace"}


class Discovery(Case):
    def test_groups(self):
        self.assertEqual(self.ok(self.api.get("/api"))["versions"], ["v1"])
        answer = self.ok(self.api.get("/apis"))
        self.assertEqual((answer["kind"], answer["apiVersion"]), ("APIGroupList", "v1"))
        groups = {group["name"]: group for group in answer["groups"]}
        self.assertLessEqual({"apps", "coordination.k8s.io", "events.k8s.io", "policy", GROUP, "apiextensions.k8s.io",
                              "rbac.authorization.k8s.io", "authorization.k8s.io", "authentication.k8s.io"}, set(groups))
        self.assertEqual(groups[GROUP]["preferredVersion"], {"groupVersion": f"{GROUP}/v1", "version": "v1"})
        self.assertEqual(self.ok(self.api.get(f"/apis/{GROUP}"))["name"], GROUP)

    def test_resources(self):
        answer = self.ok(self.api.get(f"/apis/{GROUP}/v1"))
        self.assertEqual((answer["kind"], answer["groupVersion"]), ("APIResourceList", f"{GROUP}/v1"))
        found = {item["name"]: item for item in answer["resources"]}
        self.assertLessEqual({"things", "things/status", "things/scale", "plains"}, set(found))
        thing = found["things"]
        self.assertEqual((thing["kind"], thing["namespaced"], thing["singularName"], sorted(thing["verbs"])),
                         ("Thing", True, "thing", ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]))
        scale = found["things/scale"]
        self.assertEqual((scale["kind"], scale["group"], scale["version"], sorted(scale["verbs"])),
                         ("Scale", "autoscaling", "v1", ["get", "patch", "update"]))
        core = {item["name"]: item for item in self.ok(self.api.get("/api/v1"))["resources"]}
        self.assertEqual({name: core[name]["kind"] for name in KINDS}, KINDS)
        self.assertEqual(core["configmaps"]["shortNames"], ["cm"])
        self.assertEqual((core["serviceaccounts/token"]["kind"], core["serviceaccounts/token"]["verbs"]), ("TokenRequest", ["create"]))
        self.assertEqual(core["pods"]["categories"], ["all"])

    def test_aggregated(self):
        answer = self.ok(self.api.get("/apis", accept=AGGREGATED))
        self.assertIn("as=APIGroupDiscoveryList", answer.headers["Content-Type"])
        self.assertEqual((answer["kind"], answer["apiVersion"]), ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"))
        groups = {group["metadata"]["name"]: group for group in answer["items"]}
        version = groups[GROUP]["versions"][0]
        self.assertEqual((version["version"], version["freshness"]), ("v1", "Current"))
        things = next(item for item in version["resources"] if item["resource"] == "things")
        self.assertEqual((things["responseKind"], things["scope"], things["singularResource"]),
                         ({"group": GROUP, "version": "v1", "kind": "Thing"}, "Namespaced", "thing"))
        self.assertEqual(sorted(item["subresource"] for item in things["subresources"]), ["scale", "status"])
        core = self.ok(self.api.get("/api", accept=AGGREGATED))
        self.assertEqual([group["metadata"].get("name", "") for group in core["items"]], [""])

    def test_openapi(self):
        index = self.ok(self.api.get("/openapi/v3"))
        self.assertIn("api/v1", index["paths"])
        path = index.body["paths"][f"apis/{GROUP}/v1"]["serverRelativeURL"]
        document = self.ok(self.api.get(path))
        self.assertTrue(document["openapi"].startswith("3."))
        schema = next(schema for schema in document["components.schemas"].values()
                      if {"group": GROUP, "version": "v1", "kind": "Thing"} in schema.get("x-kubernetes-group-version-kind", []))
        spec = schema["properties"]["spec"]["properties"]
        self.assertEqual((spec["mode"]["type"], spec["mode"]["enum"]), ("string", ["fast", "slow"]))
        self.assertEqual(spec["parts"]["x-kubernetes-list-map-keys"], ["name"])

    def test_version_and_health(self):
        answer = self.ok(self.api.get("/version"))
        self.assertEqual(answer["major"], "1")
        self.assertRegex(answer["gitVersion"], r"^v1\.\d+\.\d+")
        for path in ("/livez", "/readyz", "/healthz"):
            self.assertEqual((self.api.get(path).code, self.api.get(path).text), (200, "ok"))

    def test_paths_that_do_not_exist(self):
        answer = self.api.get("/nothing")
        self.assertEqual(answer.code, 404)
        self.assertEqual(self.api.get("/apis/nothing.dev").code, 404)
        self.assertEqual(self.api.get("/apis/apps/v9").code, 404)

    def test_verbs_that_do_not_exist(self):
        answer = self.api.request("BREW", self.core("configmaps"))
        self.assertEqual(answer.code, 405, answer)
