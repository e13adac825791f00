// Which program an image name and a command mean on a machine without containers.
//
// Only capstan and etcd images can run here; everything else is refused with a sentence. Pure but
// for the check that the program exists. Source: docs/local.md. Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::local {

struct ImageOptions {
    std::string capstan_binary;   // absolute
    std::string launcher_binary;  // absolute; beside capstan
    std::string etcd_dir;         // absolute; holds etcd, and etcdctl or etcdutl where wanted
    // Paths inside the capstan image and what stands for them here: {"/etc/capstan",
    // "<datadir>/capstan/image"}.
    std::vector<std::pair<std::string, std::string>> capstan_paths;
    // Images whose commands are programs of this machine as they are: for tests.
    std::vector<std::string> host_images;
};

enum class ImageKind : std::uint8_t { capstan, etcd, host, foreign };

// By the last part of the name: "ghcr.io/x/capstan:1.2" is capstan, "quay.io/coreos/etcd@sha256:…"
// is etcd, "…/etcd-wrapper:v0.6" and "…/etcdbrctl" are foreign.
ImageKind classify_image(std::string_view image, const ImageOptions& options);

struct Program {
    std::string path;               // absolute
    std::vector<std::string> argv;  // argv[0] is what the manifest said, or the program's name
};

// Errors: unsupported (foreign image, or a command the image does not have here), not_found (the
// program is missing: names the file and the remedy).
Result<Program> resolve_program(std::string_view image,
                                const std::vector<std::string>& command,
                                const std::vector<std::string>& args,
                                const ImageOptions& options);

// Paths inside the image and what stands for them here; for arguments that name a program
// or a file of the image.
std::vector<std::pair<std::string, std::string>> image_paths(std::string_view image,
                                                             const ImageOptions& options);

// True for init containers that only prepare what this machine does not need: a copy of the
// launcher, chown, chmod.
bool is_skippable_init(std::string_view image,
                       const std::vector<std::string>& command,
                       const std::vector<std::string>& args,
                       const ImageOptions& options);

}  // namespace capstan::local
