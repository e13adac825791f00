#include "runtime/cli/up.hpp"

#include "runtime/cli/local_cluster.hpp"
#include "runtime/cli/manifests.hpp"
#include "runtime/cli/readiness.hpp"
#include "runtime/cli/text_table.hpp"
#include "runtime/cli/up_check.hpp"
#include "runtime/local/node/files.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>

namespace capstan::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLookEvery{200};
constexpr seconds kSayEvery{2};  // a waiting person hears from us at least this often
constexpr std::size_t kLinesMax = 6;
// what passes within this time belongs to every start and is not worth a line
constexpr seconds kHindrancePatience{5};

void say(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
}

int complain(const Error& error, int code, const char* who = "capstan up") {
    std::fprintf(stderr, "%s: %s\n", who, error.message.c_str());
    return code;
}

// A path as a person in the working directory would type it.
std::string from_here(const std::string& path) {
    std::error_code error;
    const std::string here = std::filesystem::current_path(error).string() + "/";
    return path.rfind(here, 0) == 0 ? path.substr(here.size()) : path;
}

std::string last_line(const std::string& path) {
    const auto text = local::read_file(path, 64u * 1024 * 1024);
    std::string_view rest = text ? std::string_view(text.value()) : std::string_view(path);
    while (!rest.empty() && rest.back() == '\n') {
        rest.remove_suffix(1);
    }
    return std::string(rest.substr(rest.rfind('\n') + 1));
}

struct Applied {
    GroupVersionKind gvk;
    ObjectKey key;
    std::string file;
};

// One run of `capstan up` after the cluster's parts are there.
class Up {
public:
    Up(net::IoLoop& loop, LocalCluster& cluster, const UpOptions& options)
        : loop_(loop),
          cluster_(cluster),
          options_(options),
          deadline_(loop.now() + options.timeout) {}

    Result<void> apply(const std::vector<config::Document>& documents) {
        for (const config::Document& document : documents) {
            auto stored = cluster_.client().apply(document.value);
            if (!stored) {
                return fail(with_context(stored.error(), document.position("")));
            }
            const json::View view(stored.value());
            applied_.push_back({GroupVersionKind::from_api_version(view["apiVersion"].string_or(""),
                                                                   view["kind"].string_or("")),
                                {std::string(view["metadata"]["namespace"].string_or("")),
                                 std::string(view["metadata"]["name"].string_or(""))},
                                document.file});
            say("applied " + applied_.back().gvk.kind + " " + applied_.back().key.to_string());
        }
        return ok();
    }

    void begin() {
        cluster_.on_operator_refused([this](int code) {
            std::fprintf(stderr,
                         "capstan up: the operator cannot start: %s\n",
                         last_line(options_.dir + "/operator.log").c_str());
            end(code);
        });
        // the node first takes up its pods
        timer_ = loop_.at(loop_.now() + kLookEvery, [this] { look(); });
    }
    bool finished() const { return code_.has_value(); }
    int code() const { return code_.value_or(1); }
    void interrupt() { end(options_.once ? 1 : 0); }

private:
    void look();
    void settle();
    std::vector<std::string> awaited(std::string& refused);  // refused: file and reason
    void say_hindrances(bool all);  // that have lasted, each once; or all there are

    std::vector<std::vector<std::string>> endpoints();
    void check(std::vector<std::vector<std::string>> clusters);
    void show_members();
    void end(int code) {
        timer_.reset();
        if (!code_) {
            code_ = code;
        }
    }

    net::IoLoop& loop_;
    LocalCluster& cluster_;
    const UpOptions& options_;
    const MonotonicTime deadline_;
    std::vector<Applied> applied_;
    std::unique_ptr<net::Timer> timer_;
    std::unique_ptr<UpCheck> check_;
    MonotonicTime said_at_{0};
    std::string said_;
    struct Hindrance {
        MonotonicTime since;
        bool said{false};
    };
    std::map<std::string, Hindrance> hindrances_;  // by line
    bool settled_{false};
    std::optional<int> code_;
};

std::vector<std::string> Up::awaited(std::string& refused) {
    std::vector<std::string> lines;
    for (const Applied& applied : applied_) {
        const auto object = cluster_.client().get(applied.gvk, applied.key);
        if (!object) {
            lines.push_back(applied.gvk.kind + " " + applied.key.to_string() + ": " +
                            object.error().message);
            continue;
        }
        const bool custom = applied.gvk.group.find('.') != std::string::npos &&
                            applied.gvk.group.find(".k8s.io") == std::string::npos;
        Readiness readiness = readiness_of(object.value(), custom);
        if (readiness.refused) {
            refused = applied.file + ": " + readiness.awaits.front();
        }
        lines.insert(lines.end(), readiness.awaits.begin(), readiness.awaits.end());
    }
    // What the objects say may be from an earlier run; the node knows what runs now.
    const auto pods = cluster_.awaited();
    lines.insert(lines.end(), pods.begin(), pods.end());
    for (std::string& line : lines) {
        std::replace(line.begin(), line.end(), '\n', ' ');
    }
    return lines;
}

GroupVersionKind member_kind(const Applied& applied) {
    return {applied.gvk.group, applied.gvk.version, applied.gvk.kind + "Member"};
}

void Up::say_hindrances(bool all) {
    std::map<std::string, Hindrance> present;
    const auto note = [&](const json::Value& object) {
        for (std::string& line : hindrances_of(object)) {
            const auto known = hindrances_.find(line);
            present.emplace(std::move(line),
                            known != hindrances_.end() ? known->second : Hindrance{loop_.now()});
        }
    };
    for (const Applied& applied : applied_) {
        if (const auto object = cluster_.client().get(applied.gvk, applied.key)) {
            note(object.value());
        }
        if (const auto objects = cluster_.client().list(member_kind(applied), applied.key.ns)) {
            std::for_each(objects.value().begin(), objects.value().end(), note);
        }
    }
    for (auto& [line, hindrance] : present) {
        const bool lasts = loop_.now() - hindrance.since >= kHindrancePatience;
        if (all || (lasts && !hindrance.said)) {
            say(line);
            hindrance.said = true;
        }
    }
    hindrances_ = std::move(present);
}

void Up::look() {
    std::string refused;
    const std::vector<std::string> lines = awaited(refused);
    if (lines.empty()) {
        settle();
        return;
    }
    std::string text = "waiting for " + lines.front();
    for (std::size_t i = 1; i < lines.size() && i < kLinesMax; ++i) {
        text += "\n            " + lines[i];
    }
    const MonotonicTime now = loop_.now();
    if (text != said_ || now - said_at_ >= kSayEvery - kLookEvery) {
        say(text);
        said_ = std::move(text);
        said_at_ = now;
    }
    const bool last = !refused.empty() || now >= deadline_;
    say_hindrances(last);
    if (last) {
        const std::string why = refused.empty()
                                    ? "not ready in time, see above; the operator's log is " +
                                          options_.dir + "/operator.log"
                                    : refused;
        std::fprintf(stderr, "capstan up: %s\n", why.c_str());
        end(refused.empty() ? 1 : 2);
        return;
    }
    timer_ = loop_.at(now + kLookEvery, [this] { look(); });
}

// Of each applied object that has members: their client URLs.
std::vector<std::vector<std::string>> Up::endpoints() {
    std::vector<std::vector<std::string>> clusters;
    for (const Applied& applied : applied_) {
        const auto members = cluster_.client().list(member_kind(applied), applied.key.ns);
        std::vector<std::string> urls;
        for (const json::Value& member : members ? members.value() : std::vector<json::Value>()) {
            const json::View reported(member);
            const std::string url(reported["status"]["endpoint"].string_or(""));
            const json::View owner = reported["metadata"]["ownerReferences"][0];
            if (!url.empty() && owner["kind"].string_or("") == applied.gvk.kind &&
                owner["name"].string_or("") == applied.key.name) {
                urls.push_back(url);
            }
        }
        if (!urls.empty()) {
            clusters.push_back(std::move(urls));
        }
    }
    return clusters;
}

// A cluster after the other; the first that fails ends it.
void Up::check(std::vector<std::vector<std::string>> clusters) {
    std::vector<std::string> urls;
    if (!clusters.empty()) {
        urls = std::move(clusters.front());
        clusters.erase(clusters.begin());
    }
    check_ = std::make_unique<UpCheck>(
        loop_, std::move(urls), [this, rest = std::move(clusters)](Result<std::string> outcome) {
            if (!outcome) {
                std::fprintf(stderr, "capstan up: %s\n", outcome.error().message.c_str());
                end(4);
                return;
            }
            say("\n" + outcome.value());
            if (rest.empty()) {
                end(0);
                return;
            }
            timer_ = loop_.at(loop_.now(), [this, next = rest] { check(next); });
        });
}

void Up::show_members() {
    for (const Applied& applied : applied_) {
        for (const GroupVersionKind& gvk : {applied.gvk, member_kind(applied)}) {
            const auto rows = cluster_.client().table(gvk, applied.key.ns, false);
            if (rows && rows.value().size() > 1) {
                say("");
                std::fputs(text_table(rows.value()).c_str(), stdout);
            }
        }
    }
}

void Up::settle() {
    if (settled_) {
        return;
    }
    settled_ = true;
    const std::vector<std::vector<std::string>> clusters = endpoints();
    if (applied_.empty()) {
        say("nothing was applied; the API server is up");
    } else {
        say("ready");
        show_members();
    }
    if (options_.once) {
        check(clusters);
        return;
    }
    say("\nNext, in another terminal:");
    const std::string capstan = from_here(cluster_.binary());
    const std::string which =
        options_.dir == UpOptions{}.dir ? "" : " --kubeconfig " + options_.dir + "/kubeconfig";
    say("  " + capstan + " get pods,statefulsets,etcdmembers" + which +
        "        (or kubectl --kubeconfig " + cluster_.kubeconfig_path() + ")");
    for (const std::vector<std::string>& urls : clusters) {
        std::string all;
        for (const std::string& url : urls) {
            all += (all.empty() ? "" : ",") + url;
        }
        say("  ETCDCTL_API=3 " + from_here(cluster_.etcdctl()) + " --endpoints=" + all +
            " put greeting hello");
    }
    say("  " + capstan + " delete" + which + " -f " +
        (options_.files.empty() ? std::string("FILE") : options_.files.front()));
    say("\nCtrl-C ends everything; the data stays in " + options_.dir + " for the next time.");
}

// Runs the loop until everything has ended.
void stop_cluster(net::IoLoop& loop, LocalCluster& cluster) {
    bool stopped = false;
    cluster.stop([&] { stopped = true; });
    if (!loop.run_until([&] { return stopped; }, seconds(60))) {
        std::fprintf(stderr, "capstan: some processes did not end within 60 s\n");
    }
}

int exit_code_of(const Error& error) {
    return error.code == Code::invalid || error.code == Code::not_found ? 2 : 1;
}

}  // namespace

int run_up(const UpOptions& given) {
    UpOptions options = given;
    const auto documents = load_manifests(options.files);
    if (!documents) {
        return complain(documents.error(), 2);
    }
    const auto paths = Paths::find();
    if (!paths) {
        return complain(paths.error(), 2);
    }
    const auto loop = net::make_loop();
    LocalClusterOptions parts{absolute_path(options.dir),
                              options.port,
                              options.config,
                              options.etcd_dir,
                              options.api_only ? ClusterParts::api_only : ClusterParts::all,
                              say};
    auto cluster = LocalCluster::create(*loop, paths.value(), std::move(parts));
    if (!cluster) {
        return complain(cluster.error(), exit_code_of(cluster.error()));
    }
    say("API server at " + cluster.value()->url() + ", kubeconfig " + options.dir + "/kubeconfig");
    int code = 0;
    {
        Up up(*loop, *cluster.value(), options);
        std::vector<std::unique_ptr<net::Watch>> signals;
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
            if (auto watch = loop->on_signal(signal, [&up] { up.interrupt(); })) {
                signals.push_back(std::move(watch).value());
            }
        }
        if (const auto applied = up.apply(documents.value()); !applied) {
            code = complain(applied.error(), 2);
        } else {
            up.begin();
            while (!loop->run_until([&up] { return up.finished(); }, std::chrono::hours(24))) {
            }
            code = up.code();
        }
    }
    say("stopping: waiting for the pods to end");
    stop_cluster(*loop, *cluster.value());
    return code;
}

int run_down(const std::string& dir) {
    constexpr const char* kDown = "capstan down";
    if (!std::filesystem::is_directory(dir)) {
        const std::string text = dir + ": no such directory; --dir names the one of `capstan up`";
        return complain({Code::not_found, text, {}}, 2, kDown);
    }
    const auto paths = Paths::find();
    if (!paths) {
        return complain(paths.error(), 2, kDown);
    }
    const auto loop = net::make_loop();
    auto cluster = LocalCluster::create(
        *loop, paths.value(), {absolute_path(dir), 0, {}, {}, ClusterParts::no_operator, say});
    if (!cluster) {
        return complain(cluster.error(), exit_code_of(cluster.error()), kDown);
    }
    stop_cluster(*loop, *cluster.value());
    say("everything in " + dir + " has ended; its data stays");
    return 0;
}

}  // namespace capstan::cli
