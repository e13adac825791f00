#include "runtime/local/node/images.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

struct ClassifyRow {
    const char* name;
    const char* image;
    ImageKind kind;
};

class Classify : public testing::TestWithParam<ClassifyRow> {};

TEST_P(Classify, GoesByTheLastPartOfTheName) {
    ImageOptions options;
    options.host_images = {"host"};
    EXPECT_EQ(classify_image(GetParam().image, options), GetParam().kind);
}

INSTANTIATE_TEST_SUITE_P(
    Images,
    Classify,
    testing::Values(ClassifyRow{"plain", "capstan:0.1.0", ImageKind::capstan},
                    ClassifyRow{"registry_port", "reg:5000/x/capstan:1", ImageKind::capstan},
                    ClassifyRow{"digest", "quay.io/coreos/etcd@sha256:00", ImageKind::etcd},
                    ClassifyRow{
                        "etcd_tag", "gcr.io/etcd-development/etcd:v3.5.33", ImageKind::etcd},
                    ClassifyRow{"wrapper", "x/etcd-wrapper:v0.6.2", ImageKind::foreign},
                    ClassifyRow{"brctl", "x/etcdbrctl:v0.41.2", ImageKind::foreign},
                    ClassifyRow{"busybox", "busybox", ImageKind::foreign},
                    ClassifyRow{"path_only", "x/capstan/busybox", ImageKind::foreign},
                    ClassifyRow{"host", "host", ImageKind::host}),
    [](const auto& row) { return row.param.name; });

TEST(ResolveProgram, FindsTheLauncherFromAnyDirectory) {
    ImageOptions options;
    options.launcher_binary = "/bin/true";
    auto program = resolve_program("etcd:3.5", {"/capstan/bin/capstan-launcher"}, {"--x"}, options);
    ASSERT_TRUE(program.has_value());
    EXPECT_EQ(program.value().path, "/bin/true");
    EXPECT_EQ(program.value().argv,
              (std::vector<std::string>{"/capstan/bin/capstan-launcher", "--x"}));
}

TEST(ResolveProgram, NamesTheMissingFileAndTheRemedy) {
    ImageOptions options;
    options.etcd_dir = "/nonexistent";
    auto program = resolve_program("etcd:3.5", {}, {}, options);
    ASSERT_FALSE(program.has_value());
    EXPECT_EQ(program.error().code, Code::not_found);
    EXPECT_EQ(
        program.error().message,
        "program /nonexistent/etcd is missing or not executable: put it there or set --etcd-dir");
}

TEST(ResolveProgram, RefusesForeignImagesAndCommands) {
    const ImageOptions options;
    EXPECT_EQ(resolve_program("busybox", {"sh"}, {}, options).error().message,
              "image \"busybox\" runs only on Kubernetes");
    EXPECT_EQ(resolve_program("etcd", {"/bin/sh"}, {}, options).error().code, Code::unsupported);
    EXPECT_EQ(resolve_program("capstan:1", {"cp"}, {}, options).error().code, Code::unsupported);
}

TEST(SkippableInit, CoversLauncherCopyAndChown) {
    const ImageOptions options;
    EXPECT_TRUE(is_skippable_init("alpine:3", {"chown", "-R", "65532:65532", "/x"}, {}, options));
    EXPECT_TRUE(
        is_skippable_init("busybox", {"sh", "-c", "cp /a/capstan-launcher /b"}, {}, options));
    EXPECT_TRUE(is_skippable_init("capstan:1", {"cp", "/capstan-launcher", "/b"}, {}, options));
    EXPECT_FALSE(
        is_skippable_init("capstan:1",
                          {"/usr/local/bin/capstan-launcher", "install", "/x/capstan-launcher"},
                          {},
                          options));
    EXPECT_FALSE(is_skippable_init("busybox", {"sh", "-c", "true"}, {}, options));
}

}  // namespace
}  // namespace capstan::local
