/* The smallest plugin, and with a define one that a host must refuse. */
#include "capstan/capstan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef CODE_ID
#define CODE_ID CAPSTAN_PLUGIN_ID
#endif
#ifndef CAPSTAN_PLUGIN_VERSION
#define CAPSTAN_PLUGIN_VERSION "0.1.0"
#endif

struct capstan_ctl {
    int unused;
};

#ifdef WITH_CONSTRUCTOR
__attribute__((constructor)) static void run_at_load(void) {
    const char* path = getenv("CAPSTAN_TEST_MARKER");
    FILE* file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fputs("constructor ran\n", file);
        fclose(file);
    }
}
#endif

#ifdef WITH_ENDLESS_CONSTRUCTOR
__attribute__((constructor)) static void never_end(void) {
    for (;;) {
        pause();
    }
}
#endif

#ifdef WITH_CRASH
__attribute__((constructor)) static void crash_at_load(void) {
    fputs("about to abort\n", stderr);
    abort();
}
#endif

#ifdef WITH_STATIC_TLS
static __thread int counter[8];
int* tls_counter(void) {
    return counter;
}
#endif

#ifdef WITH_UNDEFINED
int capstan_test_nobody_defines_this(void);
#endif

#ifdef WITH_DEPENDENCY
int capstan_test_dependency(void);
#endif

static capstan_rc create(const capstan_host* host, capstan_str config_json, capstan_ctl** ctl) {
    (void)host;
    (void)config_json;
    *ctl = calloc(1, sizeof **ctl);
    return *ctl != NULL ? CAPSTAN_OK : CAPSTAN_E_INTERNAL;
}
static capstan_rc start(capstan_ctl* ctl) {
    (void)ctl;
    return CAPSTAN_OK;
}
static capstan_rc reconcile(capstan_ctl* ctl, capstan_call* call, const capstan_request* request) {
    (void)ctl;
    (void)call;
    (void)request;
#ifdef WITH_UNDEFINED
    return capstan_test_nobody_defines_this();
#elif defined WITH_DEPENDENCY
    return capstan_test_dependency();
#else
    return CAPSTAN_OK;
#endif
}
static capstan_rc stop(capstan_ctl* ctl, uint64_t deadline_ns) {
    (void)ctl;
    (void)deadline_ns;
#ifdef WITH_STATIC_TLS
    return ++tls_counter()[0] > 0 ? CAPSTAN_OK : CAPSTAN_E_INTERNAL;
#else
    return CAPSTAN_OK;
#endif
}
static void destroy(capstan_ctl* ctl) {
    free(ctl);
}

#ifndef WITHOUT_ENTRY
const capstan_plugin* capstan_plugin_entry(const capstan_host* host) {
    static const capstan_plugin plugin = {
        {sizeof(capstan_plugin), CAPSTAN_ABI},
        {CODE_ID, sizeof CODE_ID - 1},
        {CAPSTAN_PLUGIN_VERSION, sizeof CAPSTAN_PLUGIN_VERSION - 1},
        create,
        start,
        reconcile,
        NULL,
        stop,
        destroy,
        NULL};
#ifdef WITH_REFUSAL
    static const char why[] = "the moon is not full";
    capstan_str text;
    text.ptr = why;
    text.len = sizeof why - 1;
    host->refuse(host, CAPSTAN_E_UNSUPP, text);
    return NULL;
#else
    (void)host;
    return &plugin;
#endif
}
#endif

#ifdef WITH_EXPORT
CAPSTAN_EXPORT int capstan_test_extra_export(void) {
    return 1;
}
#endif
