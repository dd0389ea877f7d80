//! Sends the commands of our Hero sessions to a real Redis, one at a time. Uses `host_wires`.

use host_wires::hero::{Command, Value};
use redis::{Cmd, Connection};

/// Converts a command for the `redis` crate. A script is sent with its source (EVAL).
pub fn cmd(command: &Command) -> Cmd {
    match command {
        Command::Plain(words) => words.iter().fold(Cmd::new(), |mut cmd, word| {
            cmd.arg(word.as_slice());
            cmd
        }),
        Command::Script { script, keys, args } => {
            let mut cmd = redis::cmd("EVAL");
            cmd.arg(script.source()).arg(keys.len()).arg(keys);
            for arg in args {
                cmd.arg(arg.as_slice());
            }
            cmd
        }
    }
}

/// Sends one command and returns the reply of Redis.
pub fn ask(redis: &mut Connection, command: &Command) -> Value {
    match cmd(command).query::<redis::Value>(redis) {
        Ok(value) => read(value),
        Err(error) => Value::Error(error.to_string()),
    }
}

fn read(value: redis::Value) -> Value {
    match value {
        redis::Value::Nil => Value::Nil,
        redis::Value::Int(number) => Value::Int(number),
        redis::Value::BulkString(bytes) => Value::Data(bytes),
        redis::Value::SimpleString(text) => Value::Data(text.into_bytes()),
        redis::Value::Okay => Value::Data(b"OK".to_vec()),
        redis::Value::Array(values) => Value::List(values.into_iter().map(read).collect()),
        other => Value::Error(format!("{other:?}")),
    }
}
