//! Opens connections to a Redis: finds the master where Sentinels know it, and checks that the Redis is
//! one that we can work with.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, RedisError, Value};

use super::url::{RedisUrl, Sentinels};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a Sentinel may take to accept a connection, and to answer.
const SENTINEL_TIMEOUT: Duration = Duration::from_secs(2);

/// The oldest Redis that has all commands that we use.
const VERSION_MIN: (u32, u32) = (6, 2);

/// The answer of a Redis to HELLO.
type Hello = HashMap<String, Value>;

/// Opens a connection. The error is for people and has no secrets.
pub(crate) async fn connect(
    url: &RedisUrl,
    response_timeout: Duration,
) -> Result<MultiplexedConnection, String> {
    let Some(sentinels) = url.sentinels() else {
        return checked(url, response_timeout, false).await;
    };
    let master = find_master(url, sentinels).await?;
    checked(&master, response_timeout, true).await
}

async fn checked(
    url: &RedisUrl,
    response_timeout: Duration,
    is_master: bool,
) -> Result<MultiplexedConnection, String> {
    let opened = open(url.info(), CONNECT_TIMEOUT, response_timeout).await;
    let mut connection = opened.map_err(|error| url.explain(&error))?;
    // Each user may do this.
    let answer = redis::cmd("HELLO").query_async(&mut connection).await;
    let hello = match answer {
        Ok(answer) => Some(answer),
        Err(error) if is_unknown(&error) => None,
        Err(error) => return Err(url.explain(&error)),
    };
    let fits = judge(hello.as_ref(), is_master);
    fits.map_err(|why| format!("{}: {why}", url.address()))?;
    Ok(connection)
}

/// Asks the Sentinels in order who the master is.
async fn find_master(url: &RedisUrl, sentinels: &Sentinels) -> Result<RedisUrl, String> {
    let mut why = String::new();
    for place in 0..sentinels.addresses.len() {
        match ask_sentinel(url, sentinels, place).await {
            Ok((host, port)) => {
                let master = url.at(&host, port);
                // The Sentinel decides where the password goes.
                return master.not_in_plaintext().map_err(|error| {
                    format!(
                        "the Sentinels name {host}:{port} as the master, which is refused: {error}"
                    )
                });
            }
            Err(error) => why = error,
        }
    }
    Err(why)
}

async fn ask_sentinel(
    url: &RedisUrl,
    sentinels: &Sentinels,
    place: usize,
) -> Result<(String, u16), String> {
    let (host, port) = &sentinels.addresses[place];
    let named = url.at(host, *port);
    let ask = async |info: &ConnectionInfo| {
        let mut connection = open(info, SENTINEL_TIMEOUT, SENTINEL_TIMEOUT).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&sentinels.master);
        ask.query_async::<Option<(String, u16)>>(&mut connection)
            .await
    };
    // Most want no password, and refuse one.
    let mut answer = ask(&named.anonymous()).await;
    if answer
        .as_ref()
        .is_err_and(|error| error.code() == Some("NOAUTH"))
    {
        answer = ask(named.info()).await;
    }
    let master = &sentinels.master;
    match answer {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(format!(
            "the Sentinel at {} knows no master {master:?}; correct the name in protocol.hero.url",
            named.address()
        )),
        Err(error) if is_unknown(&error) => Err(format!(
            "{} is not a Sentinel; use redis://, or the port of a Sentinel",
            named.address()
        )),
        Err(error) => Err(named.explain(&error)),
    }
}

async fn open(
    info: &ConnectionInfo,
    connect_timeout: Duration,
    response_timeout: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(connect_timeout))
        .set_response_timeout(Some(response_timeout));
    let client = Client::open(info.clone())?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Returns whether Redis does not know a command in this form.
fn is_unknown(error: &RedisError) -> bool {
    let text = error.to_string();
    let words = ["unknown command", "wrong number of arguments"];
    words.iter().any(|word| text.contains(word))
}

/// Decides whether we can work with a Redis by its answer to HELLO; one that is too old gives none.
/// The error is for people.
fn judge(hello: Option<&Hello>, is_master: bool) -> Result<(), String> {
    let (major, minor) = VERSION_MIN;
    let needed = format!("Redis {major}.{minor} or newer is needed");
    let Some(hello) = hello else {
        return Err(format!("it is too old: {needed}"));
    };
    let text = |field: &str| match hello.get(field) {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::SimpleString(text)) => text.clone(),
        _ => String::new(),
    };
    let (version, role) = (text("version"), text("role"));
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let found = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
        _ => None,
    };
    match text("mode").as_str() {
        "cluster" => Err(
            "it is a node of a Redis Cluster, which holds only some of the keys; name a Redis of its \
             own, or its Sentinels with redis-sentinel://"
                .to_owned(),
        ),
        "sentinel" => {
            Err("it is a Sentinel; write redis-sentinel://HOST:PORT/MASTER".to_owned())
        }
        _ if found.is_some_and(|found| found < VERSION_MIN) => {
            Err(format!("it is Redis {version}; {needed}"))
        }
        _ if is_master && role != "master" => Err(format!(
            "the Sentinels name it as the master, but it is a {role}; they may not have agreed yet"
        )),
        _ => Ok(()),
    }
}
