"""Texts, tables and pages."""

import csv
import hashlib
import html
import io
import re
import statistics
import string
import textwrap
import unicodedata
from base64 import b64decode
from collections import Counter
from difflib import unified_diff
from pathlib import Path
from typing import Any

import jinja2
from bs4 import BeautifulSoup
from host_jobs import Ctx, handler

TEMPLATES = jinja2.Environment(loader=jinja2.PackageLoader("programs"), autoescape=True)


@handler("mail")
def mail(ctx: Ctx, params: dict[str, Any]) -> str:
    """Writes a mail from a template that is a file of the package."""
    return TEMPLATES.get_template("mail.html").render(params)


@handler("template-size")
def template_size(ctx: Ctx, params: None) -> int:
    """Reads a file beside the module."""
    return len((Path(__file__).parent / "templates" / "mail.html").read_text())


@handler("csv")
def read_csv(ctx: Ctx, params: dict[str, str]) -> list[dict[str, str]]:
    """Reads a table as Excel writes it: with a byte order mark or in a code page, with semicolons."""
    raw = b64decode(params["base64"])
    text = raw.decode("utf-8-sig") if raw.startswith(b"\xef\xbb\xbf") else raw.decode("cp1252")
    dialect = csv.Sniffer().sniff(text.splitlines()[0], delimiters=";,\t")
    return list(csv.DictReader(io.StringIO(text, newline=""), dialect=dialect))


@handler("write-csv")
def write_csv(ctx: Ctx, params: list[list[Any]]) -> str:
    """Writes a table."""
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_MINIMAL).writerows(params)
    return out.getvalue()


@handler("scrape")
def scrape(ctx: Ctx, params: str) -> list[dict[str, str]]:
    """Takes prices from a page."""
    page = BeautifulSoup(params, "html.parser")
    rows = page.select("table.prices tr:has(td)")
    return [{"name": row.td.get_text(strip=True), "price": row.find("td", class_="price").get_text(strip=True)} for row in rows]


@handler("slug")
def slug(ctx: Ctx, params: list[str]) -> list[str]:
    """Makes names for addresses."""
    from slugify import slugify

    return [slugify(text) for text in params]


@handler("ascii")
def to_ascii(ctx: Ctx, params: str) -> str:
    """Writes letters of any script in ASCII."""
    from unidecode import unidecode

    return unidecode(params)


@handler("markdown")
def to_html(ctx: Ctx, params: str) -> str:
    """Makes HTML of Markdown, with extensions that are imported by name."""
    import markdown

    return markdown.markdown(params, extensions=["tables", "fenced_code"])


@handler("words")
def words(ctx: Ctx, params: str) -> list[list[Any]]:
    """Counts words, whatever their accents."""
    plain = unicodedata.normalize("NFKD", params.casefold()).encode("ascii", "ignore").decode()
    return [list(pair) for pair in Counter(re.findall(r"[a-z]+", plain)).most_common(3)]


@handler("diff")
def diff(ctx: Ctx, params: list[str]) -> str:
    """Compares two texts."""
    old, new = (text.splitlines() for text in params)
    return "\n".join(unified_diff(old, new, "old", "new", lineterm=""))


@handler("letter")
def letter(ctx: Ctx, params: dict[str, str]) -> str:
    """Fills a letter in and wraps it."""
    text = string.Template("Dear $name, $text").substitute(params)
    return textwrap.fill(html.unescape(text), 30)


@handler("figures")
def figures(ctx: Ctx, params: list[float]) -> dict[str, float]:
    """Describes numbers."""
    return {"mean": statistics.fmean(params), "median": statistics.median(params), "deviation": round(statistics.stdev(params), 6)}


@handler("digest")
def digest(ctx: Ctx, params: str) -> dict[str, str]:
    """Computes checksums."""
    return {name: hashlib.new(name, params.encode()).hexdigest()[:16] for name in ("md5", "sha256", "sha3_256", "blake2b")}
