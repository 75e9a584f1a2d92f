# SPDX-License-Identifier: Apache-2.0
"""load_hostile.py PORT SECRET SECONDS ATTACKS: one caller who means no good, for load.py.
ATTACKS is a list of numbers, all of which are done at once until the time is over; what the
daemon said to each is printed as JSON: {"1": {"begun": 20, "200": 17, "OSError": 3}, …}. Its patience and
its memory are its own: nothing of what it gets is kept. So is its processor: a stranger has a
machine of their own, and so it takes of this one only what nobody else wants."""
import collections
import http.client
import json
import os
import socket
import sys
import threading
import time

from load import weigh

MIB = 1 << 20


class Hostile:
    def __init__(self, port, secret, seconds):
        self.port, self.secret = port, secret
        self.end = time.monotonic() + seconds
        self.said = collections.defaultdict(collections.Counter)

    def going(self):
        return time.monotonic() < self.end

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, token=True, keep=False):
        """Status and body; or, with KEEP, the connection of an answer that nobody reads."""
        c = self.connect()
        headers = {"Authorization": "Bearer " + self.secret} if token else {}
        c.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
        answer = c.getresponse()
        if keep:
            return c
        data = answer.read()
        c.close()
        return answer.status, data

    def raw(self, text):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        s.sendall(text.encode())
        return s

    def session(self, **fields):
        status, data = self.ask("POST", "/v1/sessions", fields)
        return json.loads(data)["id"] if status < 300 else None

    def attempt(self, number, act):
        """Again and again; whatever comes of it is counted."""
        while self.going():
            self.said[number]["begun"] += 1
            try:
                self.said[number][str(act())] += 1
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                self.said[number][type(error).__name__] += 1
                time.sleep(0.05)

    # 1: kept output that is more than was asked for
    def kept_output(self):
        sid = self.session(disk="1m", output_limit="1k")
        if not sid:
            time.sleep(0.2)
            return "refused"
        self.ask("POST", "/v1/sessions/%s/exec?wait=1" % sid,
                 {"shell": "head -c 512m /dev/zero", "timeout": "10s"})
        return self.ask("DELETE", "/v1/sessions/" + sid)[0]

    # 2: answers that grow when they are written
    def large_answer(self):
        return self.ask("POST", "/v1/run", {"language": "bash", "output_limit": "64m",
                                            "code": "head -c 64m /dev/zero"})[0]

    # 3: bodies that grow when they are read
    def large_body(self):
        return self.ask("POST", "/v1/batch", b"[" + b"{}," * (32 * MIB // 3) + b"{}]")[0]

    # 4: strangers who hold bodies, and connections that never come to the point
    def held_body(self):
        with self.raw("POST /v1/run HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                      % (64 * MIB)) as s:
            for _ in range(60):
                if not self.going():
                    break
                s.sendall(b"x" * MIB)
                time.sleep(0.2)
            return "held"

    def small_stranger(self):
        return self.ask("POST", "/v1/run", {"language": "bash", "code": "true"}, token=False)[0]

    def slow_connections(self):
        many = [self.raw("GET /v1/version HTTP/1.1\r\nHost: x\r\nX-Slow: ") for _ in range(300)]
        for _ in range(20):
            time.sleep(1)
            for s in many:
                s.sendall(b"x")
        return "held"

    # 5: more who wait than there are workers
    def waiting(self):
        sid = self.session()
        status, data = self.ask("POST", "/v1/sessions/%s/exec" % sid, {"shell": "sleep 600"})
        exec_id = json.loads(data).get("id")
        head = ("GET /v1/sessions/%s/exec/%s/output?of=stdout&follow=1 HTTP/1.1\r\nHost: x\r\n"
                "Authorization: Bearer %s\r\n\r\n" % (sid, exec_id, self.secret))
        many = []
        try:
            for _ in range(1150):
                many.append(self.raw(head))
            end = time.monotonic() + 20
            while self.going() and time.monotonic() < end:
                time.sleep(0.2)
        finally:
            for s in many:
                s.close()
            self.ask("DELETE", "/v1/sessions/%s" % sid)
        return "held %d" % len(many)

    # 6: sessions that are opened and deleted
    def open_and_delete(self):
        sid = self.session()
        return self.ask("DELETE", "/v1/sessions/" + sid)[0] if sid else "refused"

    # 7: more at once than a caller may have, in sessions as well
    def rush(self):
        made = []

        def one():
            sid = self.session()
            if sid:
                made.append(sid)
        threads = [threading.Thread(target=self.shield, args=(one,)) for _ in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for sid in made:
            for _ in range(4):
                self.ask("POST", "/v1/sessions/%s/exec" % sid, {"shell": "true"})
            self.ask("DELETE", "/v1/sessions/" + sid)
        return "%d at once" % len(made)

    @staticmethod
    def shield(act):
        try:
            act()
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            pass

    # 8: streams that nobody reads
    def unread(self):
        c = self.ask("POST", "/v1/run?stream=1", {"language": "bash", "code": "yes",
                                                  "timeout": "20s"}, keep=True)
        time.sleep(25 if self.end - time.monotonic() > 30 else 1)
        c.close()
        return "unread"

    def threads(self, attacks):
        acts = {1: [(self.kept_output, 4)], 2: [(self.large_answer, 4)], 3: [(self.large_body, 2)],
                4: [(self.held_body, 8), (self.small_stranger, 1), (self.slow_connections, 1)],
                5: [(self.waiting, 1)], 6: [(self.open_and_delete, 4)], 7: [(self.rush, 1)],
                8: [(self.unread, 16)]}
        return [threading.Thread(target=self.attempt, args=(number, act), daemon=True)
                for number in attacks for act, count in acts[number] for _ in range(count)]


def main():
    port, secret, seconds, attacks = sys.argv[1:5]
    weigh(10)
    hostile = Hostile(int(port), secret, float(seconds))
    threads = hostile.threads([int(n) for n in attacks.split(",") if n])
    for t in threads:
        t.start()
    for t in threads:
        t.join(max(0.1, hostile.end + 2 - time.monotonic()))
    print(json.dumps({n: dict(c) for n, c in sorted(hostile.said.items())}))
    sys.stdout.flush()
    os._exit(0)  # what still waits for an answer gets none


if __name__ == "__main__":
    main()
