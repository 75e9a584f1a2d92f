#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""api_server DIR: at 127.88.0.1:8443, by DIR's certificate, answers each request with what it was
asked, and notes its line and its Authorization in DIR/asked; in HTTP/2 it says who it is, and no more.
Ends with its input."""
import http.server
import os
import ssl
import sys
import threading

PLACE = ("127.88.0.1", 8443)


def body_of(handler):
    """What came with the request, in pieces or whole."""
    if handler.headers.get("Transfer-Encoding") != "chunked":
        return handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    whole = b""
    while size := int(handler.rfile.readline(), 16):
        whole += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return whole


HEADERS, SETTINGS, ENDS, ACK = 1, 4, 1, 1


def frame(kind, flags, stream, body=b""):
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def speak_two(file):
    """HTTP/2, for requests without a body."""
    file.read(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    file.write(frame(SETTINGS, 0, 0))
    while head := file.read(9):
        file.read(int.from_bytes(head[:3], "big"))
        if head[3] == SETTINGS and head[4] != ACK:
            file.write(frame(SETTINGS, ACK, 0))
        if head[3] == HEADERS and head[4] & ENDS:  # 0x88: status 200, as the table has it
            stream = int.from_bytes(head[5:], "big")
            file.write(frame(HEADERS, 4, stream, b"\x88") + frame(0, ENDS, stream, b"X-Server: api\n"))
        file.flush()


class Api(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        self.connection.do_handshake()
        if self.connection.selected_alpn_protocol() == "h2":
            speak_two(self.connection.makefile("rwb"))
        else:
            super().handle()

    def do_GET(self):
        said = ("%s %s\n" % (self.requestline, self.headers.get("Authorization"))).encode()
        self.note(said)
        body = body_of(self)
        self.send_response(200)
        self.send_header("X-Server", "api")
        self.send_header("X-Said", self.headers.get("Authorization", ""))
        if self.path == "/pieces":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for byte in said:
                self.wfile.write(b"1\r\n%c\r\n" % byte)
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.path != "/to-the-end":
            self.send_header("Content-Length", str(len(said + body)))
        self.end_headers()
        self.wfile.write(said + body)
        self.close_connection = True
        self.connection.unwrap()

    do_POST = do_DELETE = do_GET

    @staticmethod
    def note(said):
        with open(os.path.join(sys.argv[1], "asked"), "ab") as asked:
            asked.write(said)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def get_request(self):
        connection, peer = super().get_request()
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), peer

    def handle_error(self, *_):
        pass  # clients that are cut off


def main():
    Server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Server.context.load_cert_chain(sys.argv[1] + "/server.pem", sys.argv[1] + "/server.key")
    Server.context.set_alpn_protocols(["h2", "http/1.1"])
    server = Server(PLACE, Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print("there", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
