/* The reference plugin in C, with libc only: for each Greeting a ConfigMap "<name>-greeting" that
 * holds its text, and a
 * status that names it. The same job as reference_cpp; one test runs both. */
#include "capstan/capstan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 4096

struct capstan_ctl {
    const capstan_ext_call* call;
    const capstan_ext_cache* cache;
    const capstan_ext_client* client;
};

static capstan_str str(const char* text) {
    capstan_str s;
    s.ptr = text;
    s.len = strlen(text);
    return s;
}

static const void* extension(const capstan_host* host, const char* id) {
    return host->get_ext(host, str(id));
}

static capstan_rc create(const capstan_host* host, capstan_str config_json, capstan_ctl** out) {
    capstan_ctl* ctl = malloc(sizeof *ctl);
    (void)config_json;
    if (ctl == NULL) {
        return CAPSTAN_E_INTERNAL;
    }
    ctl->call = extension(host, "capstan.call/1");
    ctl->cache = extension(host, "capstan.cache/1");
    ctl->client = extension(host, "capstan.client/1");
    if (ctl->call == NULL || ctl->cache == NULL || ctl->client == NULL) {
        host->log(host, CAPSTAN_LOG_ERROR, str("the host lacks an extension"), str(""));
        free(ctl);
        return CAPSTAN_E_UNSUPP;
    }
    *out = ctl;
    return CAPSTAN_OK;
}

static capstan_rc start(capstan_ctl* ctl) {
    (void)ctl;
    return CAPSTAN_OK;
}

/* Applies the formatted JSON; it is built from raw JSON fields, so their quoting stays right. */
static capstan_rc apply(capstan_ctl* ctl,
                        capstan_call* call,
                        const char* gvk,
                        const char* sub,
                        const char* json,
                        int length,
                        size_t room) {
    if (length < 0 || (size_t)length >= room) {
        return CAPSTAN_E_TOO_LARGE;
    }
    return ctl->client->apply(call, str(gvk), str(json), str(sub), 0, NULL);
}

static capstan_rc converge(capstan_ctl* ctl,
                           capstan_call* call,
                           const capstan_request* request,
                           const capstan_obj* greeting) {
    char json[2 * TEXT_BYTES_MAX];
    capstan_str text, uid;
    capstan_rc rc;
    int length;
    if (ctl->cache->field(greeting, str("/spec/text"), &text) != CAPSTAN_OK) {
        text = str("\"\"");
    }
    if (text.len > TEXT_BYTES_MAX ||
        ctl->cache->field(greeting, str("/metadata/uid"), &uid) != CAPSTAN_OK) {
        return CAPSTAN_E_INVALID;
    }
    length = snprintf(
        json,
        sizeof json,
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\","
        "\"metadata\":{\"namespace\":\"%.*s\",\"name\":\"%.*s-greeting\","
        "\"ownerReferences\":[{\"apiVersion\":\"demo.capstan.dev/v1\",\"kind\":\"Greeting\","
        "\"name\":\"%.*s\",\"uid\":%.*s,\"controller\":true}]},"
        "\"data\":{\"text\":%.*s}}",
        (int)request->ns.len,
        request->ns.ptr,
        (int)request->name.len,
        request->name.ptr,
        (int)request->name.len,
        request->name.ptr,
        (int)uid.len,
        uid.ptr,
        (int)text.len,
        text.ptr);
    rc = apply(ctl, call, "v1/ConfigMap", "", json, length, sizeof json);
    if (rc != CAPSTAN_OK) {
        return rc;
    }
    length = snprintf(json,
                      sizeof json,
                      "{\"apiVersion\":\"demo.capstan.dev/v1\",\"kind\":\"Greeting\","
                      "\"metadata\":{\"namespace\":\"%.*s\",\"name\":\"%.*s\"},"
                      "\"status\":{\"configMap\":\"%.*s-greeting\"}}",
                      (int)request->ns.len,
                      request->ns.ptr,
                      (int)request->name.len,
                      request->name.ptr,
                      (int)request->name.len,
                      request->name.ptr);
    return apply(ctl, call, "demo.capstan.dev/v1/Greeting", "status", json, length, sizeof json);
}

static capstan_rc reconcile(capstan_ctl* ctl, capstan_call* call, const capstan_request* request) {
    const capstan_obj* greeting = NULL;
    capstan_rc rc = ctl->cache->get(
        call, str("demo.capstan.dev/Greeting"), request->ns, request->name, &greeting);
    if (rc == CAPSTAN_E_NOT_FOUND) {
        return CAPSTAN_OK; /* deleted; what it owned goes with it */
    }
    if (rc != CAPSTAN_OK) {
        return rc;
    }
    rc = converge(ctl, call, request, greeting);
    ctl->cache->release(greeting);
    return rc;
}

static capstan_rc stop(capstan_ctl* ctl, uint64_t deadline_ns) {
    (void)ctl;
    (void)deadline_ns;
    return CAPSTAN_OK;
}

static void destroy(capstan_ctl* ctl) {
    free(ctl);
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
        NULL};
    if (host->head.abi >> 16 != CAPSTAN_ABI_MAJOR) {
        host->refuse(host, CAPSTAN_E_UNSUPP, str("this plugin speaks ABI major 1 only"));
        return NULL;
    }
    return &plugin;
}
