#include "plugins/steward-bridge/store/s3_settings.hpp"

#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/store/encoding.hpp"

#include "capstan/json.hpp"

#include <dirent.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <vector>

namespace capstan::steward {
namespace {

constexpr const char* kJsonVariable = "AWS_APPLICATION_CREDENTIALS_JSON";
constexpr const char* kDirectoryVariable = "AWS_APPLICATION_CREDENTIALS";
constexpr std::size_t kSseKeyBytes = 32;

// The field of the Etcd that names the Secret with the credentials; "" where no steward in a pod
// runs, and directories and variables are what the caller knows.
std::string secret_field(const Environment& environment) {
    const std::string etcd = environment("CAPSTAN_ETCD_NAME");
    return etcd.empty()
               ? ""
               : "spec.backup.store.secretRef of Etcd " + environment("POD_NAMESPACE") + "/" + etcd;
}

// Fields by the names of the JSON form.
struct Form {
    std::string origin;
    std::map<std::string, std::string> fields;

    std::string get(const std::string& name) const {
        const auto found = fields.find(name);
        return found == fields.end() ? "" : found->second;
    }
    auto wrong(const std::string& what) const {
        return fail(Code::invalid, "credentials in " + origin + ": " + what);
    }
};

std::string trimmed(std::string_view text) {
    constexpr std::string_view space = " \t\r\n";
    const std::size_t first = std::min(text.find_first_not_of(space), text.size());
    const std::size_t last = text.find_last_not_of(space);
    return std::string(text.substr(first, last == std::string_view::npos ? 0 : last + 1 - first));
}

Result<std::vector<std::string>> names_in(const std::string& directory, const std::string& secret) {
    DIR* const folder = ::opendir(directory.c_str());
    if (folder == nullptr && !secret.empty()) {
        return fail(errno == EACCES ? Code::forbidden : Code::not_found,
                    "the Secret with the credentials of the store is not mounted; name one that "
                    "exists in " +
                        secret);
    }
    if (folder == nullptr) {
        return fail(errno == EACCES ? Code::forbidden : Code::not_found,
                    "credentials directory " + directory +
                        " cannot be read; mount the Secret there, or correct " +
                        kDirectoryVariable);
    }
    std::vector<std::string> names;
    while (const dirent* const item = ::readdir(folder)) {
        const std::string name = item->d_name;
        if (!name.starts_with(".")) {  // "..data" and the like of mounted Secrets
            names.push_back(name);
        }
    }
    ::closedir(folder);
    std::sort(names.begin(), names.end());
    return names;
}

Result<Form> read_json(const std::string& path) {
    auto text = read_file(path);
    if (!text) {
        return fail(with_context(text.error(), "credentials"));
    }
    auto parsed = json::parse(text.value());
    // The parser's words could quote a secret.
    if (!parsed || !parsed.value().is_object()) {
        return fail(Code::invalid, "credentials in file " + path + ": not a JSON object");
    }
    Form form{"file " + path, {}};
    for (const json::Member& member : *parsed.value().if_object()) {
        if (const std::string* value = member.value.if_string()) {
            form.fields[member.key] = trimmed(*value);
        } else if (const bool* flag = member.value.if_bool()) {
            form.fields[member.key] = *flag ? "true" : "false";
        } else if (!member.value.is_null()) {
            return form.wrong("\"" + member.key + "\" is no text");
        }
    }
    return form;
}

Result<Form> read_directory(const std::string& directory, const std::string& secret) {
    CAPSTAN_TRY(const auto names, names_in(directory, secret));
    const auto file = std::find_if(
        names.begin(), names.end(), [](const auto& name) { return name.ends_with(".json"); });
    if (file != names.end()) {
        CAPSTAN_TRY(Form form, read_json(directory + "/" + *file));
        form.origin = secret.empty() ? form.origin : "key " + *file + " of the Secret in " + secret;
        return form;
    }
    Form form{secret.empty() ? "directory " + directory : "the Secret in " + secret, {}};
    const std::string item = secret.empty() ? "file" : "key";
    constexpr std::array known{"region",
                               "accessKeyID",
                               "secretAccessKey",
                               "roleARN",
                               "endpoint",
                               "s3ForcePathStyle",
                               "insecureSkipVerify",
                               "trustedCaCert",
                               "sseCustomerKey",
                               "sseCustomerAlgorithm",
                               "requestChecksumCalculation",
                               "responseChecksumValidation"};
    for (const char* field : known) {
        if (std::find(names.begin(), names.end(), field) == names.end()) {
            continue;
        }
        auto text = read_file(directory + "/" + field);
        if (!text) {
            return fail(with_context(text.error(), "credentials"));
        }
        form.fields[field] = trimmed(text.value());
    }
    if (std::find(names.begin(), names.end(), "token") != names.end()) {
        form.fields["tokenPath"] = directory + "/token";
    }
    if (form.get("region").empty()) {
        return form.wrong("the " + item + " \"region\" is missing");
    }
    if ((form.get("accessKeyID").empty() || form.get("secretAccessKey").empty()) &&
        (form.get("roleARN").empty() || form.get("tokenPath").empty())) {
        return form.wrong("either the " + item +
                          "s \"accessKeyID\" and \"secretAccessKey\" or \"roleARN\" and "
                          "\"token\" are needed");
    }
    return form;
}

// The variables of AWS's own tools.
Form read_environment(const Environment& environment) {
    Form form{"the environment", {}};
    form.fields = {{"accessKeyID", environment("AWS_ACCESS_KEY_ID")},
                   {"secretAccessKey", environment("AWS_SECRET_ACCESS_KEY")},
                   {"sessionToken", environment("AWS_SESSION_TOKEN")},
                   {"roleARN", environment("AWS_ROLE_ARN")},
                   {"tokenPath", environment("AWS_WEB_IDENTITY_TOKEN_FILE")}};
    return form;
}

Result<bool> flag_of(const Form& form, const std::string& name) {
    const std::string text = form.get(name);
    for (const char* yes : {"1", "t", "T", "true", "TRUE", "True"}) {
        if (text == yes) {
            return true;
        }
    }
    for (const char* no : {"", "0", "f", "F", "false", "FALSE", "False"}) {
        if (text == no) {
            return false;
        }
    }
    return form.wrong("\"" + name + "\" is neither true nor false");
}

// The key is written in base64, or as 32 characters.
Result<std::string> sse_key_of(const Form& form) {
    const std::string key = form.get("sseCustomerKey");
    const std::string algorithm = form.get("sseCustomerAlgorithm");
    if (key.empty() != algorithm.empty()) {
        return form.wrong("\"sseCustomerKey\" and \"sseCustomerAlgorithm\" go together");
    }
    if (key.empty()) {
        return std::string();
    }
    if (algorithm != "AES256") {
        return form.wrong("\"sseCustomerAlgorithm\" must be AES256");
    }
    const auto decoded = from_base64(key);
    if (decoded && decoded->size() == kSseKeyBytes) {
        return *decoded;
    }
    if (key.size() != kSseKeyBytes) {
        return form.wrong("\"sseCustomerKey\" must be 32 bytes, as they are or in base64");
    }
    return key;
}

// How the peer's SDK adds its own checksums. Every request of ours carries a signed SHA-256.
Result<void> check_checksum_words(const Form& form) {
    for (const char* name : {"requestChecksumCalculation", "responseChecksumValidation"}) {
        std::string word = form.get(name);
        std::transform(word.begin(), word.end(), word.begin(), [](char c) {
            return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
        });
        if (!word.empty() && word != "when_supported" && word != "when_required") {
            return form.wrong(std::string("\"") + name +
                              "\" must be when_supported or when_required");
        }
    }
    return ok();
}

Result<S3Settings> settings_of(const Form& form, const Environment& environment) {
    const std::string secret = secret_field(environment);
    S3Settings out;
    out.origin = form.origin;
    const auto first = [](std::initializer_list<std::string> values) {
        for (const std::string& value : values) {
            if (!value.empty()) {
                return value;
            }
        }
        return std::string();
    };
    out.region =
        first({form.get("region"), environment("AWS_REGION"), environment("AWS_DEFAULT_REGION")});
    if (out.region.empty()) {
        return form.wrong(secret.empty()
                              ? "no region; set \"region\" there, or AWS_REGION"
                              : "no region; set the key \"region\" of the Secret in " + secret);
    }
    out.keys = {form.get("accessKeyID"), form.get("secretAccessKey"), form.get("sessionToken")};
    out.role_arn = form.get("roleARN");
    out.token_path = form.get("tokenPath");
    out.session_name = first({environment("AWS_ROLE_SESSION_NAME"), "capstan-steward"});
    if (out.keys.access_key.empty() && (out.role_arn.empty() || out.token_path.empty())) {
        return form.wrong(
            secret.empty()
                ? "no access key and no role; set AWS_APPLICATION_CREDENTIALS to the directory "
                  "with the credentials, or AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE"
                : "no access key and no role; name a Secret with the keys region, accessKeyID and "
                  "secretAccessKey, or roleARN and token, in " +
                      secret);
    }
    if (!out.keys.access_key.empty() && out.keys.secret_key.empty()) {
        return form.wrong("an access key without its secret key");
    }
    out.endpoint = first({form.get("endpoint"),
                          environment("AWS_ENDPOINT_URL_S3"),
                          environment("AWS_ENDPOINT_URL")});
    out.sts_endpoint =
        first({environment("AWS_ENDPOINT_URL_STS"), environment("AWS_ENDPOINT_URL")});
    CAPSTAN_TRY(out.path_style, flag_of(form, "s3ForcePathStyle"));
    CAPSTAN_TRY(out.insecure, flag_of(form, "insecureSkipVerify"));
    out.ca_pem = form.get("trustedCaCert");
    if (out.ca_pem.empty() && !environment("AWS_CA_BUNDLE").empty()) {
        CAPSTAN_TRY(out.ca_pem, read_file(environment("AWS_CA_BUNDLE")));
    }
    out.insecure = out.insecure && out.ca_pem.empty();
    CAPSTAN_TRY(out.sse_key, sse_key_of(form));
    CAPSTAN_TRY(check_checksum_words(form));
    return out;
}

}  // namespace

Environment process_environment() {
    return [](const std::string& name) {
        const char* const value = std::getenv(name.c_str());
        return std::string(value == nullptr ? "" : value);
    };
}

Result<S3Settings> load_s3_settings(const Environment& environment, std::string_view prefix) {
    const std::string file = environment(std::string(prefix) + kJsonVariable);
    const std::string directory = environment(std::string(prefix) + kDirectoryVariable);
    Form form;
    if (!file.empty()) {
        CAPSTAN_TRY(form, read_json(file));
    } else if (!directory.empty()) {
        CAPSTAN_TRY(form, read_directory(directory, secret_field(environment)));
    } else {
        form = read_environment(environment);
    }
    return settings_of(form, environment);
}

}  // namespace capstan::steward
