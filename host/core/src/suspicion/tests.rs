//! How many workers a poison ends, and how long its neighbours wait.

use proptest::prelude::*;

use super::*;

/// How many jobs a worker has at a time.
const SLOTS: usize = 64;

/// Distributes jobs as a host does: those that are no suspects over `workers` shared workers, and suspects in groups to
/// as many others. Returns the jobs of each worker.
fn place(jobs: &[(usize, Suspicion)], workers: usize) -> Vec<Vec<usize>> {
    let mut shared = vec![Vec::new(); workers];
    let mut apart = vec![Vec::new(); workers];
    let mut groups = Groups::new(workers);
    let (mut next, mut suspects) = (0, 0);
    for (job, suspicion) in jobs {
        if suspicion.is_apart() {
            if suspects < workers * GROUP_JOBS_MAX
                && let Some(group) = groups.add(*suspicion)
            {
                apart[group].push(*job);
            }
            suspects += 1;
        } else if next < workers * SLOTS {
            shared[next % workers].push(*job);
            next += 1;
        }
    }
    shared.into_iter().chain(apart).collect()
}

/// Runs `jobs` jobs of the same length until all have ended, of which one ends each of its workers, and `kills` other
/// workers that had jobs die, too. Returns how many died with the poison, and how many rounds there were.
fn run(jobs: usize, workers: usize, poison: Option<usize>, mut kills: usize) -> (usize, usize) {
    let mut left: Vec<_> = (0..jobs).map(|job| (job, Suspicion::NONE)).collect();
    let (mut deaths, mut rounds) = (0, 0);
    while !left.is_empty() {
        rounds += 1;
        for had in place(&left, workers)
            .into_iter()
            .filter(|had| !had.is_empty())
        {
            let is_poisoned = poison.is_some_and(|poison| had.contains(&poison));
            deaths += usize::from(is_poisoned);
            let is_killed = kills > 0 && !is_poisoned;
            kills -= usize::from(is_killed);
            for (job, suspicion) in &mut left {
                if (is_poisoned || is_killed) && had.contains(job) {
                    *suspicion = suspicion.after_loss(had.len());
                }
            }
            let is_lost = is_poisoned || is_killed;
            left.retain(|(job, suspicion)| {
                !had.contains(job) || (is_lost && !suspicion.is_poison())
            });
        }
        assert!(rounds < 1_000, "it ends");
    }
    (deaths, rounds)
}

#[test]
fn each_loss_halves_the_group() {
    let mut suspicion = Suspicion::NONE;
    let mut groups = Vec::new();
    while !suspicion.is_poison() {
        groups.push(suspicion.group_max());
        suspicion = suspicion.after_loss(suspicion.group_max().unwrap_or(SLOTS));
    }
    let apart = [32, 16, 8, 4, 2, 1, 1, 1].map(Some);
    assert_eq!(groups, [&[None, None], &apart[..]].concat());
}

#[test]
fn a_small_group_is_halved_like_a_large_one() {
    let lost_once = Suspicion::NONE.after_loss(SLOTS);
    for (jobs, group_max) in [
        (2, 1),
        (3, 2),
        (4, 2),
        (7, 4),
        (8, 4),
        (33, 16),
        (64, 32),
        (500, 32),
    ] {
        assert_eq!(
            lost_once.after_loss(jobs).group_max(),
            Some(group_max),
            "{jobs}"
        );
    }
}

#[test]
fn one_lost_worker_costs_its_jobs_one_more_run() {
    for (jobs, workers) in [(64, 1), (64, 2), (128, 2), (7, 3)] {
        assert_eq!(run(jobs, workers, None, 1), (0, 2), "{jobs} jobs");
    }
}

#[test]
fn two_lost_workers_cost_no_more_than_the_groups() {
    assert_eq!(run(64, 1, None, 2), (0, 4));
    assert_eq!(run(128, 2, None, 4), (0, 4));
}

proptest! {
    #[test]
    fn a_poison_is_found_within_ten_deaths(
        jobs in 1..200_usize, workers in 1..9_usize, poison: prop::sample::Index, kills in 0..4_usize,
    ) {
        let (deaths, _) = run(jobs, workers, Some(poison.index(jobs)), kills);
        prop_assert!((3..=10).contains(&deaths), "{deaths} deaths");
    }

    #[test]
    fn groups_are_as_small_as_each_of_their_jobs_wants(
        losses in prop::collection::vec((2..12_u8, 1..65_usize), 0..200), count in 1..9_usize,
    ) {
        let suspects: Vec<Suspicion> = losses.iter().map(|(losses, jobs)| {
            (0..*losses).fold(Suspicion::NONE, |suspicion, _| suspicion.after_loss(*jobs))
        }).collect();
        let mut groups = Groups::new(count);
        let placed: Vec<_> = suspects.iter().map(|suspect| groups.add(*suspect)).collect();
        for group in 0..count {
            let of_group = || placed.iter().zip(&suspects).filter(|(at, _)| **at == Some(group));
            let jobs_max = of_group().filter_map(|(_, suspect)| suspect.group_max()).min();
            prop_assert!(of_group().count() <= jobs_max.unwrap_or(0));
        }
        prop_assert!(suspects.is_empty() || placed[0] == Some(0), "the one that waits longest runs");
        // Without those that had no room.
        let mut again = Groups::new(count);
        for (at, suspect) in placed.iter().zip(&suspects).filter(|(at, _)| at.is_some()) {
            prop_assert_eq!(again.add(*suspect), *at);
        }
    }
}
