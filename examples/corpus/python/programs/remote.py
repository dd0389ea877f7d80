"""Requests, signatures and tokens."""

import hashlib
import hmac
import json
import urllib.request
from typing import Any

import jwt
import requests
from host_jobs import Category, Ctx, JobError, handler

KEY = "a key of more than thirty-two bytes for tests"


@handler("pages")
def pages(ctx: Ctx, params: str) -> list[int]:
    """Follows pages with `requests`."""
    rows, url = [], params + "/rows?page=1"
    with requests.Session() as session:
        session.headers["accept"] = "application/json"
        while url:
            answer = session.get(url, timeout=10)
            answer.raise_for_status()
            rows += answer.json()["rows"]
            url = params + answer.json()["next"] if answer.json()["next"] else None
    return rows


@handler("download")
def download(ctx: Ctx, params: str) -> str:
    """Reads a file in parts."""
    digest = hashlib.sha256()
    with requests.get(params + "/file", stream=True, timeout=10) as answer:
        for part in answer.iter_content(1024):
            digest.update(part)
    return digest.hexdigest()[:16]


@handler("standard-library")
def standard_library(ctx: Ctx, params: str) -> Any:
    """Sends a request without a package."""
    request = urllib.request.Request(params + "/echo", json.dumps({"a": 1}).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return [answer.status, json.load(answer)]


@handler("form")
def form(ctx: Ctx, params: str) -> Any:
    """Sends a form, and looks a header up."""
    answer = ctx.http.post(params + "/echo", data={"name": "Zoë", "tags": ["a", "b"]}, headers={"x-count": 3})
    return [answer.status_code, answer.headers["Content-Type"], answer.json()]


@handler("missing")
def missing(ctx: Ctx, params: str) -> str:
    """Finds that something is not there."""
    answer = requests.get(params + "/missing", timeout=10)
    try:
        answer.raise_for_status()
    except requests.HTTPError as error:
        raise JobError("it is not there", kind="gone", code=error.response.status_code, category=Category.DATA_QUALITY) from error
    return "there"


@handler("token")
def token(ctx: Ctx, params: dict[str, Any]) -> Any:
    """Makes a token and checks it, and refuses another."""
    made = jwt.encode({**params, "exp": 4_000_000_000}, KEY, algorithm="HS256")
    try:
        jwt.decode(made[:-3] + "AAA", KEY, algorithms=["HS256"])
    except jwt.InvalidSignatureError:
        return [made.count("."), jwt.decode(made, KEY, algorithms=["HS256"])]


@handler("webhook")
def webhook(ctx: Ctx, params: dict[str, str]) -> bool:
    """Verifies that a webhook is from who signs it."""
    expected = hmac.new(KEY.encode(), params["body"].encode(), "sha256").hexdigest()
    return hmac.compare_digest(expected, params["signature"])
