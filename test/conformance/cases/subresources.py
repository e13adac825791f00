"""Status, scale, tokens; leases and events."""
import base64
import json

from fixtures import Case
from kube_api import Api, JSON_PATCH


class Status(Case):
    def test_status_is_written_alone(self):
        made = self.make("st", {"count": 1}, labels={"a": "1"})
        body = dict(made.body, spec={"count": 9}, status={"phase": "x"})
        body["metadata"] = dict(made["metadata"], labels={"a": "2"})
        answer = self.ok(self.api.put(self.thing("st", "status"), body))
        self.assertEqual((answer["spec.count"], answer["status"], answer["metadata.labels"], answer["metadata.generation"]),
                         (1, {"phase": "x"}, {"a": "1"}, 1))
        self.refused(self.api.put(self.thing("st", "status"), body), 409, "Conflict")

    def test_status_at_creation_is_dropped(self):
        answer = self.ok(self.api.post(self.thing(), {**self.body("born", {}), "status": {"phase": "x"}}), 201)
        self.assertIsNone(answer["status"])

    def test_reading_it_gives_the_object(self):
        self.make("read")
        self.assertEqual(self.ok(self.api.get(self.thing("read", "status")))["kind"], "Thing")

    def test_it_is_validated(self):
        self.make("bad")
        answer = self.api.patch(self.thing("bad", "status"), {"status": {"replicas": "x"}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueTypeInvalid", "status.replicas")])

    def test_kinds_without_it(self):
        self.ok(self.api.post(self.path("plains"), self.body("p", {}, kind="Plain")), 201)
        self.assertEqual(self.api.get(self.path("plains", "p", "status")).code, 404)
        self.assertEqual(self.api.patch(self.path("plains", "p", "status"), {"status": {}}).code, 404)

    def test_verbs_it_does_not_know(self):
        self.make("verbs")
        self.refused(self.api.delete(self.thing("verbs", "status")), 405, "MethodNotAllowed")
        self.refused(self.api.put(self.core("configmaps"), {}), 405, "MethodNotAllowed",
                     message="the server does not allow this method on the requested resource")


class Scale(Case):
    def test_get_put_patch(self):
        made = self.make("sc", {"replicas": 2})
        self.ok(self.api.patch(self.thing("sc", "status"), {"status": {"replicas": 1, "selector": "a=b"}}))
        path = self.thing("sc", "scale")
        answer = self.ok(self.api.get(path))
        self.assertEqual((answer["kind"], answer["apiVersion"], answer["spec"], answer["status"]),
                         ("Scale", "autoscaling/v1", {"replicas": 2}, {"replicas": 1, "selector": "a=b"}))
        self.assertEqual(answer["metadata.uid"], made["metadata.uid"])
        scale = dict(answer.body, spec={"replicas": 5})
        answer = self.ok(self.api.put(path, scale))
        self.assertEqual(answer["spec.replicas"], 5)
        self.refused(self.api.put(path, scale), 409, "Conflict")
        self.assertEqual(self.ok(self.api.patch(path, {"spec": {"replicas": 6}}))["spec.replicas"], 6)
        self.assertEqual(self.ok(self.api.patch(path, [{"op": "replace", "path": "/spec/replicas", "value": 7}], JSON_PATCH))["spec.replicas"], 7)
        thing = self.api.get(self.thing("sc"))
        self.assertEqual((thing["spec.replicas"], thing["metadata.generation"]), (7, 4))

    def test_refusals(self):
        self.make("scbad")
        path = self.thing("scbad", "scale")
        self.refused(self.api.patch(path, {"spec": {"replicas": -1}}), 422, "Invalid", causes=[("FieldValueInvalid", "spec.replicas")])
        self.refused(self.api.get(self.thing("none", "scale")), 404, "NotFound")

    def test_builtin_workloads(self):
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
        sets = self.path("statefulsets", group="apps")
        self.ok(self.api.post(sets, {"metadata": {"name": "s"}, "spec": {
            "serviceName": "s", "replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}}), 201)
        answer = self.ok(self.api.get(sets + "/s/scale"))
        self.assertEqual((answer["spec"], answer["status.selector"]), ({}, "a=b"))
        answer = self.ok(self.api.patch(sets + "/s/scale", {"spec": {"replicas": 0}}))
        self.ok(self.api.delete(sets + "/s"))


class Tokens(Case):
    def test_a_token_is_issued_and_works(self):
        self.ok(self.api.post(self.core("serviceaccounts"), {"metadata": {"name": "robot"}}), 201)
        path = self.core("serviceaccounts", "robot") + "/token"
        answer = self.ok(self.api.post(path, {"spec": {"expirationSeconds": 3600, "audiences": []}}), 201)
        self.assertEqual((answer["kind"], answer["apiVersion"]), ("TokenRequest", "authentication.k8s.io/v1"))
        self.assertRegex(answer["status.expirationTimestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(answer["spec.expirationSeconds"], 3600)
        robot = Api(self.kubeconfig, token=answer["status.token"])
        self.addCleanup(robot.close)
        who = self.ok(robot.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}), 201)
        self.assertEqual(who["status.userInfo.username"], f"system:serviceaccount:{self.ns}:robot")
        self.assertEqual(who["status.userInfo.groups"], ["system:serviceaccounts", f"system:serviceaccounts:{self.ns}", "system:authenticated"])
        self.refused(robot.get(self.core("configmaps")), 403, "Forbidden")

    def test_the_claims_of_a_token(self):
        self.ok(self.api.post(self.core("serviceaccounts"), {"metadata": {"name": "claims"}}), 201)
        answer = self.ok(self.api.post(self.core("serviceaccounts", "claims") + "/token", {"spec": {"expirationSeconds": 600}}), 201)
        middle = answer["status.token"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        self.assertEqual(claims["sub"], f"system:serviceaccount:{self.ns}:claims")
        self.assertEqual(claims["exp"] - claims["iat"], 600)

    def test_refusals(self):
        self.refused(self.api.post(self.core("serviceaccounts", "none") + "/token", {"spec": {}}), 404, "NotFound")
        self.ok(self.api.post(self.core("serviceaccounts"), {"metadata": {"name": "short"}}), 201)
        answer = self.api.post(self.core("serviceaccounts", "short") + "/token", {"spec": {"expirationSeconds": 1}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "spec.expirationSeconds")], kind="TokenRequest")
        self.refused(self.api.get(self.core("serviceaccounts", "short") + "/token"), 405, "MethodNotAllowed")


class LeasesAndEvents(Case):
    def test_times_with_microseconds(self):
        path = self.path("leases", group="coordination.k8s.io")
        answer = self.ok(self.api.post(path, {"metadata": {"name": "l"}, "spec": {
            "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2024-05-01T10:00:00.123456Z", "leaseTransitions": 1}}), 201)
        self.assertEqual(answer["spec.renewTime"], "2024-05-01T10:00:00.123456Z")
        answer = self.ok(self.api.patch(path + "/l", {"spec": {"renewTime": "2024-05-01T10:00:01.000000Z"}}))
        self.assertEqual(answer["spec.renewTime"], "2024-05-01T10:00:01.000000Z")
        self.assertIsNone(answer["metadata.generation"])
        answer = self.api.patch(path + "/l", {"spec": {"leaseDurationSeconds": 0}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "spec.leaseDurationSeconds")])
        answer = self.api.patch(path + "/l", {"spec": {"renewTime": "yesterday"}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueInvalid", "patch")])

    def test_events_of_both_apis_are_one(self):
        path = self.path("events", group="events.k8s.io")
        regarding = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": self.ns}
        answer = self.ok(self.api.post(path, {
            "metadata": {"name": "e.1"}, "eventTime": "2024-05-01T10:00:00.000000Z", "type": "Normal", "reason": "Tested", "note": "n",
            "action": "Testing", "reportingController": "x.dev/test", "reportingInstance": "i", "regarding": regarding}), 201)
        self.assertEqual(answer["regarding.name"], "a")
        core = self.ok(self.api.get(self.core("events", "e.1")))
        self.assertEqual((core["involvedObject.name"], core["message"], core["reportingComponent"], core["reason"]),
                         ("a", "n", "x.dev/test", "Tested"))
        found = self.api.get(self.core("events"), fieldSelector="involvedObject.name=a,reason=Tested")
        self.assertEqual([item["metadata"]["name"] for item in found["items"]], ["e.1"])

    def test_events_are_checked(self):
        path = self.path("events", group="events.k8s.io")
        answer = self.api.post(path, {"metadata": {"name": "bad.1"}, "type": "Normal", "reason": "R", "regarding": {"namespace": self.ns}})
        self.refused(answer, 422, "Invalid")
        self.assertIn(("FieldValueRequired", "eventTime"), answer.causes)
