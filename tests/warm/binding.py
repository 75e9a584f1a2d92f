# SPDX-License-Identifier: Apache-2.0
"""libvial through ctypes: an engine with its pools, in this process, as a program that
uses the library has them."""
import ctypes
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
VIAL = os.path.abspath(os.environ.get("VIAL", os.path.join(HERE, "../../build/vial")))
BUILD = os.environ.get("VIAL_BUILD") or os.path.dirname(VIAL)
SOAK = bool(os.environ.get("VIAL_SOAK"))
for _name in [n for n in os.environ if n.startswith("VIAL_")]:
    del os.environ[_name] # the library reads settings from there


class WarmOptions(ctypes.Structure):
    _fields_ = [("languages", ctypes.POINTER(ctypes.c_char_p)),
                ("imports", ctypes.POINTER(ctypes.c_char_p)),
                ("target", ctypes.c_uint), ("ceiling", ctypes.c_uint),
                ("memory_bytes", ctypes.c_uint64), ("idle_s", ctypes.c_uint)]


class EngineOptions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p)
                for name in ("preset", "config", "project_dir", "share_dir")] + [
                    ("later", ctypes.c_char * 256)] # members that were added since


def library():
    lib = ctypes.CDLL(os.path.join(BUILD, "libvial.so"))
    lib.vial_result_json.restype = ctypes.c_void_p
    lib.vial_result_json.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    return lib


def names(items):
    return (ctypes.c_char_p * (len(items) + 1))(*[i.encode() for i in items], None)


class Engine:
    def __init__(self, warm=None):
        """WARM: options of a pool, or None."""
        self.lib = library()
        self.libc = ctypes.CDLL(None)
        self.handle = ctypes.c_void_p()
        options = EngineOptions(config=b"/dev/null", project_dir=b"/",
                                share_dir=BUILD.encode())
        self._call("vial_engine_open", ctypes.byref(options), ctypes.byref(self.handle))
        if warm is not None:
            o = WarmOptions()
            for key, value in warm.items():
                if isinstance(value, (list, tuple)):
                    value = ctypes.cast(names(value), ctypes.POINTER(ctypes.c_char_p))
                setattr(o, key, value)
            self._call("vial_engine_warm", self.handle, ctypes.byref(o))

    def _call(self, name, *args):
        error = ctypes.create_string_buffer(16384)
        if getattr(self.lib, name)(*args, error) != 0:
            raise RuntimeError("%s: %s" % (name, " ".join(
                t.decode(errors="replace") for t in error.raw.split(b"\0") if t)[:500]))

    def _request(self, request):
        code = request.get("code")
        if isinstance(code, bytes): # JSON has only text
            request = {k: v for k, v in request.items() if k != "code"}
        text = json.dumps(request).encode()
        req = ctypes.c_void_p()
        self._call("vial_request_parse", text, ctypes.c_size_t(len(text)), ctypes.byref(req))
        if isinstance(code, bytes):
            self._call("vial_request_set_bytes", req, b"code", code, ctypes.c_size_t(len(code)))
        return req

    def ready(self, request, count=1, timeout_ms=60000):
        req = self._request(request)
        try:
            self._call("vial_warm_ready", self.handle, req, count, timeout_ms)
        finally:
            self.lib.vial_request_free(req)

    def run(self, request):
        req = self._request(request)
        result = ctypes.c_void_p()
        self._call("vial_run", self.handle, req, None, ctypes.byref(result))
        text = self.lib.vial_result_json(result, True)
        value = json.loads(ctypes.string_at(text))
        self.libc.free(ctypes.c_void_p(text))
        self.lib.vial_result_free(result)
        self.lib.vial_request_free(req)
        return value

    def report(self):
        text = ctypes.c_void_p()
        self._call("vial_warm_report", self.handle, ctypes.byref(text))
        value = json.loads(ctypes.string_at(text))
        self.libc.free(text)
        return value

    def close(self):
        if self.handle:
            self.lib.vial_engine_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
