//! Decimals, dates and time zones.

use std::collections::BTreeMap;

use chrono::{DateTime, Days, NaiveDate, Utc};
use chrono_tz::Tz;
use guest_sdk::{Category, Ctx, Error, handler};
use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Deserialize)]
pub(crate) struct Invoice {
    number: Uuid,
    issued: DateTime<Utc>,
    zone: String,
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    price: Decimal,
    #[serde(default = "one")]
    quantity: u32,
    vat: Decimal,
}

const fn one() -> u32 {
    1
}

#[derive(Serialize)]
pub(crate) struct Totals {
    number: Uuid,
    taxes: Vec<Tax>,
    gross: Decimal,
    issued: String,
    due: String,
}

#[derive(Serialize)]
struct Tax {
    vat: Decimal,
    net: Decimal,
    tax: Decimal,
}

/// Adds an invoice up, with VAT by rate, and says when it is due where it was issued.
#[handler]
pub(crate) fn invoice(_ctx: &Ctx, params: Invoice) -> Result<Totals, Error> {
    let mut nets: BTreeMap<Decimal, Decimal> = BTreeMap::new();
    for item in &params.items {
        *nets.entry(item.vat).or_default() += item.price * Decimal::from(item.quantity);
    }
    let taxes: Vec<Tax> = nets
        .into_iter()
        .map(|(vat, net)| {
            let exact = net * vat / Decimal::ONE_HUNDRED;
            let tax = exact.round_dp_with_strategy(2, RoundingStrategy::MidpointAwayFromZero);
            Tax { vat, net, tax }
        })
        .collect();
    let issued = params.issued.with_timezone(&params.zone.parse::<Tz>()?);
    let due = issued + Days::new(14);
    Ok(Totals {
        number: params.number,
        gross: taxes.iter().map(|it| it.net + it.tax).sum(),
        taxes,
        issued: issued.format("%A, %-d %B %Y, %H:%M %Z").to_string(),
        due: due.to_rfc3339(),
    })
}

#[derive(Deserialize)]
pub(crate) struct Booking {
    day: NaiveDate,
    amount: Decimal,
}

/// Adds bookings by month.
#[handler("by-month")]
pub(crate) fn by_month(
    _ctx: &Ctx,
    params: Vec<Booking>,
) -> Result<BTreeMap<String, Decimal>, Error> {
    let mut months = BTreeMap::new();
    for booking in params {
        let month = booking.day.format("%Y-%m").to_string();
        *months.entry(month).or_default() += booking.amount;
    }
    Ok(months)
}

#[derive(Deserialize)]
pub(crate) struct Exchange {
    amounts: Vec<Decimal>,
    rate: Decimal,
}

/// Converts amounts, rounds half to even, and refuses negative ones.
#[handler]
pub(crate) fn exchange(_ctx: &Ctx, params: Exchange) -> Result<Vec<Decimal>, Error> {
    let convert = |amount: Decimal| {
        if amount.is_sign_negative() {
            let error = Error::new(
                Category::DataQuality,
                "negative",
                format_args!("{amount} is negative"),
            );
            return Err(error.code("422").details(&amount));
        }
        Ok((amount * params.rate).round_dp(2))
    };
    params.amounts.into_iter().map(convert).collect()
}

#[derive(Deserialize)]
pub(crate) struct Dunning {
    today: NaiveDate,
    due: Vec<NaiveDate>,
}

/// Says for each day how many days ago it was, and which reminder is sent.
#[handler]
pub(crate) fn overdue(_ctx: &Ctx, params: Dunning) -> Result<Vec<(i64, &'static str)>, Error> {
    let late = |due: NaiveDate| {
        let days = (params.today - due).num_days();
        let reminder = match days {
            ..=0 => "none",
            1..=14 => "first",
            _ => "last",
        };
        (days, reminder)
    };
    Ok(params.due.into_iter().map(late).collect())
}
