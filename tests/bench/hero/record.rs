//! The commands for one job: by a client, by a worker as the document describes it, and by our worker.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host_tests::{Redis, eventually};

use super::resp::{ID, Pipe, Template};
use super::{WORKER, left};

/// A worker's result for a no-op job.
const OUTPUT: &str = "null";

/// How long the recorded job may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a connection of ours says when the recorded job has ended.
const END: &str = "the recorded job has ended";

/// The words of a command.
pub(super) type Words = Vec<Vec<u8>>;

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

/// Records our worker's commands for one job: those that name it, and one that takes a job from the queue.
pub(super) fn ours(redis: &Redis, fields: &[(&str, &str)]) -> Result<Vec<Words>> {
    let mut monitor = TcpStream::connect(("127.0.0.1", redis.port()))?;
    monitor.set_read_timeout(Some(PATIENCE))?;
    monitor.write_all(b"MONITOR\r\n")?;
    let mut lines = BufReader::new(monitor).lines();
    ensure!(
        lines.next().transpose()?.as_deref() == Some("+OK"),
        "Redis shows no commands"
    );
    let mut connection = redis.connection();
    let mut pipe = Pipe::open(redis.port())?;
    pipe.send(&client(WORKER, fields), [0])?;
    eventually("the recorded job to end", PATIENCE, || {
        (left(&mut connection, WORKER).ok()? == 0).then_some(())
    });
    let _: String = redis::cmd("ECHO").arg(END).query(&mut connection)?;
    let (client, queue) = (pipe.address()?, format!("hero:work_queue:{WORKER}"));
    let (mut sent, mut takes) = (Vec::new(), None);
    for line in lines {
        let (from, words) = shown(&line?)?;
        if words.iter().any(|word| word == END.as_bytes()) {
            let takes: Words = takes.context("the worker has not asked for another job")?;
            return Ok([vec![takes], sent].concat());
        }
        if from == "lua" || from == client {
            continue;
        }
        if words[0] == b"LMOVE" && words[1] == queue.as_bytes() {
            takes.get_or_insert(words);
        } else if words.iter().any(|word| names(word)) {
            sent.push(words);
        }
    }
    anyhow::bail!("Redis stopped showing commands")
}

/// Makes the commands of a worker with another id.
pub(super) fn of_worker(worker: &str, commands: &[Words]) -> Vec<Template> {
    let (from, to) = (format!(":{WORKER}"), format!(":{worker}"));
    let renamed = |word: &Vec<u8>| match std::str::from_utf8(word) {
        Ok(text) => text.replace(&from, &to).into_bytes(),
        Err(_) => word.clone(),
    };
    let words = commands.iter().map(|words| words.iter().map(renamed));
    words
        .map(|words| Template::new(&words.collect::<Words>()))
        .collect()
}

/// Reads a line of `MONITOR`: the address or `lua`, and the words.
fn shown(line: &str) -> Result<(String, Words)> {
    let unreadable = || format!("Redis shows {line:?}");
    let (_, rest) = line.split_once('[').with_context(unreadable)?;
    let (client, mut rest) = rest.split_once("] ").with_context(unreadable)?;
    let (_, client) = client.split_once(' ').with_context(unreadable)?;
    let mut words = Words::new();
    while let Some(quoted) = rest.strip_prefix('"') {
        let (word, length) = unquoted(quoted).with_context(unreadable)?;
        words.push(word);
        rest = quoted[length..].trim_start();
    }
    ensure!(rest.is_empty() && !words.is_empty(), "{}", unreadable());
    Ok((client.to_owned(), words))
}

/// Reads a word up to its closing quote. Returns how long it was with it.
fn unquoted(text: &str) -> Option<(Vec<u8>, usize)> {
    let mut bytes = text.bytes().enumerate();
    let mut word = Vec::new();
    loop {
        let byte = match bytes.next()? {
            (at, b'"') => return Some((word, at + 1)),
            (_, b'\\') => match bytes.next()?.1 {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let (first, _) = bytes.next()?;
                    bytes.next()?;
                    u8::from_str_radix(text.get(first..first + 2)?, 16).ok()?
                }
                byte => byte,
            },
            (_, byte) => byte,
        };
        word.push(byte);
    }
}

fn names(word: &[u8]) -> bool {
    word.windows(ID.len()).any(|part| part == ID.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn shown_commands_are_read() {
        let (client, words) =
            shown(r#"+1.2 [0 127.0.0.1:9] "set" "a \"b\"\n" "\x00\\" """#).unwrap();
        assert_eq!(client, "127.0.0.1:9");
        let expected: [&[u8]; 4] = [b"set", b"a \"b\"\n", b"\0\\", b""];
        assert_eq!(words, expected);
        assert_eq!(shown(r#"+1.2 [0 lua] "get" "a""#).unwrap().0, "lua");
        assert!(shown(r#"+1.2 [0 lua] "get"#).is_err());
    }
}
