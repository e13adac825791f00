// The ABI 1.0, frozen: sizes and offsets of every table and struct. A change here is a new major,
// an addition at the end changes only sizes and is a new minor.
#include "capstan/capstan.h"
#include "capstan/cli.h"
#include "capstan/webhook.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#pragma GCC diagnostic ignored "-Wold-style-cast"  // CAPSTAN_HAS is C

namespace {

struct Row {
    const char* name;
    std::size_t value, expected;
};

#define CAPSTAN_SIZE(type, expected)            \
    Row {                                       \
        "sizeof " #type, sizeof(type), expected \
    }
#define CAPSTAN_AT(type, member, expected)                  \
    Row {                                                   \
        #type "." #member, offsetof(type, member), expected \
    }

const Row kRows[] = {
    CAPSTAN_SIZE(capstan_str, 16),
    CAPSTAN_SIZE(capstan_head, 8),
    CAPSTAN_SIZE(capstan_host, 40),
    CAPSTAN_AT(capstan_host, self, 8),
    CAPSTAN_AT(capstan_host, get_ext, 16),
    CAPSTAN_AT(capstan_host, log, 24),
    CAPSTAN_AT(capstan_host, refuse, 32),
    CAPSTAN_SIZE(capstan_request, 104),
    CAPSTAN_AT(capstan_request, controller, 8),
    CAPSTAN_AT(capstan_request, group, 24),
    CAPSTAN_AT(capstan_request, kind, 40),
    CAPSTAN_AT(capstan_request, ns, 56),
    CAPSTAN_AT(capstan_request, name, 72),
    CAPSTAN_AT(capstan_request, deadline_ns, 88),
    CAPSTAN_AT(capstan_request, attempt, 96),
    CAPSTAN_AT(capstan_request, flags, 100),
    CAPSTAN_SIZE(capstan_result, 40),
    CAPSTAN_AT(capstan_result, rc, 8),
    CAPSTAN_AT(capstan_result, retry, 12),
    CAPSTAN_AT(capstan_result, after_ns, 16),
    CAPSTAN_AT(capstan_result, message, 24),
    CAPSTAN_SIZE(capstan_plugin, 96),
    CAPSTAN_AT(capstan_plugin, id, 8),
    CAPSTAN_AT(capstan_plugin, version, 24),
    CAPSTAN_AT(capstan_plugin, create, 40),
    CAPSTAN_AT(capstan_plugin, start, 48),
    CAPSTAN_AT(capstan_plugin, reconcile, 56),
    CAPSTAN_AT(capstan_plugin, cancel, 64),
    CAPSTAN_AT(capstan_plugin, stop, 72),
    CAPSTAN_AT(capstan_plugin, destroy, 80),
    CAPSTAN_AT(capstan_plugin, get_ext, 88),
    CAPSTAN_SIZE(capstan_plugin_service, 16),
    CAPSTAN_AT(capstan_plugin_service, run, 8),
    CAPSTAN_SIZE(capstan_plugin_http_server, 16),
    CAPSTAN_AT(capstan_plugin_http_server, handle, 8),
    CAPSTAN_SIZE(capstan_ext_call, 40),
    CAPSTAN_AT(capstan_ext_call, cancelled, 8),
    CAPSTAN_AT(capstan_ext_call, deadline_ns, 16),
    CAPSTAN_AT(capstan_ext_call, reconcile_done, 24),
    CAPSTAN_AT(capstan_ext_call, last_error_json, 32),
    CAPSTAN_SIZE(capstan_ext_cache, 48),
    CAPSTAN_AT(capstan_ext_cache, get, 8),
    CAPSTAN_AT(capstan_ext_cache, list, 16),
    CAPSTAN_AT(capstan_ext_cache, bytes, 24),
    CAPSTAN_AT(capstan_ext_cache, field, 32),
    CAPSTAN_AT(capstan_ext_cache, release, 40),
    CAPSTAN_SIZE(capstan_ext_client, 56),
    CAPSTAN_AT(capstan_ext_client, get, 8),
    CAPSTAN_AT(capstan_ext_client, list, 16),
    CAPSTAN_AT(capstan_ext_client, apply, 24),
    CAPSTAN_AT(capstan_ext_client, patch, 32),
    CAPSTAN_AT(capstan_ext_client, create, 40),
    CAPSTAN_AT(capstan_ext_client, remove, 48),
    CAPSTAN_SIZE(capstan_ext_queue, 16),
    CAPSTAN_AT(capstan_ext_queue, add, 8),
    CAPSTAN_SIZE(capstan_event, 136),
    CAPSTAN_AT(capstan_event, gvk, 8),
    CAPSTAN_AT(capstan_event, ns, 24),
    CAPSTAN_AT(capstan_event, name, 40),
    CAPSTAN_AT(capstan_event, uid, 56),
    CAPSTAN_AT(capstan_event, type, 72),
    CAPSTAN_AT(capstan_event, reason, 88),
    CAPSTAN_AT(capstan_event, action, 104),
    CAPSTAN_AT(capstan_event, note, 120),
    CAPSTAN_SIZE(capstan_ext_events, 16),
    CAPSTAN_AT(capstan_ext_events, emit, 8),
    CAPSTAN_SIZE(capstan_ext_features, 16),
    CAPSTAN_AT(capstan_ext_features, enabled, 8),
    CAPSTAN_SIZE(capstan_ext_clock, 56),
    CAPSTAN_AT(capstan_ext_clock, monotonic_ns, 8),
    CAPSTAN_AT(capstan_ext_clock, wall_ns, 16),
    CAPSTAN_AT(capstan_ext_clock, token_create, 24),
    CAPSTAN_AT(capstan_ext_clock, token_destroy, 32),
    CAPSTAN_AT(capstan_ext_clock, wait, 40),
    CAPSTAN_AT(capstan_ext_clock, notify, 48),
    CAPSTAN_SIZE(capstan_ext_metrics, 32),
    CAPSTAN_AT(capstan_ext_metrics, add_metric, 8),
    CAPSTAN_AT(capstan_ext_metrics, update, 16),
    CAPSTAN_AT(capstan_ext_metrics, render, 24),
    CAPSTAN_SIZE(capstan_ext_http, 48),
    CAPSTAN_AT(capstan_ext_http, open, 8),
    CAPSTAN_AT(capstan_ext_http, write, 16),
    CAPSTAN_AT(capstan_ext_http, await_head, 24),
    CAPSTAN_AT(capstan_ext_http, read, 32),
    CAPSTAN_AT(capstan_ext_http, close, 40),
    CAPSTAN_SIZE(capstan_ext_http_server, 48),
    CAPSTAN_AT(capstan_ext_http_server, request_json, 8),
    CAPSTAN_AT(capstan_ext_http_server, read, 16),
    CAPSTAN_AT(capstan_ext_http_server, respond, 24),
    CAPSTAN_AT(capstan_ext_http_server, write, 32),
    CAPSTAN_AT(capstan_ext_http_server, end, 40),
    CAPSTAN_SIZE(capstan_ext_digest, 32),
    CAPSTAN_AT(capstan_ext_digest, open, 8),
    CAPSTAN_AT(capstan_ext_digest, update, 16),
    CAPSTAN_AT(capstan_ext_digest, finish, 24),
    CAPSTAN_SIZE(capstan_admission_request, 48),
    CAPSTAN_AT(capstan_admission_request, webhook, 8),
    CAPSTAN_AT(capstan_admission_request, request_json, 24),
    CAPSTAN_AT(capstan_admission_request, deadline_ns, 40),
    CAPSTAN_SIZE(capstan_admission_answer, 96),
    CAPSTAN_AT(capstan_admission_answer, allowed, 8),
    CAPSTAN_AT(capstan_admission_answer, code, 12),
    CAPSTAN_AT(capstan_admission_answer, message, 16),
    CAPSTAN_AT(capstan_admission_answer, reason, 32),
    CAPSTAN_AT(capstan_admission_answer, object_json, 48),
    CAPSTAN_AT(capstan_admission_answer, warnings_json, 64),
    CAPSTAN_AT(capstan_admission_answer, audit_json, 80),
    CAPSTAN_SIZE(capstan_ext_webhook, 16),
    CAPSTAN_AT(capstan_ext_webhook, answer, 8),
    CAPSTAN_SIZE(capstan_plugin_webhook, 16),
    CAPSTAN_AT(capstan_plugin_webhook, review, 8),
    CAPSTAN_SIZE(capstan_command, 48),
    CAPSTAN_AT(capstan_command, name, 8),
    CAPSTAN_AT(capstan_command, args, 24),
    CAPSTAN_AT(capstan_command, arg_count, 32),
    CAPSTAN_AT(capstan_command, terminals, 36),
    CAPSTAN_AT(capstan_command, columns, 40),
    CAPSTAN_AT(capstan_command, flags, 44),
    CAPSTAN_SIZE(capstan_ext_cli, 32),
    CAPSTAN_AT(capstan_ext_cli, environment, 8),
    CAPSTAN_AT(capstan_ext_cli, read, 16),
    CAPSTAN_AT(capstan_ext_cli, write, 24),
    CAPSTAN_SIZE(capstan_plugin_cli, 16),
    CAPSTAN_AT(capstan_plugin_cli, run, 8),
};

TEST(Layout, IsThatOfAbiOne) {
    for (const Row& row : kRows) {
        EXPECT_EQ(row.value, row.expected) << row.name;
    }
    EXPECT_EQ(CAPSTAN_ABI, 0x10000U);
}

TEST(Layout, SizeSaysWhichMembersATableHas) {
    capstan_plugin table{};
    table.head = {sizeof(capstan_plugin), CAPSTAN_ABI};
    EXPECT_FALSE(CAPSTAN_HAS(&table, get_ext));  // not set
    table.get_ext = [](capstan_str) noexcept -> const void* { return nullptr; };
    EXPECT_TRUE(CAPSTAN_HAS(&table, get_ext));
    table.head.size = offsetof(capstan_plugin, get_ext);  // as an older writer knew it
    EXPECT_FALSE(CAPSTAN_HAS(&table, get_ext));
}

}  // namespace
