"""Packages from archives: .zip and .tar.gz files of a server."""

import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Final, Self

from nexusform.configuration.remote_modules.module_sources import ModuleSource
from nexusform.files.file_trees import TreeEntry, TreeLimits, UnsafeTree
from nexusform.workflow.module_packages.package_download import DownloadError, send_download

# Headers of a tar file are unpacked, too.
_MAX_UNPACKED_BYTES: Final = TreeLimits().remaining_bytes + (64 << 20)
_ZIP_HEADER: Final = b"PK\x01\x02"
# Headers whose content is a text that `tarfile` reads whole.
_TEXT_HEADERS: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_MAX_TEXT_MIB: Final = 1
# Fields of a header: the size of the content, and the type of the entry.
_TAR_SIZE: Final = slice(124, 136)
_TAR_TYPE: Final = 156
_TAR_FILE_TYPES: Final = (
    tarfile.REGTYPE,
    tarfile.AREGTYPE,
    tarfile.CONTTYPE,
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.GNUTYPE_SPARSE,
)
_CHUNK_BYTES: Final = 1 << 20
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


def download_archive(
    source: ModuleSource, allows_address: Callable[[str], bool]
) -> Iterator[TreeEntry]:
    """Download an archive, check its SHA-256 and return its files.

    Raises DownloadError; the iterator raises it, too, and UnsafeTree.
    """
    content = send_download(source.address, allows_address).content
    digest = hashlib.sha256(content).hexdigest()
    if source.checksum and digest != source.checksum:
        raise DownloadError(
            f"its SHA-256 is {digest}, not {source.checksum} as in the source. Check who changed "
            "the file"
        )
    return _read_archive(content, source.archive)


def _read_archive(content: bytes, form: str) -> Iterator[TreeEntry]:
    files = _read_zip(content) if form == "zip" else _read_tar(content)
    try:
        yield from files
    except _UNREADABLE as problem:
        reason = str(problem).splitlines()[0][:100] if str(problem) else type(problem).__name__
        printable_reason = "".join(letter if letter.isprintable() else "?" for letter in reason)
        raise DownloadError(f"it is not a valid .{form} file ({printable_reason})") from None


def _read_zip(content: bytes) -> Iterator[TreeEntry]:
    limits = TreeLimits()
    # Before `zipfile` keeps them all: each file and directory has such a header.
    limits.check_number(content.count(_ZIP_HEADER))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        # The limit is reached before anything is written.
        members = [member for member in archive.infolist() if not member.is_dir()]
        limits.check_files(len(members))
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFLNK):
                raise UnsafeTree(f"{member.filename[:80]!a} is neither a file nor a directory.")
            limits.count(0)
            with archive.open(member) as file:
                # One byte more than allowed shows an excess: the declared size may be wrong.
                text = file.read(limits.remaining_bytes + 1)
            limits.count_bytes(len(text))
            if kind == stat.S_IFLNK:
                yield TreeEntry(member.filename, link=text.decode(errors="replace"))
            else:
                yield TreeEntry(member.filename, text)


def _read_tar(content: bytes) -> Iterator[TreeEntry]:
    limits = TreeLimits()
    _check_tar_headers(content)
    with (
        gzip.GzipFile(fileobj=io.BytesIO(content)) as unpacked,
        tarfile.open(  # type: ignore[call-overload]
            fileobj=_LimitedReader(unpacked), mode="r|", tarinfo=_LimitedHeader
        ) as archive,
    ):
        for member in archive:
            if member.isdir():
                continue
            # The size of a file with holes is larger than the file.
            limits.count(max(member.size, 0))
            if member.issym():
                yield TreeEntry(member.name, link=member.linkname)
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                raise UnsafeTree(
                    f"{member.name[:80]!a} is neither a file, a directory nor a symbolic link."
                )
            yield TreeEntry(member.name, file.read())


def _check_tar_headers(content: bytes) -> None:
    """Check the numbers of files and of all headers of a tar file, before anything is written.

    Only sizes and types of headers are read, which is much faster than `tarfile`. It reports
    anything that is not a header. Raises UnsafeTree.
    """
    limits = TreeLimits()
    files = 0
    headers = 0
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as unpacked:
        reader = _LimitedReader(unpacked)
        while len(header := reader.read(tarfile.BLOCKSIZE)) == tarfile.BLOCKSIZE:
            if not any(header):
                # The end of the archive.
                return
            try:
                size = tarfile.nti(header[_TAR_SIZE])  # type: ignore[attr-defined]
            except tarfile.HeaderError:
                return
            headers += 1
            files += header[_TAR_TYPE : _TAR_TYPE + 1] in _TAR_FILE_TYPES
            limits.check_number(headers)
            limits.check_files(files)
            # Content fills whole blocks.
            unread = -(-max(size, 0) // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
            while unread > 0 and (chunk := reader.read(min(unread, _CHUNK_BYTES))):
                unread -= len(chunk)


class _LimitedHeader(tarfile.TarInfo):
    """Header of a file in a tar archive, with texts up to a maximum."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header.

        Raises UnsafeTree for a text above the maximum.
        """
        header = super().frombuf(buf, encoding, errors)
        if header.type in _TEXT_HEADERS and header.size > _MAX_TEXT_MIB << 20:
            raise UnsafeTree(f"It has a name or comment of more than {_MAX_TEXT_MIB} MiB.")
        return header


class _LimitedReader:
    """Unpacked bytes up to a maximum."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._remaining = _MAX_UNPACKED_BYTES

    def read(self, size: int) -> bytes:
        """Read bytes.

        Raises UnsafeTree above the maximum.
        """
        chunk = self._file.read(size)
        self._remaining -= len(chunk)
        if self._remaining < 0:
            raise UnsafeTree(f"It unpacks to more than {_MAX_UNPACKED_BYTES >> 20} MiB.")
        return chunk
