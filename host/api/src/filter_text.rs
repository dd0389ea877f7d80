//! A filter of jobs as a line of text: `state:failed queue:mail since:2h refused`. Words are joined by "and".

use host_core::job::State;
use host_core::query::Order;
use host_core::time::Time;

use crate::filter::FilterQuery;

/// The longest text of a filter, in bytes.
pub(crate) const FILTER_TEXT_BYTES_MAX: usize = 2_048;

/// How many attributes, values of params and words a filter may have together. Each is looked for in each job.
pub(crate) const LOOKED_FOR_MAX: usize = 20;

/// What stands before an attribute's name.
const ATTRIBUTE: &str = "attr.";

/// What stands before the path of a value in the params.
const PARAM: &str = "params.";

/// The keys, for those who used another one.
pub const KEYS: &str = "state, queue, handler, failure, fingerprint, wire, unique, batch, id, since, until, attr.NAME, params.KEY and sort";

/// Which jobs. A job must match all that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub state: Option<State>,
    pub queue: Option<String>,
    /// `*` matches any characters.
    pub handler: Option<String>,
    /// A kind of failure, or a handler's own name of an error.
    pub failure: Option<String>,
    pub fingerprint: Option<String>,
    pub wire: Option<String>,
    pub unique_key: Option<String>,
    pub batch: Option<String>,
    /// The start of an id.
    pub id: Option<String>,
    pub since: Option<String>,
    pub until: Option<String>,
    /// Names and values.
    pub attributes: Vec<(String, String)>,
    /// Paths and values.
    pub params: Vec<(String, String)>,
    /// Texts that must occur in names, attributes, params or the failure.
    pub words: Vec<String>,
    pub sort: Option<Order>,
}

/// Reads a filter. A word without a key is the start of an id, or occurs in what jobs carry. `now` is what `since:2h` and
/// `until:1d` count back from. The error says which word is wrong.
pub fn parse(text: &str, now: Time) -> Result<Filter, String> {
    if text.len() > FILTER_TEXT_BYTES_MAX {
        return Err(format!(
            "the filter must have at most {FILTER_TEXT_BYTES_MAX} bytes"
        ));
    }
    let mut filter = Filter::default();
    for Word {
        text,
        is_quoted,
        colon,
    } in words(text)?
    {
        let keyed = colon.map(|at| (&text[..at], &text[at + 1..]));
        if is_quoted || keyed.is_none() && !is_start_of_id(&text) {
            filter.words.push(text);
            continue;
        }
        let set = match keyed {
            Some((_, "")) => Err("a value must follow the colon".to_owned()),
            Some((key, value)) => set(&mut filter, key, value.to_owned(), now),
            None => put(&mut filter.id, text.clone()),
        };
        set.map_err(|wrong| format!("`{text}`: {wrong}"))?;
    }
    let looked_for = filter.attributes.len() + filter.params.len() + filter.words.len();
    if looked_for > LOOKED_FOR_MAX {
        return Err(format!(
            "at most {LOOKED_FOR_MAX} attributes, params and words can be looked for in one filter, got {looked_for}"
        ));
    }
    Ok(filter)
}

impl FilterQuery {
    /// Asks for what a filter says.
    pub fn new(filter: &Filter) -> Self {
        Self {
            q: Some(write(filter)).filter(|text| !text.is_empty()),
            ..Self::default()
        }
    }

    /// Reads the filter of a request. The error says what is wrong, or which parameter is also in `q`.
    pub fn read(&self, now: Time) -> Result<Filter, String> {
        fn set_once<T>(name: &str, given: Option<T>, read: &mut Option<T>) -> Result<(), String> {
            match given.and_then(|given| read.replace(given)) {
                Some(_) => Err(format!("{name}: set both here and in q")),
                None => Ok(()),
            }
        }
        let text = self.q.as_deref().unwrap_or_default();
        let mut filter = parse(text, now).map_err(|wrong| format!("q: {wrong}"))?;
        let this = self.clone();
        set_once("queue", this.queue, &mut filter.queue)?;
        set_once("handler", this.handler, &mut filter.handler)?;
        set_once("since", this.since, &mut filter.since)?;
        set_once("until", this.until, &mut filter.until)?;
        set_once("id", this.id, &mut filter.id)?;
        set_once("failure", this.failure, &mut filter.failure)?;
        set_once("wire", this.wire, &mut filter.wire)?;
        set_once("unique_key", this.unique_key, &mut filter.unique_key)?;
        set_once("fingerprint", this.fingerprint, &mut filter.fingerprint)?;
        set_once("batch", this.batch, &mut filter.batch)?;
        set_once("state", this.state, &mut filter.state)?;
        set_once("sort", this.sort, &mut filter.sort)?;
        let pairs = [
            ("attribute", &self.attribute, &mut filter.attributes),
            ("param", &self.param, &mut filter.params),
        ];
        for (name, given, read) in pairs {
            if let Some(text) = given {
                let (key, value) = text
                    .split_once('=')
                    .ok_or_else(|| format!("{name}: expected KEY=VALUE"))?;
                read.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(filter)
    }
}

/// Writes a filter as [`parse`] reads it.
pub fn write(filter: &Filter) -> String {
    let state = filter.state.map(State::as_str);
    let sort = filter.sort.map(|order| match order {
        Order::Newest => "newest",
        Order::Oldest => "oldest",
    });
    let one = [
        ("state", state),
        ("queue", filter.queue.as_deref()),
        ("handler", filter.handler.as_deref()),
        ("failure", filter.failure.as_deref()),
        ("fingerprint", filter.fingerprint.as_deref()),
        ("wire", filter.wire.as_deref()),
        ("unique", filter.unique_key.as_deref()),
        ("batch", filter.batch.as_deref()),
        ("id", filter.id.as_deref()),
        ("since", filter.since.as_deref()),
        ("until", filter.until.as_deref()),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(format!("{key}:{}", quoted(value?))));
    let pairs = |before: &'static str, pairs: &[(String, String)]| {
        let text = |(name, value): &(String, String)| {
            format!("{before}{}:{}", without_colon(name), quoted(value))
        };
        pairs.iter().map(text).collect::<Vec<_>>()
    };
    let word = |word: &String| {
        if is_start_of_id(word) {
            in_quotes(word)
        } else {
            without_colon(word)
        }
    };
    let texts: Vec<String> = one
        .chain(pairs(ATTRIBUTE, &filter.attributes))
        .chain(pairs(PARAM, &filter.params))
        .chain(filter.words.iter().map(word))
        .chain(sort.map(|sort| format!("sort:{sort}")))
        .collect();
    texts.join(" ")
}

/// Returns whether a word without a key means an id: eight or more of its characters.
fn is_start_of_id(word: &str) -> bool {
    word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

fn set(filter: &mut Filter, key: &str, value: String, now: Time) -> Result<(), String> {
    let place = match key {
        "state" => {
            let state = State::from_name(&value).ok_or("not a state of a job")?;
            return put(&mut filter.state, state);
        }
        "sort" => {
            let order = match value.as_str() {
                "newest" => Order::Newest,
                "oldest" => Order::Oldest,
                _ => return Err("must be newest or oldest".to_owned()),
            };
            return put(&mut filter.sort, order);
        }
        "since" | "until" => {
            let at = instant(&value, now).ok_or(
                "must be a time such as 2026-05-17T18:30:00Z, or an age such as 90s, 15m, 2h or 7d",
            )?;
            let place = if key == "since" {
                &mut filter.since
            } else {
                &mut filter.until
            };
            return put(place, at.to_rfc3339());
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
            let mut places = [
                (ATTRIBUTE, &mut filter.attributes),
                (PARAM, &mut filter.params),
            ]
            .into_iter();
            let place = places.find_map(|(before, place)| Some((key.strip_prefix(before)?, place)));
            let (name, place) = place.ok_or_else(|| {
                format!("the keys are {KEYS}; put a text with a colon in double quotes")
            })?;
            place.push((name.to_owned(), value));
            return Ok(());
        }
    };
    put(place, value)
}

fn put<T>(place: &mut Option<T>, value: T) -> Result<(), String> {
    if place.is_some() {
        return Err("this key may appear only once".to_owned());
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

/// A word of a filter.
#[derive(Default)]
struct Word {
    text: String,
    /// Whether it begins with a quote, and so has no key.
    is_quoted: bool,
    /// Where its first colon is that is not in quotes.
    colon: Option<usize>,
}

/// Splits a text at its spaces. What is in double quotes may have spaces, and `\"` for a quote.
fn words(text: &str) -> Result<Vec<Word>, String> {
    let (mut words, mut word) = (Vec::new(), None::<Word>);
    let (mut is_quoted, mut chars) = (false, text.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' if is_quoted => word.get_or_insert_default().text.extend(chars.next()),
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_with(|| Word {
                    is_quoted: true,
                    ..Word::default()
                });
            }
            c if c.is_whitespace() && !is_quoted => words.extend(word.take()),
            c => {
                let word = word.get_or_insert_default();
                if c == ':' && !is_quoted {
                    word.colon.get_or_insert(word.text.len());
                }
                word.text.push(c);
            }
        }
    }
    if is_quoted {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    // Nothing in quotes is in every job.
    words.retain(|word| !word.text.is_empty());
    Ok(words)
}

fn quoted(value: &str) -> String {
    if value.contains(|c: char| c.is_whitespace() || c == '"') {
        in_quotes(value)
    } else {
        value.to_owned()
    }
}

/// Writes what must not be taken for a key with a value.
fn without_colon(text: &str) -> String {
    if text.contains(':') {
        in_quotes(text)
    } else {
        quoted(text)
    }
}

fn in_quotes(value: &str) -> String {
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
            ("report", "report"),
            (
                "Order \"a b\"  77 sort:newest",
                "Order \"a b\" 77 sort:newest",
            ),
            (
                "sort:oldest \"x:1\" state:running",
                "state:running \"x:1\" sort:oldest",
            ),
            ("\"01990f3c\" \"\"", "\"01990f3c\""),
            ("01990f3c 01990f3d", "!"),
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
            (
                "attr.a:1 params.x:1 attr.\"b c\":\"2 3\" params.x:2",
                "attr.a:1 attr.\"b c\":\"2 3\" params.x:1 params.x:2",
            ),
            (
                "attr.\"a:b\":1:2 params.\"c:d\":3",
                "attr.\"a:b\":1:2 params.\"c:d\":3",
            ),
            (&"attr.a:1 ".repeat(21), "!"),
            ("state:running state:running", "!"),
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
            let found = read.as_ref().map_or("!".to_owned(), write);
            assert_eq!(found, written, "{text}");
            if read.is_ok() {
                assert_eq!(parse(written, NOW), read, "{text}");
            }
        }
    }

    #[test]
    fn a_filter_in_a_query_is_joined_with_its_other_parameters() {
        let query = |q: &str, queue: Option<&str>| FilterQuery {
            q: Some(q.to_owned()),
            queue: queue.map(str::to_owned),
            attribute: Some("team=a=b".to_owned()),
            ..FilterQuery::default()
        };
        let filter = query("state:failed attr.team:c", Some("mail")).read(NOW);
        let read = write(&filter.unwrap());
        assert_eq!(read, "state:discarded queue:mail attr.team:c attr.team:a=b");
        let without = FilterQuery {
            param: Some("order".to_owned()),
            ..FilterQuery::default()
        };
        let wrong = without.read(NOW).unwrap_err();
        assert_eq!(wrong, "param: expected KEY=VALUE");
        let twice = query("queue:a", Some("mail")).read(NOW).unwrap_err();
        assert_eq!(twice, "queue: set both here and in q");
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
