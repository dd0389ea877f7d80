//! `host artifact`: files that are sent for jobs to read.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use host_console::error::{CliError, Exit, cannot};
use host_console::options::Remote;
use host_console::output::{Format, put_line};
use host_console::plain;
use host_console::progress::Bar;
use host_core::artifact::{UNKNOWN_TYPE, flaw_of_type};

/// Send files for jobs to read.
#[derive(Debug, Args)]
pub(crate) struct Artifact {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Send a file and print its id, for `host job enqueue --file NAME=ID`
    #[command(after_help = "\
Examples:
  host artifact put photo.jpg --content-type image/jpeg
  host job enqueue resize --file photo=$(host artifact put photo.jpg)
  pg_dump shop | host artifact put -")]
    Put(Put),
}

#[derive(Debug, Args)]
struct Put {
    /// The file; - for standard input
    file: PathBuf,
    /// What the file is
    #[arg(long, value_name = "TYPE", value_parser = parse_type, default_value = UNKNOWN_TYPE)]
    content_type: String,
    #[command(flatten)]
    remote: Remote,
}

fn parse_type(text: &str) -> Result<String, &'static str> {
    flaw_of_type(text).map_or_else(|| Ok(text.to_owned()), Err)
}

impl Artifact {
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Put(put) => put.run(),
        }
    }
}

/// Shows on a bar how much of a file was read, and keeps the error that ends it: a request that breaks off does not tell it from
/// those of the network.
struct Watched<R> {
    content: R,
    bar: Option<Bar>,
    failure: Option<io::Error>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = self.content.read(to).map_err(|error| {
            let kind = error.kind();
            self.failure = Some(error);
            io::Error::from(kind)
        })?;
        if let Some(bar) = &self.bar {
            bar.add(length as u64);
        }
        Ok(length)
    }
}

impl Put {
    fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let shown = self.file.display().to_string();
        let doing = format!("send {}", plain::line(&shown));
        let failed = |error: io::Error| CliError::new(Exit::Failed, doing.clone(), error);
        let (content, bytes, bar): (Box<dyn Read>, _, _) = if self.file.as_os_str() == "-" {
            (Box::new(io::stdin().lock()), None, None)
        } else {
            let file = File::open(&self.file).map_err(failed)?;
            let found = file.metadata().map_err(failed)?;
            let bytes = found.is_file().then_some(found.len());
            let bar = Bar::new(output, &doing, bytes.unwrap_or_default());
            (Box::new(file), bytes, Some(bar))
        };
        let mut content = Watched {
            content,
            bar,
            failure: None,
        };
        let sent = client.upload(&self.content_type, bytes, &mut content);
        let Watched { bar, failure, .. } = content;
        drop(bar);
        if let Some(error) = failure {
            return Err(failed(error));
        }
        let answer = sent.map_err(cannot(&doing))?;
        let upload = answer.view;
        match output.format() {
            Format::Table | Format::Name => put_line(&plain::line(&upload.id))?,
            Format::Json | Format::Jsonl => output.json(&answer.json)?,
        }
        output.hint(&format!(
            "`host job enqueue HANDLER --file NAME={}` lets a job read it, until {}",
            plain::line(&upload.id),
            plain::line(&upload.expires_at)
        ));
        Ok(())
    }
}
