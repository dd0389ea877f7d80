//! Runs the worker role for one worker id: connects its session with Redis and the cells.

use std::sync::Arc;

use host_core::port::Counters;
use host_wire_kit::Ports;
use host_wire_kit::session::Moment;

use super::executions::{AnswerMailbox, ExecutionEvent, Executions};
use super::{Worker, WorkerAct};
use crate::NAME;
use crate::log_files::LogFiles;
use crate::messages::Call;
use crate::settings::worker::WorkerConfig;
use crate::transport::connection_log::ConnectionLog;
use crate::transport::driver::{Host, SessionLoop};
use crate::transport::url::RedisUrl;

/// Takes work for one worker id until `ports.stopping`; then stops guests and returns jobs within
/// two seconds. `log_files` opens the log files of jobs.
pub(crate) fn serve(
    config: WorkerConfig,
    url: RedisUrl,
    ports: &Ports,
    log_files: Option<LogFiles>,
) -> impl Future<Output = ()> + Send + 'static {
    let instance = config.instance.clone();
    let answers = Arc::<AnswerMailbox>::default();
    let host = WorkerHost {
        log: ConnectionLog::of_worker(&url, &config.worker_id),
        worker_id: config.worker_id.clone(),
        executions: Executions::new((ports.execute)(), log_files, Arc::clone(&answers)),
        counters: Arc::clone(&ports.counters),
        answers,
    };
    let (clock, stopping) = (Arc::clone(&ports.clock), ports.stopping.clone());
    let mut running = SessionLoop::new(Worker::new(config), host, &instance, clock, stopping);
    async move { running.run(&url).await }
}

struct WorkerHost {
    worker_id: String,
    executions: Executions,
    answers: Arc<AnswerMailbox>,
    counters: Arc<dyn Counters>,
    log: ConnectionLog,
}

impl Host<Worker> for WorkerHost {
    fn on_connected(&self) {
        self.log.connected();
    }

    fn on_away(&self, tries: u32, why: &str) {
        self.log.away(tries, why);
    }

    async fn arrived(&self) {
        self.answers.arrived().await;
    }

    fn hand_in(&self, session: &mut Worker, at: Moment, todo: &mut Vec<WorkerAct>) {
        for (tag, event) in self.answers.take() {
            match event {
                ExecutionEvent::Began => session.on_began(at, tag, todo),
                ExecutionEvent::Over(answer) => session.on_answer(at, tag, answer, todo),
            }
        }
    }

    fn carry_out(&self, act: WorkerAct) -> Option<Call> {
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
}
