//! Jobs for executors, through the loop, with an executor in memory.

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::{Outcome, Progress};
use host_core::port;
use host_engine::job::{Cancel, Enqueue};
use host_engine::queue::SetPaused;
use host_testing::store::MemoryStore;

use super::failing::Disk;
use super::pushing::Call;
use super::*;

fn job_for(executor: &str, handler: &str) -> host_core::job::NewJob {
    let mut job = job(handler);
    job.executor = Some(executor.parse().unwrap());
    job
}

fn succeeded() -> port::End {
    port::End::Outcome(Outcome::Completed {
        result: Some(JsonText("[7]".to_owned())),
    })
}

impl Bench {
    /// Waits until the pool got this many executions, and returns the latest.
    pub(super) async fn given(&self, executions: usize) -> (port::Tag, port::Assignment) {
        let mut given = self.executor.started();
        let seen = async {
            while given.len() < executions {
                tokio::task::yield_now().await;
                given = self.executor.started();
            }
        };
        let patience = std::time::Duration::from_mins(1);
        let ended = tokio::time::timeout(patience, seen).await;
        assert!(ended.is_ok(), "{:?}", self.executor.all());
        given.remove(executions - 1).unwrap()
    }
}

#[tokio::test]
async fn a_job_for_an_executor_is_executed_there() {
    let bench = Bench::start().await;
    let mut new = job_for("python", "send_email");
    new.policy.timeout_ms = Some(1_234);
    new.payload.trace_context = vec![("traceparent".to_owned(), "t".to_owned())];
    let id = bench.enqueue(new).await;
    bench.executor.room(2);
    let (tag, assignment) = bench.given(1).await;
    let lease = bench.read(id).await.lifecycle.lease.unwrap();
    assert_eq!(assignment.request_id, lease.id.0.to_string());
    assert_eq!(assignment.job_id, id.to_string());
    assert_eq!(assignment.handler, "send_email");
    assert_eq!(assignment.params.as_str(), "{\"n\":1}");
    assert_eq!((assignment.attempt, assignment.timeout_ms), (1, 1_234));
    assert_eq!(assignment.trace[0].1, "t");
    bench.executor.over(tag, succeeded());
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Completed);
    assert_eq!(detail.result.unwrap().as_str(), "[7]");
    let attempts = bench.attempts(id).await;
    assert_eq!(attempts[0].executor, "python/1");
    assert_eq!(attempts[0].revision, None);
    bench.stop().await;
}

#[tokio::test]
async fn the_progress_of_an_executor_is_seen_and_kept() {
    let bench = Bench::start().await;
    let mut events = bench.dispatch.shared().events.listen();
    bench.executor.room(1);
    let id = bench.enqueue(job_for("python", "noop")).await;
    let (tag, assignment) = bench.given(1).await;
    let progress = Progress {
        percent: Some(50.0),
        message: "half".to_owned(),
    };
    bench.executor.progressed(&assignment, progress.clone());
    let progressed = async {
        loop {
            for event in events.recv().await.unwrap().iter() {
                if let EventKind::Progressed { job, attempt, .. } = &event.happened {
                    return (*job, *attempt);
                }
            }
        }
    };
    let sent = tokio::time::timeout(bench::PATIENCE, progressed).await;
    assert_eq!(sent.unwrap(), (id, 1));
    let live = &bench.dispatch.shared().live;
    assert_eq!(live.progress(id).as_ref(), Some(&progress));
    bench.executor.over(tag, succeeded());
    assert_eq!(bench.ended(id).await.progress, Some(progress));
    assert!(live.progress(id).is_none());
    bench.executor.audit.assert_settled();
    bench.stop().await;
}

#[tokio::test]
async fn no_more_are_given_than_there_is_room_for() {
    let bench = Bench::start().await;
    bench.executor.room(2);
    let jobs: Vec<_> = (0..5).map(|_| job_for("python", "noop")).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    bench.dispatch.submit(Enqueue(jobs)).await.unwrap();
    for (n, id) in ids.iter().enumerate() {
        let (tag, assignment) = bench.given(n + 1).await;
        assert_eq!(assignment.job_id, id.to_string(), "in their order");
        // Cells keep working. After this job the loop has taken another turn.
        let ours = bench.enqueue(job("noop")).await;
        assert_eq!(bench.ended(ours).await.lifecycle.state, State::Completed);
        assert!(bench.executor.started().len() <= n + 2);
        bench.executor.over(tag, succeeded());
        assert_eq!(bench.ended(*id).await.lifecycle.state, State::Completed);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_failure_is_tried_again_and_a_final_one_is_not() {
    let bench = Bench::start().await;
    bench.executor.room(1);
    let id = bench.enqueue(job_for("python", "noop")).await;
    let failed = |kind, retryable| {
        let mut failure = Failure::new(kind, "no luck");
        failure.retryable = Some(retryable);
        port::End::Outcome(Outcome::Failed(failure))
    };
    let (tag, _) = bench.given(1).await;
    bench
        .executor
        .over(tag, failed(FailureKind::UserError, true));
    let (tag, second) = bench.given(2).await;
    assert_eq!(second.attempt, 2);
    let not_found = failed(FailureKind::HandlerNotFound, true);
    bench.executor.over(tag, not_found);
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Discarded);
    assert_eq!(detail.failure.unwrap().kind, FailureKind::HandlerNotFound);
    bench.stop().await;
}

#[tokio::test]
async fn what_an_executor_loses_or_has_no_room_for_runs_again_at_no_cost() {
    let bench = Bench::start().await;
    bench.executor.room(1);
    let id = bench.enqueue(job_for("python", "noop")).await;
    let (tag, _) = bench.given(1).await;
    bench.executor.over(tag, port::End::Lost("gone".to_owned()));
    let (tag, _) = bench.given(2).await;
    bench.executor.room(0);
    bench.executor.over(tag, port::End::NoRoom);
    bench.executor.room(1);
    let (tag, third) = bench.given(3).await;
    assert_eq!(third.attempt, 3);
    bench.executor.over(tag, succeeded());
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Completed);
    assert_eq!(detail.lifecycle.attempts_charged(), 1);
    assert!(!detail.lifecycle.suspicion.is_apart());
    let attempts = bench.attempts(id).await;
    let reported: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let why = attempt.failure.as_ref();
            (attempt.number, why.map(|failure| failure.message.as_str()))
        })
        .collect();
    let gone = Some("the worker's connection ended");
    assert_eq!(reported, [(1, gone), (3, None)], "the second did not begin");
    bench.stop().await;
}

#[tokio::test]
async fn jobs_that_wait_for_executors_cost_our_cells_nothing() {
    let disk = Disk::default();
    let bench = Bench::start_on(disk.clone()).await;
    let waiting: Vec<_> = (0..50).map(|_| job_for("python", "noop")).collect();
    let enqueue = Enqueue(waiting);
    bench.dispatch.submit(enqueue).await.unwrap();
    let before = disk.lone_claims();
    for _ in 0..5 {
        let ours = bench.enqueue(job("noop")).await;
        assert_eq!(bench.ended(ours).await.lifecycle.state, State::Completed);
    }
    assert_eq!(disk.lone_claims(), before);
    bench.executor.room(1);
    let (tag, _) = bench.given(1).await;
    bench.executor.over(tag, succeeded());
    bench.given(2).await;
}

#[tokio::test]
async fn a_cancel_reaches_the_executor_with_its_grace() {
    let bench = Bench::start().await;
    bench.executor.room(2);
    for (n, (grace_ms, sent)) in [(None, 500), (Some(70), 70)].into_iter().enumerate() {
        let id = bench.enqueue(job_for("python", "noop")).await;
        let (tag, _) = bench.given(n + 1).await;
        let cancel = Cancel {
            job: id,
            reason: None,
            grace_ms,
        };
        bench.dispatch.submit(cancel).await.unwrap();
        assert!(bench.executor.all().contains(&Call::Cancel(tag, sent)));
        let stopped = Outcome::Cancelled { partial: None };
        bench.executor.over(tag, port::End::Outcome(stopped));
        assert_eq!(bench.ended(id).await.lifecycle.state, State::Cancelled);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_paused_queue_keeps_its_jobs_from_executors_too() {
    let bench = Bench::start().await;
    bench.executor.room(4);
    let pause = |paused| SetPaused {
        queue: "default".parse().unwrap(),
        paused,
    };
    bench.dispatch.submit(pause(true)).await.unwrap();
    let id = bench.enqueue(job_for("python", "noop")).await;
    let mut elsewhere = job_for("python", "noop");
    elsewhere.queue = "other".parse().unwrap();
    let other = bench.enqueue(elsewhere).await;
    let (tag, assignment) = bench.given(1).await;
    assert_eq!(assignment.job_id, other.to_string());
    bench.executor.over(tag, succeeded());
    bench.ended(other).await;
    assert_eq!(bench.read(id).await.lifecycle.state, State::Available);
    bench.dispatch.submit(pause(false)).await.unwrap();
    let (tag, _) = bench.given(2).await;
    bench.executor.over(tag, succeeded());
    assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    bench.stop().await;
}

#[tokio::test]
async fn draining_waits_for_executors_and_ending_takes_their_jobs_back() {
    let mut bench = Bench::start().await;
    bench.executor.room(2);
    let first = bench.enqueue(job_for("python", "noop")).await;
    let (done, _) = bench.given(1).await;
    let second = bench.enqueue(job_for("python", "noop")).await;
    let (lost, _) = bench.given(2).await;
    bench.phase.send(Phase::Stopping).unwrap();
    bench.executor.over(done, succeeded());
    assert_eq!(bench.ended(first).await.lifecycle.state, State::Completed);
    assert!(!bench.executor.stopping.is_cancelled());
    bench.phase.send(Phase::Killing).unwrap();
    bench.executor.stopping.cancelled().await;
    assert!(
        bench.loop_ended.try_recv().is_err(),
        "it waits for its jobs"
    );
    bench
        .executor
        .over(lost, port::End::Lost("stopped".to_owned()));
    assert!(bench.loop_ended.await.unwrap().is_ok());
    let detail = bench.reader.job(second).unwrap().unwrap();
    assert_eq!(detail.lifecycle.state, State::Available);
    assert_eq!(detail.lifecycle.attempts_charged(), 0);
}

#[tokio::test]
async fn an_executor_that_is_gone_discards_its_jobs() {
    let mut store = MemoryStore::default();
    let mut later = job_for("gone", "noop");
    later.run_at = Some(Clock::start().now().plus_ms(50));
    let waiting = job_for("gone", "noop");
    let ids = [waiting.id, later.id];
    let enqueue = Enqueue(vec![waiting, later]);
    store
        .commit(Clock::start().now(), &[enqueue.into()])
        .unwrap();
    let bench = Bench::start_with(Box::new(store)).await;
    for id in ids {
        let detail = bench.ended(id).await;
        assert_eq!(detail.lifecycle.state, State::Discarded);
        let failure = detail.failure.unwrap();
        assert_eq!(failure.kind, FailureKind::HandlerNotFound);
        assert!(failure.message.contains("no runner is named gone"));
    }
    assert!(bench.executor.all().is_empty());
    bench.stop().await;
}
