"""Writes events of the shape of JSONBench: what users of a social network do, a JSON document a line.

    python3 make.py 1000000 events.ndjson

The same number of rows gives the same bytes. The documents have 10 to 30 scalars: posts with texts, replies and
languages, likes and reposts, follows, deletions, and events of accounts.
"""

import json
import random
import sys

LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
WORDS = (
    "the of and to in is you that it he was for on are as with his they I at be this have from or one had by word but "
    "not what all were we when your can said there use an each which she do how their if will up other about out many "
    "then them these so some her would make like him into time has look two more write go see number no way could "
    "people my than first water been call who oil its now find long down day did get come made may part"
).split()
KINDS = [
    ("app.bsky.feed.post", 0.10),
    ("app.bsky.feed.like", 0.45),
    ("app.bsky.graph.follow", 0.28),
    ("app.bsky.feed.repost", 0.10),
    ("app.bsky.graph.block", 0.03),
    ("app.bsky.actor.profile", 0.02),
    ("app.bsky.graph.listitem", 0.015),
    ("app.bsky.feed.threadgate", 0.005),
]
START_US = 1_732_206_349_000_000


class Events:
    def __init__(self, rows):
        self.random = random.Random(1)
        self.users = ["did:plc:" + self.word(24) for _ in range(max(rows // 8, 10))]
        self.names = [kind for kind, _ in KINDS]
        self.weights = [weight for _, weight in KINDS]

    def word(self, length):
        bits = self.random.getrandbits(5 * length)
        return "".join(LETTERS[(bits >> (5 * at)) & 31] for at in range(length))

    def user(self):
        # Few users do most of what happens.
        return self.users[int(len(self.users) * self.random.random() ** 3)]

    def link(self, kind):
        return {"cid": "bafyrei" + self.word(52), "uri": f"at://{self.user()}/{kind}/{self.word(13)}"}

    def text(self):
        words = self.random.choices(WORDS, k=self.random.randrange(3, 30))
        text = " ".join(words)
        return text + self.random.choice(["", "", "\n\n#hello", " 😀", ' "so"', " é"])

    def record(self, kind, at_us):
        seconds = at_us // 1_000_000 % 86_400
        created = f"2024-11-21T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{at_us // 1000 % 1000:03}Z"
        record = {"$type": kind, "createdAt": created}
        if kind == "app.bsky.feed.post":
            record["langs"] = [self.random.choice(["en", "en", "ja", "pt", "de"])]
            if self.random.random() < 0.4:
                record["reply"] = {"parent": self.link(kind), "root": self.link(kind)}
            record["text"] = self.text()
        elif kind in ("app.bsky.feed.like", "app.bsky.feed.repost"):
            record["subject"] = self.link("app.bsky.feed.post")
        elif kind == "app.bsky.actor.profile":
            record["displayName"] = self.text()[:30]
            record["description"] = self.text()
        else:
            record["subject"] = self.user()
        return record

    def event(self, at_us):
        event = {"did": self.user(), "time_us": at_us}
        if self.random.random() < 0.01:
            event["kind"] = "account"
            event["account"] = {
                "active": self.random.random() < 0.9,
                "did": event["did"],
                "seq": self.random.randrange(10**10),
                "time": "2024-11-21T16:25:49.000Z",
            }
            return event
        event["kind"] = "commit"
        kind = self.random.choices(self.names, self.weights)[0]
        commit = {"rev": self.word(13), "operation": "create", "collection": kind, "rkey": self.word(13)}
        if self.random.random() < 0.05:
            commit["operation"] = "delete"
        else:
            commit["record"] = self.record(kind, at_us)
            commit["cid"] = "bafyrei" + self.word(52)
        event["commit"] = commit
        return event


def main():
    rows, path = int(sys.argv[1]), sys.argv[2]
    events = Events(rows)
    at_us = START_US
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(rows):
            # A day has about ten million events.
            at_us += events.random.randrange(17_000)
            out.write(json.dumps(events.event(at_us), separators=(",", ":"), ensure_ascii=False) + "\n")


main()
