# SPDX-License-Identifier: Apache-2.0
"""A bash, an R or a Java that remembers: sys.argv[1] says which. It runs beside us, and takes cells
by a pipe; the frames are those of context.py. SIGINT goes to it and to all that it started."""


def _main():
    import json
    import os
    import shutil
    import signal
    import struct
    import subprocess
    import sys
    import threading

    PIECE = 65536
    TEXT_MAX = 256 * 1024
    CODE, SAID = 8, 9  # its descriptors: cells come, what became of them goes

    # An interactive bash goes on with the next line of its input when a SIGINT comes.
    BASH = ["bash", "--noprofile", "--norc", "--noediting", "-i"]

    # Values but the last are printed; what it says is a letter, a length and a text.
    R = ["Rscript", "--vanilla", "-e", r"""
local({
  code <- file("/dev/fd/8", "rb", blocking = TRUE)
  said <- file("/dev/fd/9", "wb")
  say <- function(kind, text) {
    bytes <- charToRaw(enc2utf8(paste(text, collapse = "\n")))
    writeBin(c(charToRaw(kind), writeBin(length(bytes), raw(), endian = "big"), bytes), said)
    flush(said)
  }
  show <- function(value) paste(capture.output(print(value)), collapse = "\n")
  cell <- function(text) {
    last <- NULL
    for (part in parse(text = text, keep.source = FALSE)) {
      if (!is.null(last)) cat(last, "\n", sep = "")
      value <- withVisible(eval(part, globalenv()))
      last <- if (value$visible) show(value$value)
    }
    last
  }
  say("o", "")
  repeat {
    size <- readBin(code, "integer", 1L, endian = "big")
    if (length(size) == 0L) break
    bytes <- raw()
    while (length(bytes) < size) bytes <- c(bytes, readBin(code, "raw", size - length(bytes)))
    text <- rawToChar(bytes)
    Encoding(text) <- "UTF-8"
    withCallingHandlers(tryCatch({
      value <- cell(text)
      flush(stdout())
      if (is.null(value)) say("o", "") else say("v", value)
    }, interrupt = function(e) say("i", ""),
       error = function(e) say("e", conditionMessage(e))),
    warning = function(w) {
      cat("Warning message:\n", conditionMessage(w), "\n", sep = "", file = stderr())
      invokeRestart("muffleWarning")
    })
  }
})
"""]

    # JShell in the Java that runs this. Variables are properties, as nothing else can be set.
    JAVA = r"""
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.List;
import jdk.jshell.*;

class Cells {
    private final DataInputStream code = new DataInputStream(new FileInputStream("/dev/fd/8"));
    private final DataOutputStream said =
        new DataOutputStream(new BufferedOutputStream(new FileOutputStream("/dev/fd/9")));
    private final JShell shell = JShell.builder().executionEngine("local").build();
    private volatile boolean stopped;

    Cells() throws IOException { }

    private void say(char kind, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        System.out.flush();
        System.err.flush();
        said.writeByte(kind);
        said.writeInt(bytes.length);
        said.write(bytes);
        said.flush();
    }

    private static String problem(Throwable error) {
        String name = error instanceof EvalException
            ? ((EvalException) error).getExceptionClassName() : error.getClass().getName();
        return error.getMessage() == null ? name : name + ": " + error.getMessage();
    }

    private String refusal(Snippet snippet) {
        return shell.diagnostics(snippet).findFirst().map(d -> d.getMessage(null))
            .orElse("the cell is not understood");
    }

    /* Null: it has none. */
    private static String value(SnippetEvent event) {
        boolean shows = event.snippet().kind() == Snippet.Kind.EXPRESSION
            || event.snippet().subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
        return shows && event.value() != null ? event.value() : null;
    }

    private void run(String text) throws IOException {
        String last = null;
        SourceCodeAnalysis analysis = shell.sourceCodeAnalysis();
        for (String rest = text; !rest.isBlank();) {
            SourceCodeAnalysis.CompletionInfo info = analysis.analyzeCompletion(rest);
            String part = info.source() == null ? rest : info.source();
            rest = info.source() == null ? "" : info.remaining();
            for (SnippetEvent event : shell.eval(part)) {
                if (event.causeSnippet() != null) continue;
                if (stopped) { say('i', ""); return; }
                if (event.exception() != null) { say('e', problem(event.exception())); return; }
                if (event.status() == Snippet.Status.REJECTED) {
                    say('e', refusal(event.snippet()));
                    return;
                }
                last = value(event);
            }
        }
        say(last == null ? 'o' : 'v', last == null ? "" : last);
    }

    private void serve() throws IOException {
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> {
            stopped = true;
            shell.stop();
        });
        for (String name : List.of("java.io.*", "java.math.*", "java.net.*", "java.nio.file.*",
                "java.util.*", "java.util.concurrent.*", "java.util.function.*",
                "java.util.prefs.*", "java.util.regex.*", "java.util.stream.*"))
            shell.eval("import " + name + ";");
        say('o', "");
        for (;;) {
            byte[] bytes = new byte[code.readInt()];
            code.readFully(bytes);
            stopped = false;
            run(new String(bytes, StandardCharsets.UTF_8));
        }
    }

    public static void main(String[] args) throws IOException {
        System.getenv().forEach((name, value) -> {
            if (System.getProperty(name) == null) System.setProperty(name, value);
        });
        try {
            new Cells().serve();
        } catch (EOFException end) {
            System.exit(0);
        }
    }
}
"""

    def java():
        """Its program lies in a file, which has been read once it is ready."""
        import tempfile
        place = tempfile.mkdtemp(prefix=".vial-java-")
        with open(place + "/Cells.java", "w") as file:
            file.write(JAVA)
        return place, ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss2m",
                       "-Dfile.encoding=UTF-8",
                       "-Dstdout.encoding=UTF-8", "-Dstderr.encoding=UTF-8", "--add-modules", "jdk.jshell", place + "/Cells.java"]

    frames = threading.Lock()
    state = {"running": False}

    def send(message):
        body = json.dumps(message).encode()
        with frames:
            data = struct.pack(">I", len(body)) + body
            while data:
                data = data[os.write(1, data):]

    def receive(fd, count):
        data = b""
        while len(data) < count:
            piece = os.read(fd, count - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    class Stream:
        """What it prints, until a cell's end was said: that much lies in the pipe by then."""

        def __init__(self, name, fd):
            self.name, self.fd, self.rest = name, fd, b""
            os.set_blocking(fd, False)

        def read(self):
            """False: there is nothing now."""
            try:
                piece = os.read(self.fd, PIECE)
            except BlockingIOError:
                return False
            if not piece:
                return False
            data = self.rest + piece
            text, self.rest = split(data)
            if text:
                send({"kind": "stream", "name": self.name, "text": text})
            return True

    def split(data):
        """Text, and the begin of a character that is not whole yet."""
        for keep in range(min(3, len(data)) + 1):
            head = data[:len(data) - keep]
            try:
                return head.decode(), data[len(head):]
            except UnicodeDecodeError as error:
                if error.end != len(head) or error.reason != "unexpected end of data":
                    break
        return data.decode(errors="replace"), b""

    def start(kind, argv):
        code_read, code_write = os.pipe()
        said_read, said_write = os.pipe()
        env = dict(os.environ, PS1="", PS2="", HISTFILE="", PROMPT_COMMAND="")

        def place():
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            # Out of the way first: one of them may have the other's number.
            one, two = (os.dup2(fd, 20 + i) for i, fd in enumerate((code_read, said_write)))
            os.dup2(one, 0 if kind == "bash" else CODE)
            os.dup2(two, SAID)
            os.closerange(SAID + 1, 64)
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                                 preexec_fn=place, close_fds=False)
        os.close(code_read)
        os.close(said_write)
        return child, code_write, said_read

    def give(code):
        data = code.encode()
        if kind != "bash":
            data = struct.pack(">i", len(data)) + data
        else:
            quoted = "".join("\\%03o" % byte for byte in data)
            data = ("{ eval -- $'%s'; } </dev/null\nprintf 's%%s\\n' $? >&%d\n"
                    % (quoted, SAID)).encode()
        while data:
            data = data[os.write(code_fd, data):]

    def heard():
        """What became of a cell: a letter and a text."""
        letter = receive(said_fd, 1).decode()
        if letter == "s":
            number = b""
            while not number.endswith(b"\n"):
                number += receive(said_fd, 1)
            return letter, number.decode().strip()
        size, = struct.unpack(">i", receive(said_fd, 4))
        return letter, receive(said_fd, size).decode(errors="replace")[:TEXT_MAX]

    def wait():
        import select
        fds = {stream.fd: stream for stream in streams}
        while True:
            ready, _, _ = select.select([said_fd, *fds], [], [])
            for fd in ready:
                if fd != said_fd and not fds[fd].read():
                    del fds[fd]  # closed by a cell; it stays so
            if said_fd in ready:
                break
        result = heard()
        for stream in streams:
            while stream.read():
                pass
        return result

    def outcome(letter, text, stopped):
        if stopped and (letter == "i" or text == "130"):
            return "interrupted", None, {"name": "KeyboardInterrupt", "value": "", "traceback": ""}
        if letter == "e":
            return "error", None, {"name": "error", "value": text, "traceback": "Error: %s\n" % text}
        if letter == "s" and text != "0":
            return "error", None, {"name": "ExitStatus", "value": text,
                                   "traceback": "exit status %s\n" % text}
        return "ok", {"text/plain": text} if letter == "v" else None, None

    def serve(request):
        state["stopped"] = False
        state["running"] = True
        give(request["code"])
        letter, text = wait()
        state["running"] = False
        status, value, error = outcome(letter, text, state["stopped"])
        send({"kind": "done", "id": request.get("id"), "status": status, "value": value,
              "error": error})

    def interrupt(_number, _frame):
        if state["running"]:
            state["stopped"] = True
            os.killpg(child.pid, signal.SIGINT)

    kind = sys.argv[1]
    place = None
    argv = {"bash": BASH, "r": R}.get(kind)
    if not argv:
        place, argv = java()
    try:
        child, code_fd, said_fd = start(kind, argv)
    except FileNotFoundError:
        send({"kind": "missing"})
        return
    streams = [Stream("stdout", child.stdout.fileno()), Stream("stderr", child.stderr.fileno())]
    signal.signal(signal.SIGINT, interrupt)
    try:
        if kind == "bash":  # what it says of having no terminal is nobody's business
            give("set +m")
        drop, send_all = [], send
        send = drop.append
        try:
            wait()
        except EOFError:  # a Java without JShell, for one
            send_all({"kind": "missing"})
            raise
        finally:
            if place:
                shutil.rmtree(place, ignore_errors=True)
        send = send_all
        send({"kind": "ready"})
        while True:
            size, = struct.unpack(">I", receive(0, 4))
            serve(json.loads(receive(0, size)))
    except EOFError:
        pass
    child.kill()


_main()
