#include "plugins/steward-bridge/restore/raft_files.hpp"

#include "plugins/steward-bridge/bolt/new_file.hpp"
#include "plugins/steward-bridge/restore/crc32c.hpp"
#include "plugins/steward-bridge/restore/protobuf.hpp"

#include "capstan/json.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace capstan::steward {
namespace {

enum RecordType : std::uint64_t { kMetadata = 1, kEntry = 2, kState = 3, kChecksum = 4, kMark = 5 };

constexpr std::uint64_t kConfChangeEntry = 1;
constexpr std::size_t kV2HistoryEvents = 1000;  // what etcd's v2 store keeps

std::span<const std::uint8_t> bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Frames of one log file.
class Log {
public:
    void add(RecordType type, std::string_view data) {
        sum_ = crc32c(sum_, bytes(data));
        std::string record;
        protobuf::Writer writer(record);
        writer.number_always(1, type);
        writer.number_always(2, sum_);
        writer.bytes(3, data);
        const std::size_t padding = (8 - record.size() % 8) % 8;
        std::uint64_t frame = record.size();
        if (padding > 0) {
            frame |= (std::uint64_t{0x80} | padding) << 56;
        }
        for (int shift = 0; shift < 64; shift += 8) {
            frames_ += static_cast<char>(frame >> shift);
        }
        frames_ += record;
        frames_.append(padding, '\0');
    }

    std::string take() { return std::move(frames_); }

private:
    std::uint32_t sum_{0};
    std::string frames_;
};

std::string conf_state(const NewCluster& cluster) {
    std::string message;
    protobuf::Writer writer(message);
    for (const NewMember& member : cluster.members) {
        writer.number_always(1, member.id);
    }
    writer.number_always(5, 0);  // auto_leave
    return message;
}

std::string add_member_entry(const NewMember& member, std::uint64_t index) {
    std::string change;
    protobuf::Writer change_writer(change);
    change_writer.number_always(1, 0);  // id
    change_writer.number_always(2, 0);  // add node
    change_writer.number_always(3, member.id);
    change_writer.bytes(4, member.json());
    std::string entry;
    protobuf::Writer entry_writer(entry);
    entry_writer.number_always(1, kConfChangeEntry);
    entry_writer.number_always(2, kFirstTerm);
    entry_writer.number_always(3, index);
    entry_writer.bytes(4, change);
    return entry;
}

// A node of the v2 store. `children` is null for a value.
std::string v2_node(std::string_view path,
                    std::uint64_t index,
                    std::string_view value,
                    std::string_view children) {
    const std::string at = std::to_string(index);
    std::string node = "{\"Path\":" + json::dump(json::Value(path));
    node += ",\"CreatedIndex\":" + at + ",\"ModifiedIndex\":" + at;
    node += ",\"ExpireTime\":\"0001-01-01T00:00:00Z\",\"Value\":" + json::dump(json::Value(value));
    node += ",\"Children\":" + std::string(children) + "}";
    return node;
}

// The v2 store that only knows the members, as etcd 3.4 and 3.5 read membership from it.
std::string v2_store(const NewCluster& cluster) {
    std::string members;
    std::uint64_t index = 0;
    for (const NewMember& member : cluster.members) {
        ++index;
        const std::string path = "/0/members/" + member.hex_id();
        const std::string attributes =
            v2_node(path + "/raftAttributes", index, member.raft_attributes(), "null");
        members += members.empty() ? "{" : ",";
        members += "\"" + member.hex_id() +
                   "\":" + v2_node(path, index, "", "{\"raftAttributes\":" + attributes + "}");
    }
    members += "}";
    const std::string zero =
        v2_node("/0", 0, "", "{\"members\":" + v2_node("/0/members", 1, "", members) + "}");
    const std::string root =
        v2_node("/", 0, "", "{\"0\":" + zero + ",\"1\":" + v2_node("/1", 0, "", "{}") + "}");
    std::string events = "null";
    for (std::size_t i = 1; i < kV2HistoryEvents; ++i) {
        events += ",null";
    }
    return "{\"Root\":" + root + ",\"WatcherHub\":{\"EventHistory\":{\"Queue\":{\"Events\":[" +
           events +
           "],\"Size\":0,\"Front\":0,\"Back\":0,\"Capacity\":" + std::to_string(kV2HistoryEvents) +
           "},\"StartIndex\":0,\"LastIndex\":0}},\"CurrentIndex\":" + std::to_string(index) +
           ",\"Stats\":{},\"CurrentVersion\":2}";
}

Result<void> write_whole(const std::string& path, std::string_view content) {
    CAPSTAN_TRY(const auto file, bolt::NewFile::create(path));
    CAPSTAN_TRY(file->append(bytes(content)));
    return file->sync();
}

std::string sixteen_hex(std::uint64_t value) {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
    return text.data();
}

}  // namespace

std::uint64_t committed_index(const NewCluster& cluster) {
    return cluster.members.size();
}

std::string conf_state_json(const NewCluster& cluster) {
    std::string voters;
    for (const NewMember& member : cluster.members) {
        voters += (voters.empty() ? "" : ",") + std::to_string(member.id);
    }
    return "{\"voters\":[" + voters + "],\"auto_leave\":false}";
}

std::string encode_log(const NewCluster& cluster) {
    Log log;
    log.add(kChecksum, {});
    std::string metadata;
    protobuf::Writer metadata_writer(metadata);
    metadata_writer.number_always(1, cluster.self().id);
    metadata_writer.number_always(2, cluster.id);
    log.add(kMetadata, metadata);
    std::string nothing_yet;
    protobuf::Writer nothing_writer(nothing_yet);
    nothing_writer.number_always(1, 0);
    nothing_writer.number_always(2, 0);
    log.add(kMark, nothing_yet);
    std::uint64_t index = 0;
    for (const NewMember& member : cluster.members) {
        log.add(kEntry, add_member_entry(member, ++index));
    }
    std::string state;
    protobuf::Writer state_writer(state);
    state_writer.number_always(1, kFirstTerm);
    state_writer.number_always(2, cluster.members.front().id);  // vote
    state_writer.number_always(3, committed_index(cluster));
    log.add(kState, state);
    std::string mark;
    protobuf::Writer mark_writer(mark);
    mark_writer.number_always(1, committed_index(cluster));
    mark_writer.number_always(2, kFirstTerm);
    mark_writer.bytes(3, conf_state(cluster));
    log.add(kMark, mark);
    return log.take();
}

std::string encode_snapshot(const NewCluster& cluster) {
    std::string metadata;
    protobuf::Writer metadata_writer(metadata);
    metadata_writer.bytes(1, conf_state(cluster));
    metadata_writer.number_always(2, committed_index(cluster));
    metadata_writer.number_always(3, kFirstTerm);
    std::string snapshot;
    protobuf::Writer snapshot_writer(snapshot);
    snapshot_writer.bytes(1, v2_store(cluster));
    snapshot_writer.bytes(2, metadata);
    std::string file;
    protobuf::Writer file_writer(file);
    file_writer.number_always(1, crc32c(0, bytes(snapshot)));
    file_writer.bytes(2, snapshot);
    return file;
}

Result<void> write_raft_files(const std::string& member_directory, const NewCluster& cluster) {
    const std::string log_directory = member_directory + "/wal";
    const std::string snap_directory = member_directory + "/snap";
    CAPSTAN_TRY(write_whole(log_directory + "/" + sixteen_hex(0) + "-" + sixteen_hex(0) + ".wal",
                            encode_log(cluster)));
    CAPSTAN_TRY(write_whole(snap_directory + "/" + sixteen_hex(kFirstTerm) + "-" +
                                sixteen_hex(committed_index(cluster)) + ".snap",
                            encode_snapshot(cluster)));
    CAPSTAN_TRY(bolt::sync_directory(log_directory));
    return bolt::sync_directory(snap_directory);
}

}  // namespace capstan::steward
