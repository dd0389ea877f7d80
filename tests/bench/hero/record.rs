//! The commands for one job: by a client, by a worker as the document describes it, and by our session.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::Tag;
use host_core::time::Time;
use host_tests::Redis;
use host_tests::hero::ask;
use host_wires::hero::{
    Answered, Command, RedisSession as _, Value, Via, Worker, WorkerAct, WorkerConfig,
};
use host_wires::kit::session::Moment;
use redis::Connection;

use super::resp::{ID, Pipe, Template};

/// The most turns of a job.
const TURNS_MAX: usize = 100;

/// A worker's result for a no-op job.
const OUTPUT: &str = "null";

/// Returns a client's commands for one job, with these fields besides the common ones.
pub(super) fn client(worker: &str, fields: &[(&str, &str)]) -> Vec<Template> {
    let (key, queue) = (
        format!("hero:job:{ID}"),
        format!("hero:work_queue:{worker}"),
    );
    #[rustfmt::skip]
    let mut store = vec![
        "HSET", &key, "id", ID, "caller_id", "alice", "worker_id", worker, "context_id", "office",
        "timeout", "60", "retries", "0", "concurrent", "true", "status", "dispatched",
        "created_at", "2026-01-01T00:00:00Z", "updated_at", "2026-01-01T00:00:00Z",
    ];
    store.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
    vec![Template::new(&store), Template::new(&["LPUSH", &queue, ID])]
}

/// Returns the document's worker's commands for one job, with a pop that does not wait.
pub(super) fn documented(worker: &str) -> Vec<Template> {
    let (key, queue) = (
        format!("hero:job:{ID}"),
        format!("hero:work_queue:{worker}"),
    );
    let time = "2026-01-01T00:00:00.000Z";
    vec![
        Template::new(&["LPOP", &queue]),
        Template::new(&["HGETALL", &key]),
        Template::new(&["HSET", &key, "status", "started", "updated_at", time]),
        Template::new(&[
            "HSET",
            &key,
            "status",
            "finished",
            "output",
            OUTPUT,
            "updated_at",
            time,
        ]),
        Template::new(&["LPUSH", &format!("hero:reply:{ID}"), OUTPUT]),
    ]
}

/// Returns our worker's commands for one job: all that name the job or fetch it. The client's commands for
/// the job are executed meanwhile.
pub(super) fn ours(redis: &Redis, worker: &str, fields: &[(&str, &str)]) -> Result<Vec<Template>> {
    let mut pipe = Pipe::open(redis.port())?;
    pipe.send(&client(worker, fields), [0])?;
    let mut config = WorkerConfig::new(worker, format!("host-{worker}"));
    config.concurrency = 1;
    let mut recorder = Recorder {
        redis: redis.connection(),
        session: Worker::new(config),
        ended: Vec::new(),
        sent: Vec::new(),
    };
    let mut todo = Vec::new();
    recorder.session.on_connected(at(), &mut todo);
    for _ in 0..TURNS_MAX {
        recorder.act(&mut todo);
        for tag in std::mem::take(&mut recorder.ended) {
            let result = Some(JsonText(OUTPUT.to_owned()));
            let answer = Answered::Ended(Outcome::Completed { result });
            recorder.session.on_answer(at(), tag, answer, &mut todo);
        }
        if todo.is_empty() {
            break;
        }
    }
    ensure!(recorder.session.is_idle(), "the recorded job has not ended");
    Ok(recorder.sent)
}

struct Recorder {
    redis: Connection,
    session: Worker,
    ended: Vec<Tag>,
    sent: Vec<Template>,
}

impl Recorder {
    fn act(&mut self, todo: &mut Vec<WorkerAct>) {
        for act in std::mem::take(todo) {
            match act {
                WorkerAct::Call(call) if call.via == Via::Shared => {
                    let values: Vec<Value> = call.commands.iter().map(|it| self.send(it)).collect();
                    self.session.on_reply(at(), call.tag, &values, todo);
                }
                WorkerAct::Start { tag, .. } => {
                    self.session.on_began(at(), tag, todo);
                    self.ended.push(tag);
                }
                WorkerAct::Call(_)
                | WorkerAct::Stop { .. }
                | WorkerAct::Count(_)
                | WorkerAct::Depth { .. }
                | WorkerAct::Refused { .. } => {}
            }
        }
    }

    fn send(&mut self, command: &Command) -> Value {
        let value = ask(&mut self.redis, command);
        let words = self.words(command);
        if words.iter().any(|word| names(word)) || answers(&value) {
            self.sent.push(Template::new(&words));
        }
        value
    }

    /// Returns a command's words as sent by a driver that has loaded the scripts.
    fn words(&mut self, command: &Command) -> Vec<Vec<u8>> {
        match command {
            Command::Plain(words) => words.clone(),
            Command::Script { script, keys, args } => {
                let mut load = redis::cmd("SCRIPT");
                let load = load.arg("LOAD").arg(script.source());
                let hash: String = load.query(&mut self.redis).unwrap_or_default();
                let head = ["EVALSHA".to_owned(), hash, keys.len().to_string()];
                let head = head.iter().chain(keys);
                let head = head.map(|word| word.clone().into_bytes());
                head.chain(args.iter().cloned()).collect()
            }
        }
    }
}

fn names(word: &[u8]) -> bool {
    word.windows(ID.len()).any(|part| part == ID.as_bytes())
}

fn answers(value: &Value) -> bool {
    match value {
        Value::Data(bytes) => names(bytes),
        Value::List(values) => values.iter().any(answers),
        Value::Nil | Value::Int(_) | Value::Error(_) => false,
    }
}

fn at() -> Moment {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis());
    let now = Time(i64::try_from(now_ms).unwrap_or_default());
    Moment { now, wall: now }
}
