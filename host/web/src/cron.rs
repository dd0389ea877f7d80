//! Patterns of schedules in words, as far as they are usual ones.

/// Returns when a pattern fires: `at 02:30 every day`.
pub(crate) fn in_words(pattern: &str) -> Option<String> {
    let fields: Vec<&str> = pattern.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return None;
    };
    let is_daily = [day, month, weekday] == ["*"; 3];
    if let (Some(minute), Some(hour)) = (number(minute, 59), number(hour, 23)) {
        let days = days(day, month, weekday)?;
        return Some(format!("at {hour:02}:{minute:02} {days}"));
    }
    if !is_daily {
        return None;
    }
    match (minute, number(minute, 59), hour) {
        ("*", _, "*") => Some("every minute".to_owned()),
        (_, Some(minute), "*") => Some(format!("at minute {minute} of every hour")),
        (_, Some(minute), _) => {
            let hours = every(hour, 23)?;
            Some(format!("every {hours} hours, at minute {minute}"))
        }
        (_, None, "*") => Some(format!("every {} minutes", every(minute, 59)?)),
        _ => None,
    }
}

/// Returns on which days.
fn days(day: &str, month: &str, weekday: &str) -> Option<String> {
    const WEEKDAYS: [&str; 8] = [
        "Sunday",
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    ];
    let name = |text: &str| {
        let known = WEEKDAYS.iter().find(|name| {
            let short = name.get(..3).unwrap_or_default();
            short.eq_ignore_ascii_case(text)
        });
        let by_number = || WEEKDAYS.get(usize::try_from(number(text, 7)?).ok()?);
        known.or_else(by_number).copied()
    };
    match (day, month, weekday) {
        ("*", "*", "*") => Some("every day".to_owned()),
        ("*", "*", range) => match range.split_once('-') {
            Some((first, last)) => Some(format!("{} to {}", name(first)?, name(last)?)),
            None => Some(format!("every {}", name(range)?)),
        },
        (day, "*", "*") => Some(format!("on day {} of every month", number(day, 31)?)),
        _ => None,
    }
}

fn number(text: &str, most: u32) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= most)
}

/// Returns the step of a field.
fn every(field: &str, most: u32) -> Option<u32> {
    number(field.strip_prefix("*/")?, most).filter(|step| *step > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_patterns_have_words_and_others_none() {
        for (pattern, words) in [
            ("30 2 * * *", Some("at 02:30 every day")),
            ("0 6 1 * *", Some("at 06:00 on day 1 of every month")),
            ("5 22 * * 1-5", Some("at 22:05 Monday to Friday")),
            ("0 0 * * sun", Some("at 00:00 every Sunday")),
            ("0 0 * * 7", Some("at 00:00 every Sunday")),
            ("* * * * *", Some("every minute")),
            ("*/5 * * * *", Some("every 5 minutes")),
            ("7 * * * *", Some("at minute 7 of every hour")),
            ("0 */6 * * *", Some("every 6 hours, at minute 0")),
            ("0 0 1 1 *", None),
            ("0 0 1 * 1", None),
            ("1,2 * * * *", None),
            ("60 2 * * *", None),
            ("@daily", None),
            ("", None),
        ] {
            assert_eq!(in_words(pattern).as_deref(), words, "{pattern}");
        }
    }
}
