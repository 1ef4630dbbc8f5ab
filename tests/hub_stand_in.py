"""A hub on 127.0.0.1: as much of the real one's HTTP as pushing a model and pulling it again need."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from huggingface_hub import constants

#: The one who may push, and may see what is private.
TOKEN = "hf_stand_in"
#: What the real one stores outside of git: binary files.
_LARGE = (".zip", ".fighter", ".mp4")


@dataclass
class Repository:
    """The files of each branch; the last commit of a branch has the hash of its files."""

    private: bool = False
    branches: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"main": {".gitattributes": b"*.zip -text"}})

    def files(self, revision: str) -> dict[str, bytes] | None:
        """Returns the files at a branch or at the last commit of one; ``None`` if there is no such revision."""
        return {**self.branches, **{sha_of(files): files for files in self.branches.values()}}.get(revision)


def sha_of(files: dict[str, bytes]) -> str:
    """The hash of a commit."""
    return hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()


def tags_of(files: dict[str, bytes]) -> list[str]:
    """The tags that the card of a repository names."""
    found = re.match(r"---\n(.*?)\n---", files.get("README.md", b"").decode(), re.DOTALL)
    return [*(yaml.safe_load(found[1]) or {}).get("tags", [])] if found else []


class Hub(ThreadingHTTPServer):
    """Keeps what is pushed: repositories, and the messages of commits."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.repositories: dict[str, Repository] = {}
        self.messages: list[str] = []
        self.large: dict[str, bytes] = {}  # by SHA-256
        #: Answers with this status to requests whose path contains the text.
        self.failing: dict[str, int] = {}
        #: Sends only so many bytes of the next file, and closes the connection; ``shortened`` says so from the start.
        self.cut: int | None = None
        self.shortened: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, name: str, files: dict[str, bytes], private: bool = False) -> None:
        """Adds a repository with these files."""
        self.repositories[name] = Repository(private, {"main": files})

    def handle_error(self, request: Any, address: Any) -> None:
        """Clients that hang up are no news."""


@pytest.fixture(name="hub")
def hub_stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    """The stand-in as the only hub that this process knows; the token is that of the one who may push."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        settings = {"HF_HUB_DISABLE_XET": True, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_TELEMETRY": True}
        folders = {"HF_HUB_CACHE": str(tmp_path / "hub"), "HF_TOKEN_PATH": str(tmp_path / "no-token")}
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, server.url)
        urls = {"HUGGINGFACE_CO_URL_TEMPLATE": template, "ENDPOINT": server.url}
        for name, value in {**settings, **folders, **urls}.items():
            monkeypatch.setattr(constants, name, value)
        yield server
        server.shutdown()
        thread.join()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *arguments: Any) -> None:
        pass

    def parse_request(self) -> bool:
        """Also answers if this request is to fail."""
        if not super().parse_request():
            return False
        status = next((status for part, status in self.server.failing.items() if part in self.path), None)
        if status is not None:
            self._body()
            self._answer({"error": "the stand-in fails as told"}, status)
        return status is None

    def do_POST(self) -> None:
        body = self._body()
        path = self.path.partition("?")[0]
        if not self._is_trusted():
            self._answer({"error": "Invalid username or password."}, 401)
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self._answer({"errors": [], "warnings": []})
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._accept_large(json.loads(body)["objects"])
        elif (found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit|branch)/(.+)", path)) is None:
            self._answer({"error": path}, 404)
        elif (repository := self.server.repositories.get(found[1])) is None:
            self._answer({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
        elif found[2] == "branch":
            is_new = found[3] not in repository.branches
            repository.branches.setdefault(found[3], {**repository.branches["main"]})
            self._answer({}, 200 if is_new else 409)
        elif found[2] == "preupload":
            paths = [each["path"] for each in json.loads(body)["files"]]
            modes = [("lfs" if path.endswith(_LARGE) else "regular", path) for path in paths]
            self._answer({"files": [{"path": path, "uploadMode": mode, "shouldIgnore": False} for mode, path in modes]})
        elif found[3] not in repository.branches:
            self._answer({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        else:
            self._commit(found[1], repository.branches[found[3]], body)

    def do_PUT(self) -> None:
        content = self._body()
        self.server.large[hashlib.sha256(content).hexdigest()] = content
        self._answer({})

    def do_GET(self) -> None:
        address, _, query = self.path.partition("?")
        path = address.removeprefix("/api/models")
        if address == "/api/models":
            wanted = {*parse_qs(query).get("filter", ())}
            tags = {name: tags_of(each.branches["main"]) for name, each in self.server.repositories.items()}
            self._answer([{"id": name, "modelId": name} for name, own in tags.items() if wanted <= {*own}])
            return
        found = re.fullmatch(r"/([^/]+/[^/]+)(?:/(?:resolve|revision|tree)/([^/]+))?(?:/(.+))?", path)
        repository = self.server.repositories.get(found[1]) if found else None
        revision = found[2] or "main" if found else ""
        if found is None or repository is None or (repository.private and not self._is_trusted()):
            # The real one also says 401 about what does not exist, to those whom it does not know.
            known = 404 if self._is_trusted() else 401
            self._answer({"error": "Repository not found"}, known, {"X-Error-Code": "RepoNotFound"})
        elif (files := repository.files(revision)) is None:
            self._answer({"error": "Invalid rev id"}, 404, {"X-Error-Code": "RevisionNotFound"})
        elif "/resolve/" in path:
            self._file(files[found[3]], sha_of(files))
        elif "/tree/" in path:
            self._answer([{"type": "file", "path": each, "size": len(files[each]), "oid": "0" * 40} for each in files])
        else:
            info = {"siblings": [{"rfilename": each} for each in files], "sha": sha_of(files), "tags": tags_of(files)}
            self._answer({"id": found[1], "modelId": found[1], "private": repository.private, **info})

    do_HEAD = do_GET

    def _is_trusted(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _create(self, request: dict[str, Any]) -> None:
        name = f"{request['organization'] or 'somebody'}/{request['name']}"
        is_new = name not in self.server.repositories
        self.server.repositories.setdefault(name, Repository(request.get("visibility") == "private"))
        answer = {"url": f"{self.server.url}/{name}", "name": name, "id": name}
        self._answer(answer, 200 if is_new else 409)

    def _accept_large(self, objects: list[dict[str, Any]]) -> None:
        """Tells where to send large files."""
        target = f"{self.server.url}/large"
        self._answer({"objects": [{**each, "actions": {"upload": {"href": target}}} for each in objects]})

    def _commit(self, name: str, files: dict[str, bytes], body: bytes) -> None:
        for line in body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                self.server.messages.append(value["summary"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
            else:
                assert entry["key"] == "file", entry
                files[value["path"]] = base64.b64decode(value["content"])
        sha = sha_of(files)
        url = f"{self.server.url}/{name}/commit/{sha}"
        self._answer({"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})

    def _file(self, content: bytes, sha: str) -> None:
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": sha}
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        sent = content[int(start[1]) if start else 0 :]
        if self.command == "GET":
            if self.server.shortened is not None:
                sent = sent[: self.server.shortened]
            cut, self.server.cut = self.server.cut, None
        else:
            cut = None
        self._send(206 if start else 200, sent, {**headers, "Content-Type": "application/octet-stream"}, cut)

    def _answer(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {**(headers or {}), "Content-Type": "application/json"})

    def _send(self, status: int, content: bytes, headers: dict[str, str], cut: int | None = None) -> None:
        self.send_response(status)
        for name, text in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:cut])
        if cut is not None:
            self.close_connection = True

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)
