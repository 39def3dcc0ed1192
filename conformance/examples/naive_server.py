#!/usr/bin/env python3
"""A lock server as one writes it at the first try: it works, and it is wrong in many ways.

It is here to show what the conformance suite says to such a server; README.md has the report. Do not use it.

    python3 naive_server.py 5225
"""

import base64
import os
import socketserver
import struct
import sys
import threading
import time


class Locks:
    """All holds: key -> (token, deadline). Waiters poll."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.holds = {}
        self.tokens = 0

    def try_acquire(self, key, lease):
        with self.mutex:
            hold = self.holds.get(key)
            if hold and hold[1] > time.monotonic():
                return None
            self.tokens += 1
            self.holds[key] = (self.tokens, time.monotonic() + lease)
            return self.tokens

    def release(self, key, token):
        with self.mutex:
            hold = self.holds.get(key)
            if not hold or hold[0] != token:
                return False
            del self.holds[key]
            return True


LOCKS = Locks()


class Connection(socketserver.StreamRequestHandler):
    def setup(self):
        super().setup()
        self.writing = threading.Lock()

    def send(self, frame):
        with self.writing:
            self.wfile.write(frame + b"\n")

    def handle(self):
        nonce = base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=")
        self.send(b"sha256 " + nonce)
        if len(self.rfile.readline().rstrip()) != 43:
            self.send(b"Ebad_request")
            return
        # A frame ends with a line feed, so read lines.
        for line in self.rfile:
            if not self.execute(line.rstrip(b"\r\n")):
                return

    def execute(self, line):
        if not line:
            return True
        if line[:1] == b"A" and len(line) >= 11:
            wait, lease, owner = struct.unpack(">BBQ", line[1:11])
            return self.acquire(wait, lease, owner, line[11:])
        if line[:1] == b"R" and len(line) >= 9:
            (token,) = struct.unpack(">Q", line[1:9])
            op = b"R" if LOCKS.release(line[9:], token) else b"N"
            self.send(op + line[1:])
            return True
        self.send(b"Ebad_op")
        return False

    def acquire(self, wait, lease, owner, key):
        if owner == 0:
            self.send(b"Ebad_request")
            return False
        if not 1 <= lease <= 250:
            self.send(b"Ebad_lease")
            return True
        if not 1 <= len(key.decode(errors="replace")) <= 128 or b" " in key:
            self.send(b"Ebad_key")
            return True
        token = LOCKS.try_acquire(key, lease)
        if token or wait == 0:
            self.answer(token, owner, key)
        else:
            waiting = threading.Thread(target=self.wait, args=(wait, lease, owner, key))
            waiting.daemon = True
            waiting.start()
        return True

    def wait(self, wait, lease, owner, key):
        deadline = time.monotonic() + wait
        token = None
        while not token and time.monotonic() < deadline:
            time.sleep(0.05)
            token = LOCKS.try_acquire(key, lease)
        try:
            self.answer(token, owner, key)
        except (OSError, ValueError):
            pass  # The client is gone.

    def answer(self, token, owner, key):
        if token:
            self.send(struct.pack(">cQQ", b"A", token, owner) + key)
        else:
            self.send(struct.pack(">cQ", b"T", owner) + key)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = True


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 5225
    with Server(("127.0.0.1", port), Connection) as server:
        server.serve_forever()
