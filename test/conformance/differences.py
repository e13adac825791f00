"""Where a server does not do what the conformance suite expects: test -> (servers, reason).

Servers: "embedded", or a version of Kubernetes. Each is told in docs/local.md too; one that no longer differs fails.
"""

EMBEDDED = ("embedded",)

TABLE = {
    "Applies.test_a_body_in_yaml": (EMBEDDED, "bodies are JSON, also for apply: 400"),
    "Schemas.test_duplicate_fields": (EMBEDDED, "a name twice in one JSON object is refused as malformed, whatever fieldValidation says"),
    "Schemas.test_field_validation_of_builtin_kinds": (EMBEDDED, "unknown fields of builtin kinds are kept: their schemas are not known"),
}


def of(server):
    """{test: reason} of that server."""
    return {test: reason for test, (servers, reason) in TABLE.items() if server in servers}
