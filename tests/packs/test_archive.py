"""The octets of a pack: what is read, what is refused with which code, and that writing is reproducible."""

import gzip
import io
import os
import tarfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.packs.archive import MAX_FILES, PackLimits, PackRefused, PackTooLarge, read_tarball, write_tarball
from assay.packs.build import read_directory
from support.packs import PRIVATE_PEM, write_files

SMALL = PackLimits(100_000)


def tarball(*members, format=tarfile.USTAR_FORMAT):
    """By Python's own writer: names with contents, or whole TarInfos."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=format) as archive:
        for member in members:
            name, content = member if isinstance(member, tuple) else (member, b"")
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(raw.getvalue())


def entry(name, kind, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


GOOD = tarball(("pack.json", b"{}"), ("prompts/a.md", b"hello"))
RAW = gzip.decompress(GOOD)


def changed(at, data):
    return gzip.compress(RAW[:at] + data + RAW[at + len(data) :])


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"", "tarball_gunzip_failed", "cut off"),
        (b"not gzip", "tarball_gunzip_failed", "not gzip"),
        (GOOD[:-9], "tarball_gunzip_failed", "cut off"),
        (GOOD[:-1] + b"\xff", "tarball_gunzip_failed", "length"),
        (GOOD + b"x", "tarball_gunzip_failed", "1 bytes follow"),
        (GOOD + GOOD, "tarball_gunzip_failed", "follow"),  # a second member would be hidden content
        (gzip.compress(b""), "tarball_tar_parse_failed", "no end mark"),
        (gzip.compress(RAW[:513]), "tarball_tar_parse_failed", "pack.json: expected the whole file"),
        (gzip.compress(RAW[:1024]), "tarball_tar_parse_failed", "no end mark"),
        (gzip.compress(RAW[:2048] + bytes(512)), "tarball_tar_parse_failed", "two empty blocks"),
        (gzip.compress(RAW + b"x" * 512), "tarball_tar_parse_failed", "two empty blocks"),
        (changed(0, b"Pack"), "tarball_tar_parse_failed", "checksum"),
        (changed(257, b"posix"), "tarball_tar_parse_failed", "USTAR"),
        (changed(515, b"x"), "tarball_tar_parse_failed", "pack.json: expected padding"),  # hidden in the padding
        (tarball(("a\xff.md", b""), format=tarfile.GNU_FORMAT), "tarball_tar_parse_failed", "USTAR"),
        (tarball(("a", b"1"), ("a", b"2")), "tarball_tar_parse_failed", "a: expected one file"),
        (tarball(("../a", b"")), "tarball_path_traversal", "'..'"),
        (tarball(("a/../../b", b"")), "tarball_path_traversal", "'..'"),
        (tarball(("/etc/passwd", b"")), "tarball_path_traversal", "absolute"),
        (tarball(("C:/a", b"")), "tarball_path_traversal", "absolute"),
        (tarball(("a\\..\\b", b"")), "tarball_path_traversal", "backslash"),
        (tarball(("./pack.json", b"")), "tarball_tar_parse_failed", "plain path"),
        (tarball(("a\x1b[2J", b"")), "tarball_tar_parse_failed", "plain path"),
        (tarball(entry("a", tarfile.SYMTYPE, "/etc/passwd")), "tarball_path_traversal", "symbolic link"),
        (tarball(entry("a", tarfile.LNKTYPE, "b")), "tarball_path_traversal", "hard link"),
        (tarball(entry("a", tarfile.CHRTYPE)), "tarball_tar_parse_failed", "a device"),
        (tarball(entry("a", tarfile.BLKTYPE)), "tarball_tar_parse_failed", "a device"),
        (tarball(entry("a", tarfile.FIFOTYPE)), "tarball_tar_parse_failed", "a pipe"),
        (tarball(entry("a", tarfile.DIRTYPE)), "tarball_tar_parse_failed", "a directory"),
        (tarball(("a" * 101, b""), format=tarfile.PAX_FORMAT), "tarball_tar_parse_failed", "extended header"),
        (tarball(("a", b"x" * 100_001)), "tarball_entry_too_large", "a: expected at most 100,000"),
        (tarball(*((f"{n}", b"") for n in range(MAX_FILES + 1))), "tarball_too_large", "500 files"),
        (gzip.compress(bytes(401_000)), "tarball_too_large", "unpacked archive has more than 400,000"),
        (bytes(100_001), "tarball_too_large", "100,001 bytes; the limit is 100,000"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)  # fmt: skip
def test_an_unusual_archive_is_refused_with_a_published_code(data, code, words):
    with pytest.raises(PackRefused) as refused:
        read_tarball(data, SMALL)
    assert refused.value.code == code
    assert words in str(refused.value)
    assert isinstance(refused.value, PackTooLarge) == code.endswith("too_large")


def test_a_bomb_is_refused_before_it_is_unpacked():
    """Ten gigabytes in ten megabytes would take minutes; the first hundred-fold ends it."""
    stream = zlib.compressobj(9, wbits=31)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(20)) + stream.flush()
    with pytest.raises(PackTooLarge, match="100 times its size"):
        read_tarball(bomb)


@given(
    st.dictionaries(
        st.sampled_from(["a", "é/b.md", "a" * 100, f"{'b' * 90}/{'c' * 90}", "pack.json", "x/y/z", "x/y.z"]),
        st.binary(max_size=2000),
        max_size=5,
    )
)
def test_a_written_archive_is_read_and_any_order_gives_the_same_octets(files):
    data = write_tarball(files)
    assert read_tarball(data) == files
    assert write_tarball(dict(reversed(files.items()))) == data
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:  # other readers read the same
        assert {one.name: archive.extractfile(one).read() for one in archive} == files
        assert all(one.mtime == one.uid == one.gid == 0 and one.mode == 0o644 for one in archive)


def test_a_pack_is_not_compressed_so_that_no_compressor_decides_its_octets():
    content = b"abc" * 50_000  # several stored blocks
    data = write_tarball({"a": content})
    assert content[:60_000] in data
    assert gzip.decompress(data)[512 : 512 + len(content)] == content


def test_a_folder_has_the_files_of_its_pack_without_hidden_ones(tmp_path):
    write_files(tmp_path, {"pack.json": b"{}", "a/b.md": b"x", ".git/config": b"", "a/.DS_Store": b""})
    assert read_directory(tmp_path) == {"a/b.md": b"x", "pack.json": b"{}"}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda root: (root / "a").symlink_to("/etc/passwd"), "a: expected files and folders only"),
        (lambda root: os.mkfifo(root / "a"), "a: expected files and folders only"),
        (lambda root: (root / "a\nb").write_bytes(b""), "plain path"),
        (lambda root: (root / "a").write_bytes(b"x" * 100_001), "a: expected at most 100,000 bytes"),
        (lambda root: (root / "k.pem").write_bytes(PRIVATE_PEM), "k.pem: this file holds a private key"),
        (lambda root: [(root / f"{n}").touch() for n in range(MAX_FILES + 1)], "more than 500 files"),
        (lambda root: [(root / f"{n}").write_bytes(b"x" * 90_000) for n in range(5)], "400,000 bytes in all"),
    ],
    ids=["link", "pipe", "control", "large", "key", "many", "sum"],
)
def test_a_folder_with_anything_else_is_refused(tmp_path, make, words):
    make(tmp_path)
    with pytest.raises(PackRefused) as refused:
        read_directory(tmp_path, SMALL)
    assert words in str(refused.value)


def test_an_absent_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="expected a folder"):
        read_directory(tmp_path / "none")
