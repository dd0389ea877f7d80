"""Files of other programs: sheets, archives, pictures, XML, YAML."""

import gzip
import io
import json
import sqlite3
import struct
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
import zlib
from base64 import b64encode
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import yaml
from host_jobs import Ctx, handler


@handler("sheet")
def sheet(ctx: Ctx, params: list[list[Any]]) -> list[list[Any]]:
    """Writes a workbook into a temporary file and reads it again."""
    import openpyxl

    book = openpyxl.Workbook()
    for row in params:
        book.active.append(row)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.xlsx"
        book.save(path)
        read = openpyxl.load_workbook(path, read_only=True)
        rows = [list(row) for row in read.active.iter_rows(values_only=True)]
        read.close()
    return rows


@handler("zip")
def pack(ctx: Ctx, params: dict[str, str]) -> list[Any]:
    """Packs files with names of any script and lists them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in params.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    with zipfile.ZipFile(out) as archive:
        return [[info.filename, info.file_size, archive.read(info).decode()] for info in archive.infolist()]


@handler("xml")
def feed(ctx: Ctx, params: str) -> list[str]:
    """Reads the titles of a feed."""
    root = ElementTree.fromstring(params)
    return [title.text or "" for title in root.iterfind(".//{http://www.w3.org/2005/Atom}title")]


@handler("write-xml")
def write_xml(ctx: Ctx, params: dict[str, str]) -> str:
    """Writes XML."""
    root = ElementTree.Element("order", {"id": params.pop("id")})
    for name, text in params.items():
        ElementTree.SubElement(root, name).text = text
    return ElementTree.tostring(root, encoding="unicode")


@handler("yaml")
def read_yaml(ctx: Ctx, params: str) -> Any:
    """Reads a configuration."""
    return yaml.safe_load(params)


@handler("picture")
def picture(ctx: Ctx, params: list[int]) -> dict[str, int]:
    """Makes a picture and reads its size from it."""
    width, height = params
    rows = b"".join(b"\0" + b"\xff\0\0" * width for _ in range(height))
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    read = struct.unpack(">II", png[16:24])
    return {"width": read[0], "height": read[1]}


@handler("sql")
def sql(ctx: Ctx, params: list[list[Any]]) -> list[list[Any]]:
    """Groups rows with SQL, in memory."""
    base = sqlite3.connect(":memory:")
    base.execute("create table sales (region text, amount real)")
    base.executemany("insert into sales values (?, ?)", params)
    return [list(row) for row in base.execute("select region, sum(amount) from sales group by region order by 2 desc")]


@handler("eml")
def eml(ctx: Ctx, params: dict[str, str]) -> list[str]:
    """Writes a mail with an attachment, as servers of mail take it."""
    message = EmailMessage()
    message["Subject"], message["To"] = params["subject"], params["to"]
    message.set_content(params["text"])
    message.add_attachment(b"a;b\n", maintype="text", subtype="csv", filename="rows.csv")
    return [message["Subject"], *(part.get_content_type() for part in message.walk()), message.as_bytes()[:8].decode()]


@handler("gzip")
def compress(ctx: Ctx, params: Any) -> list[Any]:
    """Compresses JSON and reads it again."""
    packed = gzip.compress(json.dumps(params).encode(), mtime=0)
    return [json.loads(gzip.decompress(packed)), b64encode(packed[:4]).decode()]
