#include "runtime/local/node/images.hpp"

#include <unistd.h>
#include <algorithm>

namespace capstan::local {
namespace {

// "registry:5000/a/b:tag@sha256:…" -> "b"
std::string_view short_name(std::string_view image) {
    image = image.substr(0, image.find('@'));
    if (const auto slash = image.rfind('/'); slash != std::string_view::npos) {
        image.remove_prefix(slash + 1);
    }
    return image.substr(0, image.find(':'));
}

std::string_view base_name(std::string_view path) {
    const auto slash = path.rfind('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

Result<Program> finish(std::string path, std::vector<std::string> argv, std::string_view remedy) {
    if (path.empty() || ::access(path.c_str(), X_OK) != 0) {
        return fail(Code::not_found,
                    "program " + (path.empty() ? argv[0] : path) +
                        " is missing or not executable: " + std::string(remedy));
    }
    return Program{std::move(path), std::move(argv)};
}

Result<Program> etcd_program(std::string_view name,
                             std::vector<std::string> argv,
                             const ImageOptions& options) {
    if (name != "etcd" && name != "etcdctl" && name != "etcdutl") {
        return fail(Code::unsupported,
                    "command " + argv[0] + " of an etcd image runs only on Kubernetes");
    }
    if (options.etcd_dir.empty()) {
        return fail(Code::not_found,
                    "no etcd directory is configured: set --etcd-dir to one that holds etcd");
    }
    return finish(options.etcd_dir + "/" + std::string(name),
                  std::move(argv),
                  "put it there or set --etcd-dir");
}

}  // namespace

ImageKind classify_image(std::string_view image, const ImageOptions& options) {
    if (std::find(options.host_images.begin(), options.host_images.end(), image) !=
        options.host_images.end()) {
        return ImageKind::host;
    }
    const auto name = short_name(image);
    if (name == "capstan" || name.starts_with("capstan-")) {
        return ImageKind::capstan;
    }
    return name == "etcd" ? ImageKind::etcd : ImageKind::foreign;
}

Result<Program> resolve_program(std::string_view image,
                                const std::vector<std::string>& command,
                                const std::vector<std::string>& args,
                                const ImageOptions& options) {
    const auto kind = classify_image(image, options);
    if (kind == ImageKind::foreign) {
        return fail(Code::unsupported,
                    "image \"" + std::string(image) + "\" runs only on Kubernetes");
    }
    std::vector<std::string> argv = command;
    if (argv.empty()) {
        if (kind == ImageKind::host) {
            return fail(Code::unsupported, "image \"" + std::string(image) + "\" needs a command");
        }
        argv.emplace_back(kind == ImageKind::etcd ? "etcd" : "capstan");
    }
    argv.insert(argv.end(), args.begin(), args.end());
    const std::string name(base_name(argv[0]));
    if (kind == ImageKind::host) {
        std::string path = argv[0];
        return finish(std::move(path), std::move(argv), "give its absolute path");
    }
    if (name == "capstan-launcher") {
        return finish(options.launcher_binary,
                      std::move(argv),
                      "it belongs beside the capstan program; build it");
    }
    if (kind == ImageKind::etcd) {
        return etcd_program(name, std::move(argv), options);
    }
    if (name == "capstan") {
        return finish(options.capstan_binary, std::move(argv), "reinstall capstan");
    }
    return fail(Code::unsupported,
                "command " + argv[0] + " of a capstan image runs only on Kubernetes");
}

std::vector<std::pair<std::string, std::string>> image_paths(std::string_view image,
                                                             const ImageOptions& options) {
    switch (classify_image(image, options)) {
        case ImageKind::capstan: return options.capstan_paths;
        case ImageKind::etcd: return {{"/usr/local/bin", options.etcd_dir}};
        case ImageKind::host:
        case ImageKind::foreign: break;
    }
    return {};
}

bool is_skippable_init(std::string_view image,
                       const std::vector<std::string>& command,
                       const std::vector<std::string>& args,
                       const ImageOptions& options) {
    const auto kind = classify_image(image, options);
    if (kind == ImageKind::host) {
        return false;
    }
    const auto name = command.empty() ? std::string_view{} : base_name(command[0]);
    if (kind == ImageKind::capstan &&
        (name.empty() || name == "capstan" || name == "capstan-launcher")) {
        return false;  // our own programs do their work here as everywhere
    }
    if (name == "chown" || name == "chmod" || name == "cp" || name == "install") {
        return true;
    }
    const auto mentions_launcher = [](const std::string& text) {
        return text.find("capstan-launcher") != std::string::npos;
    };
    return std::any_of(command.begin(), command.end(), mentions_launcher) ||
           std::any_of(args.begin(), args.end(), mentions_launcher);
}

}  // namespace capstan::local
