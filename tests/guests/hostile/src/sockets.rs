//! Connections to servers, as a library of a handler makes them.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use guest_sdk::{Ctx, Error, Rows, SqlError, handler};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub(crate) struct Talk {
    /// A name or an address, and a port.
    to: String,
    /// What is sent, one after the other; an answer is awaited after each.
    send: Vec<String>,
    /// Whether to say that nothing more comes, and to read up to the end.
    #[serde(default)]
    whole: bool,
}

/// Sends texts and returns the answers.
#[handler]
pub(crate) fn talk(_ctx: &Ctx, params: Talk) -> Result<Value, Error> {
    let mut stream = match TcpStream::connect(&params.to) {
        Ok(stream) => stream,
        Err(error) => return Ok(json!({"refused": error.kind().to_string()})),
    };
    let (mut answers, mut room) = (Vec::new(), vec![0; 64 << 10]);
    for text in params.send {
        stream.write_all(text.as_bytes())?;
        let count = stream.read(&mut room)?;
        answers.push(String::from_utf8_lossy(&room[..count]).into_owned());
    }
    if params.whole {
        stream.shutdown(Shutdown::Write)?;
        let mut rest = String::new();
        stream.read_to_string(&mut rest)?;
        answers.push(rest);
    }
    Ok(json!({"answers": answers, "peer": stream.peer_addr()?.to_string()}))
}

#[derive(Deserialize)]
pub(crate) struct Stream {
    to: String,
    mib: usize,
}

/// Sends so much to a server that sends it back, and returns how much came.
#[handler]
pub(crate) fn stream(_ctx: &Ctx, params: Stream) -> Result<u64, Error> {
    let mut stream = TcpStream::connect(&params.to)?;
    let (chunk, mut room, mut received) = (vec![7; 64 << 10], vec![0; 64 << 10], 0);
    for _ in 0..params.mib * 16 {
        let mut rest = chunk.len();
        if stream.write_all(&chunk).is_err() {
            return Ok(received);
        }
        while rest > 0 {
            let count = stream.read(&mut room[..rest]).unwrap_or_default();
            if count == 0 {
                return Ok(received);
            }
            rest -= count;
            received += count as u64;
        }
    }
    Ok(received)
}

#[derive(Deserialize)]
pub(crate) struct Many {
    to: String,
    count: usize,
}

/// Opens many connections and keeps them. Returns how many there are, and why there are no more.
#[handler]
pub(crate) fn many(_ctx: &Ctx, params: Many) -> Result<Value, Error> {
    let mut open = Vec::new();
    for _ in 0..params.count {
        match TcpStream::connect(&params.to) {
            Ok(stream) => open.push(stream),
            Err(error) => {
                return Ok(json!({"open": open.len(), "error": error.kind().to_string()}));
            }
        }
    }
    Ok(json!({"open": open.len()}))
}

#[derive(Deserialize)]
pub(crate) struct Conversation {
    to: String,
    queries: Vec<String>,
    /// What happens after the queries: `bye`, `close`, or `hang` in the last one.
    end: String,
}

/// Speaks the protocol of `PostgreSQL` as a user that does not exist. Returns the values of each query, or its error.
#[handler]
pub(crate) fn queries(ctx: &Ctx, params: Conversation) -> Result<Value, Error> {
    let mut stream = TcpStream::connect(&params.to)?;
    let start = b"user\0mallory\0database\0postgres\0options\0-c role=postgres\0\0";
    let mut bytes = Vec::new();
    bytes.extend(u32::try_from(start.len() + 8)?.to_be_bytes());
    bytes.extend((3_u32 << 16).to_be_bytes());
    bytes.extend(start);
    stream.write_all(&bytes)?;
    answer(&mut stream)?;
    let mut answers = Vec::new();
    for (place, query) in params.queries.iter().enumerate() {
        let mut bytes = vec![b'Q'];
        bytes.extend(u32::try_from(query.len() + 5)?.to_be_bytes());
        bytes.extend(query.as_bytes());
        bytes.push(0);
        stream.write_all(&bytes)?;
        if params.end == "hang" && place + 1 == params.queries.len() {
            ctx.sleep(Duration::from_hours(1));
        }
        answers.push(answer(&mut stream)?);
    }
    if params.end == "bye" {
        stream.write_all(&[b'X', 0, 0, 0, 4])?;
    }
    Ok(answers.into())
}

/// Reads up to the end of an answer. Returns its values, one behind the other, or its error.
fn answer(stream: &mut TcpStream) -> io::Result<Value> {
    let mut values = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut body)?;
        match kind {
            b'Z' => return Ok(values.into()),
            b'E' => values.push(json!(String::from_utf8_lossy(&body).replace('\0', " "))),
            b'D' => {
                let mut rest = &body[2..];
                while let [a, b, c, d, after @ ..] = rest {
                    let length = u32::from_be_bytes([*a, *b, *c, *d]);
                    let (value, after) = after.split_at(length as usize);
                    values.push(json!(String::from_utf8_lossy(value)));
                    rest = after;
                }
            }
            _ => {}
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct Script {
    database: String,
    /// A statement and its parameters, each.
    statements: Vec<(String, Value)>,
    /// Whether they take effect together.
    #[serde(default)]
    together: bool,
    /// Whether to return the rows too.
    #[serde(default = "yes")]
    shown: bool,
}

const fn yes() -> bool {
    true
}

/// Runs statements, and returns what each answers.
#[handler]
pub(crate) fn statements(ctx: &Ctx, params: Script) -> Result<Value, Error> {
    let database = ctx.sql(&params.database);
    let shown = |answer: Result<Rows, SqlError>| match answer {
        Ok(rows) if params.shown => {
            json!({"columns": rows.columns, "values": rows.values, "affected": rows.affected})
        }
        Ok(rows) => json!({"affected": rows.affected}),
        Err(error) => {
            json!({"kind": format!("{:?}", error.kind), "code": error.code, "message": error.message})
        }
    };
    let mut answers = Vec::new();
    if params.together {
        let ended = database.transaction(|transaction| {
            for (statement, values) in &params.statements {
                answers.push(shown(transaction.query(statement, values)));
            }
            Ok::<_, SqlError>(())
        });
        answers.push(json!(ended.err().map(|error| error.message)));
    } else {
        for (statement, values) in &params.statements {
            answers.push(shown(database.query(statement, values)));
        }
    }
    Ok(answers.into())
}
