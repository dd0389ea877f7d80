//! Runs the worker role for one worker id: connects its session with Redis and the cells.

use std::sync::Arc;

use host_core::port::Counters;
use host_core::time::Time;

use super::{RedisSession, SessionLoop};
use crate::hero::NAME;
use crate::hero::address::RedisUrl;
use crate::hero::config::WorkerConfig;
use crate::hero::connection_log::ConnectionLog;
use crate::hero::executions::{AnswerMailbox, Executions, Heard};
use crate::hero::log_files::LogFiles;
use crate::hero::messages::{Call, CallTag, Value};
use crate::hero::worker::{Worker, WorkerAct};
use crate::kit::session::Moment;
use crate::wire::Ports;

/// Takes work for one worker id until `ports.stopping`; then stops guests and returns jobs within
/// two seconds. `log_files` opens the log files of jobs.
pub(in crate::hero) fn serve_worker(
    config: WorkerConfig,
    url: RedisUrl,
    ports: &Ports,
    log_files: Option<LogFiles>,
) -> impl Future<Output = ()> + Send + 'static {
    let instance = config.instance.clone();
    let answers = Arc::<AnswerMailbox>::default();
    let session = WorkerSession {
        log: ConnectionLog::of_worker(&url, &config.worker_id),
        worker_id: config.worker_id.clone(),
        session: Worker::new(config),
        executions: Executions::new((ports.execute)(), log_files, Arc::clone(&answers)),
        counters: Arc::clone(&ports.counters),
        answers,
    };
    let (clock, stopping) = (Arc::clone(&ports.clock), ports.stopping.clone());
    let mut running = SessionLoop::new(session, instance, clock, stopping);
    async move { running.run(&url).await }
}

struct WorkerSession {
    worker_id: String,
    session: Worker,
    executions: Executions,
    answers: Arc<AnswerMailbox>,
    counters: Arc<dyn Counters>,
    log: ConnectionLog,
}

impl RedisSession for WorkerSession {
    type Act = WorkerAct;

    fn waiting_worker(&self) -> Option<&str> {
        Some(&self.worker_id)
    }

    fn on_works(&self) {
        self.log.connected();
    }

    fn on_away(&self, tries: u32, why: &str) {
        self.log.away(tries, why);
    }

    async fn host_spoke(&self) {
        self.answers.arrived().await;
    }

    fn hear_host(&mut self, at: Moment, todo: &mut Vec<WorkerAct>) {
        for (tag, heard) in self.answers.take() {
            match heard {
                Heard::Began => self.session.on_began(at, tag, todo),
                Heard::Over(answer) => self.session.on_answer(at, tag, answer, todo),
            }
        }
    }

    fn carry_out(&mut self, act: WorkerAct) -> Option<Call> {
        match act {
            WorkerAct::Call(call) => return Some(call),
            WorkerAct::Start { tag, job, log_path } => self.executions.start(tag, job, log_path),
            WorkerAct::Stop { tag, grace_ms, why } => self.executions.stop(tag, grace_ms, why),
            WorkerAct::Count(code) => self.counters.refused(NAME, code),
            WorkerAct::Depth { queued, in_flight } => {
                for (state, count) in [("queued", queued), ("in_flight", in_flight)] {
                    self.counters.set_depth(NAME, &self.worker_id, state, count);
                }
            }
            WorkerAct::Refused { times, why } => self.log.refused(times, &why),
        }
        None
    }

    fn on_connected(&mut self, at: Moment, todo: &mut Vec<WorkerAct>) {
        self.session.on_connected(at, todo);
    }

    fn on_disconnected(&mut self) {
        self.session.on_disconnected();
    }

    fn on_reply(&mut self, at: Moment, tag: CallTag, values: &[Value], todo: &mut Vec<WorkerAct>) {
        self.session.on_reply(at, tag, values, todo);
    }

    fn on_stop(&mut self, at: Moment, todo: &mut Vec<WorkerAct>) {
        self.session.on_stop(at, todo);
    }

    fn on_wakeup(&mut self, at: Moment, todo: &mut Vec<WorkerAct>) {
        self.session.on_wakeup(at, todo);
    }

    fn wakeup(&self) -> Option<Time> {
        self.session.wakeup()
    }

    fn is_idle(&self) -> bool {
        self.session.is_idle()
    }
}
