// The whole node with real processes (/bin/sh) and a fake API server.
#include "runtime/local/node/node.hpp"

#include "runtime/local/node/fake_api.hpp"
#include "runtime/local/node/files.hpp"
#include "runtime/local/node/process.hpp"
#include "runtime/local/node/test_loop.hpp"
#include "runtime/local/node/volumes.hpp"

#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>

namespace capstan::local {
namespace {

using namespace std::chrono_literals;
constexpr auto kLimit = 30s;

class NodeTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::string path = "/tmp/capstan-node-test-XXXXXX";
        ASSERT_NE(::mkdtemp(path.data()), nullptr);
        dir = path;
        api.unique = dir.substr(dir.size() - 6);
        start_node();
    }
    void TearDown() override {
        node.reset();
        kill_all();
        ASSERT_TRUE(remove_tree(dir).has_value());
    }
    void start_node() {
        NodeOptions options;
        options.dir = dir + "/.capstan";
        options.images.host_images = {"host"};
        options.api_url = "https://127.0.0.1:6443";
        options.issue_token = [](const TokenRequest& request) -> Result<std::string> {
            return "token-" + request.service_account + "-" + request.pod_name;
        };
        options.log = [this](NodeLogLevel,
                             std::string_view message,
                             std::string_view pod,
                             std::string_view detail) {
            lines.push_back(std::string(message) + " " + std::string(pod) + " " +
                            std::string(detail));
        };
        auto made = Node::create(loop, api, std::move(options));
        ASSERT_TRUE(made.has_value()) << made.error().message;
        node = std::move(made).value();
        node->start();
    }
    std::vector<pid_t> processes() {
        const auto id = read_file(dir + "/.capstan/node/id");
        std::vector<pid_t> leaders;  // containers, not their children
        for (const pid_t pid :
             find_by_environment("CAPSTAN_NODE_ID=" + (id.has_value() ? id.value() : "?"))) {
            if (session_of(pid) == pid) {
                leaders.push_back(pid);
            }
        }
        return leaders;
    }
    void kill_all() {
        for (const pid_t pid : processes()) {
            ::kill(pid, SIGKILL);
        }
    }
    static json::Value container(std::string_view name, const std::string& script) {
        return {
            {"name", name}, {"image", "host"}, {"command", json::list({"/bin/sh", "-c", script})}};
    }
    json::Value pod(std::string_view name, json::Array containers) {
        return {
            {"metadata", {{"name", name}, {"namespace", "ns"}, {"labels", {{"app", "x"}}}}},
            {"spec", {{"terminationGracePeriodSeconds", 1}, {"containers", std::move(containers)}}},
        };
    }
    std::string ip_of(std::string_view name) {
        const json::Value found = status(name);
        return std::string(json::View(found)["podIP"].string_or(""));
    }
    json::Value status(std::string_view name) {
        const auto object = api.get(kPodKind, {"ns", std::string(name)});
        return object.has_value() && object.value().find("status") ? *object.value().find("status")
                                                                   : json::Value();
    }
    bool wait(const std::function<bool()>& done) { return loop.run_until(done, kLimit); }
    bool job_has(std::string_view condition) {
        const auto job = api.get(kJobKind, {"ns", "j"});
        const json::Value none;
        const json::View conditions =
            json::View(job.has_value() ? job.value() : none)["status"]["conditions"];
        return std::any_of(
            conditions.array().begin(), conditions.array().end(), [&](const json::Value& entry) {
                return json::View(entry)["type"].string_or("") == condition;
            });
    }
    bool wait_ready(std::string_view name) {
        return wait([&] {
            const auto object = api.get(kPodKind, {"ns", std::string(name)});
            return object.has_value() && is_pod_ready(object.value());
        });
    }
    std::string waiting(std::string_view name, std::size_t index = 0) {
        const auto value = status(name);
        return std::string(
            json::View(value)["containerStatuses"][index]["state"]["waiting"]["reason"].string_or(
                ""));
    }

    testing::RealLoop loop;
    testing::FakeApi api{loop};
    std::string dir;
    std::vector<std::string> lines;
    std::unique_ptr<Node> node;
};

constexpr const char* kForever = "exec sleep 1000";

TEST_F(NodeTest, PodRunsAndHasAddressConditionsAndLog) {
    ASSERT_TRUE(api.create(kPodKind, pod("p", {container("a", "echo hello; exec sleep 1000")}))
                    .has_value());
    ASSERT_TRUE(wait_ready("p"));
    const auto value = status("p");
    const json::View view(value);
    EXPECT_EQ(view["phase"].string_or(""), "Running");
    EXPECT_TRUE(view["podIP"].string_or("").starts_with("127.77."));
    EXPECT_TRUE(view["containerStatuses"][0]["state"]["running"].present());
    EXPECT_EQ(view["conditions"].array().size(), 4u);
    ASSERT_TRUE(wait([&] { return node->read_log({"ns", "p"}, {}).value() == "hello\n"; }));
    EXPECT_TRUE(node->awaited().empty());
}

TEST_F(NodeTest, AtRestNothingIsWritten) {
    ASSERT_TRUE(api.create(kPodKind, pod("p", {container("a", kForever)})).has_value());
    ASSERT_TRUE(wait_ready("p"));
    const auto before = api.patches;
    loop.run_until([] { return false; }, 400ms);
    EXPECT_EQ(api.patches, before);
}

TEST_F(NodeTest, EnvironmentPathsMapAndVolumes) {
    ASSERT_TRUE(api.create(kConfigMapKind,
                           {{"metadata", {{"name", "cm"}, {"namespace", "ns"}}},
                            {"data", {{"k", "v"}, {"file", "content"}}}})
                    .has_value());
    ASSERT_TRUE(api.create(kSecretKind,
                           {{"metadata", {{"name", "sec"}, {"namespace", "ns"}}},
                            {"data", {{"s", "c2VjcmV0"}}}})
                    .has_value());
    auto spec = container(
        "a",
        "echo \"$NAME $IP $CM $SEC $REF\"; cat /mnt/cm/file /mnt/cm/../cm/file; echo; "
        "cat /var/run/secrets/kubernetes.io/serviceaccount/token; echo; touch /mnt/tmp/x; "
        "echo main-local:80; exec sleep 1000");
    const auto field = [](std::string_view name, std::string_view path) -> json::Value {
        return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", path}}}}}};
    };
    spec.set(
        "env",
        json::list({
            field("NAME", "metadata.name"),
            field("IP", "status.podIP"),
            {{"name", "CM"}, {"valueFrom", {{"configMapKeyRef", {{"name", "cm"}, {"key", "k"}}}}}},
            {{"name", "SEC"}, {"valueFrom", {{"secretKeyRef", {{"name", "sec"}, {"key", "s"}}}}}},
            {{"name", "REF"}, {"value", "<$(NAME)>$(UNKNOWN)$$(NAME)"}},
        }));
    spec.set("volumeMounts",
             json::list({{{"name", "cm"}, {"mountPath", "/mnt/cm"}},
                         {{"name", "tmp"}, {"mountPath", "/mnt/tmp"}}}));
    auto object = pod("p", {spec});
    object["spec"].set("volumes",
                       json::list({{{"name", "cm"}, {"configMap", {{"name", "cm"}}}},
                                   {{"name", "tmp"}, {"emptyDir", {{"medium", "Memory"}}}}}));
    object["spec"].set(
        "hostAliases",
        json::list({{{"ip", "127.0.0.1"}, {"hostnames", json::list({"main-local"})}}}));
    object["spec"].set("serviceAccountName", "sa");
    const auto created = api.create(kPodKind, object);
    ASSERT_TRUE(wait_ready("p"));
    const auto now = status("p");
    const auto ip = std::string(json::View(now)["podIP"].string_or(""));
    ASSERT_TRUE(wait([&] {
        return node->read_log({"ns", "p"}, {}).value().find(ip + ":80") != std::string::npos;
    }));
    EXPECT_EQ(
        node->read_log({"ns", "p"}, {}).value(),
        "p " + ip + " v secret <p>$(UNKNOWN)$(NAME)\ncontentcontent\ntoken-sa-p\n" + ip + ":80\n");
    const auto pod_dir = dir + "/.capstan/pods/" + uid_of(created.value());
    EXPECT_EQ(::access((pod_dir + "/volumes.d/tmp/x").c_str(), F_OK), 0);
    const auto map = json::parse(read_file(pod_dir + "/a/map.json").value()).value();
    EXPECT_EQ(json::View(map)["names"]["main-local"].string_or(""), ip);
    EXPECT_EQ(json::View(map)["paths"]["/mnt/tmp"].string_or(""), pod_dir + "/volumes.d/tmp");

    // A changed ConfigMap reaches the running container.
    ASSERT_TRUE(api.patch(kConfigMapKind, {"ns", "cm"}, {{"data", {{"file", "new"}}}}).has_value());
    EXPECT_TRUE(wait([&] { return read_file(pod_dir + "/volumes.d/cm/file").value() == "new"; }));
}

TEST_F(NodeTest, CrashedContainerRestartsWithBackOff) {
    ASSERT_TRUE(api.create(kPodKind, pod("p", {container("a", "echo run; exit 3")})).has_value());
    ASSERT_TRUE(wait([&] { return waiting("p") == "CrashLoopBackOff"; }));
    const auto first = status("p");
    EXPECT_EQ(
        json::View(first)["containerStatuses"][0]["lastState"]["terminated"]["exitCode"].int_or(0),
        3);
    EXPECT_EQ(json::View(first)["phase"].string_or(""), "Running");
    ASSERT_TRUE(wait([&] {
        const auto value = status("p");
        return json::View(value)["containerStatuses"][0]["restartCount"].int_or(0) == 1 &&
               waiting("p") == "CrashLoopBackOff";
    }));
    EXPECT_EQ(node->read_log({"ns", "p"}, {.previous = true}).value(), "run\n");
    ASSERT_EQ(node->awaited().size(), 1u);
    EXPECT_EQ(node->awaited()[0],
              "p: a: back-off 2s restarting container a of pod ns/p: exit code 3");
}

TEST_F(NodeTest, KilledProcessIsReplaced) {
    ASSERT_TRUE(api.create(kPodKind, pod("p", {container("a", kForever)})).has_value());
    ASSERT_TRUE(wait_ready("p"));
    ASSERT_TRUE(wait([&] { return processes().size() == 1; }));  // /proc shows nothing amid an exec
    const auto before = processes();
    ::kill(before[0], SIGKILL);
    ASSERT_TRUE(wait([&] {
        const auto value = status("p");
        return json::View(value)["containerStatuses"][0]["restartCount"].int_or(0) == 1;
    }));
    ASSERT_TRUE(wait_ready("p"));
    const auto value = status("p");
    EXPECT_EQ(
        json::View(value)["containerStatuses"][0]["lastState"]["terminated"]["exitCode"].int_or(0),
        137);
    EXPECT_TRUE(wait([&] { return processes().size() == 1; }));
}

TEST_F(NodeTest, DeletionAsksThenRemovesObjectAndDirectory) {
    const auto created = api.create(
        kPodKind, pod("p", {container("a", "trap 'exit 0' TERM; while :; do sleep 0.02; done")}));
    ASSERT_TRUE(wait_ready("p"));
    ASSERT_TRUE(api.remove(kPodKind, {"ns", "p"}, {}).has_value());
    ASSERT_TRUE(wait([&] { return api.count(kPodKind) == 0; }));
    EXPECT_TRUE(processes().empty());
    EXPECT_NE(::access((dir + "/.capstan/pods/" + uid_of(created.value())).c_str(), F_OK), 0);
}

TEST_F(NodeTest, ForeignImageAndMissingThingsWaitWithAReason) {
    auto foreign = container("a", kForever);
    foreign.set("image", "busybox");
    auto keyless = container("b", kForever);
    keyless.set("env",
                json::list({{{"name", "X"},
                             {"valueFrom", {{"secretKeyRef", {{"name", "no"}, {"key", "k"}}}}}}}));
    ASSERT_TRUE(api.create(kPodKind, pod("p", {foreign, keyless})).has_value());
    ASSERT_TRUE(wait([&] {
        return waiting("p", 0) == "ImageNotUsable" &&
               waiting("p", 1) == "CreateContainerConfigError";
    }));
    EXPECT_EQ(node->awaited()[0], "p: a: image \"busybox\" runs only on Kubernetes");
    EXPECT_TRUE(processes().empty());
    ASSERT_TRUE(
        api.create(kSecretKind,
                   {{"metadata", {{"name", "no"}, {"namespace", "ns"}}}, {"data", {{"k", "eA=="}}}})
            .has_value());
    EXPECT_TRUE(wait([&] { return processes().size() == 1; }));
}

TEST_F(NodeTest, InitContainersRunFirstAndInOrder) {
    auto object = pod("p", {container("main", "cat /w/log; exec sleep 1000")});
    auto first = container("one", "echo one >> /w/log");
    auto second = container("two", "echo two >> /w/log");
    const auto mounts = json::list({{{"name", "w"}, {"mountPath", "/w"}}});
    object["spec"]["containers"].if_array()->at(0).set("volumeMounts", mounts);
    first.set("volumeMounts", mounts);
    second.set("volumeMounts", mounts);
    object["spec"].set("initContainers", json::list({first, second}));
    object["spec"].set("volumes", json::list({{{"name", "w"}, {"emptyDir", json::object()}}}));
    ASSERT_TRUE(api.create(kPodKind, object).has_value());
    ASSERT_TRUE(wait_ready("p"));
    EXPECT_TRUE(wait([&] { return node->read_log({"ns", "p"}, {}).value() == "one\ntwo\n"; }));
}

TEST_F(NodeTest, ExecProbesDecideReadinessAndLife) {
    auto spec = container("a", "echo $$ > pid; exec sleep 1000");
    const auto probe = [&](const std::string& script, int failures) -> json::Value {
        return {{"exec", {{"command", json::list({"/bin/sh", "-c", script})}}},
                {"periodSeconds", 1},
                {"failureThreshold", failures}};
    };
    spec.set("readinessProbe", probe("test -e ready", 1));
    spec.set("livenessProbe", probe("test ! -e dead", 1));
    const auto created = api.create(kPodKind, pod("p", {spec}));
    const auto cwd = dir + "/.capstan/pods/" + uid_of(created.value()) + "/a";
    ASSERT_TRUE(wait([&] {
        return node->awaited().size() == 1 &&
               node->awaited()[0].find("readiness probe") != std::string::npos;
    }));
    ASSERT_TRUE(write_file(cwd + "/ready", "", 0600).has_value());
    ASSERT_TRUE(wait_ready("p"));
    ASSERT_TRUE(write_file(cwd + "/dead", "", 0600).has_value());
    ASSERT_TRUE(wait([&] {
        const auto value = status("p");
        return json::View(value)["containerStatuses"][0]["restartCount"].int_or(0) == 1;
    }));
}

TEST_F(NodeTest, WhatItWroteIsNotTakenBackByWhatItSeesLate) {
    ASSERT_TRUE(api.create(kPodKind, pod("p", {container("a", kForever)})).has_value());
    ASSERT_TRUE(wait_ready("p"));
    api.fall_behind(kPodKind);
    kill_all();
    ASSERT_TRUE(wait([&] {
        const json::Value now = status("p");
        return json::View(now)["containerStatuses"][0]["restartCount"].int_or(0) == 1 &&
               api.get(kPodKind, {"ns", "p"}).has_value() &&
               is_pod_ready(api.get(kPodKind, {"ns", "p"}).value());
    }));
    const int written = api.patches;
    while (api.see_next()) {
        ASSERT_TRUE(wait([turns = 0]() mutable { return ++turns == 20; }));
    }
    EXPECT_EQ(api.patches, written);
}

TEST_F(NodeTest, NextNodeAdoptsAndStopsWhatWasDeletedMeanwhile) {
    ASSERT_TRUE(api.create(kPodKind, pod("keep", {container("a", kForever)})).has_value());
    ASSERT_TRUE(api.create(kPodKind, pod("gone", {container("a", kForever)})).has_value());
    ASSERT_TRUE(wait_ready("keep"));
    ASSERT_TRUE(wait_ready("gone"));
    ASSERT_TRUE(wait([&] { return processes().size() == 2; }));  // /proc shows nothing amid an exec
    const auto before = processes();
    const auto ip = ip_of("keep");
    node.reset();
    EXPECT_EQ(processes(), before);
    ASSERT_TRUE(api.remove(kPodKind, {"ns", "gone"}, {.uid = "", .grace_seconds = 0}).has_value());
    start_node();
    ASSERT_TRUE(wait([&] { return processes().size() == 1; }));
    ASSERT_TRUE(wait_ready("keep"));
    const auto value = status("keep");
    EXPECT_EQ(json::View(value)["containerStatuses"][0]["restartCount"].int_or(-1), 0);
    EXPECT_EQ(json::View(value)["podIP"].string_or(""), ip);
    EXPECT_TRUE(processes()[0] == before[0] || processes()[0] == before[1]);
}

TEST_F(NodeTest, StrayProcessOfALostContainerIsKilled) {
    ASSERT_TRUE(
        api.create(kPodKind, pod("p", {container("a", "setsid sleep 1000 & exec sleep 1000")}))
            .has_value());
    ASSERT_TRUE(wait_ready("p"));
    // the second leads a session of its own
    ASSERT_TRUE(wait([&] { return processes().size() == 2; }));
    node.reset();
    start_node();
    EXPECT_TRUE(wait([&] { return processes().size() == 1; }));
}

TEST_F(NodeTest, SecondNodeOnTheDirectoryIsRefused) {
    NodeOptions options;
    options.dir = dir + "/.capstan";
    const auto second = Node::create(loop, api, options);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code, Code::conflict);
    EXPECT_NE(second.error().message.find("pid " + std::to_string(::getpid())), std::string::npos);
}

TEST_F(NodeTest, StopAllEndsProcessesAndKeepsPods) {
    ASSERT_TRUE(api.create(kPodKind, pod("p", {container("a", kForever)})).has_value());
    ASSERT_TRUE(wait_ready("p"));
    bool stopped = false;
    node->stop_all([&] { stopped = true; });
    ASSERT_TRUE(wait([&] { return stopped; }));
    EXPECT_TRUE(processes().empty());
    EXPECT_EQ(api.count(kPodKind), 1u);
    node.reset();
    start_node();
    // A planned stop is no failure: no back-off, and it does not matter what
    // the restart policy says.
    EXPECT_TRUE(loop.run_until([&] { return processes().size() == 1; }, 900ms));
}

TEST_F(NodeTest, FollowedLogEndsWithTheContainer) {
    auto object =
        pod("p", {container("a", "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")});
    object["spec"].set("restartPolicy", "Never");
    const auto created = api.create(kPodKind, object);
    ASSERT_TRUE(wait_ready("p"));
    std::string text;
    bool ended = false;
    auto follow = node->follow_log(
        {"ns", "p"}, {}, [&](std::string_view part) { text += part; }, [&] { ended = true; });
    ASSERT_TRUE(follow.has_value());
    ASSERT_TRUE(wait([&] { return text == "one\n"; }));
    ASSERT_TRUE(write_file(dir + "/.capstan/pods/" + uid_of(created.value()) + "/a/go", "", 0600)
                    .has_value());
    ASSERT_TRUE(wait([&] { return ended; }));
    EXPECT_EQ(text, "one\ntwo\n");
    EXPECT_TRUE(wait([&] {
        return phase_of(api.get(kPodKind, {"ns", "p"}).value()) == "Succeeded";
    }));
    EXPECT_EQ(node->read_log({"ns", "p"}, {.tail_lines = 1}).value(), "two\n");
}

json::Value stateful_set(int replicas, const std::string& script) {
    return {
        {"metadata", {{"name", "m"}, {"namespace", "ns"}, {"generation", 1}}},
        {"spec",
         {
             {"replicas", replicas},
             {"serviceName", "m-peer"},
             {"podManagementPolicy", "Parallel"},
             {"selector", {{"matchLabels", {{"app", "m"}}}}},
             {"template",
              {
                  {"metadata", {{"labels", {{"app", "m"}}}}},
                  {"spec",
                   {
                       {"terminationGracePeriodSeconds", 1},
                       {"containers",
                        json::list({{
                            {"name", "a"},
                            {"image", "host"},
                            {"command", json::list({"/bin/sh", "-c", script})},
                            {"volumeMounts", json::list({{{"name", "d"}, {"mountPath", "/data"}}})},
                        }})},
                   }},
              }},
             {"volumeClaimTemplates",
              json::list({{{"metadata", {{"name", "d"}}}, {"spec", json::object()}}})},
         }},
    };
}

TEST_F(NodeTest, StatefulSetRunsRollsAndKeepsDataAndAddresses) {
    ASSERT_TRUE(api.create(kServiceKind,
                           {{"metadata", {{"name", "m-client"}, {"namespace", "ns"}}},
                            {"spec", {{"selector", {{"app", "m"}}}}}})
                    .has_value());
    ASSERT_TRUE(
        api.create(kStatefulSetKind, stateful_set(2, "echo run >> /data/log; exec sleep 1000"))
            .has_value());
    ASSERT_TRUE(wait_ready("m-0"));
    ASSERT_TRUE(wait_ready("m-1"));
    std::string revision;
    const auto all_updated = [&] {  // to another revision than before
        return wait([&] {
            const auto set = api.get(kStatefulSetKind, {"ns", "m"}).value();
            const auto view = json::View(set)["status"];
            const std::string current(view["currentRevision"].string_or(""));
            const bool done =
                view["readyReplicas"].int_or(0) == 2 && view["updatedReplicas"].int_or(0) == 2 &&
                current == view["updateRevision"].string_or("") && current != revision;
            revision = done ? current : revision;
            return done;
        });
    };
    ASSERT_TRUE(all_updated());
    EXPECT_EQ(api.count(kClaimKind), 2u);
    const auto ip = ip_of("m-1");
    const auto other = ip_of("m-0");
    const auto map = [&] {
        const auto uid = uid_of(api.get(kPodKind, {"ns", "m-0"}).value());
        const auto text = read_file(dir + "/.capstan/pods/" + uid + "/a/map.json");
        return text.has_value() ? json::parse(text.value()).value() : json::object();
    };
    ASSERT_TRUE(wait([&] {
        const auto value = map();
        return json::View(value)["names"]["m-client.ns.svc"].array().size() == 2;
    }));
    const auto names = map();
    EXPECT_EQ(json::View(names)["names"]["m-1.m-peer.ns.svc"].string_or(""), ip);
    EXPECT_EQ(json::View(names)["names"]["m-1.m-peer"].string_or(""), ip);
    const auto claim = api.get(kClaimKind, {"ns", "d-m-1"}).value();
    const auto log = claim_dir(dir + "/.capstan/volumes", claim) + "/log";
    const auto logged = [&] {
        const auto text = read_file(log);
        return text.has_value() ? text.value() : std::string();
    };
    ASSERT_TRUE(wait([&] { return logged() == "run\n"; }));  // ready is not yet: it has written

    auto changed = stateful_set(2, "echo again >> /data/log; exec sleep 1000");
    ASSERT_TRUE(api.patch(kStatefulSetKind,
                          {"ns", "m"},
                          {{"spec", {{"template", *changed.pointer("/spec/template")}}}})
                    .has_value());
    ASSERT_TRUE(all_updated());
    EXPECT_EQ(ip_of("m-1"), ip);
    EXPECT_EQ(ip_of("m-0"), other);
    const auto bound = api.get(kClaimKind, {"ns", "d-m-1"}).value();
    EXPECT_EQ(json::View(bound)["status"]["phase"].string_or(""), "Bound");
    ASSERT_TRUE(wait([&] { return logged() == "run\nagain\n"; }));
    EXPECT_TRUE(wait([&] { return processes().size() == 2; }));
}

TEST_F(NodeTest, StatefulSetAdoptsItsOrphans) {
    const ObjectKey set_key{"ns", "m"}, pod_key{"ns", "m-0"};
    ASSERT_TRUE(api.create(kStatefulSetKind, stateful_set(1, kForever)).has_value());
    ASSERT_TRUE(wait_ready("m-0"));
    const std::string uid = uid_of(api.get(kPodKind, pod_key).value());
    ASSERT_TRUE(api.remove(kStatefulSetKind, set_key, {}).has_value());
    ASSERT_TRUE(api.patch(kPodKind, pod_key, {{"metadata", {{"ownerReferences", json::Value()}}}})
                    .has_value());
    const auto again = api.create(kStatefulSetKind, stateful_set(1, kForever));
    ASSERT_TRUE(again.has_value());
    ASSERT_TRUE(wait([&] {
        return controller_uid(api.get(kPodKind, pod_key).value()) == uid_of(again.value());
    }));
    EXPECT_EQ(uid_of(api.get(kPodKind, pod_key).value()), uid);
    EXPECT_EQ(processes().size(), 1u);
}

json::Value job_of(json::Value container, json::Value spec_more = json::object()) {
    json::Value spec = {{"template",
                         {{"spec",
                           {{"restartPolicy", "Never"},
                            {"terminationGracePeriodSeconds", 1},
                            {"containers", json::list({std::move(container)})}}}}}};
    for (const auto& [key, value] : *spec_more.if_object()) {
        spec.set(key, value);
    }
    return {{"metadata", {{"name", "j"}, {"namespace", "ns"}}}, {"spec", std::move(spec)}};
}

TEST_F(NodeTest, JobRunsToItsEnd) {
    ASSERT_TRUE(api.create(kJobKind, job_of(container("a", "exit 0"))).has_value());
    ASSERT_TRUE(wait([&] { return job_has("Complete"); }));
    const auto job = api.get(kJobKind, {"ns", "j"}).value();
    EXPECT_EQ(json::View(job)["status"]["succeeded"].int_or(0), 1);
    EXPECT_EQ(api.count(kPodKind), 1u);
}

TEST_F(NodeTest, JobThatFailsIsTriedAgainUntilItsLimit) {
    ASSERT_TRUE(
        api.create(kJobKind, job_of(container("a", "exit 3"), {{"backoffLimit", 1}})).has_value());
    ASSERT_TRUE(wait([&] { return job_has("Failed"); }));
    const auto job = api.get(kJobKind, {"ns", "j"}).value();
    EXPECT_EQ(json::View(job)["status"]["failed"].int_or(0), 2);
    EXPECT_EQ(api.count(kPodKind), 2u);
}

TEST_F(NodeTest, JobPastItsDeadlineEndsItsPods) {
    ASSERT_TRUE(
        api.create(kJobKind, job_of(container("a", kForever), {{"activeDeadlineSeconds", 1}}))
            .has_value());
    ASSERT_TRUE(wait([&] { return job_has("Failed"); }));
    EXPECT_TRUE(processes().empty());
    EXPECT_EQ(api.count(kPodKind), 0u);
}

TEST_F(NodeTest, JobGoesOnWithItsPodAfterARestartOfTheNode) {
    const std::string gate = dir + "/gate";
    const std::string script = "while [ ! -e " + gate + " ]; do sleep 0.05; done";
    ASSERT_TRUE(api.create(kJobKind, job_of(container("a", script))).has_value());
    ASSERT_TRUE(wait([&] { return processes().size() == 1; }));
    const auto before = processes();
    node.reset();
    start_node();
    bool looked = false;  // what the new node finds is looked at before anything else happens
    loop.post([&] { loop.post([&] { looked = true; }); });
    ASSERT_TRUE(wait([&] { return looked; }));
    EXPECT_EQ(processes(), before);
    ASSERT_TRUE(write_file(gate, "", 0600).has_value());
    ASSERT_TRUE(wait([&] { return job_has("Complete") || job_has("Failed"); }));
    EXPECT_TRUE(job_has("Complete"));
    EXPECT_EQ(api.count(kPodKind), 1u);
}

}  // namespace
}  // namespace capstan::local
