//! Tests the loop with the memory store and cells in memory, through [`Dispatch`] and what the loop
//! publishes.

pub(crate) mod bench;
mod drain;
mod executors;
mod failing;
mod leases;
mod pushing;
mod traces;
mod unrunnable;

use std::sync::atomic::Ordering;

use host_core::failure::FailureKind;
use host_core::job::{NewJob, State};
use host_core::json::JsonText;
use host_core::suspicion::Suspicion;
use host_engine::Rejection;
use host_engine::job::{Cancel, Enqueue, JobRefusal, Retry};
use host_engine::node::Recover;
use host_engine::queue::SetPaused;
use host_testing::Log;
use host_testing::cells::{Began, CellMessage};

use self::bench::{Bench, PARAMS_BYTES_MAX, job};
use self::failing::{Disk, POISON};
use super::*;
use crate::SubmitError;
use crate::events::EventKind;
use crate::logged::Logged;

#[tokio::test]
async fn a_job_runs_and_its_end_is_published() {
    let bench = Bench::start().await;
    let mut events = bench.dispatch.shared().events.listen();
    let id = bench.enqueue(job("echo")).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Completed);
    assert_eq!(detail.result.unwrap().as_str(), "{\"n\":1}");
    let attempts = bench.attempts(id).await;
    assert_eq!(attempts.len(), 1);
    assert!(attempts[0].executor.starts_with("cell-"));
    assert_eq!(attempts[0].revision, Some(("basics".to_owned(), 1)));
    assert_eq!(attempts[0].meter.fuel, 1);
    let mut states = Vec::new();
    while states.last() != Some(&Some(State::Completed)) {
        for event in events.recv().await.unwrap().iter() {
            if let EventKind::Changed(change) = &event.happened {
                states.push(change.to);
            }
        }
    }
    let life = [State::Available, State::Running, State::Completed];
    assert_eq!(states, life.map(Some));
    bench.stop().await;
}

#[tokio::test]
async fn more_jobs_than_slots_all_end() {
    let bench = Bench::start().await;
    let jobs: Vec<_> = (0..300).map(|_| job("noop")).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    bench.dispatch.submit(Enqueue(jobs)).await.unwrap();
    for id in ids {
        assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    }
    bench.stop().await;
}

#[tokio::test]
async fn large_params_wait_in_the_store() {
    let bench = Bench::start().await;
    let large = |handler: &str| {
        let mut job = job(handler);
        let text = "x".repeat(PARAMS_BYTES_MAX * 6 / 10);
        job.payload.params = JsonText(format!("{text:?}"));
        job
    };
    let first = bench.enqueue(large("hang")).await;
    let second = bench.enqueue(large("hang")).await;
    let third = bench.enqueue(large("noop")).await;
    let small = bench.enqueue(job("noop")).await;
    bench.until(second, State::Running).await;
    assert_eq!(bench.read(first).await.lifecycle.state, State::Running);
    for waiting in [third, small] {
        assert_eq!(bench.read(waiting).await.lifecycle.state, State::Available);
    }
    bench.stop_cells_of("hang");
    for waiting in [third, small] {
        assert_eq!(bench.ended(waiting).await.lifecycle.state, State::Completed);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_cancelled_job_is_stopped_and_ends() {
    let bench = Bench::start().await;
    let id = bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    let cancel = Cancel {
        job: id,
        reason: None,
        grace_ms: Some(700),
    };
    bench.dispatch.submit(cancel).await.unwrap();
    assert_eq!(bench.ended(id).await.lifecycle.state, State::Cancelled);
    assert!(bench.record.messages().contains(&CellMessage::Stop(700)));
    bench.stop().await;
}

#[tokio::test]
async fn a_guest_that_does_not_stop_is_killed_and_its_neighbours_go_on() {
    let bench = Bench::start().await;
    let neighbours = [
        bench.enqueue(job("hang")).await,
        bench.enqueue(job("hang")).await,
    ];
    bench.began("hang", 1).await;
    let stubborn = bench.enqueue(job("ignore")).await;
    bench.began("ignore", 1).await;
    let cancel = Cancel {
        job: stubborn,
        reason: None,
        grace_ms: Some(0),
    };
    bench.dispatch.submit(cancel).await.unwrap();
    let detail = bench.ended(stubborn).await;
    assert_eq!(detail.lifecycle.state, State::Cancelled);
    // One of the two shared the cell; it starts again, is not charged and is no suspect.
    bench.began("hang", 2).await;
    for id in neighbours {
        let lifecycle = bench.read(id).await.lifecycle;
        assert!(lifecycle.suspicion == Suspicion::NONE && lifecycle.attempts_charged() <= 1);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_job_that_kills_its_cells_runs_alone_and_is_poison_in_the_end() {
    let bench = Bench::start().await;
    let id = bench.enqueue(job("crash")).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Discarded);
    assert_eq!(detail.lifecycle.failure, Some(FailureKind::Poison));
    let sent = bench.record.messages();
    let alone = sent.iter().filter(
        |sent| matches!(sent, CellMessage::Start(cell, _) if cell.starts_with("cell-apart")),
    );
    assert_eq!(alone.count(), 2, "the first time it was alone by chance");
    bench.stop().await;
}

#[tokio::test]
async fn who_was_in_a_cell_that_died_runs_again_at_once_beside_others() {
    let bench = Bench::start().await;
    let jobs: Vec<_> = ["hang", "hang", "crash"].map(job).into();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    bench.dispatch.submit(Enqueue(jobs)).await.unwrap();
    bench.ended(ids[2]).await;
    // There are two cells: one of the two neighbours shared the cell that crashed.
    bench
        .eventually("a neighbour in a shared cell again", |sent| {
            matches!(sent, CellMessage::Start(cell, began) if began.handler == "hang"
                && began.attempt == 2 && !cell.starts_with("cell-apart"))
        })
        .await;
    bench.stop().await;
}

#[tokio::test]
async fn a_handler_that_is_gone_discards_the_job() {
    let bench = Bench::start().await;
    let id = bench.enqueue(job("nowhere")).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Discarded);
    assert_eq!(detail.failure.unwrap().kind, FailureKind::HandlerNotFound);
    bench.stop().await;
}

#[tokio::test]
async fn many_dependents_of_a_job_that_fails_are_discarded_in_turns() {
    let bench = Bench::start().await;
    let root = job("nowhere");
    let dependent = || NewJob {
        depends_on: vec![root.id],
        ..job("noop")
    };
    let jobs: Vec<_> = std::iter::repeat_with(dependent).take(900).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    let all = std::iter::once(root).chain(jobs).collect();
    bench.dispatch.submit(Enqueue(all)).await.unwrap();
    for id in ids {
        assert_eq!(bench.ended(id).await.lifecycle.state, State::Discarded);
    }
    bench.stop().await;
}

#[tokio::test]
async fn progress_and_logs_are_passed_on() {
    let mut bench = Bench::start().await;
    let mut events = bench.dispatch.shared().events.listen();
    let id = bench.enqueue(job("talk")).await;
    let waiting = bench.logged.recv().await.unwrap();
    let Logged::Lines { job, lines, .. } = waiting.logged else {
        panic!("lines are passed on");
    };
    assert_eq!((job, lines[0].message.as_str()), (id, "hello"));
    let live = bench.dispatch.shared().live.progress(id).unwrap();
    assert_eq!(live.percent, Some(50.0));
    let mut progressed = false;
    while !progressed {
        let batch = events.recv().await.unwrap();
        progressed = batch
            .iter()
            .any(|event| matches!(event.happened, EventKind::Progressed { .. }));
    }
    let cancel = Cancel {
        job: id,
        reason: None,
        grace_ms: None,
    };
    bench.dispatch.submit(cancel).await.unwrap();
    let detail = bench.ended(id).await;
    assert_eq!(detail.progress.unwrap().message, "half");
    assert!(bench.dispatch.shared().live.progress(id).is_none());
    bench.stop().await;
}

#[tokio::test]
async fn a_delayed_job_starts_by_itself_and_a_paused_queue_waits() {
    let bench = Bench::start().await;
    let mut later = job("noop");
    later.run_at = Some(bench.clock.now().plus_ms(30));
    let id = bench.enqueue(later).await;
    assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    let pause = |paused| SetPaused {
        queue: "default".parse().unwrap(),
        paused,
    };
    bench.dispatch.submit(pause(true)).await.unwrap();
    let id = bench.enqueue(job("noop")).await;
    // The loop has taken another turn and has claimed nothing.
    let other = bench.enqueue(job("noop")).await;
    for id in [id, other] {
        assert_eq!(bench.read(id).await.lifecycle.state, State::Available);
    }
    bench.dispatch.submit(pause(false)).await.unwrap();
    for id in [id, other] {
        assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    }
    bench.stop().await;
}

#[tokio::test]
async fn what_the_rules_refuse_is_refused() {
    let bench = Bench::start().await;
    let unknown = job("noop").id;
    let refused = bench
        .dispatch
        .submit(Retry {
            job: unknown,
            force: false,
        })
        .await;
    let expected = SubmitError::Rejected(Rejection::Job(JobRefusal::Unknown(unknown)));
    assert_eq!(refused, Err(expected));
    bench.stop().await;
}

#[tokio::test]
async fn a_full_disk_refuses_requests_and_keeps_what_ran_until_there_is_room() {
    let disk = Disk::default();
    let bench = Bench::start_on(disk.clone()).await;
    let id = bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    let cancel = Cancel {
        job: id,
        reason: None,
        grace_ms: None,
    };
    bench.dispatch.submit(cancel).await.unwrap();
    bench.ended(id).await;
    let running = bench.enqueue(job("talk")).await;
    bench.began("talk", 1).await;
    disk.fill();
    let refused = bench.dispatch.submit(Enqueue(vec![job("noop")])).await;
    assert_eq!(refused, Err(SubmitError::StoreFull));
    let is_full = || bench.dispatch.shared().store_full.load(Ordering::Relaxed);
    assert!(is_full(), "it is published");
    let has = |line: &str| bench.metrics().lines().any(|it| it == line);
    assert!(has("store_full 1"), "{}", bench.metrics());
    bench.stop_cells_of("talk");
    disk.refused_twice().await;
    assert_eq!(bench.read(running).await.lifecycle.state, State::Running);
    disk.free();
    let end = bench.ended(running).await;
    assert_eq!(end.lifecycle.state, State::Cancelled);
    while is_full() || !has("store_full 0") {
        tokio::task::yield_now().await;
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_store_that_was_moved_is_noticed_without_a_request() {
    let disk = Disk::default();
    let bench = Bench::start_on(disk.clone()).await;
    let running = bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    let is_moved = || bench.dispatch.shared().store_moved.load(Ordering::Relaxed);
    disk.move_away();
    while !is_moved() {
        tokio::task::yield_now().await;
    }
    let enqueue = || Enqueue(vec![job("noop")]);
    let refused = bench.dispatch.submit(enqueue()).await;
    assert_eq!(refused, Err(SubmitError::StoreMoved));
    let cancel = Cancel {
        job: running,
        reason: None,
        grace_ms: None,
    };
    bench.dispatch.submit(cancel).await.unwrap();
    let ended = bench.ended(running).await.lifecycle.state;
    assert_eq!(ended, State::Cancelled, "what was accepted continues");
    disk.free();
    while is_moved() {
        tokio::task::yield_now().await;
    }
    bench.dispatch.submit(enqueue()).await.unwrap();
    bench.stop().await;
}

#[tokio::test]
async fn a_command_that_cannot_be_stored_is_refused_and_its_neighbours_are_not() {
    let log = Log::of_this_process();
    let bench = Bench::start_on(Disk::default()).await;
    let enqueue = |handler: &str| {
        let enqueue = Enqueue(vec![job(handler)]);
        bench.dispatch.submit(enqueue)
    };
    let (before, refused, after) = tokio::join!(enqueue("noop"), enqueue(POISON), enqueue("noop"));
    let message = "cannot commit a batch: a job is poison; this had no effect".to_owned();
    assert_eq!(refused, Err(SubmitError::Failed(message)));
    for accepted in [before, after] {
        let Ok(jobs) = accepted else {
            panic!("{accepted:?}");
        };
        assert_eq!(
            bench.ended(jobs[0].id).await.lifecycle.state,
            State::Completed
        );
    }
    let failed = "store_batches_failed_total ";
    let metrics = bench.metrics();
    let failed: u32 = metrics
        .lines()
        .find_map(|line| line.strip_prefix(failed))
        .unwrap()
        .parse()
        .unwrap();
    assert!(failed >= TRIES_ALONE_MAX, "{failed}");
    let each =
        log.lines_with("a batch was not committed error=cannot commit a batch: a job is poison");
    assert_eq!(each.len(), failed as usize, "{each:?}");
    assert!(
        each[0].contains("WARN") && each[0].contains("tries=1"),
        "{each:?}"
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_broken_store_ends_the_loop_and_acknowledges_nothing() {
    let disk = Disk::default();
    let bench = Bench::start_on(disk.clone()).await;
    disk.break_down();
    let refused = bench.dispatch.submit(Enqueue(vec![job("noop")])).await;
    assert_eq!(refused, Err(SubmitError::Stopping));
    let ended = bench.loop_ended.await.unwrap();
    assert!(matches!(ended, Err(StoreError::Broken { .. })), "{ended:?}");
}

#[tokio::test]
async fn draining_lets_jobs_end_and_claims_no_more() {
    let bench = Bench::start().await;
    let running = bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    bench.phase.send(Phase::Stopping).unwrap();
    // When the loop answers this later request, it has seen the phase.
    let late = bench.enqueue(job("noop")).await;
    let cancel = Cancel {
        job: running,
        reason: None,
        grace_ms: None,
    };
    bench.dispatch.submit(cancel).await.unwrap();
    assert!(bench.loop_ended.await.unwrap().is_ok());
    let reader = bench.reader;
    let state = |id| reader.state(id).unwrap().unwrap();
    assert_eq!(state(running), State::Cancelled);
    assert_eq!(state(late), State::Available);
}

#[tokio::test]
async fn what_still_runs_at_the_end_is_available_again() {
    let bench = Bench::start().await;
    let running = bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    bench.phase.send(Phase::Killing).unwrap();
    assert!(bench.loop_ended.await.unwrap().is_ok());
    let detail = bench.reader.job(running).unwrap().unwrap();
    assert_eq!(detail.lifecycle.state, State::Available);
    assert_eq!(detail.lifecycle.attempts_charged(), 0);
    let after = bench
        .dispatch
        .submit(Recover {
            after: 0,
            node: bench::NODE,
            living: Vec::new(),
        })
        .await;
    assert_eq!(after, Err(SubmitError::Stopping));
}

#[tokio::test]
async fn jobs_of_an_earlier_life_run_again() {
    let (store, id) = bench::store_with_running("noop");
    let bench = Bench::start_with(Box::new(store)).await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Completed);
    assert_eq!(detail.lifecycle.attempt, 2);
    assert!(bench.record.messages().contains(&CellMessage::Start(
        "cell-1".to_owned(),
        Began {
            handler: "noop".to_owned(),
            attempt: 2
        }
    )));
    bench.stop().await;
}

#[tokio::test]
async fn a_reply_has_what_is_committed() {
    let bench = Bench::start().await;
    let new = job("hang");
    let id = new.id;
    let Ok(enqueued) = bench.dispatch.submit(Enqueue(vec![new])).await else {
        panic!("a job is accepted");
    };
    assert_eq!((enqueued[0].id, enqueued[0].existing), (id, false));
    assert!(bench.reader.job(id).unwrap().is_some());
    bench.stop().await;
}
