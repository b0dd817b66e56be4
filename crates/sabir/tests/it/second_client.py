"""A second shell, as small as will do.

It is written from docs/shell-protocol.md alone, with the standard library and a package for WebSockets: whoever wants to know
whether that document is enough, runs this. It keeps its log in a file, syncs before it sends, and says what happens as JSON lines.
"""

import asyncio
import json
import os
import struct
import sys
import urllib.error
import urllib.request
import uuid
from urllib.parse import quote

import websockets


class Log:
    """The log of a session on this machine's disk: messages, one on each line, and who writes it."""

    def __init__(self, path, session):
        self.path, self.session = path, session
        self.head = {"writer": str(uuid.uuid4()), "epoch": 0, "orders": 0, "after": 0}
        self.messages = []
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.head, self.messages = json.loads(lines[0]), lines[1:]

    def save(self):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in [json.dumps(self.head), *self.messages]))
            file.flush()
            os.fsync(file.fileno())
        os.rename(self.path + ".new", self.path)

    @property
    def last(self):
        return self.head["after"] + len(self.messages)

    def write(self, type_, payload):
        message = {
            "sessionId": self.session,
            "seq": self.last + 1,
            "ts": "2026-01-02T03:04:05.678Z",
            "type": type_,
            "payload": payload,
        }
        self.messages.append(json.dumps(message, ensure_ascii=False))
        self.save()

    def batch(self, first, last):
        lines = self.messages[first - 1 - self.head["after"] : last - self.head["after"]]
        body = "".join(line + "\n" for line in lines).encode()
        return b"SBB1" + bytes(4) + struct.pack("<QII", first, len(lines), len(body)) + body

    def hello(self):
        return {
            "type": "hello",
            "session": self.session,
            "writer": self.head["writer"],
            "epoch": self.head["epoch"],
            "last": self.last,
            "orders": self.head["orders"],
            "agent": "second",
            "shell": "second_client.py",
            "takes": ["prompt", "cancel"],
        }

    def take(self, order):
        """What becomes of an order. One that was dealt with is only answered again."""
        is_prompt = order["kind"] == "prompt"
        if order["order"] > self.head["orders"]:
            text = order["text"] if is_prompt else order["kind"]
            self.head["orders"] = order["order"]
            self.write("prompt", {"text": text, "meta": {"order": order["order"]}})
        taken = {"type": "taken", "order": order["order"], "accepted": is_prompt}
        return taken if is_prompt else {**taken, "reason": "only prompts are taken here"}


def say(**what):
    print(json.dumps(what), flush=True)


class Hub:
    def __init__(self, address, session, token):
        self.path = f"{address}/v1/shells/{quote(session, safe='-_.')}"
        self.authorization = {"Authorization": f"Bearer {token}"}

    def socket(self, protocol="sabir.shell.1"):
        return websockets.connect(
            f"ws://{self.path}", subprotocols=[protocol], additional_headers=self.authorization, max_size=None
        )

    def ask(self, method, name, body=None, **headers):
        """The status of an answer, and its body."""
        headers = {**self.authorization, "Sabir-Protocol": "1", **{key.replace("_", "-"): value for key, value in headers.items()}}
        request = urllib.request.Request(f"http://{self.path}/{name}", data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def post(self, name, frame):
        return self.ask("POST", name, json.dumps(frame).encode(), Content_Type="application/json")

    def send(self, log, first, last):
        kind = "application/x-sabir-batch"
        head = {"Sabir_Writer": log.head["writer"], "Sabir_Epoch": str(log.head["epoch"])}
        return self.ask("POST", "batches", log.batch(first, last), Content_Type=kind, **head)


async def hear(socket, *types):
    """The next frame of one of these types; heartbeats and what is not known are passed over."""
    while True:
        frame = json.loads(await socket.recv())
        if frame["type"] in types:
            return frame


async def greet(socket, log):
    await socket.send(json.dumps(log.hello()))
    welcome = await hear(socket, "welcome", "error")
    say(**welcome)
    return welcome


async def begin(hub, log):
    """A new log: asks for its place, begins there, and sends three batches before it looks at an answer."""
    async with hub.socket() as socket:
        welcome = await greet(socket, log)
        log.head.update(epoch=welcome["epoch"], after=welcome["last"])
        for number in range(30):
            log.write("log", {"text": f"number {number}, with an ü and \"quotes\""})
        await greet(socket, log)
        for first in (1, 11, 21):
            await socket.send(log.batch(first, first + 9))
        while (await hear(socket, "ack"))["last"] < log.last:
            pass
        say(type="done", acknowledged=log.last)


async def resume(hub, log):
    """The same log, opened again: goes on where the hub is, says some of it twice, and too soon."""
    log.head["epoch"] += 1
    log.save()
    for number in range(10):
        log.write("log", {"text": f"later {number}"})
    async with hub.socket() as socket:
        welcome = await greet(socket, log)
        await socket.send(log.batch(welcome["last"] + 5, log.last))
        say(**await hear(socket, "gap"))
        await socket.send(log.batch(welcome["last"] - 2, log.last))
        say(**await hear(socket, "ack"))
        # An order, when somebody gives one, and what became of it; the log tells of it first.
        order = await hear(socket, "order")
        taken = log.take(order)
        await socket.send(log.batch(log.last, log.last))
        await hear(socket, "ack")
        await socket.send(json.dumps(taken))
        say(type="took", order=order)
        # One heartbeat of each side.
        await socket.send(json.dumps({"type": "heartbeat"}))
        say(**await hear(socket, "heartbeat"))


async def by_http(hub, log):
    """The same without a WebSocket."""
    log.head["epoch"] += 1
    log.save()
    for number in range(10):
        log.write("log", {"text": f"by HTTP {number}"})
    status, welcome = hub.post("hello", log.hello())
    say(status=status, **welcome)
    last = welcome["last"]
    for first, to in ((last + 3, log.last), (last + 1, last + 5), (last + 4, log.last)):
        status, answer = hub.send(log, first, to)
        say(status=status, **answer)
    say(type="waits")
    status, answer = hub.ask("GET", f"orders?after={log.head['orders']}&wait=50")
    for order in answer["orders"]:
        taken = log.take(order)
        say(status=hub.send(log, log.last, log.last)[0])
        say(status=hub.post("taken", taken)[0], order=order)


async def wrong(hub, log):
    """What must be refused is refused in the words of the document."""
    try:
        async with hub.socket("sabir.shell.99"):
            pass
    except websockets.exceptions.InvalidStatus as error:
        say(status=error.response.status_code, **json.loads(error.response.body))
    status, answer = hub.ask("POST", "hello", b"{}", Sabir_Protocol="99")
    say(status=status, **answer)
    other = Log(log.path + ".other", log.session)
    for epoch in (log.head["epoch"] - 1, log.head["epoch"] + 1):
        other.head["epoch"] = epoch
        status, answer = hub.post("hello", other.hello())
        say(status=status, **answer)
    changed = Log(log.path, log.session)
    changed.messages[-1] = changed.messages[-1].replace("type", "type", 1).replace("2026", "2027")
    status, answer = hub.send(changed, log.last, log.last)
    say(status=status, **answer)
    async with hub.socket() as socket:
        await greet(socket, log)
        await socket.send(b"nothing that is a batch, though it is long enough")
        say(**await hear(socket, "error"))
        try:
            await socket.recv()
        except websockets.exceptions.ConnectionClosed as closed:
            say(type="closed", code=closed.rcvd.code)


def main():
    task, address, session, path = sys.argv[1:]
    hub, log = Hub(address, session, os.environ["AUTH_TOKEN"]), Log(path, session)
    asyncio.run({"begin": begin, "resume": resume, "by_http": by_http, "wrong": wrong}[task](hub, log))


main()
