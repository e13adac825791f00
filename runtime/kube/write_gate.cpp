#include "runtime/kube/write_gate.hpp"

namespace capstan::kube {

bool changes_something(std::string_view method, std::string_view target) noexcept {
    if (method == "GET" || method == "HEAD") {
        return false;
    }
    // TokenReview, SubjectAccessReview: questions that are asked by POST.
    const bool review = target.starts_with("/apis/authentication.k8s.io/") ||
                        target.starts_with("/apis/authorization.k8s.io/");
    return !(review && method == "POST");
}

}  // namespace capstan::kube
