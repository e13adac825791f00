// What an informer does beside its stream: objects that cannot be read are noted by name, and after
// a break the server is asked whether it is still the one it was.
#include "runtime/cache/informer.hpp"

#include <utility>

namespace capstan::cache {

// It stops nothing: the stream goes on at its version, the object stays as it was read last.
void Informer::on_unreadable(const Step& step, kube::Unreadable one) {
    std::string text = one.text();
    bool news = true;
    if (step.verdict == Verdict::collect) {
        const std::string known =
            one.head ? view_->store.why_unreadable(one.head->key()) : std::string();
        news = known != text;
        unreadable_.push_back(std::move(one));
    } else if (step.verdict == Verdict::apply) {
        news = view_->store.note_unreadable(std::move(one));
        wrong_ = view_->store.unreadable_text();
    }
    if (observer_ != nullptr) {
        observer_->log(view_->spec,
                       {news ? LogLevel::warn : LogLevel::debug,
                        "an object cannot be read and stays as it was known",
                        std::move(text)});
    }
}

// One small request, after a broken stream: nothing else tells of a server that was replaced or
// set back, for it takes a watch from a version that is yet to come.
void Informer::open_check(const std::string& version) {
    kube::ListOptions options;
    options.ns = view_->spec.ns;
    // Without the labels: of a large kind all would be searched.
    options.field_selector = view_->spec.field_selector;
    options.match = kube::ListMatch::not_older_than;
    options.resource_version = version;
    options.limit = 1;
    options.deadline = loop_.now() + kube::kCallTimeout;
    options.projection = view_->spec.projection;
    check_ = client_.list(view_->spec.gvk,
                          std::move(options),
                          [weak = weak_from_this(), version](Result<kube::ListPage> page) {
                              if (const auto self = weak.lock()) {
                                  const auto found =
                                      page ? Result<bool>(self->known(page.value(), version))
                                           : Result<bool>(fail(page.error()));
                                  self->perform(self->fsm_.on_checked(self->loop_.now(), found));
                              }
                          });
}

// False: an object that is not newer than `version`, which is all we know, is not as we know it.
bool Informer::known(const kube::ListPage& page, std::string_view version) const {
    const auto until = [&](const ObjectPtr& object) {
        const auto order = kube::compare_resource_versions(object->resource_version(), version);
        return order && *order <= 0;
    };
    for (const ObjectPtr& object : page.items) {
        if (!until(object) || !view_->labels.matches(*object)) {
            continue;
        }
        const ObjectPtr stored = view_->store.watched(object->key());
        const bool same = stored && stored->uid() == object->uid() &&
                          stored->resource_version() == object->resource_version();
        // Not there any more, or changed since: the watch may have told so meanwhile.
        const bool moved = stored ? !until(stored) : fsm_.resource_version() != version;
        if (!same && !moved && view_->store.why_unreadable(object->key()).empty()) {
            return false;
        }
    }
    return true;
}

}  // namespace capstan::cache
