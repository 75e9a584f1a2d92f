# SPDX-License-Identifier: Apache-2.0
"""An engine's socket with somebody on the line."""
import os
import socket
import threading


def back(server, client):
    try:
        while data := server.recv(65536):
            client.sendall(data)
    except OSError:
        pass
    finally:
        try:
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has hung up


class Proxy:
    """Listens at PATH and passes all on to TARGET, until it is cut."""

    def __init__(self, target, path):
        self.target, self.path, self.address = target, path, "unix://" + path
        self.hooks, self.busy = [], []
        self.listener = None
        self.mend()

    def on(self, beginning, action):
        """ACTION is called when a request that begins so has been passed on, before its
        answer is."""
        self.hooks.append(lambda line: action() if line.startswith(beginning) else None)

    def refuse_once(self, beginning):
        """The next request that begins so is told that the engine is busy. What is
        still to be refused is returned."""
        self.busy.append(beginning)
        return self.busy

    def cut(self):
        """From now on nobody is there."""
        if self.listener:
            os.unlink(self.path)
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
        self.listener = None

    def mend(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.target)
            data = client.recv(65536)
            line = data.split(b"\r\n")[0].decode()
            refused = next((b for b in self.busy if line.startswith(b)), None)
            if refused:
                self.busy.remove(refused)
                client.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}")
                client.close()
                return
            server.sendall(data)
            for hook in self.hooks:
                hook(line)
            threading.Thread(target=back, args=(server, client), daemon=True).start()
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
        except OSError:
            client.close()
