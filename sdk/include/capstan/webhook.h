/* Admission webhooks of plugins, "capstan.webhook/1": the C side. Rules and thread tags as in
 * capstan.h; C++ plugins use webhook.hpp.
 *
 * The manifest's "webhooks" name what the API server asks about; the host serves TLS, parses the
 * review, and calls `review` on a thread of its own. The plugin answers once through the host's
 * table of the same id. Several reviews run at once.
 */
#ifndef CAPSTAN_WEBHOOK_H
#define CAPSTAN_WEBHOOK_H

#include "capstan/capstan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Valid until review returns. */
typedef struct capstan_admission_request {
    capstan_head head;
    capstan_str webhook;      /* name in the manifest */
    capstan_str request_json; /* `request` of the AdmissionReview, as the API server sent it */
    uint64_t deadline_ns;     /* the API server's time limit, less what the answer needs */
} capstan_admission_request;

/* Empty strings say nothing. */
typedef struct capstan_admission_answer {
    capstan_head head;
    int32_t allowed; /* 1 or 0 */
    int32_t code;    /* of a denial: 400 to 599; 0 means 403 */
    capstan_str message, reason;
    /* Mutating and allowed only: `request.object` as it shall be. The host sends the difference as
     * a JSON Patch, so what the plugin does not know stays as it is. */
    capstan_str object_json;
    capstan_str warnings_json; /* ["…"]; shown to the user, each cut at 256 bytes, 4 KiB in all */
    capstan_str audit_json;    /* {"key":"value"}; audit annotations */
} capstan_admission_answer;

/* Host extension "capstan.webhook/1". */
typedef struct capstan_ext_webhook {
    capstan_head head;
    /* Copies the answer; the first one holds. E_INVALID: not inside a review, a second answer, a
     * code that is none, malformed JSON, an object from a validating webhook, on DELETE or with a
     * denial. E_DEADLINE, E_CANCELLED, E_FENCED: it came too late. [worker] */
    capstan_rc (*answer)(capstan_call*, const capstan_admission_answer*) CAPSTAN_NOEXCEPT;
} capstan_ext_webhook;

/* Plugin extension "capstan.webhook/1". The call reads live (capstan.client/1); the cache answers
 * E_UNAVAIL until the kind is synced and never waits. Writes are E_DENIED as the manifest's
 * "sideEffects" says. Any return but OK after an answer fails the review with code 500. [worker] */
typedef struct capstan_plugin_webhook {
    capstan_head head;
    capstan_rc (*review)(capstan_ctl*,
                         capstan_call*,
                         const capstan_admission_request*) CAPSTAN_NOEXCEPT;
} capstan_plugin_webhook;

#ifdef __cplusplus
}
#endif
#endif
