// Status objects: how every refusal leaves the server. Reasons, codes and
// texts are kube-apiserver's.
#pragma once

#include "runtime/local/apiserver/api_types.hpp"

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

struct StatusCause {
    std::string reason;  // FieldValueInvalid, FieldManagerConflict, …
    std::string message;
    std::string field;  // "spec.replicas"
};

struct StatusError {
    int code{500};
    std::string reason{"InternalError"};
    std::string message;
    std::string name;  // details: of the object
    std::string group;
    std::string kind;  // details: the plural resource, or the kind for Invalid
    std::string uid;
    std::vector<StatusCause> causes;
    int retry_after_s{0};  // 0: none
};

// Result whose error is the answer to send.
template <class T>
using Answer =
    boost::outcome_v2::basic_result<T, StatusError, boost::outcome_v2::policy::terminate>;
inline auto refuse(StatusError error) {
    return boost::outcome_v2::failure(std::move(error));
}

// "statefulsets.apps", or "pods" for the core group.
std::string qualified_resource(std::string_view group, std::string_view resource);

StatusError bad_request(std::string message);
StatusError unauthorized();
StatusError forbidden(std::string_view group,
                      std::string_view resource,
                      std::string_view name,
                      std::string detail);
StatusError not_found(std::string_view group, std::string_view resource, std::string_view name);
StatusError path_not_found();
StatusError method_not_allowed(std::string message);
StatusError already_exists(std::string_view group,
                           std::string_view resource,
                           std::string_view name);
StatusError conflict(std::string_view group,
                     std::string_view resource,
                     std::string_view name,
                     std::string_view why);
// The object was changed since it was read: the text every client knows.
StatusError version_conflict(std::string_view group,
                             std::string_view resource,
                             std::string_view name);
StatusError invalid(std::string_view group,
                    std::string_view kind,
                    std::string_view name,
                    std::vector<StatusCause> causes);
StatusError expired(std::string message);
StatusError unsupported_media_type(std::string message);
StatusError too_large(std::string message);
StatusError internal_error(std::string_view message);

json::Value to_json(const StatusError& error);
ApiResponse to_response(const StatusError& error);
ApiResponse json_response(int status, std::string body);
// {"kind":"Status","status":"Success", …}: what DELETE answers when the object is gone.
ApiResponse success_response(std::string_view group,
                             std::string_view resource,
                             std::string_view name,
                             std::string_view uid);

}  // namespace capstan::local
