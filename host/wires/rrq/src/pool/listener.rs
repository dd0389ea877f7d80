//! Connects to a runner. For one that we have started, first makes sure that it is the process that
//! listens: another could have taken its port, and would be given jobs.

use std::io;
use std::net::SocketAddr;

use host_wire_kit::owner;
use tokio::net::TcpStream;

use super::{RunnerPool, Source};

impl RunnerPool {
    pub(super) async fn reach(&self, runner: usize, address: SocketAddr) -> io::Result<TcpStream> {
        let is_ours = matches!(self.config.source, Source::Launched(_));
        if is_ours {
            self.know_listener(runner, address).await?;
        }
        let stream = TcpStream::connect(address).await?;
        if is_ours {
            self.check_listener(runner, address)?;
        }
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Finds the socket on which the runner's process listens, unless it is known.
    async fn know_listener(&self, runner: usize, address: SocketAddr) -> io::Result<()> {
        let (pid, known) = {
            let process = &self.runners.lock()[runner];
            (process.pid, process.listener)
        };
        let (None, Some(pid)) = (known, pid) else {
            return Ok(());
        };
        let Some(found) = owner::of_listener(address)? else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let looking = tokio::task::spawn_blocking(move || owner::has_socket(pid, found.inode));
        if !looking.await.map_err(io::Error::other)?? {
            return Err(not_the_runner(found.uid));
        }
        let process = &mut self.runners.lock()[runner];
        if process.pid == Some(pid) {
            process.listener = Some(found.inode);
        }
        Ok(())
    }

    /// Checks that the socket still listens. As it has listened all the time, the connection made
    /// in between leads to it.
    fn check_listener(&self, runner: usize, address: SocketAddr) -> io::Result<()> {
        let found = owner::of_listener(address)?;
        let known = self.runners.lock()[runner].listener;
        match found {
            Some(found) if Some(found.inode) == known => Ok(()),
            Some(found) => {
                // The runner may listen on another socket by now. The next connection finds out.
                self.runners.lock()[runner].listener = None;
                Err(not_the_runner(found.uid))
            }
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}

fn not_the_runner(uid: u32) -> io::Error {
    io::Error::other(format!(
        "a process of user {uid} listens there that is not the runner, so nothing was sent to it; \
         end it, or give the runners another tcp_port"
    ))
}
