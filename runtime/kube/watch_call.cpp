#include "runtime/kube/client_state.hpp"
#include "runtime/kube/compact_copy.hpp"
#include "runtime/kube/line_splitter.hpp"
#include "runtime/kube/list_splitter.hpp"
#include "runtime/kube/status.hpp"
#include "runtime/kube/verb.hpp"
#include "runtime/kube/watch_event.hpp"
#include "runtime/net/url.hpp"

#include <algorithm>
#include <utility>

namespace capstan::kube {
namespace {

constexpr std::size_t kErrorBodyBytesMax = 64 * 1024;

class WatchCall final : public Renewable, public std::enable_shared_from_this<WatchCall> {
public:
    WatchCall(std::shared_ptr<ClientState> client,
              GroupVersionKind gvk,
              WatchOptions options,
              WatchHandler handler)
        : client_(std::move(client)),
          gvk_(std::move(gvk)),
          options_(std::move(options)),
          handler_(std::move(handler)),
          initial_events_due_(options_.send_initial_events) {}
    ~WatchCall() override { client_->watches.erase(this); }
    WatchCall(const WatchCall&) = delete;
    WatchCall& operator=(const WatchCall&) = delete;

    void start() {
        client_->resources->resolve(gvk_, [weak = weak_from_this()](Result<Resource> resource) {
            const auto self = weak.lock();
            if (!self || !self->live()) {
                return;
            }
            if (!resource) {
                self->finish(fail(with_context(resource.error(), "watch " + self->gvk_.kind)));
                return;
            }
            self->what_ = describe(
                self->options_.by_list ? "list" : "watch", resource.value(), self->options_.ns, "");
            auto path = object_path(resource.value(), self->options_.ns, {});
            if (!path) {
                self->finish(fail(with_context(path.error(), self->what_)));
                return;
            }
            self->target_ = self->client_->options.base_path +
                            with_query(std::move(path).value(), self->query());
            self->prepare();
        });
    }
    void cancel() {
        live_ = false;
        client_->watches.erase(this);
        place_.reset();
        place_limit_.reset();
        client_->retire(std::move(stream_));
    }
    void renew() override {
        const auto self = shared_from_this();  // its owner may let go of it in on_end
        renew_ = true;
        leave_if_wanted();
    }
    bool live() const noexcept { return live_ && !client_->closed; }

private:
    net::Query query() const {
        net::Query query;
        if (!options_.by_list) {
            query = {{"watch", "true"},
                     {"allowWatchBookmarks", "true"},
                     {"timeoutSeconds", std::to_string(options_.timeout.count())}};
        }
        const auto add = [&](const char* key, const std::string& value) {
            if (!value.empty()) {
                query.emplace_back(key, value);
            }
        };
        add("labelSelector", options_.label_selector);
        add("fieldSelector", options_.field_selector);
        add("resourceVersion", options_.resource_version);
        if (options_.by_list) {
            add("resourceVersionMatch", options_.resource_version.empty() ? "" : "NotOlderThan");
        } else if (options_.send_initial_events) {
            add("sendInitialEvents", "true");
            add("resourceVersionMatch", "NotOlderThan");
        }
        return query;
    }

    // Credentials, then a turn among the other requests.
    void prepare() {
        const auto then = [weak = weak_from_this()] {
            if (const auto self = weak.lock(); self && self->live()) {
                self->take_place();
            }
        };
        TokenSource* tokens = client_->options.tokens;
        if (tokens == nullptr || tokens->ready(then)) {
            take_place();
        }
    }
    void take_place() {
        queued_ = client_->loop.now();
        place_limit_ = client_->loop.at(queued_ + kWatchPlaceMax, [weak = weak_from_this()] {
            if (const auto self = weak.lock(); self && self->live()) {
                self->place_.reset();
                const auto until = self->client_->flow.limit(FlowClass::list).paused_until();
                const auto left = std::chrono::ceil<std::chrono::milliseconds>(
                    std::max<MonotonicTime>(until - self->client_->loop.now(), MonotonicTime(0)));
                self->finish(fail(with_context(
                    Error{Code::overloaded, "the server fails or asked for a pause", left},
                    self->what_)));
            }
        });
        client_->flow.enter(FlowClass::list, place_, [weak = weak_from_this()] {
            if (const auto self = weak.lock(); self && self->live()) {
                self->place_limit_.reset();
                self->open();
            }
        });
    }

    std::string_view accept() const {
        if (!metadata_only(options_.projection)) {
            return "";
        }
        return options_.by_list ? kAcceptPartialList : kAcceptPartial;
    }

    void open() {
        auto headers = client_->headers(accept(), "", options_.by_list, token_);
        if (!headers) {
            finish(fail(with_context(headers.error(), what_)));
            return;
        }
        net::HttpRequest request;
        request.target = target_;
        request.headers = std::move(headers).value();
        started_ = client_->loop.now();
        if (started_ != queued_) {
            client_->observe_wait("GET", queued_);
        }
        request.deadline =
            options_.head_deadline == kNever ? started_ + kCallTimeout : options_.head_deadline;
        const auto guarded = [weak = weak_from_this()](auto method) {
            return [weak, method](auto&&... arguments) {
                if (const auto self = weak.lock(); self && self->live()) {
                    ((*self).*method)(std::forward<decltype(arguments)>(arguments)...);
                }
            };
        };
        net::StreamHandler handler;
        handler.on_head = guarded(&WatchCall::on_head);
        handler.on_data = guarded(&WatchCall::on_data);
        handler.on_end = guarded(&WatchCall::on_end);
        client_->retire(std::move(stream_));
        stream_ = client_->http.stream(std::move(request), {}, std::move(handler));
    }

    void on_head(int status, const net::Headers& headers) {
        client_->observe("GET", status, started_);
        client_->note_warnings(headers, what_);
        status_ = status;
        if (auto foreign = status == 200 ? foreign_answer(status, headers) : std::nullopt) {
            give_place_back(FlowOutcome::failed, {});
            finish(fail(with_context(std::move(*foreign), what_)));
            return;
        }
        const Error error = error_of_response(status, headers, "", false);
        FlowOutcome outcome = status == 200 ? FlowOutcome::good : outcome_of(error);
        if (concerns_one_request(status, headers)) {
            outcome = FlowOutcome::failed;
        }
        give_place_back(outcome, error.retry_after);
        if (status == 200) {
            client_->watches.insert(this);
            if (handler_.on_open) {
                handler_.on_open();
            }
        } else if (!renewed_ && client_->renew(status, token_)) {
            renewed_ = true;
            status_ = 0;
            client_->observe_retry("GET", status);
            prepare();
            return;
        } else {
            error_headers_ = headers;
        }
        read_on();
    }

    void on_data(std::string_view bytes) {
        if (status_ != 200) {
            error_body_.append(bytes.substr(0, kErrorBodyBytesMax - error_body_.size()));
            if (error_body_.size() < kErrorBodyBytesMax) {
                read_on();
            } else {
                refuse();
            }
            return;
        }
        if (handler_.on_bytes) {
            handler_.on_bytes();
        }
        if (!live()) {
            return;
        }
        const auto fed =
            options_.by_list
                ? items_.feed(bytes, [this](std::string_view item) { return take_item(item); })
                : splitter_.feed(bytes, [this](std::string_view line) { return take(line); });
        if (!fed) {
            finish(fail(with_context(fed.error(), what_)));
            return;
        }
        leave_if_wanted();
        read_on();
    }

    // Renewal ends the stream where nothing is half done.
    void leave_if_wanted() {
        if (live() && renew_ && status_ == 200 && !options_.by_list && !initial_events_due_ &&
            splitter_.rest().empty()) {
            finish(ok());
        }
    }

    void give_place_back(FlowOutcome outcome, std::chrono::milliseconds retry_after) {
        if (const auto place = std::move(place_)) {
            place->ended(outcome, retry_after);
        }
    }

    // False: no further line is wanted.
    bool take(std::string_view line) {
        auto event = decode_watch_line(line, gvk_, options_.projection);
        if (!event) {
            finish(fail(with_context(event.error(), what_)));
            return false;
        }
        if (event.value().initial_events_end) {
            initial_events_due_ = false;
        }
        handler_.on_event(std::move(event).value());
        return live();
    }

    bool take_item(std::string_view item) {
        auto object = Object::decode(item, options_.projection, &gvk_);
        if (!object) {
            handler_.on_event(
                undecodable(unreadable(item, options_.projection, gvk_, object.error().message)));
            return live();
        }
        WatchEvent event;
        event.type = WatchEvent::Type::added;
        event.object = std::move(object).value();
        event.resource_version = event.object->resource_version();
        handler_.on_event(std::move(event));
        return live();
    }

    void end_of_list() {
        const auto list = items_.finish();
        if (!list) {
            finish(fail(with_context(list.error(), what_)));
            return;
        }
        const json::View metadata = json::View(list.value())["metadata"];
        if (!metadata["continue"].string_or("").empty()) {
            finish(fail(Code::invalid, what_ + ": the server sent a page, not the whole list"));
            return;
        }
        WatchEvent event;
        event.type = WatchEvent::Type::bookmark;
        event.resource_version = metadata["resourceVersion"].string_or("");
        event.initial_events_end = true;
        handler_.on_event(std::move(event));
        finish(ok());
    }

    void on_end(Result<void> result) {
        if (status_ == 0) {
            client_->observe("GET", 0, started_);
            give_place_back(result ? FlowOutcome::failed : outcome_of(result.error()), {});
        }
        if (status_ != 200 && status_ != 0) {
            refuse();
            return;
        }
        if (!result) {
            finish(fail(with_context(client_->explained(result.error()), what_)));
            return;
        }
        if (options_.by_list) {
            end_of_list();
            return;
        }
        // The last event may lack its line end; anything else left is half an event.
        const std::string rest(splitter_.rest());
        if (rest.find_first_not_of(" \t\r") != std::string::npos) {
            auto event = decode_watch_line(rest, gvk_, options_.projection);
            if (!event) {
                const bool cut = event.error().code == Code::unavailable;
                finish(fail(with_context(
                    cut ? Error{Code::unavailable, "stream cut in the middle of an event", {}}
                        : event.error(),
                    what_)));
                return;
            }
            handler_.on_event(std::move(event).value());
        }
        finish(ok());
    }

    void refuse() {
        if (status_ == 404) {
            client_->resources->forget(gvk_);
        }
        finish(fail(with_context(
            client_->explained(error_of_response(status_, error_headers_, error_body_, false)),
            what_)));
    }

    void read_on() {
        if (live() && stream_) {
            stream_->read();
        }
    }

    void finish(Result<void> result) {
        if (!live()) {
            return;
        }
        cancel();
        handler_.on_end(std::move(result));
    }

    const std::shared_ptr<ClientState> client_;
    const GroupVersionKind gvk_;
    const WatchOptions options_;
    const WatchHandler handler_;
    std::string what_;
    std::string target_;
    std::string token_;
    std::unique_ptr<net::HttpStream> stream_;
    LineSplitter splitter_;
    ListSplitter items_;  // by_list
    std::unique_ptr<FlowTicket> place_;
    std::unique_ptr<net::Timer> place_limit_;
    MonotonicTime queued_{0};
    MonotonicTime started_{0};
    int status_{0};
    net::Headers error_headers_;
    std::string error_body_;
    bool live_{true};
    bool renewed_{false};
    bool initial_events_due_;
    bool renew_{false};
};

}  // namespace

CallHandle start_watch(std::shared_ptr<ClientState> client,
                       const GroupVersionKind& gvk,
                       WatchOptions options,
                       WatchHandler handler) {
    auto call =
        std::make_shared<WatchCall>(std::move(client), gvk, std::move(options), std::move(handler));
    call->start();
    return std::make_unique<HandleOf<WatchCall>>(std::move(call));
}

}  // namespace capstan::kube
