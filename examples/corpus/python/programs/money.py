"""Money, dates and checked params."""

import enum
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Generic, NewType, Sequence, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from host_jobs import Category, Ctx, JobError, handler


class Currency(enum.Enum):
    EUR = "EUR"
    CHF = "CHF"


@dataclass
class Item:
    title: str
    price: Decimal
    quantity: int = 1


@dataclass
class Invoice:
    number: UUID
    issued: datetime
    items: list[Item]
    currency: Currency = Currency.EUR
    zone: str = "Europe/Berlin"
    total: Decimal = field(init=False, default=Decimal(0))


@handler("invoice")
def invoice(ctx: Ctx, params: Invoice) -> dict[str, str]:
    """Adds an invoice up, with tax, and says when it is due where it was issued."""
    net = sum((item.price * item.quantity for item in params.items), Decimal(0))
    cent = Decimal("0.01")
    tax = (net * Decimal("0.19")).quantize(cent, ROUND_HALF_UP)
    due = params.issued.astimezone(ZoneInfo(params.zone)) + timedelta(days=14)
    return {
        "number": str(params.number),
        "gross": f"{(net + tax).quantize(cent)} {params.currency.value}",
        "due": due.isoformat(),
        "zone": due.tzname() or "",
    }


class Booking(TypedDict):
    day: date
    amount: Decimal


@handler("by-month")
def by_month(ctx: Ctx, params: Sequence[Booking]) -> dict[str, Decimal]:
    """Adds bookings by month."""
    months: dict[str, Decimal] = defaultdict(Decimal)
    for booking in params:
        months[f"{booking['day']:%Y-%m}"] += booking["amount"]
    return dict(sorted(months.items()))


T = TypeVar("T")
Percent = NewType("Percent", float)


@dataclass
class Page(Generic[T]):
    items: list[T]
    share: Percent = Percent(0)


@dataclass
class Span:
    start: datetime
    length: timedelta


@handler("spans")
def spans(ctx: Ctx, params: Page[Span]) -> tuple[datetime, timedelta, float]:
    """Returns the last end, the whole length, and a share of it in hours."""
    whole = sum((it.length for it in params.items), timedelta())
    return max(it.start + it.length for it in params.items), whole, whole.total_seconds() / 3600 * params.share


@handler("holidays")
def holidays(ctx: Ctx, params: int) -> list[date]:
    """Returns Easter and what depends on it."""
    from dateutil.easter import easter

    sunday = easter(params)
    return [sunday - timedelta(days=2), sunday, sunday + timedelta(days=39), sunday + timedelta(days=50)]


@handler("parse-dates")
def parse_dates(ctx: Ctx, params: list[str]) -> list[str]:
    """Reads dates as people write them."""
    from dateutil import parser

    formats = ("%d.%m.%Y", "%Y-%m-%d %H:%M", "%d %b %Y")
    read = []
    for text in params:
        for format in formats:
            try:
                read.append(datetime.strptime(text, format).isoformat())
                break
            except ValueError:
                continue
        else:
            read.append(parser.parse(text).isoformat())
    return read


@handler("refuse-negative")
def refuse_negative(ctx: Ctx, params: Decimal) -> None:
    """Fails with details of types that JSON does not have."""
    if params < 0:
        details = {"amount": params, "at": datetime(2026, 1, 2, 3, 4), "tags": {"credit"}}
        raise JobError("a negative amount", kind="negative", code=422, category=Category.DATA_QUALITY, details=details)
