//! Hears every command that a Redis carries out, those of scripts too, and counts how often each job
//! was written down as ended and answered. What runs in a sandbox cannot reach it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;

use host_tests::{Redis, eventually};

use crate::hero_serve::{Client, PATIENCE};

/// How often one job was written as ended, and answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) written: usize,
    pub(crate) answered: usize,
}

/// What was heard so far.
pub(crate) struct Witness(Arc<Mutex<BTreeMap<String, Ends>>>);

impl Witness {
    /// Listens until the server is gone.
    pub(crate) fn start(redis: &Redis) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "+OK");
        let ends = Arc::new(Mutex::new(BTreeMap::new()));
        let heard = Arc::clone(&ends);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                hear(&line, &mut heard.lock().unwrap());
            }
        });
        Self(ends)
    }

    /// Returns how many jobs were written as ended.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Returns what Redis has done so far: a last word of `client` is heard behind all of it.
    pub(crate) fn ends(&self, client: &mut Client) -> BTreeMap<String, Ends> {
        const LAST: &str = "the last word";
        let _: i64 = client.ask(&["LPUSH", &format!("hero:reply:{LAST}"), ""]);
        eventually("the last word to be heard", PATIENCE, || {
            self.0.lock().unwrap().remove(LAST)
        });
        self.0.lock().unwrap().clone()
    }
}

/// Takes in a line: `+TIME [DATABASE CLIENT] "COMMAND" "KEY" …`.
fn hear(line: &str, ends: &mut BTreeMap<String, Ends>) {
    let mut words = line.split('"').skip(1).step_by(2);
    let (Some(command), Some(key)) = (words.next(), words.next()) else {
        return;
    };
    match command {
        "HSET" => {
            let Some(id) = key.strip_prefix("hero:job:") else {
                return;
            };
            if words.next() == Some("status") && matches!(words.next(), Some("finished" | "error"))
            {
                ends.entry(id.to_owned()).or_default().written += 1;
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
