// Reading objects: whole, from an offset, and on after a connection broke.
#include "plugins/steward-bridge/store/retry.hpp"
#include "plugins/steward-bridge/store/s3_store.hpp"

#include <cstdint>

namespace capstan::steward::s3 {
namespace {

constexpr std::uint64_t kUnknownEnd = UINT64_MAX;  // an answer in chunks

class EmptySource final : public Source {
public:
    Result<std::size_t> read(std::span<std::uint8_t>) override { return std::size_t{0}; }
};

class S3Source final : public Source {
public:
    S3Source(S3Client& client, Pace& pace, ObjectName name, std::uint64_t offset)
        : client_(client),
          backoff_(pace),
          name_(std::move(name)),
          position_(offset),
          end_(offset) {}

    // `etag_` empty: the first time.
    Result<void> connect() {
        S3Call call = describe();
        CAPSTAN_TRY(call.headers, client_.encryption_headers());
        if (position_ > 0) {
            call.headers.emplace_back("range", "bytes=" + std::to_string(position_) + "-");
        }
        if (!etag_.empty()) {
            call.headers.emplace_back("if-match", etag_);
        }
        CAPSTAN_TRY(S3Answer answer, client_.open(call));
        if (answer.status == 416 && etag_.empty()) {
            return out_of_range(call, answer);
        }
        if (answer.status == 412) {
            return fail(Code::conflict,
                        client_.where(call) + ": the object was replaced while it was read");
        }
        if (!answer.ok()) {
            return fail(client_.error_of(call, answer));
        }
        if (position_ > 0 && answer.status != 206) {
            return fail(Code::unsupported,
                        client_.where(call) + ": this store ignores ranges; use one that does not");
        }
        const ObjectInfo info = info_of(name_.key, answer.headers);
        if (etag_.empty()) {
            etag_ = info.etag;
            const bool sized = !header_of(answer.headers, "content-length").empty();
            end_ = sized ? position_ + info.bytes : kUnknownEnd;
        }
        exchange_ = std::move(answer.exchange);
        return ok();
    }
    bool is_empty() const noexcept { return empty_; }

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        while (position_ < end_) {
            if (exchange_ == nullptr) {
                return fail(Code::unavailable, name_.key + ": reading has failed before");
            }
            auto n = exchange_->read({reinterpret_cast<char*>(into.data()), into.size()});
            if (n && n.value() > 0) {
                backoff_.succeeded();
                position_ += n.value();
                return n;
            }
            if (n && end_ == kUnknownEnd) {
                end_ = position_;
                break;
            }
            CAPSTAN_TRY(
                resume(n ? Error{Code::unavailable, "the body ended early", {}} : n.error()));
        }
        exchange_.reset();
        return std::size_t{0};
    }

private:
    S3Call describe() const {
        S3Call call{"GetObject", "GET", name_.key};
        call.query = version_query(name_.version);
        call.right = name_.version.empty() ? "s3:GetObject" : "s3:GetObjectVersion";
        return call;
    }
    // Nothing is behind the end, so reading from the end itself is fine.
    Result<void> out_of_range(const S3Call& call, const S3Answer& answer) {
        const std::string_view range = header_of(answer.headers, "content-range");
        if (range == "bytes */" + std::to_string(position_)) {
            empty_ = true;
            return ok();
        }
        S3Call head = call;
        head.operation = "HeadObject";
        head.method = "HEAD";
        std::erase_if(head.headers, [](const auto& header) { return header.first == "range"; });
        CAPSTAN_TRY(const S3Answer whole, client_.expect(head));
        empty_ = info_of(name_.key, whole.headers).bytes == position_;
        return empty_ ? Result<void>(ok())
                      : Result<void>(fail(Code::invalid,
                                          client_.where(call) + ": it has fewer than " +
                                              std::to_string(position_) + " bytes"));
    }
    Result<void> resume(const Error& error) {
        exchange_.reset();
        const std::string what = client_.where(describe()) + " at byte " +
                                 std::to_string(position_) +
                                 (end_ == kUnknownEnd ? "" : " of " + std::to_string(end_));
        if (error.code != Code::unavailable && error.code != Code::timeout) {
            return fail(with_context(error, what));
        }
        CAPSTAN_TRY(const bool again, backoff_.wait());
        if (!again || etag_.empty()) {
            return fail(with_context(error, what));
        }
        return connect();
    }

    S3Client& client_;
    Backoff backoff_;
    const ObjectName name_;
    std::string etag_;
    std::uint64_t position_, end_;
    std::unique_ptr<HttpExchange> exchange_;
    bool empty_{false};
};

}  // namespace

Result<std::unique_ptr<Source>> open_object(S3Client& client,
                                            Pace& pace,
                                            const ObjectName& name,
                                            std::uint64_t offset) {
    auto source = std::make_unique<S3Source>(client, pace, name, offset);
    CAPSTAN_TRY(source->connect());
    if (source->is_empty()) {
        return std::unique_ptr<Source>(std::make_unique<EmptySource>());
    }
    return std::unique_ptr<Source>(std::move(source));
}

}  // namespace capstan::steward::s3
