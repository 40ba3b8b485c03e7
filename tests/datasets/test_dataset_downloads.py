"""Downloads, from a server of the test's own: a partial or damaged one never counts as data."""

from __future__ import annotations

import gc
import hashlib
import warnings
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pooch
import pytest
from dataset_files import cancer, citeseer

from conecollapse import DatasetError, DatasetNotFoundError
from conecollapse.datasets import load, registry
from conecollapse.datasets.files import cache_folder
from conecollapse.datasets.loading import _SETS


class Site:
    """What a server gives for each name, and how often it was asked."""

    def __init__(self):
        self.files, self.asked, self.cut = {}, [], set()

    def handler(site):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.strip("/")
                site.asked.append(name)
                if name not in site.files:
                    self.send_error(404)
                    return
                content = site.files[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if name in site.cut else content)

            def log_message(self, *_):
                pass

        return Handler


@pytest.fixture
def site(monkeypatch, nothing_at_hand):
    """A server that has CANCER and CITESEER, and a registry that points at it."""
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), site.handler())
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for name, write in (("CANCER", cancer), ("CITESEER", citeseer)):
        folder = nothing_at_hand / "origin" / name
        folder.mkdir(parents=True)
        write(folder)
        entry = registry[name]
        files = tuple(
            replace(file, url=f"http://127.0.0.1:{server.server_port}/{file.name}")
            for file in entry.files
        )
        monkeypatch.setitem(_SETS, name, replace(entry, files=files))
        site.files |= {path.name: path.read_bytes() for path in folder.iterdir()}
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


def kept():
    return sorted(
        path.relative_to(cache_folder()).as_posix()
        for path in cache_folder().rglob("*")
        if path.is_file()
    )


def quietly(name):
    """Load a set, without the warning that its checksum is unknown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(name)


def expect(name, checksum):
    """Let the registry know a checksum."""
    [file] = _SETS[name].files
    return replace(_SETS[name], files=(replace(file, checksum=checksum),))


def test_a_download_is_kept_and_recorded(site):
    with pytest.warns(
        UserWarning,
        match=(
            r"no checksum of 14cancer.xtrain, .* is known; .* its SHA-256 is recorded for later"
            r" checks"
        ),
    ):
        first = load("CANCER")
    assert first.source.startswith("downloaded from http://127.0.0.1")
    assert kept() == [
        f"CANCER/{name}"
        for name in (
            "14cancer.xtest",
            "14cancer.xtrain",
            "14cancer.ytest",
            "14cancer.ytrain",
            "SHA256SUMS",
        )
    ]
    site.asked.clear()
    again = load("CANCER")
    assert again.source.startswith("found in the cache")
    assert (again.X == first.X).all()
    assert site.asked == []
    assert [path.name for path in cache_folder().iterdir()] == ["CANCER"]


@pytest.mark.usefixtures("site")
def test_a_cached_file_that_changed():
    quietly("CITESEER")
    path = cache_folder() / "CITESEER" / "citeseer.tgz"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(
        DatasetError,
        match=r"citeseer.tgz' has SHA-256 .* records .* it was changed or damaged; replace it",
    ):
        load("CITESEER")


def test_a_known_checksum(site, monkeypatch):
    right = hashlib.sha1(site.files["citeseer.tgz"]).hexdigest()
    monkeypatch.setitem(_SETS, "CITESEER", expect("CITESEER", f"sha1:{'0' * 40}"))
    with pytest.raises(
        DatasetError,
        match=rf"gave a file with SHA1 {right} instead of 0000.*; it was not kept; try again",
    ):
        load("CITESEER")
    assert kept() == []
    monkeypatch.setitem(_SETS, "CITESEER", expect("CITESEER", f"sha1:{right}"))
    assert load("CITESEER").n_samples == 2  # and no warning


def cut_short(site):
    site.cut.add("14cancer.xtest")


def gone(site):
    del site.files["14cancer.ytest"]


def holding(content):
    def change(site):
        whole = site.files["citeseer.tgz"]
        site.files["citeseer.tgz"] = whole[: len(whole) // 2] if content == b"half" else content

    return change


NO_DATA = r"CITESEER cannot be read from http://\S+ \(.*\); .*: it was not kept, try again"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            *("CANCER", cut_short),
            r"http://127\S+14cancer.xtest could not be downloaded \(.*\); try again, or put",
        ),
        (
            *("CANCER", gone),
            r"downloaded \(404 Client Error.*\); try again, or put 14cancer.ytest into",
        ),
        *(("CITESEER", holding(some), NO_DATA) for some in (b"", b"<html>moved</html>", b"half")),
    ],
)
def test_a_download_that_fails_or_is_something_else_is_not_kept(site, name, change, message):
    change(site)
    with pytest.raises((DatasetError, DatasetNotFoundError), match=message):
        load(name)
    gc.collect()  # requests leaves the socket of a download that broke off open until here
    assert kept() == []
    if site.cut:
        site.cut.clear()
        assert quietly("CANCER").n_samples == 4


@pytest.mark.usefixtures("nothing_at_hand")
def test_offline(monkeypatch):
    [file] = registry["MED"].files
    offline = replace(registry["MED"], files=(replace(file, url="http://127.0.0.1:9/med.tar.gz"),))
    monkeypatch.setitem(_SETS, "MED", offline)
    with pytest.raises(
        DatasetNotFoundError,
        match=(
            r"MED is not on this machine and http://\S+ could not be downloaded"
            r" \(.*refused.*put med"
        ),
    ):
        load("MED")


def test_no_network_unless_allowed(site):
    with pytest.raises(DatasetNotFoundError, match="or load it with download=True"):
        load("CANCER", download=False)
    assert site.asked == []


def test_a_killed_download_leaves_no_data(site, monkeypatch):
    def killed(*args):
        target = args[2]
        Path(target).write_bytes(site.files[Path(target).name][:20])
        raise KeyboardInterrupt

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        load("CITESEER")
    assert kept() == []
    left = cache_folder() / ".CITESEER.0.tmp"  # what a process leaves that had no time to clean up
    left.mkdir()
    (left / "citeseer.tgz").write_bytes(b"half")
    with pytest.raises(DatasetNotFoundError):
        load("CITESEER", download=False)


@pytest.mark.usefixtures("site")
def test_a_cache_that_cannot_be_written_to(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("CONECOLLAPSE_CACHE", str(tmp_path / "file"))
    with pytest.raises(
        DatasetError,
        match=(
            r"the cache folder '.*file' cannot be written to \(.*\); set CONECOLLAPSE_CACHE to"
            r" another folder"
        ),
    ):
        load("CITESEER")
    monkeypatch.setenv("CONECOLLAPSE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "CITESEER").write_text("in the way")
    with pytest.raises(DatasetError, match="cannot be written to"):
        load("CITESEER")
    assert kept() == ["CITESEER"]


def test_the_systems_cache(monkeypatch):
    monkeypatch.delenv("CONECOLLAPSE_CACHE", raising=False)
    assert cache_folder() == Path(pooch.os_cache("conecollapse"))
