// For tests: a data directory as etcd leaves it, log, snapshot and database of one member.
#pragma once

#include "plugins/steward-bridge/bolt/writer.hpp"
#include "plugins/steward-bridge/data/data_directory.hpp"
#include "plugins/steward-bridge/data/wal.hpp"
#include "plugins/steward-bridge/restore/mvcc.hpp"
#include "plugins/steward-bridge/restore/raft_files.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace capstan::steward {

namespace fs = std::filesystem;
using State = DataDirectory::State;

inline constexpr int kKeys = 400;  // more than one leaf

class DataDirectoryTest : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "capstan-data-XXXXXX";
        root_ = ::mkdtemp(pattern.data());
        data_ = root_ + "/new.etcd";
        member_ = data_ + "/member";
        cluster_ = make_cluster("m", "m=http://127.0.0.1:2380", "token").value();
    }
    void TearDown() override { fs::remove_all(root_); }

    void make(std::uint64_t consistent_index = 1) {
        fs::remove_all(data_);
        fs::create_directories(member_ + "/wal");
        fs::create_directories(member_ + "/snap");
        ASSERT_TRUE(write_raft_files(member_, cluster_));
        make_database(consistent_index);
    }
    void make_database(std::uint64_t consistent_index) {
        fs::remove(member_ + "/snap/db");
        auto writer = bolt::Writer::create(member_ + "/snap/db", 4096).value();
        ASSERT_TRUE(writer->begin_bucket("key"));
        for (int i = 0; i < kKeys; ++i) {
            const std::string key = "key-" + std::to_string(i);
            mvcc::KeyValue pair{key, i + 2, i + 2, 1, "a value that takes some room", 0};
            std::string message;
            mvcc::encode_key_value(pair, message);
            ASSERT_TRUE(writer->put(bolt::bytes(mvcc::encode_revision({i + 2, 0, false})),
                                    bolt::bytes(message)));
        }
        ASSERT_TRUE(writer->begin_bucket("meta"));
        ASSERT_TRUE(writer->put(bolt::bytes("consistent_index"),
                                bolt::bytes(mvcc::encode_number(consistent_index))));
        ASSERT_TRUE(writer->finish());
    }
    std::string wal() const {
        return member_ + "/wal/" + list_wal(member_ + "/wal").value().front().name;
    }
    std::string snap() const {
        return member_ + "/snap/" + list_snaps(member_ + "/snap").value().front().name;
    }
    static std::string read(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static void write(const std::string& path, const std::string& content) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    }
    static void flip(const std::string& path, std::size_t at) {
        std::string content = read(path);
        content.at(at) = static_cast<char>(content.at(at) ^ 0x55);
        write(path, content);
    }
    DataDirectory look(Depth depth = Depth::full) const {
        return inspect_data_directory(data_, depth);
    }

    std::string root_, data_, member_;
    NewCluster cluster_;
};

}  // namespace capstan::steward
