//! Cron patterns: reading them, and the local times that they have. Refuses in our words what is easily mistaken; `croner`
//! reads the rest, and knows which days of a month match.

use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use croner::time::Weekday;
use jiff::civil::{Date, DateTime, Time};

/// The short forms of patterns.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTHS: [&str; 12] = [
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];

const WEEKDAYS: [&str; 7] = [
    "SUNDAY",
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
];

/// How many letters of a name are enough.
const SHORT: usize = 3;

/// One of the fields of a pattern.
struct Field {
    name: &'static str,
    min: u16,
    max: u16,
    /// The names of its values, and the value of the first.
    names: Option<(&'static [&'static str], usize)>,
    /// The letters that it may have besides names.
    letters: &'static [&'static str],
}

const FIELDS: [Field; 6] = [
    Field::of_numbers("second", 0, 59),
    Field::of_numbers("minute", 0, 59),
    Field::of_numbers("hour", 0, 23),
    Field {
        letters: &["L", "W", "LW"],
        ..Field::of_numbers("day of the month", 1, 31)
    },
    Field {
        names: Some((&MONTHS, 1)),
        ..Field::of_numbers("month", 1, 12)
    },
    Field {
        names: Some((&WEEKDAYS, 0)),
        letters: &["L"],
        ..Field::of_numbers("weekday", 1, 7)
    },
];

impl Field {
    const fn of_numbers(name: &'static str, min: u16, max: u16) -> Self {
        Self {
            name,
            min,
            max,
            names: None,
            letters: &[],
        }
    }

    /// Returns the field with numbers in place of names. The error says what is wrong with it.
    fn to_numbers(&self, text: &str) -> Result<String, String> {
        let elements: Result<Vec<_>, _> = text.split(',').map(|it| self.element(it)).collect();
        Ok(elements?.join(","))
    }

    fn element(&self, element: &str) -> Result<String, String> {
        let mut numbers = String::new();
        let mut rest = element;
        while let Some(start) = rest.find(|it: char| it.is_alphabetic()) {
            let (before, after) = rest.split_at(start);
            let end = after.find(|it: char| !it.is_alphabetic());
            let (word, left) = after.split_at(end.unwrap_or(after.len()));
            numbers.push_str(before);
            numbers.push_str(&self.word(word, before.ends_with('-'))?);
            rest = left;
        }
        numbers.push_str(rest);
        self.check_range(element, &numbers)?;
        Ok(numbers)
    }

    /// Returns the number that a word names, or the word if it is one of the letters of the field.
    fn word(&self, word: &str, is_end: bool) -> Result<String, String> {
        if self.letters.contains(&word) {
            return Ok(word.to_owned());
        }
        let Some((names, first)) = self.names else {
            return Err(format!(
                "{word:?} is not a number, and the field for the {} has no names",
                self.name
            ));
        };
        let number = |word: &str| {
            let names = &mut names.iter();
            let at = names.position(|name| *name == word || name[..SHORT] == *word)?;
            // A range ends with Sunday as the seventh day.
            let is_seventh = is_end && at + first == 0;
            Some(if is_seventh { 7 } else { at + first })
        };
        let last = word.strip_suffix('L').filter(|_| !self.letters.is_empty());
        let found = number(word)
            .map(|number| number.to_string())
            .or_else(|| Some(format!("{}L", number(last?)?)));
        found.ok_or_else(|| {
            format!(
                "{word:?} is not the name of a {}; write {} to {}",
                self.name,
                &names[1 - first][..SHORT],
                &names[(names.len() - first) % names.len()][..SHORT]
            )
        })
    }

    /// Refuses a range that runs backwards, and says what to write.
    fn check_range(&self, element: &str, numbers: &str) -> Result<(), String> {
        let Some((start, rest)) = numbers.split_once('-') else {
            return Ok(());
        };
        let digits = rest.find(|it: char| !it.is_ascii_digit());
        let (end, rest) = rest.split_at(digits.unwrap_or(rest.len()));
        let (Ok(start), Ok(end)) = (start.parse::<u16>(), end.parse::<u16>()) else {
            return Ok(());
        };
        if start <= end || start > self.max {
            return Ok(());
        }
        let Self { min, max, .. } = *self;
        let part = |from: u16, to: u16| match to {
            to if to > from => format!("{from}-{to}"),
            to if to == from => to.to_string(),
            _ => String::new(),
        };
        let parts: Vec<_> = [part(start, max), part(min, end)]
            .iter()
            .filter(|part| !part.is_empty())
            .map(|part| format!("{part}{rest}"))
            .collect();
        Err(format!(
            "the range {element:?} runs backwards; write {}",
            parts.join(",")
        ))
    }
}

/// The local times of a pattern. A set of numbers is a word with a bit for each.
#[derive(Clone, Debug)]
pub struct Pattern {
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    /// The days of a month, by its length from 28 and by the weekday of its first day.
    days: [[u64; 7]; 4],
}

impl Pattern {
    /// Reads a pattern. The error says what is wrong with it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let text = text.to_uppercase();
        let mut fields: Vec<_> = expand(text.trim())?.split_whitespace().collect();
        if let Some(field) = fields.iter().find(|it| it.split(',').any(str::is_empty)) {
            return Err(format!(
                "{field:?} has a comma without a value before or after it; write lists without spaces, such as 1,15"
            ));
        }
        match fields.len() {
            5 => fields.insert(0, "0"),
            6 => {}
            count => {
                return Err(format!(
                    "it must have five fields, or six with seconds first, got {count}"
                ));
            }
        }
        let numbers: Result<Vec<_>, _> = FIELDS
            .iter()
            .zip(&fields)
            .map(|(field, text)| field.to_numbers(text))
            .collect();
        let parser = CronParser::builder()
            .seconds(Seconds::Required)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(&numbers?.join(" ")).map_err(reason)?;
        Self::new(&cron).map_err(reason)
    }

    fn new(cron: &Cron) -> Result<Self, CronError> {
        let set = |values: Vec<u16>| {
            values
                .into_iter()
                .fold(0, |set, value| set | 1_u64 << value)
        };
        let mut days = [[0; 7]; 4];
        // A month of each length, in the leap year 2000 and the year after it.
        let months = [(2_001, 2), (2_000, 2), (2_000, 4), (2_000, 1)];
        for (lengths, ((year, month), length)) in days.iter_mut().zip(months.iter().zip(28_u32..)) {
            for (weekday, set) in (0..7).zip(lengths) {
                for day in 1..=length {
                    let weekday = WEEK[(weekday + day as usize - 1) % 7];
                    let has = cron.pattern.day_match(*year, *month, day, weekday)?;
                    *set |= u64::from(has) << day;
                }
            }
        }
        Ok(Self {
            seconds: set(cron.pattern.seconds.values()),
            minutes: set(cron.pattern.minutes.values()),
            hours: set(cron.pattern.hours.values()),
            months: set(cron.pattern.months.values()),
            days,
        })
    }

    /// Returns whether it has one time of day.
    pub(super) const fn is_once_a_day(&self) -> bool {
        self.seconds.is_power_of_two()
            && self.minutes.is_power_of_two()
            && self.hours.is_power_of_two()
    }

    /// Returns its first local time from `from` on, on a day up to `last`. Looks at each month once.
    pub(super) fn first_from(&self, from: DateTime, last: Date) -> Option<DateTime> {
        let today = from.date();
        if self.days_of(today) & 1 << today.day() != 0
            && let Some(time) = self.time_from(from.time())
        {
            return Some(today.to_datetime(time));
        }
        let first = self.time_from(Time::midnight())?;
        let mut month = today;
        let mut from_day = today.day() + 1;
        while month <= last {
            #[cfg(test)]
            super::steps::take();
            if let Some(day) = next_in(self.days_of(month), from_day) {
                return Some(
                    Date::new(month.year(), month.month(), day)
                        .ok()?
                        .to_datetime(first),
                );
            }
            month = month.last_of_month().tomorrow().ok()?;
            from_day = 1;
        }
        None
    }

    /// Returns the days of a month that match.
    fn days_of(&self, month: Date) -> u64 {
        if self.months & 1 << month.month() == 0 {
            return 0;
        }
        let first = month.first_of_month().weekday().to_sunday_zero_offset();
        let length = month.days_in_month() - 28;
        self.days[length.unsigned_abs() as usize][first.unsigned_abs() as usize]
    }

    /// Returns its first time of day from `from` on.
    fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        let first_minute = next_in(self.minutes, 0)?;
        let first_second = next_in(self.seconds, 0)?;
        let at = |hour, minute, second| Time::new(hour, minute, second, 0).ok();
        if next_in(self.hours, hour) == Some(hour) {
            if next_in(self.minutes, minute) == Some(minute)
                && let Some(second) = next_in(self.seconds, second)
            {
                return at(hour, minute, second);
            }
            if let Some(minute) = next_in(self.minutes, minute + 1) {
                return at(hour, minute, first_second);
            }
        }
        at(next_in(self.hours, hour + 1)?, first_minute, first_second)
    }
}

/// The days of a week, as `croner` names them.
const WEEK: [Weekday; 7] = [
    Weekday::Sunday,
    Weekday::Monday,
    Weekday::Tuesday,
    Weekday::Wednesday,
    Weekday::Thursday,
    Weekday::Friday,
    Weekday::Saturday,
];

/// Returns the first number of a set from `least` on, which is less than 64.
fn next_in(set: u64, least: i8) -> Option<i8> {
    let later = set & (u64::MAX << least);
    let first = i8::try_from(later.trailing_zeros()).ok()?;
    (later != 0).then_some(first)
}

/// Returns the fields of a pattern that is written as a nickname.
fn expand(text: &str) -> Result<&str, String> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    let mut nicknames = NICKNAMES.iter();
    let found = nicknames.find(|(name, _)| name.eq_ignore_ascii_case(text));
    found.map(|(_, fields)| *fields).ok_or_else(|| {
        let names = NICKNAMES.map(|(name, _)| name).join(", ");
        format!("a name is one of {names}; for other intervals write every")
    })
}

/// Returns what is wrong with a pattern, in the parser's words without its name for the part.
fn reason(error: CronError) -> String {
    let text = match error {
        CronError::ComponentError(text) | CronError::InvalidPattern(text) => in_ranges(text),
        CronError::IllegalCharacters(_) => {
            "it has a character that patterns do not; write digits, names, and * ? , - / # + L W"
                .to_owned()
        }
        other => other.to_string(),
    };
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

/// Says what the fields take instead of a number that is out of bounds.
fn in_ranges(text: String) -> String {
    if text.to_lowercase().contains("out of bounds") {
        return "a number is out of range; minutes are 0–59, hours 0–23, days 1–31, months 1–12, weekdays 0–7".to_owned();
    }
    text
}
