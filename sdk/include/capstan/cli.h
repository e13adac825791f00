/* Subcommands of plugins, "capstan.cli/1": the C side. Rules and thread tags as in capstan.h; C++
 * plugins use cli.hpp.
 *
 * The manifest's "cli" names commands. `capstan NAME …` finds the plugin that declares NAME, loads
 * it alone and calls `run` once. No API server is asked, no configuration is read and there is no
 * instance: neither create nor start are called before. Of the host's extensions call, clock,
 * digest and http work; client and cache have nothing. What is logged goes to stderr.
 *
 * SIGINT and SIGTERM cancel the call once: `run` undoes what is half done and returns. A second one
 * ends the process at once.
 */
#ifndef CAPSTAN_CLI_H
#define CAPSTAN_CLI_H

#include "capstan/capstan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CAPSTAN_STDIN 0
#define CAPSTAN_STDOUT 1
#define CAPSTAN_STDERR 2

/* Exit codes every command shares; others up to 125 are a command's own. */
#define CAPSTAN_EXIT_GOOD 0
#define CAPSTAN_EXIT_FAILED 1
#define CAPSTAN_EXIT_USAGE 2
#define CAPSTAN_EXIT_PLUGIN 3      /* the host's: it could not be loaded, or it panicked */
#define CAPSTAN_EXIT_UNREACHABLE 4 /* API server, etcd or object store */
#define CAPSTAN_EXIT_LEASE_LOST 5
#define CAPSTAN_EXIT_DAMAGED 6 /* data is damaged or incomplete */

/* Valid until run returns. */
typedef struct capstan_command {
    capstan_head head;
    capstan_str name;        /* in the manifest's "cli" */
    const capstan_str* args; /* what stands behind it, as the shell split it */
    uint32_t arg_count;
    uint32_t terminals; /* bit 1 << CAPSTAN_STDOUT: that stream is a terminal */
    uint32_t columns;   /* of that terminal; 0: not known */
    uint32_t flags;     /* 0 */
} capstan_command;

/* Host extension "capstan.cli/1", for the call of a command alone: else E_INVALID. */
typedef struct capstan_ext_cli {
    capstan_head head;
    /* Of the process; valid until run returns. E_NOT_FOUND: not set. */
    capstan_rc (*environment)(capstan_call*, capstan_str name, capstan_str* value) CAPSTAN_NOEXCEPT;
    /* Standard input: waits for up to cap bytes. *n = 0 with OK is the end. E_CANCELLED, E_UNAVAIL.
     * [worker] */
    capstan_rc (*read)(capstan_call*, char* buffer, uint64_t cap, uint64_t* n) CAPSTAN_NOEXCEPT;
    /* All of `bytes` to CAPSTAN_STDOUT or CAPSTAN_STDERR, at once; also after a cancel. E_UNAVAIL:
     * the reader has gone, or the disk is full; the host says so at the end. [worker] */
    capstan_rc (*write)(capstan_call*, int32_t stream, capstan_str bytes) CAPSTAN_NOEXCEPT;
} capstan_ext_cli;

/* Plugin extension "capstan.cli/1". OK: *exit_code, 0 to 125, is the process's. Else the process
 * ends with 1, after E_PANIC with 3, and the host says why. After a signal an exit code that is not
 * 0 becomes 128 + its number. [worker] */
typedef struct capstan_plugin_cli {
    capstan_head head;
    capstan_rc (*run)(const capstan_host*,
                      capstan_call*,
                      const capstan_command*,
                      int32_t* exit_code) CAPSTAN_NOEXCEPT;
} capstan_plugin_cli;

#ifdef __cplusplus
}
#endif
#endif
