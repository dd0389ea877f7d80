//! A filter of jobs as a line of text: `state:failed queue:mail since:2h`. Words are joined by "and".

use host_core::job::State;
use host_core::time::Time;

use crate::filter::FilterQuery;

/// The longest text of a filter, in bytes.
pub const FILTER_TEXT_BYTES_MAX: usize = 2_048;

/// What stands before an attribute's name.
const ATTRIBUTE: &str = "attr.";

/// What stands before the path of a value in the params.
const PARAM: &str = "params.";

/// The keys, for those who used another one.
pub const KEYS: &str = "state, queue, handler, failure, fingerprint, wire, unique, batch, id, since, until, attr.NAME, params.KEY and sort";

/// Reads a filter. A word without a key is the start of an id, or a handler. `now` is what `since:2h` and `until:1d`
/// count back from. The error says which word is wrong.
pub fn parse(text: &str, now: Time) -> Result<FilterQuery, String> {
    if text.len() > FILTER_TEXT_BYTES_MAX {
        return Err(format!(
            "the filter must have at most {FILTER_TEXT_BYTES_MAX} bytes"
        ));
    }
    let mut filter = FilterQuery::default();
    for word in words(text)? {
        let (key, value) = match word.split_once(':') {
            Some((key, value)) => (key, value.to_owned()),
            None if is_start_of_id(&word) => ("id", word.clone()),
            None => ("handler", word.clone()),
        };
        if value.is_empty() {
            return Err(format!("`{word}`: a value must follow the colon"));
        }
        set(&mut filter, key, value, now).map_err(|wrong| format!("`{word}`: {wrong}"))?;
    }
    Ok(filter)
}

impl FilterQuery {
    /// Reads its `q` into the other parameters. The error says what is wrong, or which parameter is there twice.
    pub fn read(self, now: Time) -> Result<Self, String> {
        fn one<T>(name: &str, given: Option<T>, read: Option<T>) -> Result<Option<T>, String> {
            match (given, read) {
                (Some(_), Some(_)) => Err(format!("{name}: also in q")),
                (given, read) => Ok(given.or(read)),
            }
        }
        let Some(text) = &self.q else {
            return Ok(self);
        };
        let read = parse(text, now).map_err(|wrong| format!("q: {wrong}"))?;
        Ok(Self {
            q: None,
            queue: one("queue", self.queue, read.queue)?,
            handler: one("handler", self.handler, read.handler)?,
            since: one("since", self.since, read.since)?,
            until: one("until", self.until, read.until)?,
            id: one("id", self.id, read.id)?,
            failure: one("failure", self.failure, read.failure)?,
            wire: one("wire", self.wire, read.wire)?,
            unique_key: one("unique_key", self.unique_key, read.unique_key)?,
            attribute: one("attribute", self.attribute, read.attribute)?,
            param: one("param", self.param, read.param)?,
            fingerprint: one("fingerprint", self.fingerprint, read.fingerprint)?,
            batch: one("batch", self.batch, read.batch)?,
            state: one("state", self.state, read.state)?,
            sort: one("sort", self.sort, read.sort)?,
            limit: self.limit,
            cursor: self.cursor,
        })
    }
}

/// Writes a filter as [`parse`] reads it.
pub fn write(filter: &FilterQuery) -> String {
    let pair = |before: &str, pair: &Option<String>| {
        let (name, value) = pair.as_ref()?.split_once('=')?;
        Some((format!("{before}{name}"), value.to_owned()))
    };
    let pairs = [
        pair(ATTRIBUTE, &filter.attribute),
        pair(PARAM, &filter.param),
    ];
    let state = filter.state.map(|state| state.as_str().to_owned());
    let parts = [
        ("state", state),
        ("queue", filter.queue.clone()),
        ("handler", filter.handler.clone()),
        ("failure", filter.failure.clone()),
        ("fingerprint", filter.fingerprint.clone()),
        ("wire", filter.wire.clone()),
        ("unique", filter.unique_key.clone()),
        ("batch", filter.batch.clone()),
        ("id", filter.id.clone()),
        ("since", filter.since.clone()),
        ("until", filter.until.clone()),
    ];
    let parts = parts.into_iter();
    let parts = parts.filter_map(|(key, value)| Some((key.to_owned(), value?)));
    let texts: Vec<String> = parts
        .chain(pairs.into_iter().flatten())
        .map(|(key, value)| format!("{key}:{}", quoted(&value)))
        .collect();
    texts.join(" ")
}

/// Returns whether a word without a key means an id: eight or more of its characters.
fn is_start_of_id(word: &str) -> bool {
    word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn set(filter: &mut FilterQuery, key: &str, value: String, now: Time) -> Result<(), String> {
    let place = match key {
        "state" => {
            let state = match value.as_str() {
                // What people call it.
                "failed" => Some(State::Discarded),
                name => State::from_name(name),
            };
            filter.state = Some(state.ok_or("not a state of a job")?);
            return Ok(());
        }
        "sort" => {
            let order = serde_json::from_value(serde_json::Value::String(value));
            filter.sort = Some(order.map_err(|_| "must be newest or oldest".to_owned())?);
            return Ok(());
        }
        "since" | "until" => {
            let at = instant(&value, now).ok_or(
                "must be a time such as 2026-05-17T18:30:00Z, or as long ago as 90s, 15m, 2h or 7d",
            )?;
            if key == "since" {
                &mut filter.since
            } else {
                &mut filter.until
            }
            .replace(at.to_rfc3339());
            return Ok(());
        }
        "queue" => &mut filter.queue,
        "handler" => &mut filter.handler,
        "failure" => &mut filter.failure,
        "fingerprint" => &mut filter.fingerprint,
        "wire" => &mut filter.wire,
        "unique" => &mut filter.unique_key,
        "batch" => &mut filter.batch,
        "id" => &mut filter.id,
        _ => {
            let places = [
                (ATTRIBUTE, &mut filter.attribute),
                (PARAM, &mut filter.param),
            ];
            let mut places = places.into_iter();
            let place = places.find_map(|(before, place)| Some((key.strip_prefix(before)?, place)));
            let (name, place) = place.ok_or_else(|| format!("the keys are {KEYS}"))?;
            return put(place, format!("{name}={value}"));
        }
    };
    put(place, value)
}

fn put(place: &mut Option<String>, value: String) -> Result<(), String> {
    if place.is_some() {
        return Err("this key may stand only once".to_owned());
    }
    *place = Some(value);
    Ok(())
}

fn instant(text: &str, now: Time) -> Option<Time> {
    let unit = text.chars().last()?;
    let unit_ms = match unit {
        's' => 1_000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        _ => return Time::parse_rfc3339(text),
    };
    let count: u32 = text.strip_suffix(unit)?.parse().ok()?;
    let ago_ms = i64::from(count).checked_mul(unit_ms)?;
    Some(Time(now.0.saturating_sub(ago_ms)))
}

/// Splits a text at its spaces. A value in double quotes may have spaces, and `\"` for a quote.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let (mut is_quoted, mut chars) = (false, text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' if is_quoted => word.extend(chars.next()),
            '"' => (is_quoted, is_word) = (!is_quoted, true),
            c if c.is_whitespace() && !is_quoted => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_quoted {
        return Err("a quote is not closed".to_owned());
    }
    if is_word {
        words.push(word);
    }
    Ok(words)
}

fn quoted(value: &str) -> String {
    if !value.contains([' ', '"', '\t', '\n']) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_800_000_000_000);

    #[test]
    fn a_filter_is_read_and_written() {
        for (text, written) in [
            ("", ""),
            ("state:failed", "state:discarded"),
            ("state:sleeping", "!"),
            ("handler:report*", "handler:report*"),
            ("state:discarded queue:mail", "state:discarded queue:mail"),
            (
                "  handler:python#send   failure:timed_out ",
                "handler:python#send failure:timed_out",
            ),
            ("report", "handler:report"),
            ("01990f3c-1a2b", "id:01990f3c-1a2b"),
            (
                "attr.customer:\"a \\\"b\\\" c\"",
                "attr.customer:\"a \\\"b\\\" c\"",
            ),
            ("unique:a:b", "unique:a:b"),
            (
                "params.order.id:77 fingerprint:0a1b2c3d4e5f",
                "fingerprint:0a1b2c3d4e5f params.order.id:77",
            ),
            ("attr.a:1 attr.b:2", "!"),
            ("since:2h", "since:2027-01-15T06:00:00.000Z"),
            (
                "until:2026-05-17T18:30:00Z",
                "until:2026-05-17T18:30:00.000Z",
            ),
            ("order:77", "!"),
            ("queue:", "!"),
            ("queue:a queue:b", "!"),
            ("since:soon", "!"),
            ("queue:\"a", "!"),
        ] {
            let read = parse(text, NOW);
            let found = read.map_or_else(|_| "!".to_owned(), |filter| write(&filter));
            assert_eq!(found, written, "{text}");
        }
    }

    #[test]
    fn a_filter_in_a_query_is_joined_with_its_other_parameters() {
        let query = |q: &str, queue: Option<&str>| FilterQuery {
            q: Some(q.to_owned()),
            queue: queue.map(str::to_owned),
            limit: Some(5),
            ..FilterQuery::default()
        };
        let read = query("state:failed", Some("mail")).read(NOW).unwrap();
        assert_eq!(write(&read), "state:discarded queue:mail");
        assert_eq!((read.q, read.limit), (None, Some(5)));
        let twice = query("queue:a", Some("mail")).read(NOW).unwrap_err();
        assert_eq!(twice, "queue: also in q");
        let wrong = query("since:soon", None).read(NOW).unwrap_err();
        assert!(wrong.starts_with("q: `since:soon`: "), "{wrong}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = parse("queue:a colour:red", NOW).unwrap_err();
        assert!(
            wrong.starts_with("`colour:red`: the keys are state, queue"),
            "{wrong}"
        );
    }
}
