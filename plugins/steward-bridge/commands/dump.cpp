// `capstan backup dump`: the keys at a revision as JSON.
#include "plugins/steward-bridge/restore/dump.hpp"

#include "plugins/steward-bridge/bolt/new_file.hpp"
#include "plugins/steward-bridge/commands/session.hpp"
#include "plugins/steward-bridge/restore/store_objects.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace capstan::steward {
namespace {

constexpr std::size_t kPrintBytes = 64 * 1024;

// Standard output, in large pieces.
class PrintSink final : public Sink {
public:
    PrintSink(Session& session, bool& failed) : session_(session), failed_(failed) {}

    Result<void> write(std::span<const std::uint8_t> bytes) override {
        text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return text_.size() < kPrintBytes ? Result<void>(ok()) : flush();
    }
    Result<void> finish() override { return flush(); }

private:
    Result<void> flush() {
        session_.progress().clear();
        auto printed = session_.command().print(text_);
        text_.clear();
        failed_ = failed_ || !printed;
        return printed;
    }

    Session& session_;
    bool& failed_;
    std::string text_;
};

// A file that has its name when it is whole.
class NamedFile final : public Sink {
public:
    static Result<std::unique_ptr<NamedFile>> create(const std::string& path) {
        const std::string part = path + ".part";
        ::unlink(part.c_str());  // of a run that was killed
        CAPSTAN_TRY(auto file, bolt::NewFile::create(part));
        return std::make_unique<NamedFile>(path, std::move(file));
    }
    NamedFile(std::string path, std::unique_ptr<bolt::NewFile> file)
        : path_(std::move(path)), file_(std::move(file)) {}
    ~NamedFile() override {
        if (!finished_) {
            ::unlink(file_->path().c_str());
        }
    }
    NamedFile(const NamedFile&) = delete;
    NamedFile& operator=(const NamedFile&) = delete;

    Result<void> write(std::span<const std::uint8_t> bytes) override {
        return file_->append(bytes);
    }
    Result<void> finish() override {
        CAPSTAN_TRY(file_->sync());
        std::error_code error;
        std::filesystem::rename(file_->path(), path_, error);
        if (error) {
            return fail(Code::unavailable, "cannot make " + path_ + ": " + error.message());
        }
        finished_ = true;
        return ok();
    }

private:
    const std::string path_;
    const std::unique_ptr<bolt::NewFile> file_;
    bool finished_{false};
};

// `failed`: set when standard output takes no more, which the host reports.
CommandResult<std::unique_ptr<Sink>> open_target(Session& session, bool& failed) {
    const std::string& path = session.arguments().file;
    if (path == "-") {
        return std::unique_ptr<Sink>(std::make_unique<PrintSink>(session, failed));
    }
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::exists(status) && !session.arguments().force) {
        return give_up(CAPSTAN_EXIT_USAGE, path + " is there already; --force replaces it");
    }
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        return give_up(CAPSTAN_EXIT_USAGE, path + " is no file");
    }
    auto file = NamedFile::create(path);
    if (!file) {
        return give_up(CAPSTAN_EXIT_FAILED, file.error().message);
    }
    return std::unique_ptr<Sink>(std::move(file).value());
}

CommandResult<int> dump_backup(Session& session) {
    CAPSTAN_TRY(const Backup backup, session.open_backup());
    StoreObjects stored(*backup.store);
    ObservedObjects objects(stored, session.progress());
    CAPSTAN_TRY(const auto workspace, Workspace::make(session, session.arguments().work_directory));
    const RestoreOptions options = session.restore_options(workspace->engine_directory());
    bool output_failed = false;
    CAPSTAN_TRY(const auto target, open_target(session, output_failed));
    const auto report = dump(backup.listing, objects, session.digests(), *target, options);
    if (output_failed) {
        return CAPSTAN_EXIT_FAILED;
    }
    if (!report) {
        return give_up(session.failure_of(report.error(), objects));
    }
    for (const std::string& warning : report.value().warnings) {
        session.warn(warning);
    }
    return CAPSTAN_EXIT_GOOD;
}

}  // namespace

int run_dump(Session& session) {
    const auto done = dump_backup(session);
    return done ? done.value() : session.fail_with(done.error());
}

}  // namespace capstan::steward
