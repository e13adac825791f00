"""What the stewards' figures are measured on: objects like those of Kubernetes, their events, and deltas made without etcd."""
import base64
import gzip
import hashlib
import http.client
import json
import random
import threading

OBJECT_BYTES, EVENT_BYTES = 8192, 1000
TXN_BYTES = 512 << 10  # etcd takes requests of 1.5 MiB
EVENT_KEYS = 50_000
WRITERS = 8
EVENTS_PER_DELTA = 20_000
WORDS = ("metadata namespace labels annotations spec containers image resources limits requests cpu memory volumeMounts name "
         "readOnly mountPath env valueFrom secretKeyRef configMapKeyRef livenessProbe readinessProbe httpGet path port scheme "
         "initialDelaySeconds periodSeconds securityContext runAsUser capabilities tolerations nodeSelector affinity status "
         "conditions lastTransitionTime message reason observedGeneration ownerReferences uid controller").split()


def encode(data):
    return base64.b64encode(data).decode()


class Values:
    """Texts as JSON objects have them: repeated words, and an eighth that nobody can guess."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.texts = [" ".join(f'"{self.chance.choice(WORDS)}":"{self.chance.choice(WORDS)}-{self.chance.randrange(1000)}",'
                               for _ in range(OBJECT_BYTES // 12)).encode() for _ in range(64)]

    def next(self, size):
        unique = self.chance.randbytes(size // 16).hex().encode()
        text = self.chance.choice(self.texts)
        return unique + text[:size - len(unique)]


class Load:
    """Writes through the JSON gateway, as fast as it takes them."""

    def __init__(self, port, seed):
        self.port, self.values = port, Values(seed)

    def all(self, requests):
        """Sends (path, body) of an iterator from WRITERS connections."""
        lock, failures = threading.Lock(), []

        def write():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            while not failures:
                with lock:
                    request = next(requests, None)
                if request is None:
                    break
                connection.request("POST", f"/v3/kv/{request[0]}", json.dumps(request[1]), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = answer.read()
                if answer.status != 200:
                    failures.append(f"{request[0]}: {answer.status} {said[:300]}")
            connection.close()

        threads = [threading.Thread(target=write) for _ in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise RuntimeError(failures[0])

    def base(self, size):
        per_txn = TXN_BYTES // OBJECT_BYTES

        def txns():
            for first in range(0, size // OBJECT_BYTES, per_txn):
                yield "txn", {"success": [{"request_put": {"key": encode(b"/registry/pods/%08d" % number),
                                                           "value": encode(self.values.next(OBJECT_BYTES))}}
                                          for number in range(first, first + per_txn)]}
        self.all(txns())

    def events(self, count):
        """One revision each."""
        self.all(("put", {"key": encode(b"/registry/events/%06d" % (number % EVENT_KEYS)),
                          "value": encode(self.values.next(EVENT_BYTES))}) for number in range(count))


def write_deltas(directory, revision, count, seed):
    """`count` events after `revision`, one revision each, of keys that the full does not have."""
    values, known = Values(seed + 1), {}
    for first in range(0, count, EVENTS_PER_DELTA):
        events = []
        for number in range(first, min(first + EVENTS_PER_DELTA, count)):
            key = b"/registry/later/%06d" % values.chance.randrange(EVENT_KEYS)
            at = revision + 1 + number
            created, version = known.get(key, (at, 0))
            known[key] = (created, version + 1)
            events.append('{"etcdEvent":{"kv":{"key":"%s","create_revision":%d,"mod_revision":%d,"version":%d,"value":"%s"}},'
                          '"time":"2026-11-30T00:00:00.123456789Z"}'
                          % (encode(key), created, at, version + 1, encode(values.next(EVENT_BYTES))))
        payload = f"[{','.join(events)}]".encode()
        start, last = revision + 1 + first, revision + first + len(events)
        stored = gzip.compress(payload + hashlib.sha256(payload).digest(), 6)
        (directory / f"Incr-{start:08d}-{last:08d}-{1796003200 + first}.gz").write_bytes(stored)
