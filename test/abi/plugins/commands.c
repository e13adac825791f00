/* Subcommands in C, with libc only: what a host must hand through. It has no other parts, and an
 * instance of it cannot be made. */
#include "capstan/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static capstan_str str(const char* text) {
    capstan_str s;
    s.ptr = text;
    s.len = strlen(text);
    return s;
}

static int is(capstan_str text, const char* other) {
    return text.len == strlen(other) && memcmp(text.ptr, other, text.len) == 0;
}

static int32_t echo(const capstan_ext_cli* cli, capstan_call* call, const capstan_command* given) {
    for (uint32_t i = 0; i < given->arg_count; ++i) {
        if (cli->write(call, CAPSTAN_STDOUT, given->args[i]) != CAPSTAN_OK ||
            cli->write(call, CAPSTAN_STDOUT, str("\n")) != CAPSTAN_OK) {
            return CAPSTAN_EXIT_FAILED;
        }
    }
    return CAPSTAN_EXIT_GOOD;
}

static int32_t variable(const capstan_ext_cli* cli,
                        capstan_call* call,
                        const capstan_command* given) {
    capstan_str value;
    if (given->arg_count != 1) {
        return CAPSTAN_EXIT_USAGE;
    }
    if (cli->environment(call, given->args[0], &value) != CAPSTAN_OK) {
        cli->write(call, CAPSTAN_STDERR, str("not set\n"));
        return CAPSTAN_EXIT_FAILED;
    }
    return cli->write(call, CAPSTAN_STDOUT, value) == CAPSTAN_OK ? CAPSTAN_EXIT_GOOD
                                                                 : CAPSTAN_EXIT_FAILED;
}

static int32_t count(const capstan_ext_cli* cli, capstan_call* call) {
    char buffer[4096];
    char text[32];
    uint64_t all = 0, n = 0;
    do {
        if (cli->read(call, buffer, sizeof buffer, &n) != CAPSTAN_OK) {
            cli->write(call, CAPSTAN_STDERR, str("interrupted\n"));
            return CAPSTAN_EXIT_FAILED;
        }
        all += n;
    } while (n > 0);
    snprintf(text, sizeof text, "%llu\n", (unsigned long long)all);
    cli->write(call, CAPSTAN_STDOUT, str(text));
    return CAPSTAN_EXIT_GOOD;
}

static int32_t code(const capstan_command* given) {
    char text[16] = {0};
    if (given->arg_count == 1 && given->args[0].len < sizeof text) {
        memcpy(text, given->args[0].ptr, given->args[0].len);
    }
    return atoi(text);
}

static int32_t endless(const capstan_ext_call* calls,
                       const capstan_ext_cli* cli,
                       capstan_call* call) {
    while (!calls->cancelled(call)) {
        if (cli->write(call, CAPSTAN_STDOUT, str("again\n")) != CAPSTAN_OK) {
            return CAPSTAN_EXIT_FAILED;
        }
    }
    cli->write(call, CAPSTAN_STDERR, str("told to end\n"));
    return CAPSTAN_EXIT_FAILED;
}

static capstan_rc run(const capstan_host* host,
                      capstan_call* call,
                      const capstan_command* given,
                      int32_t* exit_code) {
    const capstan_ext_cli* cli = host->get_ext(host, str("capstan.cli/1"));
    const capstan_ext_call* calls = host->get_ext(host, str("capstan.call/1"));
    if (cli == NULL || calls == NULL) {
        return CAPSTAN_E_UNSUPP;
    }
    if (is(given->name, "echo")) {
        *exit_code = echo(cli, call, given);
    } else if (is(given->name, "variable")) {
        *exit_code = variable(cli, call, given);
    } else if (is(given->name, "count")) {
        *exit_code = count(cli, call);
    } else if (is(given->name, "code")) {
        *exit_code = code(given);
    } else if (is(given->name, "endless")) {
        *exit_code = endless(calls, cli, call);
    } else {
        return CAPSTAN_E_NOT_FOUND;
    }
    return *exit_code == -1 ? CAPSTAN_E_PANIC : CAPSTAN_OK;
}

static capstan_rc create(const capstan_host* host, capstan_str config_json, capstan_ctl** out) {
    (void)host;
    (void)config_json;
    (void)out;
    return CAPSTAN_E_UNSUPP;
}

static capstan_rc start(capstan_ctl* ctl) {
    (void)ctl;
    return CAPSTAN_E_UNSUPP;
}

static capstan_rc reconcile(capstan_ctl* ctl, capstan_call* call, const capstan_request* request) {
    (void)ctl;
    (void)call;
    (void)request;
    return CAPSTAN_E_UNSUPP;
}

static capstan_rc stop(capstan_ctl* ctl, uint64_t deadline_ns) {
    (void)ctl;
    (void)deadline_ns;
    return CAPSTAN_OK;
}

static void destroy(capstan_ctl* ctl) {
    (void)ctl;
}

static const void* get_ext(capstan_str id) {
    static const capstan_plugin_cli cli = {{sizeof(capstan_plugin_cli), CAPSTAN_ABI}, run};
    return is(id, "capstan.cli/1") ? &cli : NULL;
}

const capstan_plugin* capstan_plugin_entry(const capstan_host* host) {
    static const capstan_plugin plugin = {
        {sizeof(capstan_plugin), CAPSTAN_ABI},
        {CAPSTAN_PLUGIN_ID, sizeof CAPSTAN_PLUGIN_ID - 1},
        {CAPSTAN_PLUGIN_VERSION, sizeof CAPSTAN_PLUGIN_VERSION - 1},
        create,
        start,
        reconcile,
        NULL,
        stop,
        destroy,
        get_ext};
    (void)host;
    return &plugin;
}
