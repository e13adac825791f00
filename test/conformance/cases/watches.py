"""WATCH: where it starts, what it sends, how it ends."""
import time

from fixtures import Case
from kube_api import Answer, Watch

END = "k8s.io/initial-events-end"


class Watches(Case):
    def open(self, path=None, **query):
        watch = self.api.watch(path or self.core("configmaps"), **query)
        if isinstance(watch, Watch):
            self.addCleanup(watch.close)
        return watch

    def version(self):
        return self.api.get(self.core("configmaps"))["metadata.resourceVersion"]

    @staticmethod
    def named(name, kind="ADDED"):
        return lambda event: event["type"] == kind and event["object"]["metadata"].get("name") == name

    def test_events_from_a_version_on(self):
        watch = self.open(resourceVersion=self.version())
        made = self.config_map("live", {"v": "1"})
        changed = self.ok(self.api.patch(self.core("configmaps", "live"), {"data": {"v": "2"}}))
        self.ok(self.api.delete(self.core("configmaps", "live")))
        events = watch.until(self.named("live", "DELETED"))
        self.assertEqual([event["type"] for event in events], ["ADDED", "MODIFIED", "DELETED"])
        self.assertEqual(events[0]["object"], made.body)
        self.assertEqual(events[1]["object"], changed.body)
        gone = events[2]["object"]
        self.assertGreater(int(gone["metadata"]["resourceVersion"]), int(changed["metadata.resourceVersion"]))
        self.assertEqual(gone["data"], {"v": "2"})

    def test_every_event_object_carries_its_type(self):
        watch = self.open(resourceVersion=self.version())
        self.config_map("typed")
        event = watch.until(self.named("typed"))[-1]
        self.assertEqual((event["object"]["kind"], event["object"]["apiVersion"]), ("ConfigMap", "v1"))

    def test_without_a_version_the_state_comes_first(self):
        self.config_map("before")
        for query in ({}, {"resourceVersion": "0"}):
            with self.subTest(query):
                self.open(fieldSelector="metadata.name=before", **query).until(self.named("before"))

    def test_a_replay_from_an_old_version(self):
        version = self.version()
        self.config_map("replay")
        self.ok(self.api.patch(self.core("configmaps", "replay"), {"data": {"a": "1"}}))
        self.ok(self.api.delete(self.core("configmaps", "replay")))
        events = self.open(resourceVersion=version, fieldSelector="metadata.name=replay").until(self.named("replay", "DELETED"))
        self.assertEqual([event["type"] for event in events], ["ADDED", "MODIFIED", "DELETED"])

    def test_objects_enter_and_leave_a_selector(self):
        self.config_map("moves")
        watch = self.open(resourceVersion=self.version(), labelSelector="in=1")
        path = self.core("configmaps", "moves")
        self.ok(self.api.patch(path, {"metadata": {"labels": {"in": "1"}}}))
        self.ok(self.api.patch(path, {"data": {"a": "1"}}))
        left = self.ok(self.api.patch(path, {"metadata": {"labels": {"in": "2"}}}))
        events = watch.until(self.named("moves", "DELETED"))
        self.assertEqual([event["type"] for event in events], ["ADDED", "MODIFIED", "DELETED"])
        # The last state that matched, at the version of the change.
        self.assertEqual(events[2]["object"]["metadata"]["resourceVersion"], left["metadata.resourceVersion"])
        self.assertEqual(events[2]["object"]["metadata"]["labels"], {"in": "1"})

    def test_a_write_that_changes_nothing_is_no_event(self):
        self.config_map("still", {"a": "1"})
        watch = self.open(resourceVersion=self.version())
        self.ok(self.api.patch(self.core("configmaps", "still"), {"data": {"a": "1"}}))
        self.config_map("after-still")
        self.assertEqual([event["object"]["metadata"]["name"] for event in watch.until(self.named("after-still"))], ["after-still"])

    def test_streamed_list_ends_with_a_bookmark(self):
        self.config_map("streamed")
        watch = self.open(sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
        events = watch.until(lambda event: event["type"] == "BOOKMARK")
        self.assertIn("streamed", [event["object"]["metadata"].get("name") for event in events])
        self.assertEqual({event["type"] for event in events[:-1]}, {"ADDED"})
        mark = events[-1]["object"]
        self.assertEqual((mark["kind"], mark["apiVersion"]), ("ConfigMap", "v1"))
        self.assertEqual(mark["metadata"]["annotations"], {END: "true"})
        self.assertGreaterEqual(int(mark["metadata"]["resourceVersion"]), int(events[0]["object"]["metadata"]["resourceVersion"]))
        self.config_map("after-mark")
        watch.until(self.named("after-mark"))

    def test_streamed_list_of_a_custom_resource(self):
        self.make("streamed")
        watch = self.open(self.thing(), sendInitialEvents="true", resourceVersionMatch="NotOlderThan", allowWatchBookmarks="true")
        events = watch.until(lambda event: event["type"] == "BOOKMARK")
        self.assertEqual(events[-1]["object"]["kind"], "Thing")
        self.assertEqual(events[-1]["object"]["metadata"]["annotations"], {END: "true"})

    def test_no_bookmark_unless_asked_for(self):
        self.config_map("quiet")
        watch = self.open(timeoutSeconds=4, resourceVersion=self.version())
        self.config_map("quiet2")
        seen = []
        while (event := watch.next(15)) is not None:
            seen.append(event["type"])
        self.assertNotIn("BOOKMARK", seen)

    def test_the_stream_ends_at_its_time_limit(self):
        start = time.monotonic()
        watch = self.open(timeoutSeconds=1, resourceVersion=self.version())
        self.assertIsNone(watch.next(15))
        self.assertLess(time.monotonic() - start, 10)

    def test_metadata_only_events(self):
        watch = self.open(resourceVersion=self.version())
        accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        connection = self.api.open()
        self.addCleanup(connection.close)
        connection.request("GET", f"{self.core('configmaps')}?watch=1&resourceVersion={self.version()}", headers={"Accept": accept})
        partial = Watch(connection, connection.getresponse())
        self.config_map("partial", {"a": "b"})
        event = partial.until(self.named("partial"))[-1]
        self.assertEqual((event["object"]["kind"], event["object"].get("data")), ("PartialObjectMetadata", None))
        watch.until(self.named("partial"))

    def test_rules_of_streamed_lists(self):
        for query, cause in (
                ({"sendInitialEvents": "true"}, ("FieldValueForbidden", "resourceVersionMatch")),
                ({"sendInitialEvents": "true", "resourceVersionMatch": "Exact", "resourceVersion": "1"},
                 ("FieldValueForbidden", "resourceVersionMatch")),
                ({"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"}, ("FieldValueForbidden", "resourceVersionMatch"))):
            with self.subTest(query):
                answer = self.open(**query)
                self.assertIsInstance(answer, Answer)
                self.assertEqual(answer.code, 422)
                self.assertIn(cause, answer.causes, answer)

    def test_a_version_that_is_no_number_is_refused(self):
        answer = self.open(resourceVersion="abc")
        self.assertIn('Invalid value: "abc"', answer["message"])  # 1.34 answers 500 here, without a reason

    def test_a_watch_of_one_name(self):
        self.config_map("single")
        watch = self.open(fieldSelector="metadata.name=single", resourceVersion=self.version())
        self.config_map("other")
        self.ok(self.api.patch(self.core("configmaps", "single"), {"data": {"x": "1"}}))
        events = watch.until(self.named("single", "MODIFIED"))
        self.assertEqual(len(events), 1)
