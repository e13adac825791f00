"""A raw client of a Kubernetes API server: HTTPS, JSON and a client certificate. Standard library only.

One connection is kept for all requests of an `Api`; each watch has its own. One thread.
"""
import base64
import http.client
import json
import os
import pathlib
import ssl
import tempfile
import time
import urllib.parse

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TIMEOUT_SECONDS = 30


def load_kubeconfig(path):
    """(server, CA, certificate, key), the last three as PEM bytes. JSON, as capstan and control_plane.py write it."""
    document = json.loads(pathlib.Path(path).read_text())
    found = {**document["clusters"][0]["cluster"], **document["users"][0]["user"]}
    data = [base64.b64decode(found[name]) for name in
            ("certificate-authority-data", "client-certificate-data", "client-key-data")]
    return found["server"], *data


class Answer:
    """Status code, headers and the body: parsed where it is JSON, else text."""

    def __init__(self, code, headers, text):
        self.code = code
        self.headers = headers
        self.text = text
        try:
            self.body = json.loads(text)
        except ValueError:
            self.body = text

    def __getitem__(self, path):
        """The value at a dotted path, None where there is none: answer["metadata.name"]."""
        value = self.body
        for part in path.split("."):
            if isinstance(value, list):
                value = value[int(part)] if int(part) < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    @property
    def causes(self):
        """(reason, field) of a Status, sorted."""
        found = self["details.causes"] or []
        return sorted((cause.get("reason"), cause.get("field")) for cause in found)

    def __repr__(self):
        return f"{self.code} {self.text[:2000]}"


def with_query(path, query):
    pairs = [(key, value) for key, value in query.items() if value is not None]
    return path + (("&" if "?" in path else "?") + urllib.parse.urlencode(pairs) if pairs else "")


class Watch:
    """An open watch. `next` gives events in order; None when the server has ended the stream."""

    def __init__(self, connection, answer):
        self.connection = connection
        self.answer = answer

    def next(self, limit=10.0):
        """The next event within `limit` seconds, else TimeoutError."""
        self.connection.sock.settimeout(limit)
        line = self.answer.readline()
        return json.loads(line) if line.strip() else None

    def until(self, wanted, limit=10.0):
        """Events up to and including the first for which `wanted` holds; fails after `limit` seconds."""
        events = []
        end = time.monotonic() + limit
        while True:
            event = self.next(max(0.1, end - time.monotonic()))
            if event is None:
                raise AssertionError(f"the watch ended; seen: {events}")
            events.append(event)
            if wanted(event):
                return events

    def close(self):
        self.connection.close()


class Api:
    """Requests with the identity of a kubeconfig; `token` replaces the certificate by a bearer token."""

    def __init__(self, kubeconfig=None, token=None, anonymous=False):
        server, ca, certificate, key = load_kubeconfig(kubeconfig or os.environ["KUBECONFIG"])
        parsed = urllib.parse.urlsplit(server)
        self.host, self.port = parsed.hostname, parsed.port
        self.context = ssl.create_default_context(cadata=ca.decode())
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        if not token and not anonymous:
            with tempfile.NamedTemporaryFile() as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                self.context.load_cert_chain(file.name)
        self.connection = None

    def open(self):
        return http.client.HTTPSConnection(self.host, self.port, context=self.context, timeout=TIMEOUT_SECONDS)

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def request(self, method, path, body=None, content_type=JSON, accept=None, headers=None, **query):
        """The answer; `body` is a value to be sent as JSON, or text or bytes as they are."""
        data = body if body is None or isinstance(body, bytes) else \
            (body if isinstance(body, str) else json.dumps(body)).encode()
        sent = {**self.headers, "User-Agent": "conformance/1"}
        if data is not None:
            sent["Content-Type"] = content_type
        if accept:
            sent["Accept"] = accept
        sent.update(headers or {})
        for last in (False, True):
            fresh = self.connection is None
            if fresh:
                self.connection = self.open()
            try:
                self.connection.request(method, with_query(path, query), data, sent)
                answer = self.connection.getresponse()
                return Answer(answer.status, answer.headers, answer.read().decode())
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.close()  # an idle connection may have been closed by the server
                if fresh or last:
                    raise
        raise AssertionError("unreachable")

    def get(self, path, **query):
        return self.request("GET", path, **query)

    def post(self, path, body, **query):
        return self.request("POST", path, body, **query)

    def put(self, path, body, **query):
        return self.request("PUT", path, body, **query)

    def delete(self, path, body=None, **query):
        return self.request("DELETE", path, body, **query)

    def patch(self, path, body, content_type=MERGE, **query):
        return self.request("PATCH", path, body, content_type=content_type, **query)

    def apply(self, path, body, manager, **query):
        return self.request("PATCH", path, body, content_type=APPLY, fieldManager=manager, **query)

    def watch(self, path, **query):
        """An open watch, or the answer that refused it."""
        connection = self.open()
        connection.request("GET", with_query(path, {"watch": "true", **query}), headers=self.headers)
        answer = connection.getresponse()
        if answer.status != 200:
            refused = Answer(answer.status, answer.headers, answer.read().decode())
            connection.close()
            return refused
        return Watch(connection, answer)


def eventually(what, probe, limit=20.0):
    """The first true result of `probe`; fails in the words of `what` after `limit` seconds."""
    end = time.monotonic() + limit
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {limit:g} s; last: {found!r}")
        time.sleep(0.05)
