#include "runtime/cache/store.hpp"

#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

namespace capstan::cache {
namespace {

using namespace std::chrono_literals;

struct Spec {
    std::string name;
    std::string uid;
    std::uint64_t rv{0};
    std::string ns{"x"};
    std::string label{};
    std::string owner{};
    std::string ref{};
};

ObjectPtr make(const Spec& s) {
    json::Value value = {
        {"kind", "Thing"},
        {"apiVersion", "v1"},
        {"metadata",
         {{"name", s.name},
          {"namespace", s.ns},
          {"uid", s.uid},
          {"resourceVersion", std::to_string(s.rv)}}},
    };
    if (!s.label.empty()) {
        value["metadata"].set("labels", {{"app", s.label}});
    }
    if (!s.owner.empty()) {
        value["metadata"].set("ownerReferences",
                              json::list({{{"uid", s.owner},
                                           {"name", "o"},
                                           {"kind", "K"},
                                           {"apiVersion", "v1"},
                                           {"controller", true}}}));
    }
    if (!s.ref.empty()) {
        value.set("spec", {{"refs", json::list({{{"name", s.ref}}})}});
    }
    return Object::make(std::move(value)).value();
}

std::string show(const std::vector<Event>& events) {
    constexpr const char* kTypes[] = {"create", "update", "remove", "resync"};
    std::string text;
    for (const Event& e : events) {
        text += text.empty() ? "" : " ";
        text += std::string(kTypes[static_cast<int>(e.type)]) + (e.final_state_unknown ? "?" : "") +
                (e.own_write ? "*" : "") + ":";
        text += e.old_object ? std::string(e.old_object->uid()) + "@" +
                                   std::string(e.old_object->resource_version())
                             : "";
        text += e.new_object ? ">" + std::string(e.new_object->uid()) + "@" +
                                   std::string(e.new_object->resource_version())
                             : "";
    }
    return text;
}

std::string names(const std::vector<ObjectPtr>& objects) {
    std::string text;
    for (const ObjectPtr& o : objects) {
        text += (text.empty() ? "" : " ") + std::string(o->ns()) + "/" + std::string(o->name()) +
                "@" + std::string(o->resource_version());
    }
    return text;
}

struct StoreTest : testing::Test {
    test::VirtualLoop clock;
    Store store{clock};
};

TEST_F(StoreTest, AppliesEventsInOrderAndNeverBackwards) {
    EXPECT_EQ(show(store.replace({make({"b", "u2", 4}), make({"a", "u1", 5})}, "10", false)),
              "create:>u1@5 create:>u2@4");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 12}))), "update:u1@5>u1@12");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 12}))), "");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 11}))), "");
    EXPECT_EQ(show(store.apply_upsert(make({"old", "u9", 9}))), "");  // deleted before the list
    EXPECT_EQ(show(store.apply_remove(make({"a", "u1", 11}))), "");
    EXPECT_EQ(show(store.apply_remove(make({"a", "u1", 13}))), "remove:u1@13");
    EXPECT_EQ(show(store.apply_remove(make({"a", "u1", 13}))), "");
    EXPECT_EQ(store.resource_version(), "13");
    EXPECT_EQ(names(store.list()), "x/b@4");
}

TEST_F(StoreTest, TellsARecreatedNamesakeAsDeleteAndAdd) {
    store.replace({make({"a", "u1", 5})}, "10", false);
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u2", 12}))), "remove?:u1@5 create:>u2@12");
    EXPECT_EQ(show(store.apply_remove(make({"a", "u1", 11}))), "");  // of the old one, late
    EXPECT_EQ(names(store.list()), "x/a@12");
    EXPECT_EQ(show(store.replace({make({"a", "u3", 20})}, "20", false)),
              "remove?:u2@12 create:>u3@20");
}

TEST_F(StoreTest, SynthesisesDeletesOverARelist) {
    store.replace({make({"a", "u1", 5}), make({"b", "u2", 6}), make({"c", "u3", 7})}, "10", false);
    EXPECT_EQ(
        show(store.replace(
            {make({"d", "u4", 15}), make({"b", "u2", 14}), make({"c", "u3", 7})}, "20", false)),
        "remove?:u1@5 update:u2@6>u2@14 create:>u4@15");
}

TEST_F(StoreTest, KeepsNewerObjectsOverAnOlderListUnlessReset) {
    store.replace({make({"a", "u1", 5})}, "10", false);
    store.apply_upsert(make({"a", "u1", 12}));
    EXPECT_EQ(show(store.replace({make({"a", "u1", 11})}, "11", false)), "");
    EXPECT_EQ(names(store.list()), "x/a@12");
    EXPECT_EQ(show(store.replace({make({"a", "u1", 3})}, "4", true)), "update:u1@12>u1@3");
    EXPECT_EQ(store.resource_version(), "4");
}

// A list later than what is stored shows something older: the data was set back and went on.
TEST_F(StoreTest, TakesWhatALaterListShowsEvenIfOlder) {
    store.replace({make({"a", "u1", 5}), make({"b", "u2", 6})}, "10", false);
    store.apply_upsert(make({"a", "u1", 12}));
    EXPECT_EQ(show(store.replace({make({"a", "u1", 11}), make({"b", "u3", 4})}, "13", false)),
              "remove?:u2@6 update:u1@12>u1@11 create:>u3@4");
    // One version, two histories.
    EXPECT_EQ(show(store.replace({make({"a", "u1", 11}), make({"b", "u4", 4})}, "14", false)),
              "remove?:u3@4 create:>u4@4");
    EXPECT_EQ(
        show(store.replace({make({"a", "u1", 11, "x", "new"}), make({"b", "u4", 4})}, "9", true)),
        "update:u1@11>u1@11");
}

// Written in one transaction of etcd.
TEST_F(StoreTest, TakesObjectsThatShareOneVersion) {
    store.replace({make({"a", "u1", 5})}, "10", false);
    EXPECT_EQ(show(store.apply_upsert(make({"b", "u2", 12}))), "create:>u2@12");
    EXPECT_EQ(show(store.apply_upsert(make({"c", "u3", 12}))), "create:>u3@12");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 12}))), "update:u1@5>u1@12");
    EXPECT_EQ(show(store.apply_remove(make({"a", "u1", 13}))), "remove:u1@13");
    EXPECT_EQ(show(store.apply_remove(make({"b", "u2", 13}))), "remove:u2@13");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 12}))), "") << "from the past";
}

kube::Unreadable unreadable(const Spec& s) {
    return {make(s), std::to_string(s.rv), "too deep"};
}

TEST_F(StoreTest, KeepsWhatCannotBeReadAnyMore) {
    store.replace({make({"a", "u1", 5}), make({"b", "u2", 6})}, "10", false);
    EXPECT_TRUE(store.note_unreadable(unreadable({"a", "u1", 12})));
    EXPECT_FALSE(store.note_unreadable(unreadable({"a", "u1", 13}))) << "known";
    EXPECT_EQ(store.why_unreadable({"x", "a"}), "x/a: too deep");
    EXPECT_EQ(store.why_unreadable({"x", "b"}), "");
    EXPECT_EQ(store.unreadable_text(), "an object cannot be read: x/a: too deep");
    EXPECT_EQ(store.why_not_whole(), "") << "an old state of it is there";
    // Lists that hold it, as something unreadable, do not remove it; its namesake's do.
    EXPECT_EQ(show(store.replace({make({"b", "u2", 6})},
                                 "20",
                                 false,
                                 {unreadable({"a", "u1", 13}), unreadable({"c", "u3", 14})})),
              "");
    EXPECT_EQ(names(store.list()), "x/a@5 x/b@6");
    EXPECT_EQ(store.unreadable_text(), "2 objects cannot be read: x/a: too deep");
    EXPECT_EQ(store.why_not_whole(), "x/c: too deep");
    EXPECT_EQ(store.why_not_whole({"y", nullptr}), "");
    EXPECT_EQ(
        show(store.replace({make({"b", "u2", 6})}, "30", false, {unreadable({"a", "u9", 25})})),
        "remove?:u1@5");
    EXPECT_EQ(store.why_not_whole(), "x/a: too deep");
    // Events from the past say nothing of it; a readable state and a deletion do.
    store.apply_upsert(make({"a", "u1", 12}));
    EXPECT_NE(store.why_unreadable({"x", "a"}), "");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u9", 31}))), "create:>u9@31");
    EXPECT_EQ(store.unreadable_text(), "");
    store.note_unreadable(unreadable({"a", "u9", 32}));
    EXPECT_EQ(show(store.apply_remove(make({"a", "u9", 33}))), "remove:u9@33");
    EXPECT_EQ(store.unreadable_text(), "");
}

TEST_F(StoreTest, DoesNotForgetOneWithoutAName) {
    EXPECT_TRUE(store.note_unreadable({nullptr, "", "too deep"}));
    EXPECT_EQ(store.unreadable_text(),
              "an object cannot be read: an object without a readable name: too deep");
    EXPECT_NE(store.why_not_whole(), "");
    store.replace({}, "20", false);
    EXPECT_EQ(store.unreadable_text(), "");
}

TEST_F(StoreTest, TakesTheNewestOfEqualKeysInASnapshot) {
    EXPECT_EQ(show(store.replace(
                  {make({"a", "u1", 6}), make({"b", "u2", 1}), make({"a", "u1", 5})}, "10", false)),
              "create:>u1@6 create:>u2@1");
    EXPECT_EQ(store.size(), 2u);
}

TEST_F(StoreTest, ListsByNamespaceAndSelector) {
    store.replace({make({"a", "u1", 1, "x", "db"}),
                   make({"b", "u2", 2, "y", "db"}),
                   make({"a", "u3", 3, "y", "web"}),
                   make({"c", "u4", 4, "yy"})},
                  "9",
                  false);
    EXPECT_EQ(names(store.list({"y", nullptr})), "y/a@3 y/b@2");
    const auto selector = kube::LabelSelector::parse("app!=web").value();
    EXPECT_EQ(names(store.list({"", &selector})), "x/a@1 y/b@2 yy/c@4");
    EXPECT_EQ(names(store.list({"nope", nullptr})), "");
}

TEST_F(StoreTest, KeepsIndexesInStep) {
    const IndexSpec owner{};
    const IndexSpec label{IndexSpec::Kind::label, "app"};
    const IndexSpec ref{IndexSpec::Kind::field, "/spec/refs/*/name"};
    store.replace(
        {make({"a", "u1", 1, "x", "db", "o1", "s1"}), make({"b", "u2", 2, "y", "db", "o2", "s1"})},
        "9",
        false);
    for (const IndexSpec& index : {owner, label, ref}) {
        ASSERT_TRUE(store.add_index(index));  // after the fact
    }
    EXPECT_EQ(names(store.by_controller("o1")), "x/a@1");
    EXPECT_EQ(names(store.by_index(label, "db", "y")), "y/b@2");
    EXPECT_EQ(names(store.by_index(ref, "s1")), "x/a@1 y/b@2");
    store.apply_upsert(make({"a", "u1", 10, "x", "web", "o2", "s2"}));
    EXPECT_EQ(names(store.by_controller("o1")), "");
    EXPECT_EQ(names(store.by_controller("o2")), "x/a@10 y/b@2");
    EXPECT_EQ(names(store.by_index(ref, "s1")), "y/b@2");
    // by what was stored, not by what the event says
    store.apply_remove(make({"b", "u2", 11, "y", "other", "o9"}));
    EXPECT_EQ(names(store.by_index(label, "db")), "");
    EXPECT_EQ(names(store.by_controller("o2")), "x/a@10");
    store.replace({make({"c", "u3", 12, "x", "db", "o1"})}, "20", false);
    EXPECT_EQ(names(store.by_controller("o1")), "x/c@12");
    EXPECT_EQ(names(store.by_index({IndexSpec::Kind::field, "/metadata/name"}, "c")),
              "x/c@12");  // a scan
}

TEST_F(StoreTest, ShowsOurWriteUntilTheWatchHasIt) {
    ASSERT_TRUE(store.add_index({IndexSpec::Kind::label, "app"}));
    store.replace({make({"a", "u1", 5, "x", "old"})}, "10", false);
    store.overlay(make({"a", "u1", 12, "x", "new"}));
    store.overlay(make({"b", "u2", 13, "x", "new"}));
    EXPECT_EQ(names(store.list()), "x/a@12 x/b@13");
    EXPECT_EQ(store.get({"x", "b"})->uid(), "u2");
    EXPECT_EQ(names(store.by_index({IndexSpec::Kind::label, "app"}, "new")), "x/a@12 x/b@13");
    EXPECT_EQ(names(store.by_index({IndexSpec::Kind::label, "app"}, "old")), "");
    EXPECT_FALSE(store.reached({"x", "a"}, "12"));
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 11, "x", "mid"}))),
              "update:u1@5>u1@11");  // not ours yet
    EXPECT_EQ(store.get({"x", "a"})->resource_version(), "12");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 12, "x", "new"}))), "update*:u1@11>u1@12");
    EXPECT_TRUE(store.reached({"x", "a"}, "12"));
    EXPECT_EQ(show(store.apply_upsert(make({"b", "u2", 14}))),
              "create:>u2@14");  // somebody wrote after us
    EXPECT_EQ(names(store.list()), "x/a@12 x/b@14");
}

TEST_F(StoreTest, IgnoresAWriteTheWatchHasOvertaken) {
    store.replace({make({"a", "u1", 5})}, "20", false);
    store.overlay(make({"b", "u2", 19}));  // created and deleted by now
    EXPECT_EQ(names(store.list()), "x/a@5");
    EXPECT_TRUE(store.reached({"x", "b"}, "19"));
}

TEST_F(StoreTest, DropsAnOverlayByListBookmarkDeletionOrTime) {
    store.replace({}, "10", false);
    store.overlay(make({"a", "u1", 12}));
    store.advance("13");
    EXPECT_EQ(names(store.list()), "");
    store.overlay(make({"b", "u2", 15}));
    store.replace({}, "15", false);
    EXPECT_EQ(names(store.list()), "");
    store.overlay(make({"c", "u3", 17}));
    store.apply_remove(make({"c", "u3", 18}));
    EXPECT_EQ(names(store.list()), "");
    store.overlay(make({"d", "u4", 20}));
    clock.run_for(29s);
    EXPECT_EQ(names(store.list()), "x/d@20");
    clock.run_for(1s);
    EXPECT_EQ(names(store.list()), "");
    EXPECT_EQ(store.get({"x", "d"}), nullptr);
}

TEST_F(StoreTest, HidesWhatWeDeletedUntilTheWatchShowsItGone) {
    store.replace({make({"a", "u1", 5}), make({"b", "u2", 6})}, "10", false);
    store.overlay_removed({"x", "a"}, "u1");
    store.overlay_removed({"x", "b"}, "other");  // not that one
    EXPECT_EQ(names(store.list()), "x/b@6");
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u1", 11}))),
              "update:u1@5>u1@11");  // its finalizers went first
    EXPECT_EQ(store.get({"x", "a"}), nullptr);
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u7", 13}))), "remove?:u1@11 create:>u7@13");
    EXPECT_EQ(store.get({"x", "a"})->uid(), "u7");
    store.overlay_removed({"x", "b"}, "u2");
    EXPECT_EQ(show(store.apply_remove(make({"b", "u2", 14}))), "remove:u2@14");
    EXPECT_EQ(names(store.list()), "x/a@13");
}

TEST_F(StoreTest, CountsBytes) {
    store.replace({make({"a", "u1", 5}), make({"b", "u2", 6})}, "10", false);
    const std::size_t two = store.bytes();
    store.apply_remove(make({"b", "u2", 11}));
    EXPECT_EQ(store.bytes(), make({"a", "u1", 5})->memory());
    EXPECT_GT(two, store.bytes());
    store.replace({}, "12", false);
    EXPECT_EQ(store.bytes(), 0u);
}

TEST_F(StoreTest, AcceptsVersionsItCannotCompare) {
    store.replace({make({"a", "u1", 0})}, "", false);
    EXPECT_EQ(
        show(store.apply_upsert(
            Object::decode(
                R"({"metadata":{"name":"a","namespace":"x","uid":"u1","resourceVersion":"v-b"}})")
                .value())),
        "update:u1@0>u1@v-b");
    EXPECT_EQ(store.resource_version(), "v-b");
}

// Made by us and deleted by another while the watch was away: no list and no event shows it.
TEST_F(StoreTest, TellsOfAWriteThatWasGoneBeforeTheWatchShowedIt) {
    store.replace({make({"b", "u2", 3})}, "3", false);
    store.overlay(make({"a", "u1", 5}));
    EXPECT_EQ(show(store.replace({make({"b", "u2", 3})}, "4", false)), "") << "it may come yet";
    EXPECT_EQ(store.get({"x", "a"})->uid(), "u1");
    EXPECT_EQ(show(store.replace({make({"b", "u2", 3})}, "7", false)), "remove?:u1@5");
    EXPECT_EQ(store.get({"x", "a"}), nullptr);
    EXPECT_EQ(show(store.replace({make({"b", "u2", 3})}, "8", false)), "") << "once";

    store.overlay(make({"a", "u3", 10}));
    store.overlay_removed({"x", "a"}, "u3");  // deleted by us again
    store.replace({make({"b", "u2", 3})}, "9", false);
    EXPECT_EQ(show(store.apply_upsert(make({"a", "u3", 10}))), "create:>u3@10");
    EXPECT_EQ(store.get({"x", "a"}), nullptr) << "shown after our own deletion";
}

// The server's data was set back to before our writes; what the store has is as it was then.
TEST_F(StoreTest, TellsOfWritesThatWereUndone) {
    const Shadow then = {make({"a", "u1", 3}), make({"b", "u2", 3}), make({"c", "u3", 3})};
    store.replace(then, "5", false);
    store.overlay(make({"a", "u1", 8}));
    store.overlay_removed({"x", "b"}, "u2");
    EXPECT_EQ(show(store.replace(then, "4", true)), "update:u1@8>u1@3 create:>u2@3");
    EXPECT_EQ(store.get({"x", "a"})->resource_version(), "3");
    EXPECT_NE(store.get({"x", "b"}), nullptr);
}

// The server's truth, its event log, and a watcher that loses its stream, gets events twice, falls
// behind compaction and lists again. After every step: no object moved back, and folding the events
// gives exactly the store's content.
class Model {
public:
    explicit Model(std::uint64_t seed) : random_(seed) {}

    void run(int steps) {
        relist();
        for (int i = 0; i < steps; ++i) {
            switch (random_() % 10) {
                case 0:
                case 1:
                case 2:
                case 3: write(); break;
                case 4:
                case 5:
                case 6:
                case 7: deliver(random_() % 4); break;
                case 8: random_() % 8 == 0 ? compact() : rewind(); break;
                default: random_() % 20 == 0 ? relist() : own_write(); break;
            }
            if (i % 512 == 0) {
                check();
            }
            if (testing::Test::HasFailure()) {
                return;
            }
        }
        deliver(log_.size());
        check();
        EXPECT_EQ(names(store_.list()), names(truth_list()));
    }

private:
    struct Logged {
        bool removed;
        ObjectPtr object;
        std::uint64_t rv;
    };

    std::string pick() { return std::string(1, static_cast<char>('a' + random_() % 12)); }
    ObjectPtr fresh(const std::string& name, const std::string& uid) {
        return make({name,
                     uid,
                     ++rv_,
                     "x",
                     std::string(1, static_cast<char>('p' + random_() % 3)),
                     "o" + std::to_string(random_() % 3)});
    }
    void write() {
        const std::string name = pick();
        const auto found = truth_.find(name);
        if (found == truth_.end()) {
            truth_[name] = fresh(name, "u" + std::to_string(++uids_));
            log_.push_back({false, truth_[name], rv_});
        } else if (random_() % 3 == 0) {
            const ObjectPtr last = fresh(name, std::string(found->second->uid()));
            truth_.erase(found);
            log_.push_back({true, last, rv_});
        } else {
            found->second = fresh(name, std::string(found->second->uid()));
            log_.push_back({false, found->second, rv_});
        }
    }
    void own_write() {
        const std::size_t before = log_.size();
        write();
        const Logged& last = log_.back();
        ASSERT_EQ(log_.size(), before + 1);
        if (last.removed) {
            store_.overlay_removed(last.object->key(), last.object->uid());
            const ObjectPtr seen = store_.get(last.object->key());
            EXPECT_TRUE(!seen || seen->uid() != last.object->uid());
        } else {
            store_.overlay(last.object);
            own_.insert(last.object);
            EXPECT_EQ(store_.get(last.object->key())->resource_version(),
                      last.object->resource_version());
        }
    }
    void deliver(std::size_t count) {
        for (; count > 0 && next_ < log_.size(); --count, ++next_) {
            if (log_[next_].rv < compacted_) {
                relist();
                return;
            }
            fold(log_[next_].removed ? store_.apply_remove(log_[next_].object)
                                     : store_.apply_upsert(log_[next_].object));
            if (random_() % 5 == 0) {
                store_.advance(std::to_string(log_[next_].rv));
            }
        }
    }
    void rewind() {
        next_ -= std::min<std::size_t>(next_, random_() % 6);
    }  // a resumed watch shows some events twice
    void compact() { compacted_ = rv_; }
    void relist() {
        Shadow shadow;
        for (const auto& [name, object] : truth_) {
            shadow.push_back(object);
        }
        std::shuffle(shadow.begin(), shadow.end(), random_);
        fold(store_.replace(std::move(shadow), std::to_string(rv_), false));
        next_ = log_.size();
        EXPECT_EQ(names(store_.watched()), names(truth_list()));
    }
    void fold(const std::vector<Event>& events) {
        for (const Event& e : events) {
            const ObjectPtr& any = e.new_object ? e.new_object : e.old_object;
            const std::string name(any->name());
            const auto known = seen_.find(name);
            switch (e.type) {
                case EventType::create: EXPECT_EQ(known, seen_.end()) << name; break;
                case EventType::update:
                    ASSERT_NE(known, seen_.end());
                    EXPECT_EQ(known->second, e.old_object);
                    EXPECT_EQ(e.old_object->uid(), e.new_object->uid());
                    EXPECT_EQ(kube::compare_resource_versions(e.old_object->resource_version(),
                                                              e.new_object->resource_version()),
                              -1);
                    break;
                case EventType::remove:
                    if (known == seen_.end()) {
                        EXPECT_TRUE(e.final_state_unknown && own_.contains(e.old_object)) << name;
                        break;
                    }
                    EXPECT_EQ(known->second->uid(), e.old_object->uid());
                    seen_.erase(known);
                    break;
                case EventType::resync: FAIL();
            }
            if (e.new_object) {
                seen_[name] = e.new_object;
            }
        }
    }
    void check() {
        std::vector<ObjectPtr> folded;
        std::size_t bytes = 0;
        std::size_t indexed = 0;
        for (const auto& [name, object] : seen_) {
            folded.push_back(object);
            bytes += object->memory();
        }
        EXPECT_EQ(names(store_.watched()), names(folded));
        EXPECT_EQ(store_.bytes(), bytes);
        for (const char* value : {"p", "q", "r"}) {
            indexed += store_.by_index({IndexSpec::Kind::label, "app"}, value).size();
        }
        EXPECT_EQ(indexed, store_.list().size());
        for (const char* owner : {"o0", "o1", "o2"}) {
            const auto by_index = store_.by_controller(owner);
            auto by_scan = store_.list();
            std::erase_if(by_scan,
                          [&](const ObjectPtr& o) { return o->controller_uid() != owner; });
            EXPECT_EQ(names(by_index), names(by_scan));
        }
    }
    std::vector<ObjectPtr> truth_list() const {
        std::vector<ObjectPtr> all;
        for (const auto& [name, object] : truth_) {
            all.push_back(object);
        }
        return all;
    }

    std::mt19937_64 random_;
    test::VirtualLoop clock_;
    Store store_{clock_};
    const bool indexed_{store_.add_index({IndexSpec::Kind::label, "app"}).has_value() &&
                        store_.add_index({}).has_value()};
    std::map<std::string, ObjectPtr> truth_;
    std::map<std::string, ObjectPtr> seen_;  // what the events say
    std::set<ObjectPtr> own_;                // written by us
    std::vector<Logged> log_;
    std::size_t next_{0};
    std::uint64_t rv_{1};
    std::uint64_t uids_{0};
    std::uint64_t compacted_{0};
};

TEST(StoreModel, LosesNothingAndNeverStepsBack) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Model(seed).run(10'000);
        if (HasFailure()) {
            return;
        }
    }
}

TEST_F(StoreTest, ServesReadersWhileItIsWritten) {
    ASSERT_TRUE(store.add_index({}));
    std::atomic<bool> stop{false};
    std::atomic<int> torn{0};
    store.replace({make({"a", "u1", 1}), make({"b", "u1", 1})}, "1", false);
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i) {
        readers.emplace_back([&] {
            while (!stop) {
                const auto all = store.list();
                torn += all.size() == 2 && all[0]->resource_version() == all[1]->resource_version()
                            ? 0
                            : 1;
                (void)store.get({"x", "a"});
                (void)store.by_controller("o");
                store.overlay_removed({"x", "zz"}, "none");
            }
        });
    }
    for (std::uint64_t rv = 2; rv < 500; ++rv) {
        store.replace({make({"a", "u1", rv}), make({"b", "u1", rv})}, std::to_string(rv), false);
    }
    stop = true;
    for (std::thread& reader : readers) {
        reader.join();
    }
    EXPECT_EQ(torn, 0);  // a list is one version of the store
}

}  // namespace
}  // namespace capstan::cache
