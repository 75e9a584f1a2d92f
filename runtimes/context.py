# SPDX-License-Identifier: Apache-2.0
"""A Python that remembers. Frames on stdin and stdout, each a big-endian length of
four bytes and so much JSON:

  to us     {"id": 1, "code": "..."}
  from us   {"kind": "ready"}                                    once
            {"kind": "stream", "name": "stdout", "text": "..."}  while a cell runs
            {"kind": "display", "data": {"image/png": "...base64..."}}
            {"kind": "done", "id": 1, "status": "ok", "value": {...}, "error": null}

SIGINT interrupts a running cell and is ignored between cells. The end of stdin is
the end. What cells print goes through pipes of our own, whoever prints it; frames come
in the order in which it was printed and displayed.

A cell is Python, in which `await` may stand anywhere. A line that Python does not
understand may be `!command` or `%magic`, as in notebooks; `%%magic` is a cell's first.
"""


def _chart(figure):
    """What a figure of matplotlib shows, as data."""
    import math
    import re

    def number(value):
        """A number, a moment as ISO text, or another text."""
        if hasattr(value, "isoformat"):
            return value.isoformat()
        if type(value).__name__ == "datetime64":
            return str(value)
        if hasattr(value, "item"):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return value if value is None or isinstance(value, (int, float)) else str(value)

    def unit(label):
        found = re.search(r"[(\[]([^)\]]+)[)\]]", label or "")
        return found.group(1).strip() if found else None

    def name(artist, instead):
        label = str(artist.get_label() or "")
        return instead if not label or label.startswith("_") else label

    def labels(axes):
        x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
        return {"x_label": x, "y_label": y, "x_unit": unit(x), "y_unit": unit(y)}

    def is_dated(axis):
        converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
        return "Date" in type(converter).__name__

    def is_number(text):
        return re.fullmatch(r"[-\u2212]?[\d.]*", text)

    def scale(axis, letter):
        ticks = [number(tick) for tick in axis.get_ticklocs()]
        texts = [label.get_text() for label in axis.get_ticklabels()]
        kind = axis.get_scale()
        if is_dated(axis):
            from matplotlib.dates import num2date
            kind, ticks = "datetime", [num2date(tick).isoformat() for tick in ticks]
        elif ticks == list(range(len(ticks))) and not all(map(is_number, texts)):
            kind = "categorical"
        return {letter + "_ticks": ticks, letter + "_tick_labels": texts,
                letter + "_scale": kind}

    def series(axes, artists, instead, points_of):
        return {**labels(axes), **scale(axes.xaxis, "x"), **scale(axes.yaxis, "y"),
                "elements": [{"label": name(artist, "%s %d" % (instead, i)),
                              "points": [[number(x), number(y)] for x, y in points_of(artist)]}
                             for i, artist in enumerate(artists)]}

    def line(axes):
        return series(axes, axes.lines, "Line",
                      lambda one: zip(one.get_xdata(True), one.get_ydata(True)))

    def scatter(axes):
        import numpy

        def offsets(one):  # what is not a number is masked there
            return numpy.ma.filled(one.get_offsets(), numpy.nan)
        return series(axes, axes.collections, "Group", offsets)

    def bar(axes):
        bars = [one for one in axes.containers if hasattr(one, "patches")]
        across = any(getattr(one, "orientation", None) == "horizontal" for one in bars)
        axis = axes.yaxis if across else axes.xaxis
        texts = dict(zip((float(tick) for tick in axis.get_ticklocs()),
                         (label.get_text() for label in axis.get_ticklabels())))
        said = labels(axes)
        if across:
            said = {"x_label": said["y_label"], "y_label": said["x_label"],
                    "x_unit": said["y_unit"], "y_unit": said["x_unit"]}

        def place(patch):
            if across:
                return patch.get_y() + patch.get_height() / 2
            return patch.get_x() + patch.get_width() / 2

        def label(patch):
            at = place(patch)
            near = min(texts, key=lambda tick: abs(tick - at), default=None)
            if near is None or abs(near - at) >= 0.5 or not texts[near]:
                return "%g" % at
            return texts[near]
        return {**said, "elements": [
            {"label": label(patch), "group": name(group, "Group %d" % i),
             "value": number(patch.get_width() if across else patch.get_height())}
            for i, group in enumerate(bars) for patch in group.patches]}

    def pie(axes):
        wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
        return {"elements": [{"label": name(wedge, ""), "radius": number(wedge.r),
                              "angle": round(abs(float(wedge.theta2 - wedge.theta1)), 4)}
                             for wedge in wedges]}

    def box(axes):
        """Boxes are patches; what belongs to each is found by where it lies."""
        found = []
        for patch in axes.patches:
            corners = patch.get_path().vertices
            found.append(((corners[:, 0].min(), corners[:, 0].max()),
                          (corners[:, 1].min(), corners[:, 1].max())))
        pairs = [(one.get_xdata(), one.get_ydata()) for one in axes.lines
                 if len(one.get_xdata()) == 2]
        (left, right), (below, above) = found[0]
        # The whiskers of the first stand on its middle.
        upright = (sum(x[0] == x[1] == (left + right) / 2 for x, _ in pairs) >=
                   sum(y[0] == y[1] == (below + above) / 2 for _, y in pairs))
        axis = axes.xaxis if upright else axes.yaxis
        texts = dict(zip((float(tick) for tick in axis.get_ticklocs()),
                         (label.get_text() for label in axis.get_ticklabels())))
        elements = []
        for x, y in found:
            (low, high), (first, third) = (x, y) if upright else (y, x)
            middle = (low + high) / 2
            ends, median, outliers = [first, third], None, []
            for one in axes.lines:
                across, along = one.get_xdata(), one.get_ydata()
                if not upright:
                    across, along = along, across
                if len(across) and not all(low <= at <= high for at in across):
                    continue
                if one.get_linestyle() == "None":
                    outliers += [number(value) for value in along]
                elif len(along) == 2 and across[0] == across[1]:
                    ends += list(along)
                elif len(along) == 2 and first <= along[0] == along[1] <= third:
                    median = along[0]
            elements.append({"label": texts.get(float(middle), ""), "min": number(min(ends)),
                             "first_quartile": number(first), "median": number(median),
                             "third_quartile": number(third), "max": number(max(ends)),
                             "outliers": outliers})
        return {**labels(axes), "elements": elements}

    def is_grid(artist):
        """A line of two points with one x, or one y."""
        if type(artist).__name__ != "Line2D":
            return False
        x, y = artist.get_xdata(), artist.get_ydata()
        return len(x) == 2 and (x[0] == x[1] or y[0] == y[1])

    def kind_of(axes):
        artists = [*axes.lines, *axes.patches, *axes.collections, *axes.images]
        kinds = {type(artist).__name__ for artist in artists}
        if kinds == {"Line2D"}:
            return "line", line
        if kinds in ({"PathPatch"}, {"PathPatch", "Line2D"}):
            return "box_and_whisker", box
        kinds = {type(artist).__name__ for artist in artists if not is_grid(artist)}
        for known, kind, make in (("PathCollection", "scatter", scatter), ("Wedge", "pie", pie),
                                  ("Rectangle", "bar", bar)):
            if kinds == {known}:
                return kind, make
        return "unknown", lambda axes: {**labels(axes), "elements": []}

    def chart(axes):
        kind, make = kind_of(axes)
        return {"type": kind, "title": axes.get_title() or None, **make(axes)}

    shown = [axes for axes in figure.axes if axes.has_data()]
    if len(shown) > 1:
        return {"type": "superchart", "elements": [chart(axes) for axes in shown],
                "title": figure._suptitle.get_text() if figure._suptitle else None}
    return chart(shown[0]) if shown else {}


def _main():
    import ast
    import base64
    import builtins
    import codecs
    import contextlib
    import io
    import itertools
    import json
    import linecache
    import os
    import re
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
    VALUES_MAX, DEPTH_MAX, INT_MAX = 100000, 32, 2 ** 63  # of what the host reads as JSON
    TABLE = "application/vnd.vial.table+json"
    CHART = "application/vnd.vial.chart+json"
    AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    CO_COROUTINE = 0x80

    requests, replies = os.dup(0), os.dup(1)
    os.set_inheritable(requests, False)
    os.set_inheritable(replies, False)
    sending = threading.Lock()
    state = {"running": False, "stoppable": False, "cell": 0, "loop": None}

    def send(message):
        # A lone surrogate is no character of JSON's: it becomes "?".
        data = json.dumps(message, ensure_ascii=False, default=str).encode("utf-8", "replace")
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
            self.name, self.held = name, b""
            self.token = b"\0" + os.urandom(16)  # a number of four bytes follows it
            self.numbers, self.reached = itertools.count(1), 0
            self.seen = threading.Condition()
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
                at = rest.find(self.token)
                while 0 <= at <= len(rest) - len(self.token) - 4:
                    self.give(rest[:at])
                    rest = rest[at + len(self.token):]
                    self.reach(*struct.unpack(">I", rest[:4]))
                    rest = rest[4:]
                    at = rest.find(self.token)
                keep = len(rest) - at if at >= 0 else self.partial(rest)
                self.give(rest[:len(rest) - keep])
                rest = rest[len(rest) - keep:]

        def reach(self, number):
            with self.seen:
                self.reached = number
                self.seen.notify_all()

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
            number = next(self.numbers)
            os.write(self.sink, self.token + struct.pack(">I", number))
            with self.seen:
                self.seen.wait_for(lambda: self.reached >= number, 5)

    class Stream(io.TextIOWrapper):
        """sys.stdout or sys.stderr: before it is its turn, the other one has been told."""

        def __init__(self, fd, name):
            super().__init__(open(fd, "wb", closefd=False), encoding="utf-8",
                             errors="backslashreplace", line_buffering=True)
            self.pipe, self.mode = Pipe(fd, name), "w"

        def write(self, text):
            if state["last"] is not self:
                last, state["last"] = state["last"], self
                last.tell_all()
            return super().write(text)

        def tell_all(self):
            with contextlib.suppress(ValueError):  # the cell has closed it
                self.flush()
            self.pipe.drain()

    def tell_all():
        out.tell_all()
        err.tell_all()

    def strict(value):
        """VALUE as JSON has it; an error if that would lose something, or be too much."""
        value = json.loads(json.dumps(value, allow_nan=False))
        count, level = 0, [value]
        for _ in range(DEPTH_MAX):
            count += len(level)
            if not level:
                return value
            if count > VALUES_MAX or any(type(v) is int and not -INT_MAX <= v < INT_MAX
                                         for v in level):
                break
            level = [inner for outer in level if isinstance(outer, (dict, list))
                     for inner in (outer.values() if isinstance(outer, dict) else outer)]
        raise ValueError("more than JSON holds here")

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
            if not isinstance(made, str):
                try:
                    made = strict(made)
                except Exception:  # it has other forms
                    return
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
            if cell is None or isinstance(cell, (bool, str)):
                return cell
            if isinstance(cell, (int, float)):  # not a number, or without end: nothing
                return cell if -INT_MAX <= cell < INT_MAX else (
                    str(cell) if isinstance(cell, int) else
                    float(cell) if abs(cell) < float("inf") else None)
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
            add("application/json", lambda: value)
        if hasattr(value, "columns") and hasattr(value, "itertuples"):
            add(TABLE, table)
        return data

    def display(*values):
        for value in values:
            data = bundle(value)
            tell_all()
            send({"kind": "display", "data": data})

    def show_figure(figure):
        out = io.BytesIO()
        figure.savefig(out, format="png", bbox_inches="tight")
        data = {"text/plain": repr(figure),
                "image/png": base64.b64encode(out.getvalue()).decode()}
        with contextlib.suppress(Exception):  # a chart of a kind that nobody foresaw
            data[CHART] = strict(_chart(figure))
        if sum(map(len, data.values())) <= DATA_MAX:
            send({"kind": "display", "data": data})

    def show_figures(*_args, **_options):
        plt = sys.modules.get("matplotlib.pyplot")
        if not plt:
            return
        tell_all()
        for number in plt.get_fignums():
            show_figure(plt.figure(number))
        plt.close("all")

    def change_plots(plots):
        plots.show = show_figures

    def change_pictures(pictures):
        """A picture is shown here; for E2B's clients one that is saved is shown, too."""
        save = pictures.Image.save

        def save_and_show(picture, to, *args, **more):
            save(picture, to, *args, **more)
            if isinstance(to, (str, os.PathLike)):
                display(picture)
        pictures.Image.show = lambda picture, *_args, **_more: display(picture)
        if os.environ.get("E2B_SANDBOX"):
            pictures.Image.save = save_and_show

    class Shown:
        """Finds modules as others do, and has what they show appear here."""
        changes = {"matplotlib.pyplot": change_plots, "PIL.Image": change_pictures}

        @classmethod
        def find_spec(cls, name, path, target=None):
            if name not in cls.changes:
                return None
            from importlib.machinery import PathFinder
            spec = PathFinder.find_spec(name, path, target)
            if spec and spec.loader:
                load = spec.loader.exec_module

                def load_and_change(loaded):
                    load(loaded)
                    cls.changes[name](loaded)
                spec.loader.exec_module = load_and_change
            return spec

    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    sys.modules["__main__"] = module
    scope = module.__dict__
    builtins.display = display

    UsageError = type("UsageError", (Exception,), {"__module__": "builtins"})

    def undent(code):
        """A cell that is indented as a whole is the same without that."""
        lines = code.splitlines(True)
        first = next((line for line in lines if line.strip()), "")
        margin = first[:len(first) - len(first.lstrip(" \t"))]
        return "".join(line[len(margin):] if line.startswith(margin) else line
                       for line in lines) if margin else code

    def run(code):
        """The value of a cell."""
        code = undent(code)
        state["cell"] += 1
        name = "<cell %d>" % state["cell"]
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        if code.startswith("%%"):
            head, _, rest = code[2:].partition("\n")
            return magic(head, rest)
        return evaluate(code)

    def evaluate(code):
        """The value of CODE's last line, if that is an expression without `;`."""
        name = "<cell %d>" % state["cell"]
        tree = parse(code, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        settle(compile(tree, name, "exec", AWAIT))
        value = settle(compile(last, name, "eval", AWAIT)) if last else None
        if value is None or code.rstrip().endswith(";"):
            return None
        scope["_"] = value
        return value

    def parse(code, name):
        """Python itself says which lines are not Python."""
        lines = code.split("\n")
        while True:
            try:
                return ast.parse("\n".join(lines), name)
            except SyntaxError as error:
                if not translate(lines, (error.lineno or 0) - 1):
                    raise

    def translate(lines, at):
        """Whether line AT was `!command`, `%magic` or `name = ` one of them."""
        found = at in range(len(lines)) and re.match(
            r"(\s*)([\w., ]+=\s*)?([!%])(.*)", lines[at])
        if not found:
            return False
        indent, target, sign, text = found.groups()
        more = at
        while text.endswith("\\") and more + 1 < len(lines):
            more += 1
            text, lines[more] = text[:-1] + lines[more], ""
        lines[at] = "%s%s__vial__(%r, %r, %r)" % (indent, target or "", sign, text,
                                                  bool(target))
        return True

    def settle(code):
        value = eval(code, scope)
        return finish(value) if code.co_flags & CO_COROUTINE else value

    def finish(coroutine):
        """In a loop that stays: what a cell leaves running goes on with the next await."""
        import asyncio
        if not state["loop"] or state["loop"].is_closed():
            state["loop"] = asyncio.new_event_loop()
        asyncio.set_event_loop(state["loop"])
        task = state["loop"].create_task(coroutine)
        try:
            return state["loop"].run_until_complete(task)
        finally:
            if not task.done():  # interrupted
                task.cancel()
                state["loop"].run_until_complete(
                    asyncio.gather(task, return_exceptions=True))

    def from_cell(sign, text, wanted):
        """What a translated line calls."""
        local = sys._getframe(1).f_locals
        if sign == "%":
            return magic(text, None, local)
        return shell(["/bin/sh", "-c", expand(text, local)], wanted)

    def expand(text, local):
        """TEXT with values for {expressions} and $names that Python knows."""
        def value(found):
            try:
                return str(eval(found.group(1), scope, local))
            except Exception:
                return found.group()
        return re.sub(r"\$([A-Za-z_]\w*)", value, re.sub(r"(?<!\$)\{([^{}]+)\}", value, text))

    def shell(argv, wanted=False):
        """The lines it prints, if they are WANTED; else they are printed."""
        import subprocess
        tell_all()
        child = subprocess.Popen(argv, stdout=subprocess.PIPE if wanted else None,
                                 start_new_session=True)
        try:
            printed = child.communicate()[0]
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            raise
        finally:
            scope["_exit_code"] = child.wait()
            tell_all()
        return printed.decode(errors="replace").splitlines() if wanted else None

    def magic(line, cell, local=None):
        sign, known = ("%", line_magics) if cell is None else ("%%", cell_magics)
        name, _, rest = line.strip().partition(" ")
        if name not in known:
            raise UsageError("there is no magic '%s%s' here; there are %s%s" % (
                sign, name, ", ".join(sign + each for each in sorted(known)),
                "; '%%' begins a cell" if name.startswith("%") else ""))
        if known[name] not in (time_it, time_often):  # which take Python
            rest = expand(rest, local or {})
        return known[name](rest.strip(), cell)

    def span(seconds):
        for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
            if seconds >= size:
                return "%.3g %s" % (seconds / size, unit)
        return "%.3g ns" % (seconds / 1e-9)

    def time_it(line, cell):
        import resource
        import time
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        try:
            return evaluate(line if cell is None else line + "\n" + cell)
        finally:
            wall = time.perf_counter() - begun
            after = resource.getrusage(resource.RUSAGE_SELF)
            user, system = (after.ru_utime - before.ru_utime,
                            after.ru_stime - before.ru_stime)
            print("CPU times: user %s, sys: %s, total: %s\nWall time: %s" % (
                span(user), span(system), span(user + system), span(wall)))

    def time_often(line, cell):
        import timeit
        options, line = re.match(r"((?:-[nr]\s*\d+\s*)*)(.*)", line).groups()
        options = dict(re.findall(r"-([nr])\s*(\d+)", options))
        timer = timeit.Timer(line if cell is None else cell,
                             "pass" if cell is None or not line else line, globals=scope)
        loops = int(options.get("n", 0)) or timer.autorange()[0]
        runs = int(options.get("r", 0)) or 7
        times = [each / loops for each in timer.repeat(runs, loops)]
        mean = sum(times) / runs
        spread = (sum((each - mean) ** 2 for each in times) / runs) ** 0.5
        print("%s ± %s per loop (mean ± std. dev. of %d runs, %d loops each)" % (
            span(mean), span(spread), runs, loops))

    def change_directory(line, _cell):
        target = line.strip("'\"") or "~"
        before = os.getcwd()
        os.chdir(state.get("before", before) if target == "-" else os.path.expanduser(target))
        state["before"] = before
        print(os.getcwd())

    def environment(line, _cell):
        name, value = (re.split(r"\s*=\s*|\s+", line, maxsplit=1) + [None])[:2]
        if not name:
            return dict(os.environ)
        if value is None:
            if name not in os.environ:
                raise UsageError("there is no variable '%s'" % name)
            return os.environ[name]
        os.environ[name] = value
        print("env: %s=%s" % (name, value))

    def names():
        return sorted(name for name in scope if not name.startswith("_"))

    def who(_line, _cell):
        print("\t".join(names()) or "nothing has been defined")

    def who_in_full(_line, _cell):
        for name in names():
            print("%-16s %-16s %.80r" % (name, type(scope[name]).__name__, scope[name]))

    def script(program):
        def run_script(line, cell):
            import subprocess
            shell([program, "-c", cell, program] + line.split())
            if scope["_exit_code"]:
                raise subprocess.CalledProcessError(scope["_exit_code"], program)
        return run_script

    def write_file(line, cell):
        append = line.startswith("-a ")
        path = line[3:].strip() if append else line
        with open(path, "a" if append else "w") as file:
            file.write(cell if cell.endswith("\n") else cell + "\n")
        print("%s %s" % ("Appending to" if append else "Writing", path))

    def pip(line, _cell):
        shell(["/bin/sh", "-c", '"$0" -m pip ' + line, sys.executable])

    line_magics = {
        "cd": change_directory, "env": environment, "pip": pip, "time": time_it,
        "matplotlib": lambda _line, _cell: None,  # figures are always shown
        "pwd": lambda _line, _cell: os.getcwd(),
        "timeit": time_often, "who": who, "whos": who_in_full,
    }
    cell_magics = {"bash": script("bash"), "sh": script("sh"), "time": time_it,
                   "timeit": time_often, "writefile": write_file}
    builtins.__vial__ = from_cell

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

    def serve(request):
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
        except BaseException as error:  # SystemExit too: the context stays
            state["stoppable"] = False
            reply["status"] = ("interrupted" if isinstance(error, KeyboardInterrupt)
                               else "error")
            try:
                reply["error"] = explain(error)
            except BaseException:
                reply["error"] = {"name": type(error).__name__, "value": "",
                                  "traceback": ""}
        tell_all()
        state["running"] = False
        send(reply)

    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = open(0, closefd=False)
    sys.stdout, sys.stderr = out, err = Stream(1, "stdout"), Stream(2, "stderr")
    state["last"] = out
    sys.argv = [""]
    sys.path.insert(0, "")
    sys.meta_path.insert(0, Shown)
    os.environ.setdefault("MPLBACKEND", "Agg")
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    signal.signal(signal.SIGINT, interrupt)
    send({"kind": "ready"})
    while True:
        size, = struct.unpack(">I", receive(4))
        serve(json.loads(receive(size)))


_main()
