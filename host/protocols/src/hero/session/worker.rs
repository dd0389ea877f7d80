//! The worker role at work for one worker id: its session between Redis and the cells.

use std::sync::Arc;

use host_core::time::Time;
use tokio_util::sync::CancellationToken;

use super::{Mailbox, News, Serving, Station};
use crate::hero::WIRE;
use crate::hero::address::RedisUrl;
use crate::hero::config::WorkerConfig;
use crate::hero::wire::{Call, CallTag, Value};
use crate::hero::worker::{Answered, Worker, WorkerAct};
use host_core::port::{Answer, Answers, Clock, Counters, Execute, Reply, Tag};
use crate::session::Moment;

/// What the worker role needs of its host.
#[derive(Clone)]
pub struct WorkerPorts {
    /// Executes the jobs; of one worker id alone.
    pub executor: Arc<dyn Execute>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts what is refused.
    pub counters: Arc<dyn Counters>,
    /// Hears how the connection is.
    pub news: Arc<dyn News>,
}

/// Takes work for one worker id until `stopping`; then guests are stopped and jobs given back, all
/// within two seconds.
pub async fn serve(
    config: WorkerConfig,
    url: RedisUrl,
    ports: WorkerPorts,
    stopping: CancellationToken,
) {
    let (instance, clock) = (config.instance.clone(), Arc::clone(&ports.clock));
    let session = Work {
        worker_id: config.worker_id.clone(),
        session: Worker::new(config),
        ports,
        mailbox: Arc::default(),
    };
    let mut serving = Serving::new(session, instance, clock, stopping);
    serving.run(&url).await;
}

/// At most one answer for each execution.
type Mail = Mailbox<(Tag, Answered)>;

impl Answers for Mail {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        let answered = match answer {
            Answer::Ended(outcome, _) => Answered::Ended(outcome),
            Answer::Busy => Answered::Busy,
            Answer::Progressed(_) | Answer::Logged { .. } => return,
        };
        self.put((tag, answered));
    }
}

struct Work {
    worker_id: String,
    session: Worker,
    ports: WorkerPorts,
    mailbox: Arc<Mail>,
}

impl Station for Work {
    type Act = WorkerAct;

    const WAITS: bool = true;

    fn name(&self) -> &str {
        &self.worker_id
    }

    fn news(&self) -> &dyn News {
        &*self.ports.news
    }

    async fn mail(&self) {
        self.mailbox.news.notified().await;
    }

    fn hear(&mut self, at: Moment, todo: &mut Vec<WorkerAct>) {
        for (tag, answer) in self.mailbox.take() {
            self.session.on_answer(at, tag, answer, todo);
        }
    }

    fn carry_out(&mut self, act: WorkerAct) -> Option<Call> {
        match act {
            WorkerAct::Call(call) => return Some(call),
            WorkerAct::Start { tag, job, .. } => {
                let answers: Arc<dyn Answers> = Arc::<Mail>::clone(&self.mailbox);
                self.ports.executor.start(*job, Reply::new(tag, answers));
            }
            WorkerAct::Stop { tag, grace_ms, why } => {
                self.ports.executor.stop(tag, grace_ms, why);
            }
            WorkerAct::Count(code) => self.ports.counters.refused(WIRE, code),
            WorkerAct::Refused { times, why } => {
                self.ports.news.refused(&self.worker_id, times, &why);
            }
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
