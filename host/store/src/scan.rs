//! How much a page or a count examines at most, the same on every engine. What is examined costs time, whether it
//! matches or not, so it is what a budget counts.

use host_core::query::JobFilter;

/// The shortest prefix of an id, in digits, that is looked up in the index of ids. A shorter one matches too
/// many jobs: the ids of one minute share their first eight digits.
const ID_DIGITS_MIN: usize = 8;

/// Returns whether a filter has a prefix of an id that is looked up in the index of ids.
pub(crate) fn is_by_id(filter: &JobFilter) -> bool {
    let prefix = filter.id.as_deref().unwrap_or_default();
    prefix.chars().filter(char::is_ascii_hexdigit).count() >= ID_DIGITS_MIN
}

/// What a page may cost. That of a lifecycle is 1.
const PAGE_COST_MAX: u64 = 20_000;

/// What the payload of a job and its latest attempt cost besides, and how many bytes of it cost 1 more.
const REST_COST: u64 = 3;
const REST_BYTES: usize = 4 << 10;

/// What is left of what a page or a count may cost.
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn of_page() -> Self {
        Self(PAGE_COST_MAX)
    }

    pub(crate) fn of_count(jobs_max: u64) -> Self {
        Self(jobs_max)
    }

    /// Takes the cost of a job whose lifecycle is examined. Returns whether the budget had room for it.
    pub(crate) fn job(&mut self) -> bool {
        let has_room = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        has_room
    }

    /// Takes the cost of the rest of a job, with params of so many bytes.
    pub(crate) fn rest(&mut self, bytes: usize) {
        let cost = REST_COST + (bytes / REST_BYTES) as u64;
        self.0 = self.0.saturating_sub(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_examined_costs_whatever_its_size() {
        // 20,000 × 4 KiB are less than 80 MiB.
        for (params_bytes, jobs) in [(None, 20_000), (Some(10), 5_000), (Some(1 << 20), 77)] {
            let (mut budget, mut examined) = (Budget::of_page(), 0);
            while budget.job() {
                examined += 1;
                if let Some(bytes) = params_bytes {
                    budget.rest(bytes);
                }
            }
            assert_eq!(examined, jobs);
        }
    }
}
