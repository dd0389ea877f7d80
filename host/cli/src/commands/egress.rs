//! `host egress`: the process that sends requests of handlers. Users never start it, so the help does not list
//! it.

use std::net::SocketAddr;
use std::os::fd::RawFd;

use clap::{Args, Command};
use host_console::error::{CliError, Exit};
use host_egress::child::{self, Settings};
use ipnet::IpNet;

use crate::commands::cell::{Confined, inherited};

/// Send requests of handlers for the host at the other end of an inherited socket.
#[derive(Debug, Args)]
pub(crate) struct Egress {
    /// The socket
    #[arg(long)]
    fd: RawFd,
    /// A network besides public ones to which requests may go
    #[arg(long = "network")]
    networks: Vec<IpNet>,
    /// A DNS server
    #[arg(long = "nameserver")]
    nameservers: Vec<SocketAddr>,
    /// The open file with certificates of authorities
    #[arg(long)]
    authorities: Option<RawFd>,
    /// The time until which requests of runs may be sent whose passes say so
    #[arg(long)]
    lifeline: Option<RawFd>,
    #[command(flatten)]
    confined: Confined,
}

impl Egress {
    /// Returns the definition of the noun `name` alone.
    pub(crate) fn definition(name: &'static str) -> Command {
        Self::augment_args(Command::new(name))
    }

    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let sent = || {
            let settings = Settings {
                networks: self.networks,
                nameservers: self.nameservers,
                authorities: self.authorities.map(inherited).transpose()?,
                lifeline: self.lifeline.map(inherited).transpose()?,
            };
            // It has no roots.
            child::run(inherited(self.fd)?, settings, self.confined.take(self.fd)?)
        };
        sent().map_err(|cause| CliError::new(Exit::Failed, "send requests of handlers", cause))
    }
}
