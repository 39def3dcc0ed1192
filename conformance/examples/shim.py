#!/usr/bin/env python3
"""A small Ticketing client, and the shim with which `ticketing-conformance client` judges it.

    ticketing-conformance client -- python3 shim.py

To judge a client of your own, keep the last part of this file, `Shim`, and put your client in the place of `Client`.
What your client does not have, the shim answers by ending with code 89: those cases are not run then.

It is one file, needs Python 3.8 and nothing else, and may be copied freely. Ids such as CA-3 are clauses of SPEC.md.
"""

import base64
import hashlib
import itertools
import json
import math
import os
import queue
import random
import re
import selectors
import socket
import struct
import sys
import threading
import time

MAX_FRAME = 192  # FR-5
HEADERS = {b"A": 16, b"T": 8, b"B": 8, b"R": 8, b"N": 8, b"M": 0, b"L": 0, b"E": 0}
REASONS = {
    b"auth_failed", b"bad_op", b"bad_request", b"line_too_long", b"bad_key", b"bad_lease", b"not_active", b"no_leader",
}
MAX_COMPENSATIONS = 512  # CR-3


def now():
    """Seconds of a clock that goes on while the host sleeps, where there is one (CD-5)."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Refused(Exception):
    """What is wrong with a call before anything is sent: the name of a result, and its details."""

    def __init__(self, result, **details):
        super().__init__(result)
        self.result, self.details = result, details


class ProtocolError(Exception):
    """What no server may send; it ends the connection (FR-10)."""


# The wire.


def response(token, line):
    """The answer to a challenge (AU-2), or ProtocolError if it must not be answered (AU-7)."""
    match = re.fullmatch(rb"sha256 ([A-Za-z0-9_-]{8,128})", line)
    if not match:
        raise ProtocolError("a challenge that is not answered")
    digest = hashlib.sha256(token + match[1]).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=") + b"\n"


def acquire_frame(wait, lease, owner, key):
    return b"A" + struct.pack(">BBQ", wait, lease, owner) + key + b"\n"


def release_frame(token, key):
    return b"R" + struct.pack(">Q", token) + key + b"\n"


def replies(buffer):
    """Takes whole frames from the front of a bytearray: tuples of op, header and body."""
    while True:
        while buffer[:1] == b"\n":  # FR-4
            del buffer[:1]
        if not buffer:
            return
        op = bytes(buffer[:1])
        if op not in HEADERS:
            raise ProtocolError("an unknown op")
        start = 1 + HEADERS[op]
        end = buffer.find(b"\n", start)  # FR-2: the header is read by count
        if (end if end >= 0 else len(buffer)) > MAX_FRAME:
            raise ProtocolError("an oversized frame")
        if end < 0:
            return
        header, body = bytes(buffer[1:start]), bytes(buffer[start:end])
        del buffer[: end + 1]
        yield op, header, body


def check_reply_key(key):
    """FI-4"""
    try:
        key.decode()
    except UnicodeDecodeError:
        raise ProtocolError("a key that is not UTF-8")
    if not 1 <= len(key) <= 128 or b" " in key:
        raise ProtocolError("a key that is none")


def address_of(text):
    """`host:port` in lower case, or ProtocolError (CC-2)."""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^:\[\]\s]+):(\d{1,5})", text.decode("ascii", "replace"))
    if not match or not 1 <= int(match[2]) <= 65535:
        raise ProtocolError("a leader that is not host:port")
    return match[0].lower()


# What a caller asks for.


def check_key(text):
    """CK-1"""
    key = text.encode()
    if not key:
        raise Refused("invalid_key", rule="empty")
    if len(key) > 128:
        raise Refused("invalid_key", rule="too_long", bytes=len(key))
    for byte, rule in ((b" ", "space"), (b"\n", "lf"), (b"\r", "cr")):
        if byte in key:
            raise Refused("invalid_key", rule=rule)
    return key


def check_span(field, ms, low, high, unit_ms=1000):
    """Milliseconds, rounded up to whole units and then checked (CD-1). Nothing is clamped."""
    units = -(-ms // unit_ms)
    if not low * 1000 <= units * unit_ms <= high * 1000:
        raise Refused("unsupported_duration", field=field, max_ms=high * 1000)
    return units


class Acquire:
    """An acquire, until its answer. Without `done` it is a ghost (CA-11)."""

    def __init__(self, key, owner, wait, lease, budget, grace, deadline, done):
        self.key, self.owner, self.wait, self.lease = key, owner, wait, lease
        self.budget, self.grace, self.deadline, self.done = budget, grace, deadline, done
        self.link = None  # the connection that may have carried a byte of it (CA-3)
        self.sent_at = None
        self.pauses = 0
        self.not_before = 0.0

    def tell(self, result, **details):
        done, self.done = self.done, None
        if done:
            done(result, **details)


class Release:
    """A release, until its answer. Without anybody in `dones` it compensates (CR-3)."""

    def __init__(self, key, token, deadline):
        self.key, self.token, self.deadline = key, token, deadline
        self.dones = []
        self.link = None
        self.pauses = 0
        self.not_before = 0.0

    def tell(self, result):
        dones, self.dones = self.dones, []
        for done in dones:
            done(result)


# Connections.


class Link:
    """One of the client's connections, through all its sessions."""

    def __init__(self, address):
        self.address = address
        self.state = "waiting"  # connecting, greeting, ready, draining
        self.until = now()
        self.session = 0
        self.socket = None
        self.input, self.output = bytearray(), bytearray()
        self.since = 0.0
        self.failures = 0
        self.failure = None


class Client:
    """A client of the nodes at `addresses`. It lives in `turn`; every call and every `done` is on that thread.

    `done(result, **details)` is called once, also from within the call. A ticket is told as `done("ticket",
    token=..., valid_until=...)`; it has to be given to `release` or to `drop`.
    """

    def __init__(self, addresses, token=b"", max_in_flight=1024):
        self.token, self.max_in_flight = token, max_in_flight
        self.addresses = [address.lower() for address in addresses]
        each = 2 if len(addresses) == 1 else 1  # CC-1
        self.links = [Link(address) for address in addresses for _ in range(each)]
        self.owners = itertools.count(1)  # CO-1; 2**64 of them are more than a process can use
        self.acquires = {}  # by owner, in the order of the calls
        self.releases = {}  # by token
        self.tickets = {}  # live ones: token to key
        self.leader = None
        self.turns = 0
        self.closing_until = None
        self.when_closed = None
        self.is_closed = False
        self.selector = selectors.DefaultSelector()
        self.calls = queue.Queue()
        wake, self.waker = socket.socketpair()
        wake.setblocking(False)
        self.selector.register(wake, selectors.EVENT_READ, lambda: wake.recv(4096))

    # What callers do.

    def acquire(self, key, budget_ms, done, wait_ms=0, lease_ms=30_000, grace_ms=0, may_wait=True):
        """Asks for a lock; gives what `cancel` takes. Raises Refused, and then nothing was or will be sent."""
        key = check_key(key)
        wait = check_span("wait", wait_ms, 0, 255)
        lease = check_span("lease", lease_ms, 1, 250)
        budget = check_span("min_work_budget", budget_ms, 0, 250, unit_ms=1) / 1000
        grace = check_span("response_grace", grace_ms, 0, 10, unit_ms=1) / 1000
        if budget > lease:
            raise Refused("insufficient_lease")
        if self.closing_until is not None:
            raise Refused("closed")
        if self.is_refused():
            raise Refused("auth")
        if not may_wait and len(self.acquires) >= self.max_in_flight:
            raise Refused("client_capacity")
        # CA-1; a wait of 0 has 5 s for its transport (CA-6).
        acquire = Acquire(key, next(self.owners), wait, lease, budget, grace, now() + (wait or 5), done)
        self.acquires[acquire.owner] = acquire
        return acquire

    def cancel(self, acquire):
        """The caller does not want it any more (CA-11)."""
        acquire.done = None
        if acquire.link is None:
            self.acquires.pop(acquire.owner, None)

    def release(self, key, token, done):
        """Gives a lock back; `done` is told released, not_held or unconfirmed."""
        self.tickets.pop(token, None)
        if self.is_closed:
            return done("unconfirmed")
        release = self.releases.setdefault(token, Release(key, token, now() + 5))  # CR-1, CR-2
        release.dones.append(done)

    def drop(self, key, token):
        """Gives a lock back without waiting for what becomes of it (CR-3)."""
        self.tickets.pop(token, None)
        self.compensate(key, token)

    def compensate(self, key, token):
        unwaited = sum(not release.dones for release in self.releases.values())
        if not self.is_closed and unwaited < MAX_COMPENSATIONS:
            self.releases.setdefault(token, Release(key, token, now() + 5))

    def close(self, done):
        """CC-6"""
        self.closing_until, self.when_closed = now() + 5, done
        for acquire in list(self.acquires.values()):
            if acquire.link is None:
                self.end(acquire, "closed")
            else:
                acquire.tell("indeterminate")

    def call(self, function, *arguments):
        """Has a function called on the client's thread; the only method that other threads may use."""
        self.calls.put((function, arguments))
        self.waker.send(b"!")

    # The loop.

    def turn(self):
        """Waits for something to do, and does it. Input comes before deadlines (CA-7)."""
        for key, _ in self.selector.select(self.time_left()):
            key.data()
        while not self.calls.empty():
            function, arguments = self.calls.get()
            function(*arguments)
        self.keep_deadlines(now())
        self.send_all()
        self.end_close(now())

    def time_left(self):
        moments = [link.until for link in self.links if link.until is not None]
        for acquire in self.acquires.values():
            moments.append(acquire.deadline + (acquire.grace if acquire.link else 0))
            if acquire.link is None and acquire.not_before:
                moments.append(acquire.not_before)
        for release in self.releases.values():
            moments.append(release.not_before if release.link is None and release.not_before else release.deadline)
        if self.closing_until is not None and not self.is_closed:
            moments.append(self.closing_until)
        return max(0, min(moments) - now()) if moments else None

    def keep_deadlines(self, t):
        for acquire in list(self.acquires.values()):
            if acquire.link is None and t >= acquire.deadline:
                self.end(acquire, self.why_unsent())  # CA-4
            elif acquire.link and t >= acquire.deadline + acquire.grace:
                acquire.tell("indeterminate")
                self.drain(acquire.link, "overdue")
        for release in list(self.releases.values()):
            if t >= release.deadline:
                del self.releases[release.token]
                release.tell("unconfirmed")
        for link in self.links:
            if link.until is not None and t >= link.until:
                if link.state == "waiting":
                    self.connect(link)
                else:
                    self.end_session(link, link.failure if link.state == "draining" else "handshake")

    def why_unsent(self):
        if any(link.state == "ready" for link in self.links):
            return "timeout"
        failures = {link.failure for link in self.links}
        return next((failure for failure in ("auth", "protocol") if failure in failures), "timeout")

    def end(self, acquire, result, **details):
        self.acquires.pop(acquire.owner, None)
        acquire.tell(result, **details)

    def end_close(self, t):
        if self.closing_until is None or self.is_closed:
            return
        if (self.acquires or self.releases or self.tickets) and t < self.closing_until:
            return
        self.is_closed = True
        for release in self.releases.values():
            release.tell("unconfirmed")
        self.releases.clear()
        for link in self.links:
            self.hang_up(link)
            link.state, link.until = "closed", None
        self.when_closed("closed")

    # Sending.

    def route(self):
        """The connection for the next request (CC-2), or None."""
        at_leader = [link for link in self.links if link.address.lower() == self.leader]
        ready = [link for link in at_leader if link.state == "ready" and not link.output]
        if ready or any(link.state in ("connecting", "greeting") and not link.failures for link in at_leader):
            return ready[0] if ready else None
        ready = [link for link in self.links if link.state == "ready" and not link.output]
        self.turns += 1
        return ready[self.turns % len(ready)] if ready else None

    def send_all(self):
        """Releases first, which need no place (CR-4); then acquires, as many as may be in flight (CC-5)."""
        for release in list(self.releases.values()):
            if release.link is None and now() >= release.not_before:
                release.not_before = 0.0
                link = self.route()
                if not link:
                    continue
                if self.send(link, release_frame(release.token, release.key)):
                    release.link = link
        for acquire in list(itertools.islice(self.acquires.values(), self.max_in_flight)):
            if acquire.link is not None or now() < acquire.not_before:
                continue
            acquire.not_before = 0.0
            link = self.route()
            if not link:
                continue
            at = now()
            if at >= acquire.deadline:
                continue
            # What remains, rounded up, stamped at the send (CA-2).
            wait = math.ceil(acquire.deadline - at) if acquire.wait else 0
            if self.send(link, acquire_frame(wait, acquire.lease, acquire.owner, acquire.key)):
                acquire.link, acquire.sent_at = link, at

    def send(self, link, data):
        """Hands bytes to the transport; whether it took one at least (CA-3)."""
        try:
            sent = link.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            # That is no proof that nothing more can be read (CA-9).
            self.drain(link, "lost")
            return False
        if 0 < sent < len(data):
            link.output += data[sent:]
            self.watch(link)
        return sent > 0

    # Receiving.

    def watch(self, link):
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.output else 0)
        self.selector.modify(link.socket, events, lambda: self.handle(link))

    def handle(self, link):
        if link.output:
            rest, link.output = bytes(link.output), bytearray()
            if not self.send(link, rest) and link.state == "ready":
                link.output += rest
            if link.socket:
                self.watch(link)
        while link.socket:
            try:
                data = link.socket.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                return self.end_session(link, "lost")
            link.input += data
            try:
                self.read(link)
            except ProtocolError:
                self.end_session(link, "protocol")

    def read(self, link):
        session = link.session
        if link.state == "greeting":
            end = link.input.find(b"\n")
            if (end if end >= 0 else len(link.input)) > MAX_FRAME:
                raise ProtocolError("an endless challenge")
            if end < 0:
                return
            line = bytes(link.input[:end])
            del link.input[: end + 1]
            answer = response(self.token, line)
            link.state, link.until, link.since, link.failure = "ready", None, now(), None
            if not self.send(link, answer):
                link.output += answer
                self.watch(link)
        for op, header, body in replies(link.input):
            self.handle_reply(link, op, header, body)
            if link.session != session or not link.socket:
                return
        if link.state == "draining" and not self.is_waited_for(link):
            self.end_session(link, link.failure)

    def is_waited_for(self, link):
        return any(it.link is link for it in itertools.chain(self.acquires.values(), self.releases.values()))

    def handle_reply(self, link, op, header, body):
        if op in b"ATBRN":
            check_reply_key(body)
        if op == b"A":
            token, owner = struct.unpack(">QQ", header)
            if not token or not owner:
                raise ProtocolError("a grant without a token or an owner")
            self.handle_grant(link, token, owner, body)
        elif op in b"TB":
            acquire = self.acquires.get(*struct.unpack(">Q", header))
            if not acquire or acquire.link is not link or acquire.key != body:
                raise ProtocolError("an answer that fits no request")
            self.end(acquire, "timeout" if op == b"T" else "busy")  # CA-8
        elif op in b"RN":
            release = self.releases.get(*struct.unpack(">Q", header))
            if release and release.link is link and release.key == body:
                del self.releases[release.token]
                release.tell("released" if op == b"R" else "not_held")  # CR-2
        elif op in b"ML":
            leader = address_of(body) if body or op == b"M" else None
            self.leader = leader if leader in self.addresses else None  # CC-2
            if op == b"M":
                self.redirect(link, "redirected")
        else:
            self.handle_error(link, body)

    def handle_grant(self, link, token, owner, key):
        acquire = self.acquires.get(owner)
        if not acquire or acquire.link is not link or acquire.key != key:
            if token not in self.tickets:
                self.compensate(key, token)
            raise ProtocolError("a grant that nobody asked for")  # CA-13
        t = now()
        left = acquire.sent_at + acquire.lease - acquire.lease / 1000 - t  # CD-3
        if acquire.done and t < acquire.deadline and left >= acquire.budget and left > 0:
            self.tickets[token] = key
            self.end(acquire, "ticket", token=token, valid_until=t + left)
            return
        self.compensate(key, token)
        self.end(acquire, "indeterminate" if t >= acquire.deadline else "insufficient_lease")  # CA-7

    def handle_error(self, link, reason):
        if reason not in REASONS:
            raise ProtocolError("an error that does not exist")
        if reason in (b"auth_failed", b"not_active", b"no_leader"):
            return self.redirect(link, "auth" if reason == b"auth_failed" else "redirected")
        acquires = [acquire for acquire in self.acquires.values() if acquire.link is link]
        releases = [release for release in self.releases.values() if release.link is link]
        if reason not in (b"bad_key", b"bad_lease") or len(acquires) != 1 or releases:
            raise ProtocolError("an error that fits no request")  # FR-10
        self.end(acquires[0], "rejected", reason=reason.decode())

    # Connections.

    def connect(self, link):
        link.session += 1
        link.state, link.until = "connecting", now() + 10  # CC-4
        threading.Thread(target=self.make_socket, args=(link, link.session), daemon=True).start()

    def make_socket(self, link, session):
        """On a thread, as looking up a name blocks: tries each address for 3 s (CC-4)."""
        host, _, port = link.address.rpartition(":")
        host = host.strip("[]")
        made = None
        try:
            made = socket.create_connection((host, int(port)), timeout=3)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # TR-1
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # TR-11
            made.setblocking(False)
            self.call(self.connected, link, session, made)
        except OSError:
            if made:
                made.close()
            self.call(self.not_connected, link, session)

    def connected(self, link, session, made):
        if link.session != session or link.state != "connecting":
            return made.close()
        link.socket, link.state = made, "greeting"
        link.input, link.output = bytearray(), bytearray()
        self.selector.register(made, selectors.EVENT_READ, lambda: self.handle(link))
        self.handle(link)

    def not_connected(self, link, session):
        if link.session == session and link.state == "connecting":
            self.end_session(link, "lost")

    def drain(self, link, failure):
        """Writing is shut down at once; what the server had under way is read for 2 s (CA-5)."""
        if link.state != "ready":
            return
        link.state, link.until, link.failure = "draining", now() + 2, failure
        link.output = bytearray()
        self.watch(link)
        try:
            link.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if not self.is_waited_for(link):
            self.end_session(link, failure)

    def redirect(self, link, failure):
        """A final answer: nothing unanswered was executed (CA-10)."""
        t = now()
        for acquire in [acquire for acquire in self.acquires.values() if acquire.link is link]:
            if acquire.done and t < acquire.deadline:
                acquire.link = None
                self.pause(acquire, t)
            else:
                self.end(acquire, "timeout")
        for release in self.releases.values():
            if release.link is link:
                release.link = None
                self.pause(release, t)
        self.end_session(link, failure)

    def pause(self, request, t):
        """10 ms, doubling to 100 ms (CC-2)."""
        request.not_before = t + min(0.01 * 2**request.pauses, 0.1)
        request.pauses += 1

    def end_session(self, link, failure):
        if link.state == "draining":
            failure = link.failure
        lived = link.state in ("ready", "draining") and now() - link.since >= 1
        self.hang_up(link)
        for acquire in [acquire for acquire in self.acquires.values() if acquire.link is link]:
            self.end(acquire, "indeterminate")  # CA-9
        for release in self.releases.values():
            if release.link is link:
                release.link = None  # CR-2: to be sent again
        # CC-3
        is_failed = failure == "auth" or not (lived or failure in ("redirected", "overdue"))
        link.failures = min(link.failures + 1, 6) if is_failed else 0
        pause = 3.2 if failure == "auth" else 0.1 * 2 ** max(0, link.failures - 1)
        link.failure = failure
        link.state, link.until = "waiting", now() + pause * (1 + random.random() / 2)
        if self.is_refused():
            for acquire in [acquire for acquire in self.acquires.values() if acquire.link is None]:
                self.end(acquire, "auth")

    def is_refused(self):
        return all(link.failure == "auth" for link in self.links)

    def hang_up(self, link):
        if link.socket:
            self.selector.unregister(link.socket)
            link.socket.close()
            link.socket = None
        link.output = bytearray()


# The shim: commands on stdin, answers on stdout, one JSON object per line.


class NotImplementedHere(Exception):
    """The suite is told by exit code 89."""


class Shim:
    """Does what the suite says with a client."""

    UNCERTAIN = ("indeterminate", "unconfirmed")

    def __init__(self):
        self.client = None
        self.acquires = {}  # by id
        self.tickets = {}  # by id: key and token

    def answer(self, command, result, **details):
        certain = result not in self.UNCERTAIN
        print(json.dumps({"id": command["id"], "result": result, "certain": certain, **details}), flush=True)

    def execute(self, command):
        method = getattr(self, "do_" + command["do"], None)
        if method is None:
            raise NotImplementedHere
        method(command)

    def do_open(self, command):
        self.client = Client(
            command["addresses"],
            command.get("token", "").encode(),
            command.get("max_in_flight", 1024),
        )
        self.answer(command, "opened")

    def do_acquire(self, command):
        key = command["key"]

        def done(result, token=None, valid_until=None, **details):
            if result == "ticket":
                self.tickets[command["id"]] = (key.encode(), token)
                details = {"token": str(token), "remaining_ms": int((valid_until - now()) * 1000)}
            self.answer(command, result, **details)

        options = {"wait_ms": "wait_ms", "lease_ms": "lease_ms", "response_grace_ms": "grace_ms"}
        given = {ours: command[theirs] for theirs, ours in options.items() if theirs in command}
        try:
            self.acquires[command["id"]] = self.client.acquire(
                key, command["min_work_budget_ms"], done, may_wait=not command.get("try", False), **given
            )
        except Refused as refused:
            self.answer(command, refused.result, **refused.details)

    def do_release(self, command):
        key, token = self.tickets.pop(command["of"])
        self.client.release(key, token, lambda result: self.answer(command, result))

    def do_drop(self, command):
        self.client.drop(*self.tickets.pop(command["of"]))
        self.answer(command, "dropped")

    def do_cancel(self, command):
        self.client.cancel(self.acquires[command["of"]])
        self.answer(command, "cancelled")

    def do_close(self, command):
        self.client.close(lambda result: self.answer(command, result))


def main():
    shim = Shim()
    shim.execute(json.loads(sys.stdin.readline()))  # the first command makes the client

    def execute(line):
        try:
            shim.execute(json.loads(line))
        except NotImplementedHere:
            os._exit(89)

    def listen():
        for line in sys.stdin:
            shim.client.call(execute, line)
        os._exit(0)  # the suite has seen enough

    threading.Thread(target=listen, daemon=True).start()
    while True:
        shim.client.turn()


if __name__ == "__main__":
    main()
