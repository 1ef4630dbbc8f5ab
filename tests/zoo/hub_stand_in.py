"""A hub on 127.0.0.1: as much of the real one's HTTP as making a repository, looking into it and committing need."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: The one who may push.
TOKEN = "hf_stand_in"
SHA = "0123456789" * 4


class Hub(ThreadingHTTPServer):
    """Keeps what is pushed: repositories, their files, and the messages of commits."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.messages: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def running_hub() -> Iterator[Hub]:
    with Hub() as hub:
        thread = threading.Thread(target=hub.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._answer({"error": "Invalid username or password."}, 401)
        elif path == "/api/repos/create":
            request = json.loads(body)
            name = f"{request['organization']}/{request['name']}"
            files = self.server.repositories.setdefault(name, {})
            files.setdefault(".gitattributes", b"*.zip filter=lfs diff=lfs merge=lfs -text\n")
            self._answer({"url": f"{self.server.url}/{name}", "name": name, "id": name})
        elif path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif "/preupload/" in path:
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            self._answer({"files": [{"path": each["path"], **modes} for each in json.loads(body)["files"]]})
        elif "/commit/" in path:
            self._commit(path.removeprefix("/api/models/").partition("/commit/")[0], body)
        else:
            self._answer({"error": path}, 404)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/"):
            self._model(*path.removeprefix("/api/models/").split("/"))
        elif "/resolve/" in path:
            name, _, file = path.lstrip("/").partition("/resolve/")
            self._file(self.server.repositories[name][file.partition("/")[2]])
        else:
            self._answer({"error": path}, 404)

    do_HEAD = do_GET

    def _model(self, owner: str, repository: str, question: str = "", *revision: str) -> None:
        name = f"{owner}/{repository}"
        files = self.server.repositories.get(name)
        if files is None:
            self._answer({"error": "Repository not found"}, 404)
        elif question == "tree":
            self._answer([{"type": "file", "path": each, "size": len(files[each]), "oid": SHA} for each in files])
        else:
            siblings = [{"rfilename": each} for each in files]
            self._answer({"id": name, "modelId": name, "sha": SHA, "private": False, "tags": [], "siblings": siblings})

    def _commit(self, name: str, body: bytes) -> None:
        for line in body.splitlines():
            entry = json.loads(line)
            if entry["key"] == "header":
                self.server.messages.append(entry["value"]["summary"])
            else:
                assert entry["key"] == "file", entry
                self.server.repositories[name][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
        url = f"{self.server.url}/{name}/commit/{SHA}"
        self._answer({"success": True, "commitOid": SHA, "commitUrl": url, "hookOutput": ""})

    def _file(self, content: bytes) -> None:
        etag = hashlib.sha1(content).hexdigest()
        self._send(
            200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": SHA, "Content-Type": "application/octet-stream"}
        )

    def _answer(self, value: Any, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, text in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)
