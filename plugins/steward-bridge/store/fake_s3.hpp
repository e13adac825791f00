// An S3 server in memory behind the transport, for tests: signatures, pages, versions, parts,
// conditions, and faults on demand.
//
// Where it lies: one bucket, path style, no ACLs, no checksums but x-amz-content-sha256; times
// stand still unless the test or a wait moves them; etags are counters, not digests.
#pragma once

#include "plugins/steward-bridge/store/sigv4.hpp"
#include "plugins/steward-bridge/store/transport.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace capstan::steward::testing {

class FakePace final : public Pace {
public:
    WallTime wall_now() override { return now; }
    Result<void> sleep(std::chrono::nanoseconds duration) override;
    double chance() override { return chance_value; }

    WallTime now{std::chrono::seconds(1'796'000'000)};
    double chance_value{0};
    std::vector<std::chrono::milliseconds> sleeps;
    bool cancelled{false};
};

// What goes wrong with one request.
struct Fault {
    enum class Kind : std::uint8_t {
        refused,      // no connection
        silent,       // no answer in time
        cut_upload,   // the connection breaks while the body is sent; nothing takes effect
        lost_answer,  // takes effect, but the answer does not arrive
        cut_answer,   // the body of the answer breaks after `bytes`
        slow_answer,  // the same, but it stalls: the wait for more times out
        answered,     // `status`, `headers`, `body` instead of the truth; nothing takes effect
    };
    Kind kind{Kind::refused};
    std::size_t bytes{0};
    int status{0};
    std::string body{};
    HeaderList headers{};
};
Fault answered(int status, const std::string& code = "", HeaderList headers = {});

class FakeS3 final : public Transport {
public:
    FakeS3(Digests& digests, FakePace& pace) : digests_(digests), pace_(pace) {}

    Result<std::unique_ptr<HttpExchange>> open(const HttpRequest& request,
                                               std::int64_t body_bytes) override;

    // The next requests that contain `what` ("PUT /bucket/a", "partNumber=2") go wrong, in order.
    void plan(const std::string& what, Fault fault) {
        faults_.emplace_back(what, std::move(fault));
    }
    std::size_t planned() const noexcept { return faults_.size(); }
    // "PUT /bucket/key?query", in order.
    std::vector<std::string> requests;
    std::vector<HttpRequest> heads;  // the same, in full
    std::size_t count(std::string_view what) const;

    struct Version {
        std::string id, bytes, etag;
        WallTime modified{};
        bool is_marker{false};
    };
    std::map<std::string, std::vector<Version>> objects;  // oldest version first
    struct Upload {
        std::string key;
        WallTime begun{};
        std::map<int, std::string> parts{};
    };
    std::map<std::string, Upload> uploads;    // open ones, by id
    std::map<std::string, std::string> tags;  // key -> XML of its tags
    void put(const std::string& key, std::string bytes);
    const Version* newest(const std::string& key) const;

    Credentials keys{"AKIDEXAMPLE", "secret", {}};
    std::string region{"eu-1"};
    std::chrono::nanoseconds clock_ahead{0};  // of the server
    bool versioned{false};
    bool honours_conditions{true};
    bool url_encoding{true};
    bool says_sizes{true};           // else answers come in chunks
    std::string lock_configuration;  // XML; empty: none
    std::string versioning_status{"Enabled"};

    struct Reply {
        int status{200};
        HeaderList headers;
        std::string body;
    };

private:
    friend class FakeExchange;
    struct Asked {
        std::string method, key, body;
        std::map<std::string, std::string> query, headers;
        bool has(const std::string& name) const { return query.count(name) != 0; }
        std::string get(const std::string& name) const;
        std::string header(const std::string& name) const;
    };
    std::optional<Fault> take_fault(const std::string& line);
    Reply answer(const HttpRequest& request, const std::string& body);
    std::optional<Reply> refuse(const HttpRequest& request, const Asked& asked);
    Reply bucket(const Asked& asked);
    Reply object(const Asked& asked);
    Reply get(const Asked& asked);
    Reply store(const Asked& asked);
    Reply parts(const Asked& asked);
    Reply remove(const Asked& asked);
    Reply list(const Asked& asked);
    Reply list_versions(const Asked& asked);
    Reply list_uploads(const Asked& asked) const;
    Reply error(int status, const std::string& code) const;
    std::optional<Reply> unmet(const Asked& asked);
    const Version* find(const Asked& asked) const;
    HeaderList describe(const Version& version) const;
    std::string encode(const std::string& key) const;

    Digests& digests_;
    FakePace& pace_;
    std::deque<std::pair<std::string, Fault>> faults_;
    int counter_{0};
};

}  // namespace capstan::steward::testing
