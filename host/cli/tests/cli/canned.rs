//! A host made of answers that are written down, and a way to run the binary against it.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The time every answer is given at.
const DATE: &str = "Sun, 17 May 2026 18:30:00 GMT";

/// A listener on loopback that gives its answers in order and writes down what it was asked.
pub(crate) struct CannedHost {
    address: SocketAddr,
    server: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Shared>>,
}

/// The status of an answer that is none: the connection is closed.
pub(crate) const HANGS_UP: u16 = 0;

#[derive(Default)]
struct Shared {
    requests: Vec<String>,
    stopped: bool,
}

impl CannedHost {
    /// Starts a host that gives these answers: a status and a document each.
    pub(crate) fn start(answers: &[(u16, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let answers: Vec<_> = answers
            .iter()
            .map(|(status, body)| (*status, (*body).to_owned()))
            .collect();
        let theirs = Arc::clone(&shared);
        let server = std::thread::spawn(move || serve(&listener, answers, &theirs));
        Self {
            address,
            server: Some(server),
            shared,
        }
    }

    /// Returns where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests since the last call, one per line.
    pub(crate) fn requests(&self) -> String {
        let mut text = String::new();
        for request in self.shared.lock().unwrap().requests.drain(..) {
            writeln!(text, "> {request}").unwrap();
        }
        text
    }

    /// Runs `host` with `arguments` and describes what happened, with the port left out.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        self.run_with(arguments, "")
    }

    /// The same with what stands on standard input.
    pub(crate) fn run_with(&self, arguments: &[&str], stdin: &str) -> String {
        let server = self.url();
        let ran = run(arguments, stdin, &[("HOST_SERVER", &server)]);
        let text = self.requests() + &ran;
        text.replace(&server, "http://127.0.0.1:PORT")
    }
}

impl Drop for CannedHost {
    fn drop(&mut self) {
        self.shared.lock().unwrap().stopped = true;
        drop(TcpStream::connect(self.address));
        let ended = self.server.take().unwrap().join();
        assert!(
            ended.is_ok() || std::thread::panicking(),
            "the canned host panicked"
        );
    }
}

fn serve(listener: &TcpListener, answers: Vec<(u16, String)>, shared: &Mutex<Shared>) {
    let mut answers = answers.into_iter();
    for stream in listener.incoming() {
        if shared.lock().unwrap().stopped {
            assert_eq!(answers.len(), 0, "answers without a request");
            return;
        }
        let mut stream = stream.unwrap();
        let request = read_request(&stream);
        shared.lock().unwrap().requests.push(request);
        let (status, body) = answers
            .next()
            .unwrap_or_else(|| (500, r#"{"detail":"no answer is written down"}"#.to_owned()));
        if status == HANGS_UP {
            continue;
        }
        answer(&mut stream, status, &body);
    }
}

fn answer(stream: &mut impl Write, status: u16, body: &str) {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} Canned\r\ndate: {DATE}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
}

/// Takes one request at a local socket, answers it and returns it.
pub(crate) fn answer_one(listener: &UnixListener, status: u16, body: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let request = read_request(&stream);
    answer(&mut stream, status, body);
    request
}

/// Reads one request and returns it as `METHOD path`, with its body if it has one.
fn read_request(stream: impl Read) -> String {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut shown = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    let (mut length, mut kind) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap();
        let Some((name, value)) = header.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "content-type" => value.clone_into(&mut kind),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    if !kind.is_empty() {
        let body = String::from_utf8_lossy(&body);
        write!(shown, " [{kind}] {}", body.replace("\r\n", "\n")).unwrap();
    }
    shown
}

/// Runs `host` with an empty environment and describes its output and exit code.
pub(crate) fn run(arguments: &[&str], stdin: &str, environment: &[(&str, &str)]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_host"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    let mut text = format!("$ host {}\n", arguments.join(" "));
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        // How long a deploy has taken so far: on a busy machine, one in a transcript may take seconds, too.
        if line.starts_with("deploying ") && line.ends_with(" s") {
            continue;
        }
        writeln!(text, "! {line}").unwrap();
    }
    writeln!(text, "exit {}", output.status.code().unwrap()).unwrap();
    text
}

/// Runs `host` where no server is needed.
pub(crate) fn run_alone(arguments: &[&str]) -> String {
    run(arguments, "", &[])
}

/// The output of several runs, compared with one snapshot.
pub(crate) struct Transcript {
    name: &'static str,
    runs: Vec<String>,
}

impl Transcript {
    /// Starts the transcript of the snapshot `name`.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            runs: Vec::new(),
        }
    }

    /// Adds what a run printed.
    pub(crate) fn add(&mut self, ran: &str) {
        self.runs.push(ran.to_owned());
    }

    /// Compares all of it with the snapshot.
    pub(crate) fn check(self) {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(self.name, self.runs.join("\n")));
    }
}
