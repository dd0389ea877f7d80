//! How many jobs came, went and waited at this node, and how long, over the last hour in steps of a minute, the last
//! day in steps of a quarter of an hour and the last week in steps of two hours. Bounded.

use std::collections::BTreeMap;

use crate::cost::Spread;
use crate::cost::histogram::Histogram;
use crate::job::State;
use crate::time::Time;

/// One step.
#[derive(Clone, Debug, Default)]
struct Step {
    enqueued: u64,
    completed: u64,
    discarded: u64,
    cancelled: u64,
    failures: u64,
    waiting: Option<u64>,
    waited_ms: Histogram,
    ran_ms: Histogram,
}

/// What is shown of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// When it began.
    pub at: Time,
    /// Jobs that were accepted.
    pub enqueued: u64,
    /// Jobs that ended.
    pub completed: u64,
    pub discarded: u64,
    pub cancelled: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Jobs that waited for a slot at its end, as far as that was counted.
    pub waiting: Option<u64>,
    /// From when a job could start to its first attempt, in milliseconds.
    pub waited_ms: Spread,
    /// How long attempts took, in milliseconds.
    pub ran_ms: Spread,
}

/// The steps of the last hour, the last day and the last week.
#[derive(Clone, Debug)]
pub struct Trends {
    hour: Steps,
    day: Steps,
    week: Steps,
}

/// The newest steps of one length, by their number.
#[derive(Clone, Debug)]
struct Steps {
    ms: i64,
    max: usize,
    kept: BTreeMap<i64, Step>,
}

impl Default for Trends {
    fn default() -> Self {
        let steps = |ms, max| Steps {
            ms,
            max,
            kept: BTreeMap::new(),
        };
        Self {
            hour: steps(60_000, 60),
            day: steps(900_000, 96),
            week: steps(7_200_000, 84),
        }
    }
}

impl Trends {
    /// Counts jobs that entered a state; `is_new` if they were accepted in it.
    pub fn entered(&mut self, at: Time, state: State, is_new: bool, jobs: u64) {
        self.add(at, |step| {
            if is_new {
                step.enqueued += jobs;
            }
            match state {
                State::Completed => step.completed += jobs,
                State::Discarded => step.discarded += jobs,
                State::Cancelled => step.cancelled += jobs,
                _ => {}
            }
        });
    }

    /// Counts a job's first attempt that began.
    pub fn began(&mut self, at: Time, waited_ms: u64) {
        self.add(at, |step| step.waited_ms.add(waited_ms));
    }

    /// Counts an attempt that ended.
    pub fn ended(&mut self, at: Time, ran_ms: u64, is_failure: bool) {
        self.add(at, |step| {
            step.ran_ms.add(ran_ms);
            step.failures += u64::from(is_failure);
        });
    }

    /// Notes how many jobs wait for a slot.
    pub fn waiting(&mut self, at: Time, jobs: u64) {
        self.add(at, |step| step.waiting = Some(jobs));
    }

    /// Returns the last hour: each step, with those in which nothing happened.
    pub fn hour(&self, now: Time) -> Vec<Point> {
        self.hour.points(now)
    }

    /// Returns the last day.
    pub fn day(&self, now: Time) -> Vec<Point> {
        self.day.points(now)
    }

    /// Returns the last week.
    pub fn week(&self, now: Time) -> Vec<Point> {
        self.week.points(now)
    }

    fn add(&mut self, at: Time, count: impl Fn(&mut Step)) {
        for steps in [&mut self.hour, &mut self.day, &mut self.week] {
            count(steps.kept.entry(at.0.div_euclid(steps.ms)).or_default());
            while steps.kept.len() > steps.max {
                steps.kept.pop_first();
            }
        }
    }
}

impl Steps {
    fn points(&self, now: Time) -> Vec<Point> {
        let last = now.0.div_euclid(self.ms);
        let first = last.saturating_sub_unsigned(self.max as u64 - 1);
        let point = |number: i64| {
            let at = Time(number.saturating_mul(self.ms));
            let step = self.kept.get(&number);
            step.map_or(
                Point {
                    at,
                    ..Point::default()
                },
                |step| step.point(at),
            )
        };
        (first..=last).map(point).collect()
    }
}

impl Step {
    fn point(&self, at: Time) -> Point {
        Point {
            at,
            enqueued: self.enqueued,
            completed: self.completed,
            discarded: self.discarded,
            cancelled: self.cancelled,
            failures: self.failures,
            waiting: self.waiting,
            waited_ms: self.waited_ms.spread(),
            ran_ms: self.ran_ms.spread(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;

    #[test]
    fn each_step_has_what_happened_in_it() {
        let mut trends = Trends::default();
        let at = |minute: i64| Time(1_000 * 900_000 + minute * MINUTE + 7);
        trends.entered(at(0), State::Available, true, 3);
        trends.entered(at(1), State::Discarded, false, 1);
        trends.entered(at(1), State::Completed, false, 2);
        trends.entered(at(1), State::Running, false, 5);
        trends.began(at(1), 40);
        trends.ended(at(1), 8, true);
        trends.waiting(at(1), 9);
        let hour = trends.hour(at(1));
        assert_eq!(hour.len(), 60);
        assert_eq!((hour[58].enqueued, hour[58].waiting), (3, None));
        let last = hour[59];
        let counts = [last.enqueued, last.completed, last.discarded, last.failures];
        assert_eq!(counts, [0, 2, 1, 1]);
        assert_eq!(
            (last.waited_ms.p99, last.ran_ms.p50, last.waiting),
            (40, 8, Some(9))
        );
        assert_eq!(last.at, Time(1_000 * 900_000 + MINUTE));
        let day = trends.day(at(1));
        assert_eq!((day.len(), day[95].enqueued, day[95].completed), (96, 3, 2));
        let week = trends.week(at(1));
        assert_eq!((week.len(), week[83].enqueued), (84, 3));
        // Later, the hour has passed and the day has not.
        assert!(trends.hour(at(120)).iter().all(|point| point.enqueued == 0));
        assert_eq!(
            trends
                .day(at(120))
                .iter()
                .map(|it| it.enqueued)
                .sum::<u64>(),
            3
        );
    }

    #[test]
    fn only_so_many_steps_are_kept() {
        let mut trends = Trends::default();
        for minute in 0..200_000 {
            trends.began(Time(minute * MINUTE), 1);
        }
        let steps = [&trends.hour, &trends.day, &trends.week];
        assert_eq!(steps.map(|it| it.kept.len()), [60, 96, 84]);
    }
}
