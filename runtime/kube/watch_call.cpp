#include "runtime/kube/client_state.hpp"
#include "runtime/kube/line_splitter.hpp"
#include "runtime/kube/list_splitter.hpp"
#include "runtime/kube/status.hpp"
#include "runtime/kube/verb.hpp"
#include "runtime/kube/watch_event.hpp"
#include "runtime/net/url.hpp"

#include <utility>

namespace capstan::kube {
namespace {

constexpr std::size_t kErrorBodyBytesMax = 64 * 1024;

class WatchCall : public std::enable_shared_from_this<WatchCall> {
public:
    WatchCall(std::shared_ptr<ClientState> client,
              GroupVersionKind gvk,
              WatchOptions options,
              WatchHandler handler)
        : client_(std::move(client)),
          gvk_(std::move(gvk)),
          options_(std::move(options)),
          handler_(std::move(handler)) {}

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
            self->target_ = with_query(std::move(path).value(), self->query());
            self->open();
        });
    }
    void cancel() {
        live_ = false;
        client_->retire(std::move(stream_));
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

    void open() {
        auto headers = client_->headers("", token_);
        if (!headers) {
            finish(fail(with_context(headers.error(), what_)));
            return;
        }
        net::HttpRequest request;
        request.target = target_;
        request.headers = std::move(headers).value();
        started_ = client_->loop.now();
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
        client_->note_warnings(headers);
        status_ = status;
        if (status == 200) {
            if (handler_.on_open) {
                handler_.on_open();
            }
        } else if (!retried_ && client_->renew(status, token_)) {
            retried_ = true;
            status_ = 0;
            open();
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
        read_on();
    }

    // False: no further line is wanted.
    bool take(std::string_view line) {
        auto event = decode_watch_line(line, gvk_, options_.projection);
        if (!event) {
            finish(fail(with_context(event.error(), what_)));
            return false;
        }
        handler_.on_event(std::move(event).value());
        return live();
    }

    bool take_item(std::string_view item) {
        WatchEvent event;
        event.type = WatchEvent::Type::added;
        if (auto object = Object::decode(item, options_.projection, &gvk_)) {
            event.object = std::move(object).value();
            event.resource_version = event.object->resource_version();
        } else {
            event.type = WatchEvent::Type::undecodable;
            event.error = object.error();
        }
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
        }
        if (status_ != 200 && status_ != 0) {
            refuse();
            return;
        }
        if (!result) {
            finish(fail(with_context(result.error(), what_)));
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
        finish(fail(
            with_context(error_of_response(status_, error_headers_, error_body_, false), what_)));
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
        live_ = false;
        client_->retire(std::move(stream_));
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
    MonotonicTime started_{0};
    int status_{0};
    net::Headers error_headers_;
    std::string error_body_;
    bool live_{true};
    bool retried_{false};
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
