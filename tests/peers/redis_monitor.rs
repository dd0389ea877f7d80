//! Reads every command that a Redis executes, including those of scripts, and counts how often each job was
//! written as ended and how often it was answered. MONITOR shows the commands of a running Redis, the
//! append-only file those of a killed one.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;

use host_tests::{Redis, eventually};
use redis::Parser;

use crate::hero_serve::{Client, WAIT_MAX};

/// How often one job was written as ended, and how often it was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) written: usize,
    pub(crate) answered: usize,
    /// How often it was started after it had ended.
    pub(crate) revived: usize,
}

/// The counts so far.
pub(crate) struct RedisMonitor(Arc<Mutex<BTreeMap<String, Ends>>>);

impl RedisMonitor {
    /// Starts a thread that reads commands until the server ends.
    pub(crate) fn start(redis: &Redis) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        let monitor = Self(Arc::default());
        let counts = Arc::clone(&monitor.0);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                count_command(words(&line), &mut counts.lock().unwrap());
            }
        });
        monitor
    }

    /// Returns how many jobs were written as ended or answered.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns the counts of all commands so far. Sends a marker command with `client` and waits until the
    /// monitor has read it.
    pub(crate) fn ends(&self, client: &mut Client) -> BTreeMap<String, Ends> {
        const MARKER: &str = "marker";
        let _: i64 = client.ask(&["LPUSH", &format!("hero:reply:{MARKER}"), ""]);
        eventually("the monitor to read the marker", WAIT_MAX, || {
            self.0.lock().unwrap().remove(MARKER)
        });
        self.0.lock().unwrap().clone()
    }
}

/// Returns the counts of all commands in a Redis's append-only file.
pub(crate) fn ends_kept(redis: &Redis) -> BTreeMap<String, Ends> {
    let file = redis.append_only_file();
    let (mut file, mut parser, mut ends) = (file.as_slice(), Parser::new(), BTreeMap::new());
    // The last command may be incomplete.
    while let Ok(command) = parser.parse_value(&mut file) {
        let words: Vec<String> = redis::from_redis_value(command).unwrap();
        count_command(words.iter().map(String::as_str), &mut ends);
    }
    ends
}

/// Returns the words in a line of MONITOR: `+TIME [DATABASE CLIENT] "COMMAND" "KEY" …`.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('"').skip(1).step_by(2)
}

fn count_command<'a>(mut words: impl Iterator<Item = &'a str>, ends: &mut BTreeMap<String, Ends>) {
    let (Some(command), Some(key)) = (words.next(), words.next()) else {
        return;
    };
    match command {
        "HSET" => {
            let Some(id) = key.strip_prefix("hero:job:") else {
                return;
            };
            if words.next() != Some("status") {
                return;
            }
            match words.next() {
                Some("finished" | "error") => ends.entry(id.to_owned()).or_default().written += 1,
                Some("started") => {
                    if let Some(ended) = ends.get_mut(id).filter(|it| it.written > 0) {
                        ended.revived += 1;
                    }
                }
                _ => {}
            }
        }
        "LPUSH" => {
            if let Some(id) = key.strip_prefix("hero:reply:") {
                ends.entry(id.to_owned()).or_default().answered += 1;
            }
        }
        _ => {}
    }
}
