#!/usr/bin/python3
"""Prints random requests with their AWS Signature Version 4, computed here from the description in the S3 API
reference with Python's own libraries: rows for sigv4_test.cpp. The seed is fixed."""
import hashlib
import hmac
import json
import random
import sys
import urllib.parse

ROWS, SEED = 200, 20130524


def sign(row):
    def digest(text):
        return hashlib.sha256(text.encode()).hexdigest()

    quote = urllib.parse.quote
    query = "&".join("=".join(pair) for pair in sorted((quote(k, safe="-_.~"), quote(v, safe="-_.~")) for k, v in row["query"]))
    headers = sorted((name.lower(), " ".join(part for part in value.split(" ") if part)) for name, value in row["headers"])
    names = ";".join(name for name, _ in headers)
    canonical = "\n".join([row["method"], row["path"], query, "".join(f"{n}:{v}\n" for n, v in headers), names, row["payload"]])
    scope = "/".join([row["date"][:8], row["region"], row["service"], "aws4_request"])
    text = "\n".join(["AWS4-HMAC-SHA256", row["date"], scope, digest(canonical)])
    key = ("AWS4" + row["secretKey"]).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return f"AWS4-HMAC-SHA256 Credential={row['accessKey']}/{scope}, SignedHeaders={names}, Signature={signature}"


def make_row(rng):
    def word(letters="abcXYZ019-_.~", low=1, high=12):
        return "".join(rng.choice(letters) for _ in range(rng.randint(low, high)))

    odd = "aB0 /+=&%$~-é€\t\"'<>?#;:@"
    payload = hashlib.sha256(word(odd, 0, 40).encode()).hexdigest()
    headers = [["host", word("abc.-") + ":" + str(rng.randint(1, 65535))], ["x-amz-content-sha256", payload]]
    headers += [[f"x-amz-{index}{word('abc')}", word("ab cd=  ,;", 0, 20)] for index in range(rng.randint(0, 3))]
    row = {
        "method": rng.choice(["GET", "PUT", "POST", "DELETE", "HEAD"]),
        "path": "/" + urllib.parse.quote(word(odd, 0, 30), safe="/-_.~"),
        "query": [[word(odd), word(odd, 0)] for _ in range(rng.randint(0, 4))],
        "headers": headers,
        "payload": payload,
        "date": f"20{rng.randint(10, 99)}0{rng.randint(1, 9)}1{rng.randint(0, 9)}T0{rng.randint(0, 9)}0000Z",
        "region": word("abc-1"),
        "service": rng.choice(["s3", "sts"]),
        "accessKey": word("ABCDEF", 16, 20),
        "secretKey": word("abcDEF+/", 20, 40),
    }
    row["authorization"] = sign(row)
    return row


def main():
    rng = random.Random(SEED)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump([make_row(rng) for _ in range(ROWS)], out)


if __name__ == "__main__":
    main()
