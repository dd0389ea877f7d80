//! An HTTP server that answers each request with the request itself, and a host whose handlers may reach it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::{Client, Options, Server};

/// The secret that requests carry; what a host writes and what a guest learns is searched for it.
pub const SECRET: &str = "pl4nted-s3cret-of-an-api-6b1d";

/// How long something may take that happens soon.
pub const SOON: Duration = Duration::from_mins(3);

/// Answers a request with JSON, and closes the connection. Returns whether the client has taken it.
pub fn answer_json(stream: &mut TcpStream, status: u16, body: &str) -> bool {
    let head = format!(
        "HTTP/1.1 {status} Any\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).is_ok()
}

/// Answers a request by its head. Returns whether it has.
type Script = dyn Fn(&str, &mut TcpStream) -> bool + Send + Sync;

/// The server.
pub struct Reflector {
    port: u16,
    /// The requests of all requests.
    pub requests: Receiver<String>,
    /// Connections on which a request to `/wait` waits; they are answered when the test says so.
    pub waiting: Receiver<TcpStream>,
}

impl Reflector {
    /// Starts it on a free port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn start() -> Self {
        Self::with(|_, _| false)
    }

    /// Starts one that closes a connection if `script`, which gets the head of each request, has answered it.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn with(script: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let ((request_sender, requests), (wait_sender, waiting)) = (channel(), channel());
        let script: Arc<Script> = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, waits) = (request_sender.clone(), wait_sender.clone());
                let script = Arc::clone(&script);
                std::thread::spawn(move || serve(stream, &requests, &waits, &*script));
            }
        });
        Self {
            port,
            requests,
            waiting,
        }
    }

    /// Returns its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns its origin.
    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns a URL of it.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// Has the handler `request` send a request. Returns the header `authorization` that it had.
    ///
    /// # Panics
    ///
    /// If there is no request.
    pub fn authorization(&self, client: &Client) -> String {
        let params = json!({"requests": [{"url": self.url("/")}]});
        client.run(&json!({"handler": "request", "params": params}));
        let head = self.requests.recv_timeout(SOON).expect("a request");
        let mut lines = head.lines();
        let value = lines.find_map(|line| line.strip_prefix("authorization: "));
        value.unwrap_or_default().to_owned()
    }

    /// Starts a host that may send requests to it and has the secret `api`, with its files in `data`.
    ///
    /// # Panics
    ///
    /// If the host does not start.
    pub fn host(&self, data: &TempDir) -> Server {
        Server::start(&self.options(data, "", ""))
    }

    /// Returns the part of a configuration that lets handlers send requests to it, and to more origins.
    pub fn grants(&self, origins: &str) -> String {
        let origin = self.origin();
        format!("[grants]\nhttp = [\"{origin}\"{origins}]\nhttp_networks = [\"127.0.0.1/32\"]\n")
    }

    /// Returns the options of such a host, with more origins for `grants.http` and settings after `[grants]`.
    ///
    /// # Panics
    ///
    /// If `data` is not writable.
    pub fn options(&self, data: &TempDir, origins: &str, settings: &str) -> Options {
        let file = data.path().join("host.toml");
        let text = format!(
            "[secrets.api]\nenv = \"API_KEY\"\n{}{settings}",
            self.grants(origins)
        );
        std::fs::write(&file, text).expect("the folder is writable");
        let mut options = Options::new(&data.path().join("data"));
        options.args = vec!["--config".to_owned(), file.display().to_string()];
        options.env = vec![("API_KEY".to_owned(), SECRET.to_owned())];
        options
    }
}

fn serve(
    mut stream: TcpStream,
    requests: &Sender<String>,
    waits: &Sender<TcpStream>,
    script: &Script,
) {
    let Ok(reading) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(reading);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !reader.read_line(&mut head).is_ok_and(|read| read > 0) {
                return;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.parse().ok())?
        });
        let mut body = vec![0; length.unwrap_or(0)];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        // The test may be over.
        let _ = requests.send(head.clone() + &String::from_utf8_lossy(&body));
        if head.contains(" /wait ") {
            let _ = waits.send(stream);
            return;
        }
        if script(&head, &mut stream) {
            return;
        }
        let reflected = [head.as_bytes(), &body].concat();
        let length = reflected.len();
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let sent = stream.write_all(&[answer.as_bytes(), &reflected].concat());
        if sent.is_err() {
            return;
        }
    }
}
