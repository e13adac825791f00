"""Custom resources: defaults, pruning, validation, field validation, numbers."""
import time

from fixtures import CRDS, Case, definition


class Schemas(Case):
    def create(self, name, spec, **query):
        return self.api.post(self.thing(), self.body(name, spec), **query)

    def test_defaults(self):
        answer = self.ok(self.create("defaults", {"nested": {}, "parts": [{"name": "a"}], "ports": [{"port": 1}]}), 201)
        self.assertEqual(answer["spec"], {"replicas": 1, "mode": "fast", "nested": {"b": "x"}, "parts": [{"name": "a", "note": "none"}],
                                          "ports": [{"port": 1, "protocol": "TCP"}]})

    def test_null_counts_as_absent(self):
        answer = self.ok(self.create("nulls", {"mode": None, "count": None, "maybe": None, "nested": {"a": None}}), 201)
        self.assertEqual(answer["spec"], {"mode": "fast", "replicas": 1, "maybe": None, "nested": {"b": "x"}})

    def test_unknown_fields_are_pruned(self):
        answer = self.ok(self.create("pruned", {"bogus": 1, "nested": {"bogus": 1}, "open": {"any": {"thing": 1}}}), 201)
        self.assertEqual(answer["spec"], {"mode": "fast", "replicas": 1, "nested": {"b": "x"}, "open": {"any": {"thing": 1}}})
        self.assertIn('299 - "unknown field \\"spec.bogus\\""', answer.headers.get_all("Warning"))

    def test_field_validation(self):
        answer = self.ok(self.create("ignored", {"bogus": 1}, fieldValidation="Ignore"), 201)
        self.assertIsNone(answer.headers.get("Warning"))
        answer = self.create("strict", {"bogus": 1}, fieldValidation="Strict")
        self.refused(answer, 400, "BadRequest", message='strict decoding error: unknown field "spec.bogus"')
        self.ok(self.create("strictly", {"count": 1}), 201)  # looked at before the version
        answer = self.api.patch(self.thing("strictly"), {"metadata": {"resourceVersion": "1"}, "spec": {"bogus": 1}}, fieldValidation="Strict")
        self.refused(answer, 422, "Invalid")
        answer = self.create("odd", {}, fieldValidation="Odd")
        self.refused(answer, 422, "Invalid", causes=[("FieldValueNotSupported", "fieldValidation")], kind="CreateOptions")

    def test_field_validation_of_builtin_kinds(self):
        body = {"metadata": {"name": "strict"}, "bogus": 1}
        answer = self.api.post(self.core("configmaps"), body, fieldValidation="Strict")
        self.refused(answer, 400, "BadRequest", message='unknown field "bogus"')
        answer = self.ok(self.api.post(self.core("configmaps"), body), 201)
        self.assertIsNone(answer["bogus"])

    def test_duplicate_fields(self):
        text = f'{{"apiVersion":"conform.capstan.dev/v1","kind":"Thing","metadata":{{"name":"dup"}},"spec":{{"count":1,"count":2}}}}'
        answer = self.api.post(self.thing(), text, fieldValidation="Strict")
        self.refused(answer, 400, "BadRequest", message='duplicate field "spec.count"')
        self.assertEqual(self.ok(self.api.post(self.thing(), text), 201)["spec.count"], 2)

    def test_errors_name_the_field(self):
        for spec, causes in (
                ({"count": "x"}, [("FieldValueTypeInvalid", "spec.count")]),
                ({"count": 1.5}, [("FieldValueTypeInvalid", "spec.count")]),
                ({"mode": "odd"}, [("FieldValueNotSupported", "spec.mode")]),
                ({"replicas": -1}, [("FieldValueInvalid", "spec.replicas")]),
                ({"name": "x" * 21}, [("FieldValueTooLong", "spec.name")]),
                ({"name": "A"}, [("FieldValueInvalid", "spec.name")]),
                ({"marks": ["a", "a"]}, [("FieldValueDuplicate", "spec.marks[1]")]),
                ({"parts": [{"name": "a"}, {"name": "a"}]}, [("FieldValueDuplicate", "spec.parts[1]")]),
                ({"parts": [{"value": 1}]}, [("FieldValueRequired", "spec.parts[0].name")]),
                ({"settings": {"a": 1}}, [("FieldValueTypeInvalid", "spec.settings.a")]),
                ({"atoms": "x"}, [("FieldValueTypeInvalid", "spec.atoms")]),
                ({"port": True}, [("FieldValueTypeInvalid", "spec.port")]),
                ({"flag": "true"}, [("FieldValueTypeInvalid", "spec.flag")])):
            with self.subTest(spec):
                self.refused(self.create("bad", spec), 422, "Invalid", causes=causes, kind="Thing", group="conform.capstan.dev")
        self.refused(self.create("bad", {"count": "x", "mode": "odd"}), 422, "Invalid",
                     causes=[("FieldValueTypeInvalid", "spec.count"), ("FieldValueNotSupported", "spec.mode")])

    def test_rules_in_cel(self):
        self.ok(self.create("even", {"even": 2}), 201)
        self.refused(self.create("odd", {"even": 3}), 422, "Invalid", causes=[("FieldValueInvalid", "spec.even")], message="must be even")

    def test_int_or_string_keeps_its_kind(self):
        self.assertEqual(self.ok(self.create("pi", {"port": 80}), 201)["spec.port"], 80)
        self.assertEqual(self.ok(self.create("ps", {"port": "http"}), 201)["spec.port"], "http")

    def test_numbers(self):
        def stored(literal):
            text = f'{{"apiVersion":"conform.capstan.dev/v1","kind":"Thing","metadata":{{"name":"n"}},"spec":{literal}}}'
            answer = self.api.post(self.thing(), text)
            if answer.code != 201:
                return answer.code
            self.api.delete(self.thing("n"))
            return answer.text.split('"spec":')[1].split("}")[0]
        self.assertIn('"count":1000', stored('{"count":1e3}') + ",")
        self.assertNotIn('"count":1000.', stored('{"count":1e3}'))
        self.assertIn('"count":5', stored('{"count":5.0}'))
        self.assertNotIn('"count":5.', stored('{"count":5.0}'))
        self.assertIn('"count":9007199254740993', stored('{"count":9007199254740993}'))
        self.assertIn('"ratio":0.5', stored('{"ratio":0.5}'))
        self.assertIn('"ratio":2', stored('{"ratio":2}'))

    def test_required(self):
        answer = self.api.post(self.thing(), {**self.body("noname"), "spec": {"parts": [{}]}})
        self.refused(answer, 422, "Invalid", causes=[("FieldValueRequired", "spec.parts[0].name")])


class Definitions(Case):
    def test_a_new_kind_is_served_and_goes(self):
        crd = definition("Passing", "passings", spec={"type": "object", "properties": {"a": {"type": "string"}}})
        answer = self.ok(self.api.post(CRDS, crd), 201)
        self.assertEqual(answer["spec.conversion"], {"strategy": "None"})
        path = self.path("passings")

        def served():
            return self.api.post(path, self.body("one", {"a": "x"}, kind="Passing")).code in (201, 409)
        self.wait(served)
        conditions = {item["type"]: item["status"] for item in self.api.get(f"{CRDS}/passings.conform.capstan.dev")["status.conditions"]}
        self.assertEqual(conditions, {"NamesAccepted": "True", "Established": "True"})
        self.ok(self.api.delete(f"{CRDS}/passings.conform.capstan.dev"))
        self.wait(lambda: self.api.get(f"{CRDS}/passings.conform.capstan.dev").code == 404)
        self.wait(lambda: self.api.get(path).code == 404)

    def test_definitions_that_are_refused(self):
        good = definition("Bad", "bads", spec={"type": "object", "properties": {}})
        bad = {**good, "metadata": {"name": "other.conform.capstan.dev"}}
        self.refused(self.api.post(CRDS, bad), 422, "Invalid")
        untyped = definition("Bad", "bads", spec={"properties": {}})
        self.refused(self.api.post(CRDS, untyped), 422, "Invalid")

    @staticmethod
    def wait(probe, limit=20):
        end = time.monotonic() + limit
        while not probe():
            if time.monotonic() > end:
                raise AssertionError("not in time")
            time.sleep(0.05)
