//! Who the broker signs in as, with the secrets of now.

use host_core::egress::HttpError;
use host_core::tcp_grant::{LoginProtocol, TcpGrant};

use crate::secrets::Secrets;

/// The credentials for a server. There is no `Debug`, because it would show the password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) protocol: LoginProtocol,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: Option<String>,
    pub(super) options: Option<String>,
    pub(super) md5: bool,
}

impl Account {
    /// Returns the account of a grant, if it signs in.
    pub(super) fn of_grant(grant: &TcpGrant, secrets: &Secrets) -> Result<Option<Self>, HttpError> {
        let Some(login) = &grant.login else {
            return Ok(None);
        };
        let password = login.password.as_ref();
        let filled = password.map(|template| secrets.fill(template));
        Ok(Some(Self {
            protocol: login.protocol,
            user: login.user.clone(),
            password: filled.transpose()?,
            database: login.database.clone(),
            options: login.options.clone(),
            md5: login.md5,
        }))
    }
}
