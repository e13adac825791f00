// What every store does, whatever it is made of: run by each store's test with a fresh one.
#pragma once

#include "plugins/steward-bridge/store/store_testing.hpp"

namespace capstan::steward::testing {

inline void expect_store_contract(ObjectStore& store) {
    const std::string big = pattern(300'000);
    STORE_OK(write_object(store, "p/v2/b", big));
    STORE_OK(write_object(store, "p/v2/a", "first"));
    STORE_OK(write_object(store, "p/v2/a", "second"));
    STORE_OK(write_object(store, "p/v2/empty", ""));
    STORE_OK(write_object(store, "p/v1/Backup-1/odd name+%&\"é", "x"));
    STORE_OK(write_object(store, "p-2/v2/not-ours", "x"));

    for (const std::size_t page : {std::size_t{2}, kPageKeys}) {
        ListOptions options;
        options.page_keys = page;
        EXPECT_EQ(keys_of(store, "p", options),
                  (std::vector<std::string>{
                      "p/v1/Backup-1/odd name+%&\"é", "p/v2/a", "p/v2/b", "p/v2/empty"}));
    }
    EXPECT_EQ(keys_of(store, "p/v2/a"), std::vector<std::string>()) << "an object is no folder";
    EXPECT_EQ(keys_of(store, "nothing"), std::vector<std::string>());

    EXPECT_EQ(read_object(store, {"p/v2/a"}, 100).value(), "second");
    EXPECT_EQ(read_object(store, {"p/v2/empty"}, 100).value(), "");
    EXPECT_EQ(read_object(store, {"p/v1/Backup-1/odd name+%&\"é"}, 100).value(), "x");
    auto source = store.open({"p/v2/b"}, 100'000);
    STORE_OK(source);
    EXPECT_EQ(read_all(*source.value(), 4096), big.substr(100'000));
    source = store.open({"p/v2/b"}, big.size());
    STORE_OK(source);
    EXPECT_EQ(read_all(*source.value()), "");
    STORE_FAILS(store.open({"p/v2/b"}, big.size() + 1), Code::invalid, "p/v2/b");
    STORE_FAILS(store.open({"p/v2/none"}, 0), Code::not_found, "p/v2/none");

    auto info = store.stat({"p/v2/b"});
    STORE_OK(info);
    EXPECT_EQ(info.value().bytes, big.size());
    EXPECT_GT(info.value().modified.time_since_epoch().count(), 0);
    STORE_FAILS(store.stat({"p/v2/none"}), Code::not_found, "p/v2/none");

    STORE_OK(store.remove({"p/v2/a"}));
    STORE_OK(store.remove({"p/v2/a"}));
    STORE_FAILS(store.stat({"p/v2/a"}), Code::not_found, "p/v2/a");
    for (const char* bad : {"", "/a", "a/", "a//b", "../a", "a/./b", ".capstan-tmp/x"}) {
        STORE_FAILS(store.create(bad, {}), Code::invalid, "no key");
        STORE_FAILS(store.stat({bad}), Code::invalid, "no key");
    }
}

inline void expect_fences(ObjectStore& store) {
    const auto first = store.put_if_absent("f/capstan/delta-5", "mine");
    STORE_OK(first);
    STORE_FAILS(
        store.put_if_absent("f/capstan/delta-5", "yours"), Code::exists, "f/capstan/delta-5");
    EXPECT_EQ(read_object(store, {"f/capstan/delta-5"}, 100).value(), "mine");
    EXPECT_EQ(store.stat({"f/capstan/delta-5"}).value().etag, first.value());

    const auto second = store.put_if_match("f/capstan/delta-5", "taken over", first.value());
    STORE_OK(second);
    EXPECT_NE(first.value(), second.value());
    STORE_FAILS(store.put_if_match("f/capstan/delta-5", "late", first.value()),
                Code::conflict,
                "f/capstan/delta-5");
    EXPECT_EQ(read_object(store, {"f/capstan/delta-5"}, 100).value(), "taken over");
    STORE_FAILS(store.put_if_match("f/none", "x", first.value()), Code::not_found, "f/none");

    CreateOptions once;
    once.if_absent = true;
    auto sink = store.create("f/once", once);
    STORE_OK(sink);
    STORE_OK(sink.value()->write(bytes_of("one")));
    STORE_OK(write_object(store, "f/once", "somebody else's"));
    STORE_FAILS(sink.value()->finish(), Code::exists, "f/once");
    EXPECT_EQ(read_object(store, {"f/once"}, 100).value(), "somebody else's");
}

inline void expect_nothing_half_written(ObjectStore& store, std::size_t bytes) {
    {
        auto sink = store.create("h/v2/Full", {});
        STORE_OK(sink);
        STORE_OK(sink.value()->write(bytes_of(pattern(bytes))));
        EXPECT_EQ(keys_of(store, ""), std::vector<std::string>()) << "before finish()";
    }
    EXPECT_EQ(keys_of(store, ""), std::vector<std::string>()) << "given up";
}

}  // namespace capstan::steward::testing
