/* capstan.h is C11 and needs nothing before it. */
#include "capstan/capstan.h"
#include "capstan/cli.h"
#include "capstan/webhook.h"

#include <stddef.h>

_Static_assert(sizeof(capstan_rc) == 4, "codes are 32 bits");
_Static_assert(sizeof(capstan_str) == 16, "a view is a pointer and a length");
_Static_assert(offsetof(capstan_plugin, get_ext) + sizeof(void*) == sizeof(capstan_plugin),
               "get_ext is the last member of 1.0");

/* Passes a table through CAPSTAN_HAS as a C plugin would. */
int capstan_header_in_c(const capstan_plugin* plugin);
int capstan_header_in_c(const capstan_plugin* plugin) {
    return CAPSTAN_HAS(plugin, get_ext) ? 1 : 0;
}
