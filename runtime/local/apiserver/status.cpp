#include "runtime/local/apiserver/status.hpp"

namespace capstan::local {
namespace {

StatusError make(int code, std::string reason, std::string message) {
    StatusError error;
    error.code = code;
    error.reason = std::move(reason);
    error.message = std::move(message);
    return error;
}

StatusError make_for(int code,
                     std::string reason,
                     std::string_view group,
                     std::string_view kind,
                     std::string_view name,
                     std::string message) {
    StatusError error = make(code, std::move(reason), std::move(message));
    error.group = group;
    error.kind = kind;
    error.name = name;
    return error;
}

std::string quoted(std::string_view text) {
    return "\"" + std::string(text) + "\"";
}

// As field.Error: `spec.replicas: Invalid value: -1: must be …` has its reason
// inside the message already.
std::string cause_text(const StatusCause& cause) {
    return cause.field.empty() ? cause.message : cause.field + ": " + cause.message;
}

}  // namespace

std::string qualified_resource(std::string_view group, std::string_view resource) {
    std::string text(resource);
    if (!group.empty()) {
        text += '.';
        text += group;
    }
    return text;
}

StatusError bad_request(std::string message) {
    return make(400, "BadRequest", std::move(message));
}
StatusError unauthorized() {
    return make(401, "Unauthorized", "Unauthorized");
}

StatusError forbidden(std::string_view group,
                      std::string_view resource,
                      std::string_view name,
                      std::string detail) {
    std::string message = qualified_resource(group, resource);
    if (!name.empty()) {
        message += " " + quoted(name);
    }
    message += " is forbidden: " + detail;
    return make_for(403, "Forbidden", group, resource, name, std::move(message));
}

StatusError not_found(std::string_view group, std::string_view resource, std::string_view name) {
    return make_for(404,
                    "NotFound",
                    group,
                    resource,
                    name,
                    qualified_resource(group, resource) + " " + quoted(name) + " not found");
}

StatusError path_not_found() {
    return make(404, "NotFound", "the server could not find the requested resource");
}

StatusError method_not_allowed(std::string message) {
    return make(405, "MethodNotAllowed", std::move(message));
}

StatusError already_exists(std::string_view group,
                           std::string_view resource,
                           std::string_view name) {
    return make_for(409,
                    "AlreadyExists",
                    group,
                    resource,
                    name,
                    qualified_resource(group, resource) + " " + quoted(name) + " already exists");
}

StatusError conflict(std::string_view group,
                     std::string_view resource,
                     std::string_view name,
                     std::string_view why) {
    return make_for(409,
                    "Conflict",
                    group,
                    resource,
                    name,
                    "Operation cannot be fulfilled on " + qualified_resource(group, resource) +
                        " " + quoted(name) + ": " + std::string(why));
}

StatusError version_conflict(std::string_view group,
                             std::string_view resource,
                             std::string_view name) {
    return conflict(group,
                    resource,
                    name,
                    "the object has been modified; please apply your changes to the latest version "
                    "and try again");
}

StatusError invalid(std::string_view group,
                    std::string_view kind,
                    std::string_view name,
                    std::vector<StatusCause> causes) {
    std::string message = qualified_resource(group, kind) + " " + quoted(name) + " is invalid: ";
    if (causes.size() == 1) {
        message += cause_text(causes[0]);
    } else {
        message += "[";
        for (std::size_t i = 0; i < causes.size(); ++i) {
            message += (i == 0 ? "" : ", ") + cause_text(causes[i]);
        }
        message += "]";
    }
    StatusError error = make_for(422, "Invalid", group, kind, name, std::move(message));
    error.causes = std::move(causes);
    return error;
}

StatusError expired(std::string message) {
    return make(410, "Expired", std::move(message));
}

StatusError unsupported_media_type(std::string message) {
    return make(415, "UnsupportedMediaType", std::move(message));
}

StatusError too_large(std::string message) {
    return make(413, "RequestEntityTooLarge", std::move(message));
}

StatusError internal_error(std::string_view message) {
    return make(500, "InternalError", "Internal error occurred: " + std::string(message));
}

json::Value to_json(const StatusError& error) {
    json::Value details = json::object();
    const auto put = [&](std::string_view key, const std::string& value) {
        if (!value.empty()) {
            details.set(key, value);
        }
    };
    put("name", error.name);
    put("group", error.group);
    put("kind", error.kind);
    put("uid", error.uid);
    if (!error.causes.empty()) {
        json::Value causes = json::list();
        for (const StatusCause& cause : error.causes) {
            json::Value item = {{"reason", cause.reason}, {"message", cause.message}};
            if (!cause.field.empty()) {
                item.set("field", cause.field);
            }
            causes.push_back(std::move(item));
        }
        details.set("causes", std::move(causes));
    }
    if (error.retry_after_s > 0) {
        details.set("retryAfterSeconds", error.retry_after_s);
    }
    json::Value status = {
        {"kind", "Status"},
        {"apiVersion", "v1"},
        {"metadata", json::object()},
        {"status", "Failure"},
        {"message", error.message},
    };
    if (!error.reason.empty()) {
        status.set("reason", error.reason);
    }
    if (!details.if_object()->empty()) {
        status.set("details", std::move(details));
    }
    status.set("code", error.code);
    return status;
}

ApiResponse to_response(const StatusError& error) {
    ApiResponse response = json_response(error.code, json::dump(to_json(error)) + "\n");
    if (error.retry_after_s > 0) {
        response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
    }
    return response;
}

ApiResponse json_response(int status, std::string body) {
    ApiResponse response;
    response.status = status;
    response.body = std::move(body);
    return response;
}

ApiResponse success_response(std::string_view group,
                             std::string_view resource,
                             std::string_view name,
                             std::string_view uid) {
    json::Value details = {{"name", name}};
    if (!group.empty()) {
        details.set("group", group);
    }
    details.set("kind", resource);
    details.set("uid", uid);
    const json::Value status = {
        {"kind", "Status"},
        {"apiVersion", "v1"},
        {"metadata", json::object()},
        {"status", "Success"},
        {"details", std::move(details)},
    };
    return json_response(200, json::dump(status) + "\n");
}

}  // namespace capstan::local
