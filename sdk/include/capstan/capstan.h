/* Capstan plugin ABI 1.0: the whole contract between the host and a plugin, in C11.
 *
 * A plugin is a shared object with one exported function, capstan_plugin_entry, and a JSON manifest
 * in an ELF note (owner "CAPSTAN", type 1) that the host reads before any plugin code runs. The
 * host hands a plugin its services as extension tables; the plugin hands the host its own as one
 * capstan_plugin table.
 *
 * Rules that keep this stable:
 *  - Every table starts with {size, abi}. Members are appended, never moved, retyped or removed. A
 *    reader tests CAPSTAN_HAS(table, member) for every member younger than 1.0.
 *  - The side that defines a table or struct allocates and writes it; the other side only reads.
 *  - A capstan_str argument is valid until the call returns; the callee copies what it keeps.
 *  - Nothing crosses for the other side to free. Handles are opaque and belong to the side that
 *    made them.
 *  - No exception, panic or longjmp crosses. Function pointers are noexcept in C++.
 *  - Objects cross as JSON bytes (UTF-8).
 *
 * Thread tags: [entry] once, on the loader's thread, may only call log and refuse. [lifecycle]
 * serialised per instance; no [worker] call before start returned or after stop returned. [worker]
 * a host-owned thread, may block, never two at once for one key. [any] every thread, brief.
 * Times are nanoseconds: *_ns of CLOCK_MONOTONIC unless "wall" is in the name. CAPSTAN_NEVER means
 * no limit.
 */
#ifndef CAPSTAN_H
#define CAPSTAN_H

#include <stdint.h>

#ifdef __cplusplus
#define CAPSTAN_NOEXCEPT noexcept
extern "C" {
#else
#define CAPSTAN_NOEXCEPT
#endif

#define CAPSTAN_EXPORT __attribute__((visibility("default")))
#define CAPSTAN_ABI_MAJOR 1u
#define CAPSTAN_ABI_MINOR 0u
#define CAPSTAN_ABI ((CAPSTAN_ABI_MAJOR << 16) | CAPSTAN_ABI_MINOR)
#define CAPSTAN_NEVER UINT64_MAX
/* True when the table `p` is large enough to have member `f` and the member is set. */
#define CAPSTAN_HAS(p, f)                                                                  \
    ((p)->head.size >=                                                                     \
         (uint32_t)((const char*)&(p)->f - (const char*)(p)) + (uint32_t)sizeof((p)->f) && \
     (p)->f)

typedef int32_t capstan_rc;
#define CAPSTAN_OK 0
/* the result follows through reconcile_done; needs "async": true in the manifest */
#define CAPSTAN_PENDING 1
#define CAPSTAN_E_INVALID -1
#define CAPSTAN_E_NOT_FOUND -2
#define CAPSTAN_E_CONFLICT -3
#define CAPSTAN_E_EXISTS -4
#define CAPSTAN_E_DENIED -5    /* outside the manifest's permissions: nothing was sent */
#define CAPSTAN_E_FORBIDDEN -6 /* the API server said no */
#define CAPSTAN_E_THROTTLED -7
#define CAPSTAN_E_DEADLINE -8 /* whether a write took effect is unknown */
#define CAPSTAN_E_CANCELLED -9
#define CAPSTAN_E_FENCED -10 /* the call lost its key; every further host call with it fails so */
#define CAPSTAN_E_UNAVAIL -11
#define CAPSTAN_E_TOO_LARGE -12
#define CAPSTAN_E_UNSUPP -13
#define CAPSTAN_E_INTERNAL -14
/* an exception or panic was stopped at the border: the instance is replaced */
#define CAPSTAN_E_PANIC -15
#define CAPSTAN_E_EXPIRED -16

#define CAPSTAN_LOG_ERROR 0
#define CAPSTAN_LOG_WARN 1
#define CAPSTAN_LOG_INFO 2
#define CAPSTAN_LOG_DEBUG 3

typedef struct capstan_str {
    const char* ptr; /* not NUL-terminated; may be NULL when len is 0 */
    uint64_t len;
} capstan_str;

typedef struct capstan_head {
    uint32_t size; /* sizeof the table as its writer knew it */
    uint32_t abi;  /* CAPSTAN_ABI of its writer */
} capstan_head;

/* host's: one reconcile, service run or request in progress */
typedef struct capstan_call capstan_call;
typedef struct capstan_obj capstan_obj;     /* host's: immutable, reference-counted object */
typedef struct capstan_token capstan_token; /* host's: something to wait on (capstan.clock/1) */
typedef struct capstan_http capstan_http;   /* host's: one outgoing HTTP exchange */
typedef struct capstan_exchange capstan_exchange; /* host's: one incoming HTTP request */
typedef struct capstan_hash capstan_hash;         /* host's: one running digest */
typedef struct capstan_ctl capstan_ctl;           /* plugin's: the plugin instance */

/* ---- the host -------------------------------------------------------------------------------- */

typedef struct capstan_host capstan_host;
struct capstan_host {
    capstan_head head;
    void* self;
    /* Table of a host extension ("capstan.cache/1"); NULL when this host has none.
     * Static for the process. [any] */
    const void* (*get_ext)(const capstan_host*, capstan_str id)CAPSTAN_NOEXCEPT;
    /* One log line under the plugin's name. fields_json: an object of scalars, or empty. [any] */
    void (*log)(const capstan_host*, int32_t level, capstan_str message, capstan_str fields_json)
        CAPSTAN_NOEXCEPT;
    /* Why capstan_plugin_entry is about to return NULL. [entry] */
    void (*refuse)(const capstan_host*, capstan_rc why, capstan_str message) CAPSTAN_NOEXCEPT;
};

/* ---- the plugin ------------------------------------------------------------------------------ */

typedef struct capstan_request {
    capstan_head head;
    capstan_str controller;            /* name in the manifest */
    capstan_str group, kind, ns, name; /* ns is empty for cluster-scoped kinds */
    uint64_t deadline_ns;
    uint32_t attempt; /* 0 at first, counts failures in a row of this key */
    uint32_t flags;   /* 0 */
} capstan_request;

#define CAPSTAN_RETRY_NONE 0
/* the host's exponential per-key back-off; after_ns > 0 is its floor */
#define CAPSTAN_RETRY_BACKOFF 1
#define CAPSTAN_RETRY_AFTER 2  /* again after after_ns, not a failure */
#define CAPSTAN_RETRY_PARKED 3 /* not before the object changes */

typedef struct capstan_result {
    capstan_head head;
    capstan_rc rc;
    int32_t retry; /* CAPSTAN_RETRY_… */
    uint64_t after_ns;
    capstan_str message;
} capstan_result;

typedef struct capstan_plugin {
    capstan_head head;
    capstan_str id, version; /* must equal the manifest's */
    /* One instance per loaded plugin. config_json: the plugin's own part of the configuration. On
     * failure *ctl is not read and destroy is not called; say why with host->log. [lifecycle] */
    capstan_rc (*create)(const capstan_host*,
                         capstan_str config_json,
                         capstan_ctl** ctl) CAPSTAN_NOEXCEPT;
    capstan_rc (*start)(capstan_ctl*) CAPSTAN_NOEXCEPT; /* [lifecycle] */
    /* Brings the world one step closer to what the object says. Returns CAPSTAN_OK or an
     * error for plain results, or calls capstan.call/1 reconcile_done before returning for
     * anything finer. [worker] */
    capstan_rc (*reconcile)(capstan_ctl*, capstan_call*, const capstan_request*) CAPSTAN_NOEXCEPT;
    void (*cancel)(capstan_ctl*, capstan_call*) CAPSTAN_NOEXCEPT; /* may be NULL. [any] */
    capstan_rc (*stop)(capstan_ctl*, uint64_t deadline_ns) CAPSTAN_NOEXCEPT; /* [lifecycle] */
    void (*destroy)(capstan_ctl*) CAPSTAN_NOEXCEPT;                          /* [lifecycle] */
    /* plugin extensions; may be NULL. [any] */
    const void* (*get_ext)(capstan_str id)CAPSTAN_NOEXCEPT;
} capstan_plugin;

/* The one exported symbol. Returns a static table, or NULL after host->refuse. [entry] */
CAPSTAN_EXPORT const capstan_plugin* capstan_plugin_entry(const capstan_host*) CAPSTAN_NOEXCEPT;

/* Plugin extension "capstan.service/1": long-running work named in the manifest's "services". The
 * host runs it on a thread of its own with a call that has no deadline and is cancelled at stop;
 * when it returns before, the host starts it again with back-off. [worker] */
typedef struct capstan_plugin_service {
    capstan_head head;
    capstan_rc (*run)(capstan_ctl*, capstan_call*, capstan_str service) CAPSTAN_NOEXCEPT;
} capstan_plugin_service;

/* Plugin extension "capstan.http-server/1": answers requests of the routes named in the manifest.
 * Uses the host extension of the same name. An exchange not ended when this returns is ended by the
 * host (500 if unanswered). [worker] */
typedef struct capstan_plugin_http_server {
    capstan_head head;
    void (*handle)(capstan_ctl*, capstan_call*, capstan_str route, capstan_exchange*)
        CAPSTAN_NOEXCEPT;
} capstan_plugin_http_server;

/* ---- host extensions ------------------------------------------------------------------------- */

/* "capstan.call/1" */
typedef struct capstan_ext_call {
    capstan_head head;
    int32_t (*cancelled)(capstan_call*) CAPSTAN_NOEXCEPT;    /* 1: stop soon. [any] */
    uint64_t (*deadline_ns)(capstan_call*) CAPSTAN_NOEXCEPT; /* [any] */
    void (*reconcile_done)(capstan_call*, const capstan_result*) CAPSTAN_NOEXCEPT; /* once */
    /* Detail of the last failed host call on this thread:
     * {"code","message","httpStatus","reason","retryAfterNs"}.
     * Valid until the next host call on this thread. */
    capstan_str (*last_error_json)(capstan_call*) CAPSTAN_NOEXCEPT;
} capstan_ext_call;

/* "capstan.cache/1": reads of watched objects, no request is sent. gk: "apps/StatefulSet", "Pod".
 * An object from get is one reference, to be released; unreleased ones are released at the end of
 * the call and counted as a leak. */
typedef struct capstan_ext_cache {
    capstan_head head;
    /* E_NOT_FOUND; E_DENIED when the manifest has no watch on gk. */
    capstan_rc (*get)(capstan_call*,
                      capstan_str gk,
                      capstan_str ns,
                      capstan_str name,
                      const capstan_obj**) CAPSTAN_NOEXCEPT;
    /* ns empty: all. selector: Kubernetes label selector or empty. The object is
     * borrowed for the visit; a visit that returns non-zero ends the list and is the
     * result. Order: namespace, name. */
    capstan_rc (*list)(capstan_call*,
                       capstan_str gk,
                       capstan_str ns,
                       capstan_str selector,
                       capstan_rc (*visit)(void* user, const capstan_obj*),
                       void* user) CAPSTAN_NOEXCEPT;
    /* the JSON, for the life of the reference. [any] */
    capstan_str (*bytes)(const capstan_obj*) CAPSTAN_NOEXCEPT;
    /* Raw JSON of one field by RFC 6901 pointer; E_NOT_FOUND. Same life. [any] */
    capstan_rc (*field)(const capstan_obj*,
                        capstan_str pointer,
                        capstan_str* raw_json) CAPSTAN_NOEXCEPT;
    void (*release)(const capstan_obj*) CAPSTAN_NOEXCEPT; /* [any] */
} capstan_ext_cache;

#define CAPSTAN_APPLY_NO_FORCE 1u /* do not take fields from other managers: E_CONFLICT instead */
#define CAPSTAN_APPLY_DRY_RUN 2u
#define CAPSTAN_APPLY_ALWAYS 4u /* send even when the cached object already has everything */

#define CAPSTAN_PATCH_JSON 0  /* RFC 6902 */
#define CAPSTAN_PATCH_MERGE 1 /* RFC 7386 */

/* "capstan.client/1": live requests. gvk: "apps/v1/StatefulSet". Objects are references as in
 * capstan.cache/1. sub: "" or "status" or "scale". Where `out` may be NULL it says so. */
typedef struct capstan_ext_client {
    capstan_head head;
    capstan_rc (*get)(capstan_call*,
                      capstan_str gvk,
                      capstan_str ns,
                      capstan_str name,
                      const capstan_obj** out) CAPSTAN_NOEXCEPT;
    capstan_rc (*list)(capstan_call*,
                       capstan_str gvk,
                       capstan_str ns,
                       capstan_str selector,
                       capstan_rc (*visit)(void* user, const capstan_obj*),
                       void* user) CAPSTAN_NOEXCEPT;
    /* Server-side apply under the manifest's fieldManager. Not sent when the cached object already
     * equals the intent. out may be NULL. */
    capstan_rc (*apply)(capstan_call*,
                        capstan_str gvk,
                        capstan_str obj_json,
                        capstan_str sub,
                        uint32_t flags,
                        const capstan_obj** out) CAPSTAN_NOEXCEPT;
    /* out may be NULL */
    capstan_rc (*patch)(capstan_call*,
                        capstan_str gvk,
                        capstan_str ns,
                        capstan_str name,
                        int32_t type,
                        capstan_str body,
                        capstan_str sub,
                        const capstan_obj** out) CAPSTAN_NOEXCEPT;
    /* out may be NULL */
    capstan_rc (*create)(capstan_call*,
                         capstan_str gvk,
                         capstan_str obj_json,
                         const capstan_obj** out) CAPSTAN_NOEXCEPT;
    /* obj: from client get in the same call; its uid and resourceVersion become preconditions. A
     * cached object is E_INVALID. options_json: {"propagationPolicy":
     * "Background"|"Foreground"|"Orphan", "gracePeriodSeconds": n} or empty. */
    capstan_rc (*remove)(capstan_call*,
                         const capstan_obj* obj,
                         capstan_str options_json) CAPSTAN_NOEXCEPT;
} capstan_ext_client;

/* "capstan.queue/1": wakes a key of a controller of this plugin (idempotent, keeps the earlier
 * time). E_NOT_FOUND: no such controller. */
typedef struct capstan_ext_queue {
    capstan_head head;
    capstan_rc (*add)(capstan_call*,
                      capstan_str controller,
                      capstan_str ns,
                      capstan_str name,
                      uint64_t after_ns) CAPSTAN_NOEXCEPT;
} capstan_ext_queue;

/* "capstan.events/1": a Kubernetes Event, deduplicated and rate-limited by
 * the host, never blocking. */
typedef struct capstan_event {
    capstan_head head;
    capstan_str gvk, ns, name, uid; /* regarding; uid may be empty */
    capstan_str type;               /* "Normal" or "Warning" */
    capstan_str reason, action, note;
} capstan_event;
typedef struct capstan_ext_events {
    capstan_head head;
    capstan_rc (*emit)(capstan_call*, const capstan_event*) CAPSTAN_NOEXCEPT;
} capstan_ext_events;

/* "capstan.features/1": the manifest's gates; values are frozen for one call. */
typedef struct capstan_ext_features {
    capstan_head head;
    /* 0, 1, or -1: not in the manifest */
    int32_t (*enabled)(capstan_call*, capstan_str gate) CAPSTAN_NOEXCEPT;
} capstan_ext_features;

/* "capstan.clock/1": the only way to wait. */
typedef struct capstan_ext_clock {
    capstan_head head;
    uint64_t (*monotonic_ns)(const capstan_host*) CAPSTAN_NOEXCEPT; /* [any] */
    int64_t (*wall_ns)(const capstan_host*) CAPSTAN_NOEXCEPT;       /* since 1970, UTC. [any] */
    capstan_token* (*token_create)(const capstan_host*)CAPSTAN_NOEXCEPT; /* [any] */
    void (*token_destroy)(capstan_token*) CAPSTAN_NOEXCEPT; /* nobody waits on it. [any] */
    /* OK: notified (also when notify came first: it is kept once). E_DEADLINE: until_ns passed.
     * E_CANCELLED, E_FENCED. token may be NULL: only time and cancellation end the wait. */
    capstan_rc (*wait)(capstan_call*, capstan_token*, uint64_t until_ns) CAPSTAN_NOEXCEPT;
    void (*notify)(capstan_token*) CAPSTAN_NOEXCEPT; /* [any] */
} capstan_ext_clock;

#define CAPSTAN_METRIC_COUNTER 0
#define CAPSTAN_METRIC_GAUGE 1
#define CAPSTAN_METRIC_HISTOGRAM 2

/* "capstan.metrics/1": register in create, use by handle. Label values above the host's cap per
 * metric are folded into "other". */
typedef struct capstan_ext_metrics {
    capstan_head head;
    /* labels: `label_count` names. buckets: upper bounds, ascending, for histograms.
     * Registering the same name again with the same shape gives the same handle. Errors:
     * E_INVALID (name, shape), E_TOO_LARGE. */
    capstan_rc (*add_metric)(const capstan_host*,
                             int32_t type,
                             capstan_str name,
                             capstan_str help,
                             const capstan_str* labels,
                             uint32_t label_count,
                             const double* buckets,
                             uint32_t bucket_count,
                             uint32_t* handle) CAPSTAN_NOEXCEPT;
    /* Counter adds, gauge sets, histogram observes, NaN shows the series. values: by label [any] */
    void (*update)(const capstan_host*,
                   uint32_t handle,
                   const capstan_str* values,
                   uint32_t value_count,
                   double amount) CAPSTAN_NOEXCEPT;
    /* What this plugin registered as Prometheus text 0.0.4, until this thread's next call. [any] */
    capstan_rc (*render)(const capstan_host*, capstan_str* text) CAPSTAN_NOEXCEPT;
} capstan_ext_metrics;

/* "capstan.http/1": outgoing HTTP with the host's TLS. Everything runs on the caller's thread.
 * request_json: {"method","url","headers":{},"timeoutMs",
 *                "tls":{"caPem","certificatePem","keyPem","serverName","insecure"}};
 * the timeout covers the response head. */
typedef struct capstan_ext_http {
    capstan_head head;
    /* body_len: bytes that write will send; 0: none; -1: unknown (chunked). */
    capstan_rc (*open)(capstan_call*, capstan_str request_json, int64_t body_len, capstan_http**)
        CAPSTAN_NOEXCEPT;
    capstan_rc (*write)(capstan_http*, capstan_str bytes) CAPSTAN_NOEXCEPT;
    /* Waits for the head; headers_json: {"content-type": "…"}, lower-case names, until close. */
    capstan_rc (*await_head)(capstan_http*,
                             int32_t* status,
                             capstan_str* headers_json) CAPSTAN_NOEXCEPT;
    /* Up to cap bytes; *n = 0 with OK is the end. E_DEADLINE: until_ns passed, it stays open. */
    capstan_rc (*read)(capstan_http*, char* buffer, uint64_t cap, uint64_t until_ns, uint64_t* n)
        CAPSTAN_NOEXCEPT;
    void (*close)(capstan_http*) CAPSTAN_NOEXCEPT; /* always; cancels what is not finished */
} capstan_ext_http;

/* "capstan.http-server/1", host side: the exchange given to capstan_plugin_http_server.handle. */
typedef struct capstan_ext_http_server {
    capstan_head head;
    /* {"method","target","path","query","headers":{},"remote","tls","certificate","commonName",
     * "organizations":[]} until handle returns. tls, certificate (a verified client's): bools. */
    capstan_str (*request_json)(capstan_exchange*) CAPSTAN_NOEXCEPT;
    /* *n = 0 with OK is the end. */
    capstan_rc (*read)(capstan_exchange*, char* buffer, uint64_t cap, uint64_t* n) CAPSTAN_NOEXCEPT;
    /* the head of the answer */
    capstan_rc (*respond)(capstan_exchange*,
                          int32_t status,
                          capstan_str headers_json) CAPSTAN_NOEXCEPT;
    /* body, after respond */
    capstan_rc (*write)(capstan_exchange*, capstan_str bytes) CAPSTAN_NOEXCEPT;
    capstan_rc (*end)(capstan_exchange*) CAPSTAN_NOEXCEPT;
} capstan_ext_http_server;

#define CAPSTAN_DIGEST_SHA256 0
#define CAPSTAN_DIGEST_MD5 1
#define CAPSTAN_DIGEST_HMAC_SHA256 2
#define CAPSTAN_DIGEST_CRC32C 3
#define CAPSTAN_DIGEST_BYTES_MAX 32

/* "capstan.digest/1". Not thread-safe per handle. */
typedef struct capstan_ext_digest {
    capstan_head head;
    capstan_rc (*open)(const capstan_host*, int32_t algorithm, capstan_str key, capstan_hash**)
        CAPSTAN_NOEXCEPT;
    capstan_rc (*update)(capstan_hash*, capstan_str bytes) CAPSTAN_NOEXCEPT;
    /* Writes the raw digest (crc32c: 4 bytes, big endian) and frees the handle, also on failure.
     * out has room for CAPSTAN_DIGEST_BYTES_MAX. */
    capstan_rc (*finish)(capstan_hash*, uint8_t* out, uint32_t* out_len) CAPSTAN_NOEXCEPT;
} capstan_ext_digest;

#ifdef __cplusplus
}
#endif
#endif
