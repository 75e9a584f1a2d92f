# SPDX-License-Identifier: Apache-2.0
"""A Python that remembers. Frames on stdin and stdout, each a big-endian length of
four bytes and so much JSON:

  to us     {"id": 1, "code": "..."}
  from us   {"kind": "ready"}                                    once
            {"kind": "stream", "name": "stdout", "text": "..."}  while a cell runs
            {"kind": "display", "data": {"image/png": "...base64..."}}
            {"kind": "done", "id": 1, "status": "ok", "value": {...}, "error": null}

SIGINT interrupts a running cell and is ignored between cells. The end of stdin is
the end. What cells print goes through pipes of our own, whoever prints it.
"""


def _main():
    import ast
    import base64
    import builtins
    import codecs
    import json
    import linecache
    import os
    import signal
    import struct
    import sys
    import threading
    import traceback
    import types
    import warnings

    TEXT_MAX = 256 * 1024
    DATA_MAX = 8 * 1024 * 1024
    ROWS_MAX = 1000
    HELD_MAX = 1024 * 1024
    TABLE = "application/vnd.vial.table+json"

    requests, replies = os.dup(0), os.dup(1)
    os.set_inheritable(requests, False)
    os.set_inheritable(replies, False)
    sending = threading.Lock()
    state = {"running": False, "stoppable": False, "cell": 0}

    def send(message):
        data = json.dumps(message, ensure_ascii=True, default=str).encode()
        data = struct.pack(">I", len(data)) + data
        with sending:
            while data:
                data = data[os.write(replies, data):]

    def receive(count):
        parts = b""
        while len(parts) < count:
            part = os.read(requests, count - len(parts))
            if not part:
                os._exit(0)
            parts += part
        return parts

    class Pipe:
        """Takes the place of descriptor FD, and tells what comes as NAME."""

        def __init__(self, fd, name):
            self.name, self.held, self.seen = name, b"", threading.Event()
            self.token = b"\0" + os.urandom(16)
            self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
            self.source, sink = os.pipe()
            os.dup2(sink, fd)
            self.sink = sink
            threading.Thread(target=self.pump, daemon=True).start()

        def tell(self, data):
            text = self.decoder.decode(data)
            if text:
                send({"kind": "stream", "name": self.name, "text": text})

        def pump(self):
            rest = b""
            while True:
                rest += os.read(self.source, 65536)
                while self.token in rest:
                    before, rest = rest.split(self.token, 1)
                    self.give(before)
                    self.seen.set()
                keep = self.partial(rest)
                self.give(rest[:len(rest) - keep])
                rest = rest[len(rest) - keep:]

        def partial(self, data):
            """How many of the last bytes may be the beginning of a token."""
            for n in range(min(len(self.token) - 1, len(data)), 0, -1):
                if data.endswith(self.token[:n]):
                    return n
            return 0

        def give(self, data):
            if not state["running"]:  # printed between cells: shown with the next one
                self.held = (self.held + data)[:HELD_MAX]
                return
            data, self.held = self.held + data, b""
            if data:
                self.tell(data)

        def drain(self):
            """All that was written before has been told."""
            self.seen.clear()
            os.write(self.sink, self.token)
            self.seen.wait(5)

    def bundle(value):
        data = {}

        def add(mime, make):
            try:
                made = make()
            except Exception:
                return
            if made is None:
                return
            if isinstance(made, bytes):
                made = base64.b64encode(made).decode()
            size = len(made) if isinstance(made, str) else len(json.dumps(made))
            if size <= DATA_MAX:
                data[mime] = made

        def method(name):
            found = getattr(type(value), name, None)
            result = found(value) if callable(found) else None
            return result[0] if isinstance(result, tuple) else result

        def table():
            columns = [str(c) for c in value.columns]
            rows = [[plain(c) for c in row] for row in
                    value.head(ROWS_MAX).itertuples(index=False, name=None)]
            return {"columns": columns, "rows": rows, "total_rows": len(value)}

        def plain(cell):
            if cell is None or isinstance(cell, (bool, int, float, str)):
                return cell if cell == cell else None
            item = getattr(cell, "item", None)
            return plain(item()) if callable(item) else str(cell)

        def text():
            shown = repr(value)
            return shown if len(shown) <= TEXT_MAX else shown[:TEXT_MAX] + "..."

        add("text/plain", text)
        for mime, name in (("text/html", "_repr_html_"), ("image/png", "_repr_png_"),
                           ("image/jpeg", "_repr_jpeg_"), ("image/svg+xml", "_repr_svg_"),
                           ("text/markdown", "_repr_markdown_"),
                           ("text/latex", "_repr_latex_"),
                           ("application/json", "_repr_json_")):
            add(mime, lambda name=name: method(name))
        if isinstance(value, (dict, list)):
            add("application/json", lambda: json.loads(json.dumps(value)))
        if hasattr(value, "columns") and hasattr(value, "itertuples"):
            add(TABLE, table)
        return data

    def display(*values):
        for value in values:
            send({"kind": "display", "data": bundle(value)})

    def show_figures():
        plt = sys.modules.get("matplotlib.pyplot")
        if not plt:
            return
        import io
        for number in plt.get_fignums():
            out = io.BytesIO()
            plt.figure(number).savefig(out, format="png", bbox_inches="tight")
            data = base64.b64encode(out.getvalue()).decode()
            if len(data) <= DATA_MAX:
                send({"kind": "display", "data": {"image/png": data}})
        plt.close("all")

    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    scope = module.__dict__
    builtins.display = display

    def run(code):
        """The value of CODE's last line, if that is an expression."""
        state["cell"] += 1
        name = "<cell %d>" % state["cell"]
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        tree = ast.parse(code, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        exec(compile(tree, name, "exec"), scope)
        value = eval(compile(last, name, "eval"), scope) if last else None
        if value is not None:
            scope["_"] = value
        return value

    def explain(error):
        frames = error.__traceback__
        while frames and not frames.tb_frame.f_code.co_filename.startswith("<cell"):
            frames = frames.tb_next
        lines = traceback.format_exception(type(error), error, frames)
        text = "".join(lines)
        return {"name": type(error).__name__, "value": str(error)[:TEXT_MAX],
                "traceback": text if len(text) <= TEXT_MAX else text[-TEXT_MAX:]}

    def interrupt(_number, _frame):
        if state["stoppable"]:
            raise KeyboardInterrupt

    def serve(request, out, err):
        reply = {"kind": "done", "id": request.get("id"), "status": "ok",
                 "value": None, "error": None}
        try:
            try:
                state["running"] = state["stoppable"] = True
                value = run(request["code"])
                if value is not None:
                    reply["value"] = bundle(value)
                show_figures()
            finally:
                state["stoppable"] = False
                sys.stdout.flush()
                sys.stderr.flush()
        except BaseException as error:  # SystemExit too: the context stays
            state["stoppable"] = False
            reply["status"] = ("interrupted" if isinstance(error, KeyboardInterrupt)
                               else "error")
            try:
                reply["error"] = explain(error)
            except BaseException:
                reply["error"] = {"name": type(error).__name__, "value": "",
                                  "traceback": ""}
        out.drain()
        err.drain()
        state["running"] = False
        send(reply)

    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    out, err = Pipe(1, "stdout"), Pipe(2, "stderr")
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace",
                      closefd=False)
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace",
                      closefd=False)
    sys.argv = [""]
    sys.path.insert(0, "")
    os.environ.setdefault("MPLBACKEND", "Agg")
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    signal.signal(signal.SIGINT, interrupt)
    send({"kind": "ready"})
    while True:
        size, = struct.unpack(">I", receive(4))
        serve(json.loads(receive(size)), out, err)


_main()
