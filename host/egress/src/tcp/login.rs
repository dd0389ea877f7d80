//! Signs in to a server, in the protocol that it speaks.

use std::io;

use host_core::tcp_grant::LoginProtocol;

use super::account::Account;
use super::stream::Stream;
use super::{Opening, postgres, redis, smtp};

/// Signs in. `greeting` is what the server said before TLS.
pub(super) async fn sign_in(
    account: &Account,
    stream: &mut Stream,
    greeting: Option<String>,
    server_hash: Option<Vec<u8>>,
) -> io::Result<Opening> {
    match account.protocol {
        LoginProtocol::Postgres => {
            let welcome = postgres::sign_in(stream, account, server_hash).await?;
            Ok(Opening::Postgres(welcome))
        }
        LoginProtocol::Redis => {
            redis::sign_in(stream, account).await?;
            Ok(Opening::Redis)
        }
        LoginProtocol::Smtp => {
            let user = account.user.as_deref().unwrap_or_default();
            let password = account.password.as_deref().unwrap_or_default();
            let is_greeted = greeting.is_some();
            let first = smtp::sign_in(stream, is_greeted, user, password).await?;
            Ok(Opening::Plain {
                greeting: greeting.or(first),
            })
        }
    }
}
