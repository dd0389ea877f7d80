//! What a run cost, beside what the last one cost.

use host_console::human;

use crate::commands::job::trial::Trial;

/// The cost of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    fuel: u64,
    cpu_us: u64,
    memory_bytes: u64,
    component_bytes: u64,
}

impl Cost {
    pub(super) fn new(trial: &Trial, component_bytes: u64) -> Self {
        Self {
            fuel: trial.fuel,
            cpu_us: trial.cpu_us,
            memory_bytes: trial.peak_memory_bytes,
            component_bytes,
        }
    }

    /// Returns one line for people: each number, and how it differs from the last one.
    pub(super) fn line(&self, last: Option<&Self>) -> String {
        let part = |name: &str, shown: String, of: fn(&Self) -> u64| {
            let change = last.map(|last| change(of(last), of(self)));
            format!("{name} {shown}{}", change.unwrap_or_default())
        };
        #[expect(clippy::cast_precision_loss, reason = "shown to people")]
        let cpu_ms = self.cpu_us as f64 / 1e3;
        [
            part("fuel", human::count(self.fuel), |cost| cost.fuel),
            part("CPU", format!("{cpu_ms:.1} ms"), |cost| cost.cpu_us),
            part("memory", human::bytes(self.memory_bytes), |cost| {
                cost.memory_bytes
            }),
            part("component", human::bytes(self.component_bytes), |cost| {
                cost.component_bytes
            }),
        ]
        .join(", ")
    }
}

/// Returns how `now` differs from `last`, in percent.
fn change(last: u64, now: u64) -> String {
    if last == now {
        return " (same)".to_owned();
    }
    if last == 0 {
        return String::new();
    }
    let (sign, more) = if now > last {
        ('+', now - last)
    } else {
        ('-', last - now)
    };
    let permille = u128::from(more) * 1000 / u128::from(last);
    match permille {
        0 => format!(" ({sign}0.1 % or less)"),
        _ => format!(" ({sign}{}.{} %)", permille / 10, permille % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::{Cost, change};

    #[test]
    fn changes_are_percentages_of_the_last_run() {
        for (last, now, shown) in [
            (100, 100, " (same)"),
            (100, 150, " (+50.0 %)"),
            (1_000, 995, " (-0.5 %)"),
            (1_000_000, 1_000_001, " (+0.1 % or less)"),
            (10, 25, " (+150.0 %)"),
            (0, 5, ""),
        ] {
            assert_eq!(change(last, now), shown, "{last} {now}");
        }
    }

    #[test]
    fn the_first_run_has_nothing_beside_it() {
        let cost = Cost {
            fuel: 12_345,
            cpu_us: 1_250,
            memory_bytes: 1 << 20,
            component_bytes: 96 << 10,
        };
        let first = "fuel 12,345, CPU 1.2 ms, memory 1.0 MiB, component 96.0 KiB";
        assert_eq!(cost.line(None), first);
        let second = Cost {
            fuel: 24_690,
            ..cost
        }
        .line(Some(&cost));
        assert!(
            second.starts_with("fuel 24,690 (+100.0 %), CPU 1.2 ms (same)"),
            "{second}"
        );
    }
}
