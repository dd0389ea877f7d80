//! Connections to Redis: translates commands and answers between sessions and the Redis client.
//! Decides nothing.

mod connect;
pub(super) mod connection_log;
pub(super) mod driver;
mod rights;
pub(super) mod url;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError};
use tokio::sync::OnceCell;

use self::connect::connect;
use self::url::RedisUrl;
use super::messages::{self, Call, CallTag, Command, Script, Value, Via};

/// How long Redis may take to answer a command that does not block.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The slowest link that is served, in bytes per second: what is sent has that much more time.
const BYTES_PER_SECOND_MIN: usize = 256 << 10;

/// How many bytes the answer to a call on a connection of its own may have.
const OWN_ANSWER_BYTES_MAX: usize = 17 << 20;

/// The same for blocking pops; longer than any of them waits.
const POP_TIMEOUT: Duration = Duration::from_secs(15);

/// Asks a Redis whether its append-only file stores each change on disk. The error is for people
/// and has no secrets.
pub(super) async fn is_durable(url: &RedisUrl) -> Result<bool, String> {
    let mut connection = connect(url, RESPONSE_TIMEOUT).await?;
    let mut info = redis::cmd("INFO");
    info.arg("persistence");
    let answer = info
        .query_async::<String>(&mut connection)
        .await
        .map_err(|error| url.explain(&error))?;
    Ok(answer.lines().any(|line| line.trim() == "aof_enabled:1"))
}

/// The answers to one call.
pub(super) type Replied = (CallTag, Vec<Value>);

pub(super) struct Link {
    url: RedisUrl,
    shared: MultiplexedConnection,
    /// The connection for blocking pops, if the session needs one.
    blocking: Option<MultiplexedConnection>,
    /// The id of that connection in Redis, if known.
    blocking_id: Option<i64>,
    hashes: Arc<Hashes>,
}

/// The hashes of our scripts, in the order of [`Script::ALL`].
type Hashes = Vec<Vec<u8>>;

impl Link {
    /// Connects and loads our scripts. For a worker, also opens the connection for blocking pops
    /// and checks the user's rights. The error is for people and has no secrets.
    pub(super) async fn connect(url: &RedisUrl, worker_id: Option<&str>) -> Result<Self, String> {
        let shared = connect(url, RESPONSE_TIMEOUT).await?;
        let blocking = match worker_id {
            Some(_) => Some(connect(url, POP_TIMEOUT).await?),
            None => None,
        };
        let opened = Self::open(url, worker_id, shared, blocking).await;
        let (link, missing) = opened.map_err(|error| url.explain(&error))?;
        match rights::explain(&url.address(), &missing) {
            None => Ok(link),
            Some(why) => Err(why),
        }
    }

    async fn open(
        url: &RedisUrl,
        worker_id: Option<&str>,
        mut shared: MultiplexedConnection,
        mut blocking: Option<MultiplexedConnection>,
    ) -> Result<(Self, Vec<String>), RedisError> {
        let (mut blocking_id, mut missing) = (None, Vec::new());
        if let (Some(worker_id), Some(blocking)) = (worker_id, &mut blocking) {
            // The user may not be allowed to ask for this.
            let mut ask = redis::cmd("CLIENT");
            blocking_id = ask.arg("ID").query_async(blocking).await.ok();
            missing = rights::ask(worker_id).query_async(&mut shared).await?;
        }
        let mut hashes = Hashes::new();
        for script in Script::ALL {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.source());
            hashes.push(load.query_async(&mut shared).await?);
        }
        let link = Self {
            url: url.clone(),
            shared,
            blocking,
            blocking_id,
            hashes: Arc::new(hashes),
        };
        Ok((link, missing))
    }

    /// Sends calls that do not block, together and in order.
    pub(super) fn send(
        &self,
        calls: Vec<Call>,
    ) -> impl Future<Output = Result<Vec<Replied>, String>> + Send + 'static {
        let (mut connection, hashes) = (self.shared.clone(), Arc::clone(&self.hashes));
        let bytes = calls
            .iter()
            .map(|call| call.bytes() + call.answer_bytes())
            .sum();
        connection.set_response_timeout(time_for(bytes));
        exchange(connection, hashes, calls)
    }

    /// Sends a call on a connection of its own.
    pub(super) fn send_apart(
        &self,
        call: Call,
    ) -> impl Future<Output = Result<Vec<Replied>, String>> + Send + 'static {
        let (url, hashes) = (self.url.clone(), Arc::clone(&self.hashes));
        let time = time_for(call.bytes() + OWN_ANSWER_BYTES_MAX);
        async move {
            let connection = connect(&url, time).await?;
            exchange(connection, hashes, vec![call]).await
        }
    }

    /// Makes the call that unblocks a pop. The session does not know about it.
    pub(super) fn unblock(&self) -> Option<Call> {
        let id = self.blocking_id?.to_string();
        Some(Call {
            tag: CallTag(u64::MAX),
            via: Via::Shared,
            commands: vec![messages::plain(&["CLIENT", "UNBLOCK", &id])],
        })
    }

    /// Sends the blocking call.
    pub(super) fn wait(
        &self,
        call: Call,
    ) -> impl Future<Output = Result<Vec<Replied>, String>> + Send + 'static {
        let blocking = self.blocking.as_ref().unwrap_or(&self.shared);
        let (connection, hashes) = (blocking.clone(), Arc::clone(&self.hashes));
        exchange(connection, hashes, vec![call])
    }
}

/// One connection for all commands that do not block. Opened when first needed, and again after it
/// broke. Cloning shares it.
#[derive(Clone)]
pub(super) struct SharedConnection {
    url: RedisUrl,
    opened: Arc<Mutex<Arc<ConnectionCell>>>,
}

/// A connection, or why there is none. Concurrent users wait for the same try to connect.
type ConnectionCell = OnceCell<Result<MultiplexedConnection, String>>;

impl SharedConnection {
    /// Makes the shared connection without opening it.
    pub(super) fn new(url: &RedisUrl) -> Self {
        Self {
            url: url.clone(),
            opened: Arc::default(),
        }
    }

    /// Sends commands together and in order, and a second time if the connection was lost: each
    /// command must be safe to send twice. The error is for people and has no secrets.
    pub(super) async fn ask(&self, commands: Vec<Command>) -> Result<Vec<Value>, String> {
        let mut again = true;
        loop {
            let opened = Arc::clone(&self.opened.lock());
            let connect = || connect(&self.url, RESPONSE_TIMEOUT);
            let error = match opened.get_or_init(connect).await {
                Err(error) => error.clone(),
                Ok(connection) => match send(connection.clone(), &commands).await {
                    Ok(values) => match values.iter().find_map(elsewhere) {
                        None => return Ok(values),
                        Some(why) => why,
                    },
                    Err(error) => {
                        self.forget(&opened);
                        if error.is_connection_dropped() && std::mem::take(&mut again) {
                            continue;
                        }
                        error.to_string()
                    }
                },
            };
            self.forget(&opened);
            return Err(error);
        }
    }

    /// Opens a separate connection for blocking commands.
    pub(super) async fn own(&self) -> Result<OwnConnection, String> {
        connect(&self.url, POP_TIMEOUT).await.map(OwnConnection)
    }

    fn forget(&self, opened: &Arc<ConnectionCell>) {
        let mut current = self.opened.lock();
        if Arc::ptr_eq(&current, opened) {
            *current = Arc::default();
        }
    }
}

/// A connection for blocking commands.
pub(super) struct OwnConnection(MultiplexedConnection);

impl OwnConnection {
    /// Sends commands like [`SharedConnection::ask`], but only once.
    pub(super) async fn ask(&self, commands: Vec<Command>) -> Result<Vec<Value>, String> {
        let commands = commands.iter().map(whole);
        let sent = pipeline(&mut self.0.clone(), commands).await;
        sent.map_err(|error| error.to_string())
    }
}

/// Returns how long Redis may take to take this many bytes and to answer.
fn time_for(bytes: usize) -> Duration {
    let sending =
        Duration::from_secs(1) * u32::try_from(bytes / BYTES_PER_SECOND_MIN).unwrap_or(u32::MAX);
    RESPONSE_TIMEOUT.saturating_add(sending)
}

/// Sends commands, each script with its source text.
async fn send(
    mut connection: MultiplexedConnection,
    commands: &[Command],
) -> Result<Vec<Value>, RedisError> {
    let bytes = commands.iter().map(Command::bytes).sum();
    connection.set_response_timeout(time_for(bytes));
    pipeline(&mut connection, commands.iter().map(whole)).await
}

async fn exchange(
    mut connection: MultiplexedConnection,
    hashes: Arc<Hashes>,
    calls: Vec<Call>,
) -> Result<Vec<Replied>, String> {
    let commands = calls.iter().flat_map(|call| &call.commands);
    let all = commands.clone().map(|command| known(command, &hashes));
    let lost = |error: RedisError| error.to_string();
    let mut values = pipeline(&mut connection, all).await.map_err(lost)?;
    // The scripts may have been flushed from Redis. Ours are safe to send twice.
    let forgotten: Vec<usize> = (0..values.len())
        .filter(|at| matches!(&values[*at], Value::Error(text) if text.starts_with("NOSCRIPT")))
        .collect();
    if !forgotten.is_empty() {
        let commands: Vec<&Command> = commands.collect();
        let repeated = forgotten.iter().map(|at| whole(commands[*at]));
        let again = pipeline(&mut connection, repeated).await.map_err(lost)?;
        for (at, value) in forgotten.into_iter().zip(again) {
            values[at] = value;
        }
    }
    if let Some(why) = values.iter().find_map(elsewhere) {
        return Err(why);
    }
    let mut values = values.into_iter();
    let replied = |call: &Call| {
        let count = call.commands.len();
        (call.tag, values.by_ref().take(count).collect())
    };
    Ok(calls.iter().map(replied).collect())
}

/// Explains why an answer means that this Redis accepts no work now. A new connection may reach one
/// that does.
fn elsewhere(value: &Value) -> Option<String> {
    let Value::Error(text) = value else {
        return None;
    };
    let means = match text.split(' ').next()? {
        "READONLY" => "it is a read-only replica; use the master's address",
        "MASTERDOWN" => "it is a replica that has lost its master",
        "UNBLOCKED" => "it has become a replica",
        "LOADING" => "it is loading its data",
        _ => return None,
    };
    Some(format!("{means} ({text})"))
}

async fn pipeline(
    connection: &mut MultiplexedConnection,
    commands: impl Iterator<Item = Cmd>,
) -> Result<Vec<Value>, RedisError> {
    let mut pipeline = Pipeline::new();
    let mut count = 0;
    for command in commands {
        pipeline.add_command(command);
        count += 1;
    }
    let values = connection.send_packed_commands(&pipeline, 0, count).await?;
    if values.len() != count {
        let message = "Redis gave more or fewer answers than there were commands";
        return Err((redis::ErrorKind::Client, message).into());
    }
    Ok(values.into_iter().map(value).collect())
}

/// Makes a command that calls a script by its hash.
fn known(command: &Command, hashes: &Hashes) -> Cmd {
    match command {
        Command::Plain(words) => words.iter().fold(Cmd::new(), |mut cmd, word| {
            cmd.arg(word.as_slice());
            cmd
        }),
        Command::Script { script, keys, args } => {
            let place = Script::ALL.iter().position(|other| other == script);
            match place.and_then(|place| hashes.get(place)) {
                Some(hash) => call_script("EVALSHA", hash, keys, args),
                None => call_script("EVAL", script.source().as_bytes(), keys, args),
            }
        }
    }
}

/// Makes a command that sends the text of its script.
fn whole(command: &Command) -> Cmd {
    known(command, &Hashes::new())
}

fn call_script(name: &str, script: &[u8], keys: &[String], args: &[Vec<u8>]) -> Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(script).arg(keys.len()).arg(keys);
    for arg in args {
        cmd.arg(arg.as_slice());
    }
    cmd
}

fn value(value: redis::Value) -> Value {
    match value {
        redis::Value::Nil => Value::Nil,
        redis::Value::Int(number) => Value::Int(number),
        redis::Value::BulkString(bytes) => Value::Data(bytes),
        redis::Value::SimpleString(text) => Value::Data(text.into_bytes()),
        redis::Value::Okay => Value::Data(b"OK".to_vec()),
        redis::Value::Array(values) => Value::List(values.into_iter().map(self::value).collect()),
        redis::Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            Value::Error(format!("{} {details}", error.code()))
        }
        _ => Value::Error("a value of a type that this host does not know".to_owned()),
    }
}
