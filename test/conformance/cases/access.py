"""Who may do what: RBAC, reviews, anonymous callers, messages."""
from fixtures import GROUP, Case
from kube_api import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"


class Access(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.user = f"system:serviceaccount:{cls.ns}:robot"
        for path, body in (
                (f"/api/v1/namespaces/{cls.ns}/serviceaccounts", {"metadata": {"name": "robot"}}),
                (f"{RBAC}/namespaces/{cls.ns}/roles", {"metadata": {"name": "reader"}, "rules": [
                    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
                    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]},
                    {"apiGroups": [GROUP], "resources": ["things/status"], "verbs": ["patch"]},
                    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create"]}]}),
                (f"{RBAC}/namespaces/{cls.ns}/rolebindings", {
                    "metadata": {"name": "reader"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                    "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": cls.ns}]})):
            answer = cls.api.post(path, body)
            assert answer.code == 201, answer
        token = cls.api.post(f"/api/v1/namespaces/{cls.ns}/serviceaccounts/robot/token", {"spec": {}})
        cls.robot = Api(cls.kubeconfig, token=token["status.token"])
        cls.addClassCleanup(cls.robot.close)

    def test_what_is_granted(self):
        self.ok(self.robot.get(self.core("configmaps")))
        self.refused(self.robot.get(self.core("secrets", "one")), 404, "NotFound")

    def test_messages_of_refusals(self):
        ns = self.ns
        answer = self.refused(self.robot.post(self.core("configmaps"), {"metadata": {"name": "a"}}), 403, "Forbidden", kind="configmaps")
        self.assertEqual(answer["message"], f'configmaps is forbidden: User "{self.user}" cannot create resource "configmaps" in API '
                                            f'group "" in the namespace "{ns}"')
        answer = self.refused(self.robot.get(self.core("secrets", "two")), 403, "Forbidden", name="two")
        self.assertEqual(answer["message"], f'secrets "two" is forbidden: User "{self.user}" cannot get resource "secrets" in API '
                                            f'group "" in the namespace "{ns}"')
        answer = self.refused(self.robot.get("/api/v1/nodes"), 403, "Forbidden")
        self.assertEqual(answer["message"], f'nodes is forbidden: User "{self.user}" cannot list resource "nodes" in API group "" '
                                            "at the cluster scope")
        answer = self.refused(self.robot.get(self.thing("a", "status")), 403, "Forbidden")
        self.assertEqual(answer["message"], f'things.{GROUP} "a" is forbidden: User "{self.user}" cannot get resource "things/status" '
                                            f'in API group "{GROUP}" in the namespace "{ns}"')
        answer = self.refused(self.robot.get("/metrics"), 403, "Forbidden")
        self.assertEqual(answer["message"], f'forbidden: User "{self.user}" cannot get path "/metrics"')

    def test_a_watch_needs_its_own_right(self):
        answer = self.robot.watch(self.core("configmaps"))
        self.refused(answer, 403, "Forbidden")

    def test_nobody_grants_what_they_do_not_have(self):
        answer = self.robot.post(f"{RBAC}/namespaces/{self.ns}/roles", {"metadata": {"name": "more"}, "rules": [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]})
        self.refused(answer, 403, "Forbidden", message="is attempting to grant RBAC permissions not currently held")
        self.ok(self.robot.post(f"{RBAC}/namespaces/{self.ns}/roles", {"metadata": {"name": "same"}, "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}), 201)

    def test_a_token_that_is_wrong(self):
        wrong = Api(self.kubeconfig, token="nonsense")
        self.addCleanup(wrong.close)
        self.refused(wrong.get(self.core("configmaps")), 401, "Unauthorized", message="Unauthorized")

    def test_anonymous_callers(self):
        anonymous = Api(self.kubeconfig, anonymous=True)
        self.addCleanup(anonymous.close)
        answer = self.refused(anonymous.get(self.core("configmaps")), 403, "Forbidden")
        self.assertIn('User "system:anonymous" cannot list resource "configmaps"', answer["message"])
        self.assertEqual(anonymous.get("/livez").code, 200)
        self.assertEqual(anonymous.get("/version").code, 200)

    def test_reviews(self):
        def review(api, kind, spec):
            plural = kind.lower() + "s"
            return self.ok(api.post(f"{AUTHORIZATION}/{plural}", {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}), 201)
        granted = {"namespace": self.ns, "verb": "list", "resource": "configmaps"}
        refused = {"namespace": self.ns, "verb": "create", "resource": "configmaps"}
        self.assertIs(review(self.robot, "SelfSubjectAccessReview", {"resourceAttributes": granted})["status.allowed"], True)
        self.assertIs(review(self.robot, "SelfSubjectAccessReview", {"resourceAttributes": refused})["status.allowed"], False)
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self.ns}", "system:authenticated"]
        for attributes, allowed in ((granted, True), (refused, False)):
            answer = review(self.api, "SubjectAccessReview", {"user": self.user, "groups": groups, "resourceAttributes": attributes})
            self.assertIs(answer["status.allowed"], allowed)
        answer = review(self.api, "SubjectAccessReview", {"user": self.user, "groups": groups,
                                                          "nonResourceAttributes": {"path": "/metrics", "verb": "get"}})
        self.assertIs(answer["status.allowed"], False)

    def test_a_review_of_nobody_is_refused(self):
        answer = self.api.post(f"{AUTHORIZATION}/subjectaccessreviews", {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})
        self.refused(answer, 422, "Invalid")
